//! The QEMU that the 64-bit Arm programs run under, and the cores that it can be.
//!
//! Debian 12's own knows half of the cores; a newer one lies in its backports. It is taken out of
//! its package into the cache, beside the one that is installed: nothing on the machine changes.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::archive::Archive;
use crate::fetch::Fetch;
use crate::{command, workspace};

/// Cores that kernels are checked on: without SDOT in order, with it in order and out of order, and
/// with SMMLA and SVE2.
pub const CORES: [&str; 4] = ["cortex-a53", "cortex-a55", "cortex-a76", "neoverse-n2"];

const PROGRAM: &str = "qemu-aarch64";
/// A package with one static program for each architecture, which depends on nothing.
const PACKAGE: &str = "qemu-user";
/// Suites of Debian whose QEMU is new enough, the one with the shorter list first.
const SUITES: [&str; 2] = ["bookworm-backports", "trixie"];

/// An emulator on this machine.
pub struct Emulator {
    /// As it is called.
    pub program: PathBuf,
    /// Those of [`CORES`] that it knows.
    pub cores: Vec<&'static str>,
}

impl Emulator {
    /// The one that knows most cores; of equal ones, that of the machine.
    pub fn best() -> Self {
        let programs = [format!("{PROGRAM}-static").into(), PROGRAM.into(), cached()];
        let known = programs.map(|program: PathBuf| Self {
            cores: known_cores(&program),
            program,
        });
        let better = |best: Self, next: Self| {
            if next.cores.len() > best.cores.len() {
                next
            } else {
                best
            }
        };
        known.into_iter().reduce(better).expect("there are three")
    }

    /// Cargo for 64-bit Arm, whose programs run on `cpu`: `command`, the target, `rest`.
    pub fn cargo(&self, cpu: &str, command: &str, rest: &str) -> Result<()> {
        const TARGET: &str = "aarch64-unknown-linux-musl";
        const RUNNER: &str = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER";
        let line = format!("{command} --target {TARGET} {rest}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let runner = format!("{} -cpu {cpu}", self.program.display());
        command::run(command::cargo(&words).env(RUNNER, runner))
    }

    /// Those of [`CORES`] that it does not know.
    pub fn missing(&self) -> Vec<&'static str> {
        let mut missing = CORES.to_vec();
        missing.retain(|core| !self.cores.contains(core));
        missing
    }
}

/// Sees to an emulator that knows every core. Without one the tests check those that there are.
pub fn ensure() {
    let missing = Emulator::best().missing();
    if missing.is_empty() {
        return;
    }
    let missing = missing.join(" and ");
    eprintln!("setup: the QEMU here lacks {missing}: fetching a newer one");
    for suite in SUITES {
        match fetch(suite) {
            Ok(()) if Emulator::best().missing().is_empty() => return,
            Ok(()) => eprintln!("setup: that of {suite} does not have them either"),
            Err(error) => eprintln!("setup: none from {suite}: {error:#}"),
        }
    }
    eprintln!("setup: kernels will not be checked on them");
}

/// Takes the program out of the package of a suite.
fn fetch(suite: &str) -> Result<()> {
    let fetch = Fetch::begin()?;
    let archive = Archive::open(&fetch, &[suite], None)?;
    archive.download(PACKAGE)?;
    archive.unpack(Some(&format!("usr/bin/{PROGRAM}")))?;
    archive.place(&format!("usr/bin/{PROGRAM}"), &cached())
}

fn cached() -> PathBuf {
    workspace::cache().join("qemu").join(PROGRAM)
}

/// Those of [`CORES`] that `program` names; none if it does not run.
fn known_cores(program: &PathBuf) -> Vec<&'static str> {
    let Ok(output) = Command::new(program).args(["-cpu", "help"]).output() else {
        return vec![];
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    in_list(&text)
}

/// Those of [`CORES`] that a list of QEMU has.
fn in_list(text: &str) -> Vec<&'static str> {
    let mut cores = CORES.to_vec();
    cores.retain(|core| text.split_whitespace().any(|word| word == *core));
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_found_in_the_list_by_their_whole_name() {
        let list = "Available CPUs:\n  cortex-a53\n  cortex-a76ae\n  neoverse-n2\n";
        assert_eq!(in_list(list), ["cortex-a53", "neoverse-n2"]);
    }

    #[test]
    fn program_that_is_not_there_knows_no_core() {
        assert!(known_cores(&"/no/such/qemu".into()).is_empty());
    }
}
