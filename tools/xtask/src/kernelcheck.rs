//! `cargo xtask kernelcheck`: every kernel against its reference, here and on emulated Arm cores.

use anyhow::{Result, ensure};

use crate::command;
use crate::emulator::{self, Emulator};

/// Runs kernelcheck, with its own options, on this machine and on each of [`emulator::CORES`].
pub fn run(flags: &[&str]) -> Result<()> {
    const RUN: &str = "run --quiet --release --package tests --bin kernelcheck";
    emulator::ensure();
    let emulator = Emulator::best();
    let rest = [&["--"], flags].concat();
    eprintln!("kernelcheck: this machine");
    let words: Vec<&str> = RUN.split_whitespace().chain(rest.iter().copied()).collect();
    command::run(&mut command::cargo(&words))?;
    for cpu in &emulator.cores {
        eprintln!("kernelcheck: an emulated {cpu}");
        emulator.cargo(cpu, RUN, &rest.join(" "))?;
    }
    let missing = emulator.missing();
    ensure!(
        missing.is_empty(),
        "no QEMU here has {}",
        missing.join(", ")
    );
    Ok(())
}
