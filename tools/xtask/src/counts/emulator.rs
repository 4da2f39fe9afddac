//! The QEMU that takes plugins, and the plugin that counts.
//!
//! Debian's newer ones, and all that are linked statically, take none; version 7.2 of Debian 12
//! does. It comes from its package into the cache, with its libraries, as everywhere else.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::archive::{self, Archive};
use crate::fetch::Fetch;
use crate::{command, workspace};

const PROGRAM: &str = "qemu-aarch64";
const SUITE: &str = "bookworm";
const PACKAGE: &str = "qemu-user";
/// The package of the plugin in this workspace, and what it is built as.
const PLUGIN: &str = "icount";
const PLUGIN_FILE: &str = "libicount.so";

/// Whether it is in the cache or can be brought there.
pub fn is_there() -> bool {
    folder().exists() || archive::is_there()
}

/// Sees to it that the emulator is in the cache, and the plugin built.
pub fn ensure() -> Result<()> {
    let build = ["build", "--quiet", "--release", "--package", PLUGIN];
    command::run_quietly(&mut command::cargo(&build))?;
    if folder().exists() || !archive::is_there() {
        return Ok(());
    }
    let fetch = Fetch::begin()?;
    eprintln!("fetch: {PACKAGE} of {SUITE} and its libraries, 20 MB: this one takes plugins");
    let archive = Archive::open(&fetch, &[SUITE], None)?;
    archive.download_all(PACKAGE, SUITE)?;
    archive.unpack(None)?;
    archive.place("", &folder())
}

fn folder() -> PathBuf {
    workspace::cache().join("qemu-plugins")
}

/// The emulator, whose plugin writes to `out` what [`blocks`] reads; the program is to follow. It
/// has all features that it knows of.
pub fn counting(out: &Path) -> Command {
    let plugin = workspace::target().join("release").join(PLUGIN_FILE);
    let words = archive::words(&folder(), &format!("usr/bin/{PROGRAM}"), &[]);
    let mut qemu = Command::new(&words[0]);
    qemu.args(&words[1..]);
    qemu.args(["-cpu", "max", "-plugin"]);
    qemu.arg(format!("{},out={}", plugin.display(), out.display()));
    qemu
}

/// What the plugin wrote: for each block its address and the instructions executed in it.
pub fn blocks(text: &str) -> Result<Vec<(u64, u64)>> {
    let block = |line: &str| {
        let mut words = line.split(' ');
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let instructions: u64 = words.next()?.parse().ok()?;
        let entered: u64 = words.next()?.parse().ok()?;
        Some((address, instructions * entered))
    };
    text.lines()
        .map(|line| block(line).with_context(|| format!("the plugin wrote `{line}`")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn block_counts_as_often_as_it_was_entered() {
        assert_eq!(
            blocks("1f0 3 5\n200 4 0\n").unwrap(),
            [(0x1f0, 15), (0x200, 0)]
        );
        assert!(blocks("1f0 3\n").is_err());
    }
}
