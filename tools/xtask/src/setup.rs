//! `cargo xtask setup`: what a fresh Debian or Ubuntu machine with cargo still lacks.
//!
//! Each part looks before it acts, so that a second run installs nothing.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{
    apt, archive, board, command, counts, deploy, emulator, miri, model, vocab, workspace,
};

/// Programs that the tests run, the Debian packages that have them, and what they are for.
const PROGRAMS: [(&str, &str, &str); 5] = [
    (
        "qemu-aarch64-static",
        "qemu-user-static",
        "running the 64-bit Arm tests",
    ),
    ("strace", "strace", "counting system calls"),
    ("time", "time", "measuring memory"),
    ("script", "bsdutils", "having a terminal"),
    ("ssh", "openssh-client", "deploying to a board"),
];

/// Makes everything ready for `build`, `demo` and `test`.
pub fn run() -> Result<()> {
    for board in board::all()? {
        target(&board.target)?;
    }
    component("rustfmt", "fmt")?;
    component("clippy", "clippy")?;
    miri::ensure()?;
    for (program, package, purpose) in PROGRAMS {
        if !command::exists(program) {
            apt::install(package, purpose)?;
        }
    }
    emulator::ensure();
    counts::ensure()?;
    if archive::is_there() {
        deploy::ensure_server()?;
    }
    model::ensure(model::DEFAULT)?;
    vocab::ensure()?;
    model::ensure(model::SYNTHETIC)?;
    eprintln!(
        "setup: ready; downloads are in {}",
        workspace::cache().display()
    );
    Ok(())
}

/// Makes the toolchain able to build for `target`.
pub fn target(target: &str) -> Result<()> {
    let library = ask_rustc(&["--print", "target-libdir", "--target", target])
        .with_context(|| format!("the Rust compiler does not know {target}"))?;
    if Path::new(&library).is_dir() {
        return Ok(());
    }
    rustup(
        &["target", "add", target],
        &format!("the Rust target {target}"),
    )
}

/// Makes `cargo NAME` work, which the rustup component `component` brings.
fn component(component: &str, name: &str) -> Result<()> {
    if command::succeeds(&mut command::cargo(&[name, "--version"])) {
        return Ok(());
    }
    rustup(&["component", "add", component], &format!("`cargo {name}`"))
}

/// Has rustup bring `missing`. No other way is tried: a distribution's own Rust comes without the
/// linker and the C library that the boards are linked with.
pub fn rustup(arguments: &[&str], missing: &str) -> Result<()> {
    let tried = format!("rustup {}", arguments.join(" "));
    if !command::exists("rustup") {
        bail!(
            "{missing} is missing, and so is rustup, which would bring it.\n\
             Install rustup (Debian 13, Ubuntu 24.04 and later: `apt-get install rustup`, then \
             `rustup default stable`) and run this again."
        );
    }
    eprintln!("setup: {tried}");
    command::run_quietly(Command::new("rustup").args(arguments)).with_context(|| {
        format!(
            "{missing} is missing and `{tried}` did not bring it.\n\
             Check the network and the active toolchain (`rustup show`), then run this again"
        )
    })
}

/// What the Rust compiler answers, without the end of the line.
pub fn ask_rustc(arguments: &[&str]) -> Result<String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    let answer = command::read(rustc.args(arguments))?;
    Ok(String::from_utf8(answer)?.trim_end().to_owned())
}
