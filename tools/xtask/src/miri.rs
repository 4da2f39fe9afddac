//! Unit tests of the runtime under Miri, which finds undefined behaviour that happens not to show.
//!
//! Rooms that are plain Rust, and those of their tests that Miri, a thousand times slower, comes to the
//! end of: not kernels and what calls them, which have assembly, nor what maps files.

use std::process::Command;

use anyhow::Result;

use crate::{command, setup, workspace};

/// Stable toolchains come without Miri.
const TOOLCHAIN: &str = "nightly-2026-05-20";
/// Beginnings of the names of tests.
const ROOMS: [&str; 8] = [
    "arena::",
    "board::",
    "console::",
    "cpu::",
    "model::",
    "notify::",
    "options::",
    "prompt::",
];

/// Sees to it that there is one.
pub fn ensure() -> Result<()> {
    if command::exists("rustup") && command::succeeds(miri().arg("--version")) {
        return Ok(());
    }
    let toolchain = ["toolchain", "install", TOOLCHAIN, "--profile", "minimal"];
    let components = ["--component", "miri", "--component", "rust-src"];
    setup::rustup(&[&toolchain[..], &components].concat(), "Miri")
}

/// Runs the tests.
pub fn run() -> Result<()> {
    let mut tests = miri();
    tests.args(["test", "--package", "runtime", "--lib", "--target-dir"]);
    tests.arg(workspace::target().join("miri")).arg("--");
    command::run(tests.args(ROOMS))
}

/// `cargo miri` of its own toolchain, whichever runs this program.
fn miri() -> Command {
    let mut miri = Command::new("rustup");
    miri.args(["run", TOOLCHAIN, "cargo", "miri"]);
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        miri.env_remove(variable);
    }
    miri
}
