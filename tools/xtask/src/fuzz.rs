//! `cargo xtask fuzz`: looks for input that breaks a reader, led by what the code does with it.
//!
//! The targets are those of `tests/src/targets`, which `tests/tests/mutations.rs` runs in every test.
//! They are built by cargo-fuzz, with libFuzzer, AddressSanitizer and overflow checks. What was
//! found worth keeping stays in `target/fuzz/NAME`; what breaks a target is named at the end.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::flags::Flags;
use crate::{build, command, workspace};

const USAGE: &str = "\
usage: cargo xtask fuzz [--minutes N] [--target NAME] [--jobs N]
N minutes in all, 6 by default, shared by the targets or spent on the one that is named.";

const CARGO_FUZZ: &str = "0.13.2";
/// A longer input is rarely read to its end.
const BYTES_MAX: usize = 1 << 20;
/// Seconds after which an input counts as one that hangs, on a busy machine.
const SECONDS_MAX: usize = 5;

/// Fuzzes, and fails if something was found.
pub fn run(arguments: &[&str]) -> Result<()> {
    let (mut minutes, mut only, mut jobs) = (6, None, 1);
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--minutes" => minutes = flags.parsed()?,
            "--target" => only = Some(flags.value()?),
            "--jobs" => jobs = flags.parsed()?,
            _ => return flags.unknown(),
        }
    }
    build::run(crate::board::HOST)?; // it packs a seed
    let tool = tool()?;
    let folder = workspace::target().join("fuzz");
    let names = command::read(
        command::cargo(&[
            "run",
            "--quiet",
            "--release",
            "-p",
            "tests",
            "--bin",
            "seeds",
        ])
        .arg("--")
        .arg(&folder),
    )?;
    let names = String::from_utf8(names)?;
    let names: Vec<_> = names
        .lines()
        .filter(|name| only.is_none_or(|only| only == *name))
        .collect();
    if names.is_empty() {
        return flags.wrong("there is no such target");
    }
    let seconds = 60 * minutes / names.len();
    let broken: Vec<_> = names
        .iter()
        .filter(|name| !fuzz(&tool, name, &folder.join(name), seconds.max(1), jobs))
        .collect();
    match broken[..] {
        [] => Ok(()),
        _ => bail!("something breaks {broken:?}: see tests/fuzz/artifacts"),
    }
}

/// Whether nothing breaks a target.
fn fuzz(tool: &Path, name: &str, corpus: &Path, seconds: usize, jobs: usize) -> bool {
    eprintln!("fuzz: {name}, {seconds} s");
    let mut fuzz = Command::new(tool);
    fuzz.current_dir(workspace::root())
        // Sanitizers are not a stable flag of rustc, though their library comes with it.
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["run", "--fuzz-dir", "tests/fuzz", "--target-dir"])
        .arg(workspace::target().join("fuzz-build"))
        .arg(name)
        .arg(corpus)
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={BYTES_MAX}"))
        .arg(format!("-timeout={SECONDS_MAX}"))
        .arg(format!("-fork={jobs}"))
        .arg("-print_final_stats=1");
    command::run_quietly(&mut fuzz)
        .inspect_err(|error| eprintln!("fuzz: {name}: {error:#}"))
        .is_ok()
}

/// cargo-fuzz, installed once.
fn tool() -> Result<PathBuf> {
    let folder = workspace::cache().join("tools");
    let tool = folder.join("bin/cargo-fuzz");
    if !tool.exists() {
        let version = [
            "install",
            "cargo-fuzz",
            "--locked",
            "--version",
            CARGO_FUZZ,
            "--root",
        ];
        command::run_quietly(command::cargo(&version).arg(&folder))?;
    }
    Ok(tool)
}
