//! `cargo xtask virt`: Rushlight as the only program of a board that everybody has, QEMU's `virt`
//! machine with two Cortex-A55 and the memory of the SL2619. docs/virt.md shows one run.
//!
//! The machine has two serial lines: prompts and text on the first, logs and the kernel's messages
//! on the second. They become stdin and stdout, and stderr, of this command. What it ends with is
//! what Rushlight ended with; an emulated second says nothing about a real one.

mod check;
pub mod disk;
mod machine;
mod session;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::flags::Flags;
use crate::image::Image;
use crate::{board, exit, model};
use disk::Disk;
use machine::Machine;
use session::{Step, Talk};

pub use check::quick as check;

const USAGE: &str = "\
usage: cargo xtask virt [FLAGS]
  --model M      a model of `cargo xtask model`, or a file (default: smollm2)
  --disk KIND    what the block device holds: gguf, packed or ext4 (default: gguf)
  --prompt P     ask this, and switch off after the answer; may be repeated (default: what stdin
                 says, where Ctrl-A b sends a BREAK and Ctrl-A x ends all at once)
  --args TEXT    further flags of Rushlight; single quotes keep words together
  --append TEXT  further words of the kernel's command line
  --mem M        memory of the machine (default: 1966M)
  --seconds N    give up after so long (default: 1800)
  --check        check what must hold of the board, and nothing else
  --check-long   check a model of a gigabyte, which is fetched, and nothing else";

/// The board.
const BOARD: &str = "virt";

/// Flags of Rushlight that this cannot do with.
const LOG_FLAGS: [&str; 4] = ["-q", "--quiet", "--log-format", "--log-file"];

/// What the command line asks for.
struct Settings<'a> {
    model: &'a str,
    disk: Disk,
    steps: Vec<Step>,
    arguments: &'a str,
    append: &'a str,
    memory: &'a str,
    seconds: u64,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Settings {
            model: model::DEFAULT,
            disk: Disk::Gguf,
            steps: vec![],
            arguments: "",
            append: "",
            memory: "1966M",
            seconds: 1800,
        }
    }
}

impl<'a> Settings<'a> {
    fn read(words: &'a [&'a str]) -> Result<Self> {
        let mut settings = Settings::default();
        let mut flags = Flags::new(words, USAGE);
        while let Some(flag) = flags.next() {
            match flag {
                "--model" => settings.model = flags.value()?,
                "--disk" => settings.disk = flags.parsed()?,
                "--prompt" => settings.steps.push(Step::ask(flags.value()?)),
                "--args" => settings.arguments = flags.value()?,
                "--append" => settings.append = flags.value()?,
                "--mem" => settings.memory = flags.value()?,
                "--seconds" => settings.seconds = flags.parsed()?,
                _ => return flags.unknown(),
            }
        }
        if settings.arguments.contains('"') {
            return flags.wrong("the kernel takes no double quotes within --args");
        }
        let mut words = settings.arguments.split(' ');
        if let Some(word) = words.find(|word| LOG_FLAGS.contains(word)) {
            return flags.wrong(&format!("{word} hides the log that this command goes by"));
        }
        Ok(settings)
    }

    /// What the kernel is told. Later words win, so those of the command line come last.
    fn kernel_line(&self) -> String {
        let framed = if self.steps.is_empty() {
            ""
        } else {
            " --framed"
        };
        format!(
            "console=ttyAMA1 panic=-1 quiet rushlight.console=ttyAMA0:115200 \
             rushlight.onerror=poweroff rushlight.model={} rushlight.args=\"{}{framed}\" {}",
            self.disk.in_the_machine(),
            self.arguments,
            self.append
        )
    }
}

/// Boots the board, and talks to it.
pub fn run(words: &[&str]) -> Result<()> {
    match words {
        ["--check"] => return check::quick(),
        ["--check-long"] => return check::long(),
        _ => {}
    }
    let talk = boot(&Settings::read(words)?)?;
    let (code, what) = match (talk.code, talk.refused.last()) {
        (0, None) => return Ok(()),
        (0, Some(&code)) => (code, "refused a prompt"),
        (code, _) => (code, "ended"),
    };
    let message = format!("Rushlight on the board {what} with code {code}");
    Err(exit::Exit { code, message }.into())
}

fn boot(settings: &Settings<'_>) -> Result<Talk> {
    let model = named_or_file(settings.model)?;
    let packed = (settings.disk == Disk::Packed).then_some(model.as_path());
    let image = Image::write(&board::named(BOARD)?, packed)?;
    let disk = match &image.model {
        Some(packed) => packed.clone(),
        None => settings.disk.of(&model)?,
    };
    let machine = Machine::ensure()?;
    let mut qemu = machine.command(settings.memory, &image.initramfs, &disk);
    qemu.arg("-append").arg(settings.kernel_line());
    let limit = Duration::from_secs(settings.seconds);
    session::talk(&mut qemu, &settings.steps, limit)
}

/// The path of a model, which is fetched if it is known by name.
pub fn named_or_file(model: &str) -> Result<PathBuf> {
    let path = PathBuf::from(model);
    if path.components().count() > 1 || path.extension().is_some_and(|end| end == "gguf") {
        ensure!(path.is_file(), "{model}: no such file");
        return Ok(std::path::absolute(path)?);
    }
    model::ensure(model)
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn kernel_line_ends_with_the_users_words() {
        let words = ["--args", "-n 8", "--prompt", "Hi", "--append", "mem=700M"];
        let line = Settings::read(&words).unwrap().kernel_line();
        assert!(
            line.ends_with("rushlight.args=\"-n 8 --framed\" mem=700M"),
            "{line}"
        );
        assert!(line.contains("rushlight.model=/dev/nvme0n1 "), "{line}");
    }

    #[test]
    fn wrong_flags_are_refused() {
        for words in [
            ["--disk", "tape"],
            ["--args", "-p \"x\""],
            ["--args", "-n 8 -q"],
            ["--seconds", "soon"],
        ] {
            assert!(Settings::read(&words).is_err(), "{words:?}");
        }
    }
}
