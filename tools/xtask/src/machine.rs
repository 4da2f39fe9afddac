//! Where and when a measurement is made: without that, it says nothing.

use std::env::consts::ARCH;
use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::{command, workspace};

/// The processor, as far as it decides what can be compared.
pub struct Machine {
    /// Its name, as the kernel has it.
    pub cpu: String,
    /// How many logical cores it shows.
    pub cores: usize,
}

impl Machine {
    /// The machine that this runs on.
    pub fn here() -> Result<Self> {
        let info = fs::read_to_string("/proc/cpuinfo")?;
        let (cpu, cores) = described(&info);
        // 64-bit Arm does not name the processor there, but boards have a device tree.
        let cpu = cpu.map(str::to_owned).or_else(|| {
            let board = fs::read_to_string("/proc/device-tree/model").ok()?;
            Some(board.trim_end_matches('\0').to_owned())
        });
        Ok(Machine {
            cpu: cpu.unwrap_or(ARCH.to_owned()),
            cores,
        })
    }

    /// A word for all machines like this one; times are compared within it only.
    pub fn class(&self) -> String {
        let name = self.cpu.to_lowercase().replace("(r)", "");
        let name = name.replace("(tm)", "");
        let words: Vec<&str> = name
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        format!("{}-{}c", words.join("-"), self.cores)
    }
}

/// The first model name in a `cpuinfo`, and the number of cores.
fn described(info: &str) -> (Option<&str>, usize) {
    let fields = || {
        info.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim(), value.trim()))
    };
    let name = fields().find(|(name, _)| *name == "model name");
    let cores = fields().filter(|(name, _)| *name == "processor").count();
    (name.map(|(_, value)| value), cores)
}

/// The load average over the last minute: above the number of idle cores, times mean little.
pub fn load() -> Result<f64> {
    let averages = fs::read_to_string("/proc/loadavg")?;
    Ok(averages.split(' ').next().unwrap_or_default().parse()?)
}

/// Today's date, or the time of day with it: whatever `format` asks of `date`.
pub fn date(format: &str) -> Result<String> {
    let date = command::read(Command::new("date").arg(format))?;
    Ok(String::from_utf8(date)?.trim_end().to_owned())
}

/// The commit that is checked out, shortened.
pub fn commit() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short", "HEAD"]);
    let commit = command::read(git.current_dir(workspace::root()))?;
    Ok(String::from_utf8(commit)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Machine, described};

    #[test]
    fn cpuinfo_is_read_on_both_architectures() {
        let x86 =
            "processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: AMD EPYC";
        assert_eq!(described(x86), (Some("AMD EPYC"), 2));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\n\nprocessor\t: 1\n";
        assert_eq!(described(arm), (None, 2));
    }

    #[test]
    fn class_is_one_plain_word() {
        let machine = Machine {
            cpu: "Intel(R) Core(TM) i5-8250U CPU @ 1.60GHz".to_owned(),
            cores: 8,
        };
        assert_eq!(machine.class(), "intel-core-i5-8250u-cpu-1-60ghz-8c");
    }
}
