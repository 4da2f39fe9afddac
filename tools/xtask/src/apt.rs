//! Debian packages that are installed, for the few programs that cargo and pip cannot bring.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;

/// Installs a Debian package. `purpose` says what it is for.
pub fn install(package: &str, purpose: &str) -> Result<()> {
    let by_hand = format!("{purpose} needs the Debian package {package}");
    if !command::exists("apt-get") {
        bail!("{by_hand}, and there is no apt-get here: install its equivalent, then try again");
    }
    if !is_root() && !command::exists("sudo") {
        bail!("{by_hand}: run `apt-get install {package}` as root, then try again");
    }
    eprintln!("setup: installing {package} with apt-get: {purpose} needs it");
    if lists_are_empty() {
        command::run_quietly(&mut apt_get(&["update"]))?;
    }
    let install = ["install", "--yes", "--no-install-recommends", package];
    if command::run_quietly(&mut apt_get(&install)).is_ok() {
        return Ok(());
    }
    // Old package lists name files that the archive no longer has: renew them, try once more.
    command::run_quietly(&mut apt_get(&["update"]))?;
    command::run_quietly(&mut apt_get(&install))
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("apt-get");
        sudo
    };
    command
        .args(["-o", "Dpkg::Use-Pty=0", "-qq"])
        .args(arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Fetches the lists of packages if there are none, as far as this user may.
pub fn ensure_lists() -> Result<()> {
    if lists_are_empty() && is_root() {
        command::run_quietly(&mut apt_get(&["update"]))?;
    }
    Ok(())
}

/// A fresh container image has apt but none of its package lists.
fn lists_are_empty() -> bool {
    let Ok(entries) = fs::read_dir("/var/lib/apt/lists") else {
        return true;
    };
    !entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
