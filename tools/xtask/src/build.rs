//! `cargo xtask build [BOARD]`: a board's release binary, linked and stripped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::board::{self, Board};
use crate::{command, setup};

/// Builds the board called `name` and prints the path of the binary.
pub fn run(name: &str) -> Result<()> {
    let binary = board(&board::named(name)?)?;
    println!("{}", binary.display());
    Ok(())
}

/// Builds `board` and returns the path of the binary that ships, which is refused if it is larger
/// than the board allows.
///
/// The linked program keeps its symbols, for profilers, for decoding logs and for the tests that
/// look for forbidden ones; what ships is a copy without them.
pub fn board(board: &Board) -> Result<PathBuf> {
    setup::target(&board.target)?;
    let package = board.package();
    let build = [
        "build",
        "--release",
        "--package",
        &package,
        "--target",
        &board.target,
    ];
    command::run_quietly(&mut command::cargo(&build))?;
    strip(&board.linked(), &board.shipped())
        .with_context(|| format!("cannot strip {}", board.linked().display()))?;
    let (bytes, limit) = (fs::metadata(board.shipped())?.len(), board.image_bytes_max);
    ensure!(
        bytes <= limit,
        "{} has {bytes} bytes, and the board {} allows {limit}",
        board.shipped().display(),
        board.name
    );
    Ok(board.shipped())
}

/// Copies a program without its symbols, by the tool that comes with the Rust compiler.
fn strip(linked: &Path, shipped: &Path) -> Result<()> {
    let sysroot = PathBuf::from(setup::ask_rustc(&["--print", "sysroot"])?);
    let host = setup::ask_rustc(&["--print", "host-tuple"])?;
    let objcopy = sysroot
        .join("lib/rustlib")
        .join(host)
        .join("bin/rust-objcopy");

    // Written beside and renamed: a copy that is running just now can be replaced, not overwritten.
    let partial = shipped.with_extension("partial");
    fs::create_dir_all(shipped.parent().context("a file lies in a folder")?)?;
    let mut objcopy = Command::new(objcopy);
    objcopy.arg("--strip-all").arg(linked).arg(&partial);
    objcopy.env("LD_LIBRARY_PATH", sysroot.join("lib"));
    command::run_quietly(&mut objcopy)?;
    fs::rename(&partial, shipped)?;
    Ok(())
}
