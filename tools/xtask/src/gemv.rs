//! `cargo xtask gemv`: our GEMVs beside llama.cpp's, on this machine, with one thread.
//!
//! It builds both programs; `tools/gemv` has them take turns and reports.

use std::process::Command;

use anyhow::Result;

use crate::flags::Flags;
use crate::{command, peer, workspace};

const USAGE: &str = "\
usage: cargo xtask gemv [--against llama.cpp] [--only FORMAT[,FORMAT...]] [--cpu N] [--rounds N]
                        [--working-set-mib N]
Without --against: ours alone, beside reads of the same memory. The other flags are those of
tools/gemv.";

struct Options<'a> {
    against: bool,
    rest: Vec<&'a str>,
}

/// Builds what takes part, and measures.
pub fn run(arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let build = ["build", "--release", "--package", "gemv"];
    command::run_quietly(&mut command::cargo(&build))?;
    let mut gemv = Command::new(workspace::target().join("release/gemv"));
    if options.against {
        gemv.arg("--peer").arg(peer::ensure(peer::GEMV)?);
    }
    command::run(gemv.args(options.rest))
}

fn parse<'a>(arguments: &'a [&'a str]) -> Result<Options<'a>> {
    let mut options = Options {
        against: false,
        rest: Vec::new(),
    };
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--against" => match flags.value()? {
                peer::NAME => options.against = true,
                other => return flags.wrong(&format!("cannot compare with `{other}`")),
            },
            "--only" | "--cpu" | "--rounds" | "--working-set-mib" => {
                options.rest.extend([flag, flags.value()?]);
            }
            _ => return flags.unknown(),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn peer_is_built_here_and_the_rest_is_passed_on() {
        let options = parse(&["--only", "Q4_K", "--against", "llama.cpp", "--cpu", "1"]).unwrap();
        assert!(options.against);
        assert_eq!(options.rest, ["--only", "Q4_K", "--cpu", "1"]);
        assert!(parse(&["--against", "other"]).is_err());
        assert!(parse(&["--cpu"]).is_err());
        assert!(parse(&["--slow"]).is_err());
    }
}
