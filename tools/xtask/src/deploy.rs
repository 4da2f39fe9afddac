//! `cargo xtask deploy USER@HOST`: the program, and a model, onto a board, through ssh alone.
//!
//! The far end needs a shell, `cat`, `chmod`, `mkdir` and `mv`; what else it has is used. A file is
//! written under another name, compared, and moved: what was there before stays as it was until
//! then, whatever happens. docs/deploy.md shows one run.

mod check;
mod far;
mod put;
mod server;
mod service;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::board::{self, Board};
use crate::flags::Flags;
use crate::{build, exit, image, virt, workspace};
use far::{Far, Folder};
use put::Parcel;

pub use check::check;
pub use server::ensure as ensure_server;

const USAGE: &str = "\
usage: cargo xtask deploy [USER@HOST] [FLAGS] [-- SSH FLAGS]
  --board B        the board whose program it is (default: by `uname -m` there)
  --model M        a model of `cargo xtask model`, or a file; a GGUF file is packed here first
  --as-it-is       a GGUF file is not packed
  --dir D          the folder there (default: rushlight, or /opt/rushlight with --service)
  --service TTY    a systemd service with its console on a terminal, such as ttyS0; needs --model
  --check          check what must hold of it, against a server on this machine, and nothing else
The address may be in RUSHLIGHT_DEPLOY, and flags of ssh, such as `-p 2222`, in RUSHLIGHT_SSH too.";

/// The program's name there.
const PROGRAM: &str = "rushlight";

/// What the command line and the environment ask for.
struct Settings {
    address: String,
    ssh: Vec<String>,
    board: Option<String>,
    model: Option<String>,
    as_it_is: bool,
    folder: Option<String>,
    terminal: Option<String>,
}

impl Settings {
    fn read(words: &[&str]) -> Result<Settings> {
        let mut parts = words.splitn(2, |&word| word == "--");
        let ours = parts.next().unwrap_or_default();
        let more = parts.next().unwrap_or_default();
        let variable = |name| env::var(name).unwrap_or_default();
        let mut settings = Settings {
            address: variable("RUSHLIGHT_DEPLOY"),
            ssh: variable("RUSHLIGHT_SSH")
                .split_whitespace()
                .chain(more.iter().copied())
                .map(str::to_owned)
                .collect(),
            board: None,
            model: None,
            as_it_is: false,
            folder: None,
            terminal: None,
        };
        let mut flags = Flags::new(ours, USAGE);
        let mut has_address = false;
        while let Some(flag) = flags.next() {
            let value = match flag {
                "--board" => &mut settings.board,
                "--model" => &mut settings.model,
                "--dir" => &mut settings.folder,
                "--service" => &mut settings.terminal,
                "--as-it-is" => {
                    settings.as_it_is = true;
                    continue;
                }
                word if word.starts_with('-') => return flags.unknown(),
                _ if has_address => return flags.wrong("one address, please"),
                address => {
                    settings.address = address.to_owned();
                    has_address = true;
                    continue;
                }
            };
            *value = Some(flags.value()?.to_owned());
        }
        if settings.address.is_empty() {
            return flags.wrong("to which USER@HOST?");
        }
        if settings.terminal.is_some() && settings.model.is_none() {
            return flags.wrong("--service needs --model");
        }
        Ok(settings)
    }

    /// The folder as it was asked for.
    fn folder(&self) -> &str {
        let default = match self.terminal {
            Some(_) => service::FOLDER,
            None => PROGRAM,
        };
        self.folder.as_deref().unwrap_or(default)
    }
}

/// Puts the program there, and what was asked for beside it; runs it.
pub fn run(words: &[&str]) -> Result<()> {
    if words == ["--check"] {
        return check();
    }
    let settings = Settings::read(words)?;
    let far = Far::new(&settings.address, &settings.ssh)?;
    let board = match &settings.board {
        Some(name) => board::named(name)?,
        None => board_of(&far.ask("uname -m")?)?,
    };
    if let Some(terminal) = &settings.terminal {
        service::check(&far, terminal, settings.folder())?;
    }
    let program = build::board(&board)?;
    let model = match &settings.model {
        Some(model) => Some(prepared(model, settings.as_it_is)?),
        None => None,
    };
    let folder = far.folder(settings.folder())?;
    Parcel::file(&program, PROGRAM)?.put_program(&folder)?;
    let kernels = format!("./{PROGRAM} kernels");
    folder.show_lines(&kernels, |line| line.ends_with("chosen"))?;
    if let Some(model) = &model {
        let name = model.file_name().context("a model is a file")?;
        let name = name.to_str().context("its name is no UTF-8")?;
        Parcel::file(model, name)?.put(&folder)?;
        let quoted = far::quoted(&format!("./{name}"));
        folder.show(&format!("./{PROGRAM} plan {quoted}"))?;
        if let Some(terminal) = &settings.terminal {
            service::start(&folder, terminal, name)?;
        }
    }
    eprintln!("deploy: {} has {}/{PROGRAM}", far.address, folder.path);
    Ok(())
}

/// The board for what `uname -m` says.
fn board_of(machine: &str) -> Result<Board> {
    for name in ["generic-arm64", board::HOST] {
        let board = board::named(name)?;
        if board.target.starts_with(&format!("{machine}-")) {
            return Ok(board);
        }
    }
    exit::usage(
        &format!("no board is known to run on `{machine}`: name one with --board"),
        &board::names(),
    )
}

/// The file to send for a model: a packed image is the same whichever machine makes it.
fn prepared(model: &str, as_it_is: bool) -> Result<PathBuf> {
    let path = match Path::new(model).is_file() {
        true => PathBuf::from(model),
        false => virt::named_or_file(model)?,
    };
    if as_it_is || path.extension().is_none_or(|end| end != "gguf") {
        return Ok(path);
    }
    let folder = workspace::target().join("deploy");
    fs::create_dir_all(&folder)?;
    let name = path.with_extension("rush");
    let packed = folder.join(name.file_name().context("a model is a file")?);
    image::pack(&path, &packed)?;
    Ok(packed)
}

impl Folder<'_> {
    /// Runs a command there, and shows what it says.
    fn show(&self, command: &str) -> Result<()> {
        self.show_lines(command, |_| true)
    }

    /// The same, of some lines.
    fn show_lines(&self, command: &str, shows: impl Fn(&str) -> bool) -> Result<()> {
        eprintln!("deploy: {command}");
        let text = self.ask(command)?;
        for line in text.lines().filter(|&line| shows(line)) {
            println!("{line}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_after_two_dashes_are_for_ssh() {
        let words = ["root@board", "--dir", "a b", "--", "-p", "22", "--", "x"];
        let settings = Settings::read(&words).unwrap();
        assert_eq!(settings.address, "root@board");
        assert_eq!(settings.folder(), "a b");
        assert!(
            settings
                .ssh
                .ends_with(&["-p", "22", "--", "x"].map(str::to_owned))
        );
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for words in [
            &["root@board", "--service", "ttyS0"][..],
            &["root@board", "root@other"],
            &["root@board", "--port", "22"],
            &["root@board", "--dir"],
        ] {
            assert!(Settings::read(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn board_is_that_of_the_machine() {
        assert_eq!(board_of("aarch64").unwrap().name, "generic-arm64");
        assert!(board_of("armv7l").is_err());
        let here = board_of(env::consts::ARCH).unwrap();
        assert!(here.target.starts_with(env::consts::ARCH));
    }
}
