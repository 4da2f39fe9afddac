//! `cargo xtask log`: a log of frames as lines of text; and lines of JSON, as programs log them.

use std::process::Command;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::flags::Flags;
use crate::{board, command, workspace};

const USAGE: &str = "\
usage: cargo xtask log [--board BOARD | --elf FILE] [FILE]
Decodes what `--log-format defmt` wrote, from FILE or as it comes on stdin. Without a flag the log
says which of the boards' programs wrote it.";

/// Builds `tools/logs` and gives it the programs that may have written the log.
pub fn run(arguments: &[&str]) -> Result<()> {
    let mut programs = Vec::new();
    let mut files = Vec::new();
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--board" => programs.push(board::named(flags.value()?)?.linked()),
            "--elf" => programs.push(flags.value()?.into()),
            file if files.is_empty() && !file.starts_with('-') => files.push(file),
            _ => return flags.unknown(),
        }
    }
    if programs.is_empty() {
        let built = board::all()?.into_iter().map(|board| board.linked());
        programs.extend(built.filter(|program| program.is_file()));
    }
    if programs.is_empty() {
        bail!("no board is built: name the program that wrote the log, with --elf");
    }
    let build = ["build", "--package", "logs"];
    command::run_quietly(&mut command::cargo(&build))?;
    let mut logs = Command::new(workspace::target().join("debug/logs"));
    for program in programs {
        logs.arg("--elf").arg(program);
    }
    command::run(logs.args(files))
}

/// The number called `field` in the last of the lines that has one.
pub fn figure(lines: &str, field: &str) -> Option<f64> {
    lines.lines().rev().find_map(|line| {
        let object: Value = serde_json::from_str(line).ok()?;
        object[field].as_f64()
    })
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figure_is_found_among_other_lines() {
        let log = "{\"event\":\"load\",\"ms\":3}\nwarning\n{\"event\":\"end\",\"tok_s\":52.5}\n";
        assert_eq!(figure(log, "tok_s"), Some(52.5));
        assert_eq!(figure(log, "event"), None);
        assert_eq!(figure("", "tok_s"), None);
    }
}
