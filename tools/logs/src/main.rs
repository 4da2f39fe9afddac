//! `logs --elf PROGRAM [--elf PROGRAM ...] [FILE]`: a log of frames as lines of text on stdout.
//! `cargo xtask log` builds it and names the programs.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use logs::{Program, decode};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("log: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (mut programs, mut unusable) = (Vec::new(), Vec::new());
    let mut file = None;
    let mut words = env::args_os().skip(1);
    while let Some(word) = words.next() {
        if word == "--elf" {
            let path = words.next().context("--elf needs a file")?;
            match Program::open(Path::new(&path)) {
                Ok(program) => programs.push(program),
                Err(error) => unusable.push(error), // such as what an older build left
            }
        } else if file.replace(PathBuf::from(word)).is_some() {
            bail!("one log at a time");
        }
    }
    if programs.is_empty() {
        let error = unusable.pop();
        return Err(error.unwrap_or_else(|| anyhow!("no program given: --elf FILE")));
    }
    for error in unusable {
        eprintln!("log: passed over: {error:#}");
    }
    let log: Box<dyn Read> = match &file {
        None => Box::new(io::stdin().lock()),
        Some(path) => {
            let name = path.display();
            Box::new(File::open(path).with_context(|| format!("cannot read {name}"))?)
        }
    };
    let summary = decode(&programs, log, io::stdout().lock(), io::stderr().lock())?;
    if summary.lost > 0 {
        eprintln!("{} lines; lost: {} stretches", summary.events, summary.lost);
    }
    Ok(())
}
