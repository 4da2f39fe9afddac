//! Debian packages, for the few programs that cargo and pip cannot bring.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::command;
use crate::fetch::Fetch;

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

/// Takes the file `path` out of a package of `suite`, a suite of Debian's archive, to `to`.
///
/// Nothing is installed, and no list of the system is touched: apt works with lists of its own in
/// the cache, and holds what it downloads to the keys of the archive.
pub fn extract(suite: &str, package: &str, path: &str, to: &Path) -> Result<()> {
    for program in ["apt-get", "dpkg-deb", "tar"] {
        ensure!(command::exists(program), "there is no {program}");
    }
    ensure!(
        Path::new(KEYS).exists(),
        "the keys of Debian's archive, {KEYS}, are missing"
    );
    let fetch = Fetch::begin()?;
    let folder = fetch.folder();
    for list in ["lists/partial", "cache"] {
        fs::create_dir_all(folder.join(list))?;
    }
    let source = format!("deb [signed-by={KEYS}] {} {suite} main\n", archive()?);
    fs::write(folder.join("sources.list"), source)?;
    command::run_quietly(&mut private_apt_get(folder, &["update"]))?;
    command::run_quietly(&mut private_apt_get(folder, &["download", package]))?;

    let mut files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let archive = files
        .find(|file| file.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded nothing")?;
    let mut unpack = Command::new("dpkg-deb");
    let mut unpack = unpack
        .arg("--fsys-tarfile")
        .arg(archive)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "-C"]).arg(folder).arg(format!("./{path}"));
    tar.stdin(unpack.stdout.take().context("its output is a pipe")?);
    let taken = command::run_quietly(&mut tar);
    let unpacked = unpack.wait()?;
    taken?;
    ensure!(unpacked.success(), "dpkg-deb failed: {unpacked}");
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    fs::rename(folder.join(path), to)?;
    Ok(())
}

/// What the signatures of Debian's packages are checked with.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where this machine has its own Debian packages from.
fn archive() -> Result<String> {
    if lists_are_empty() && is_root() {
        command::run_quietly(&mut apt_get(&["update"]))?;
    }
    let mut ask = Command::new("apt-get");
    let sources = command::read(ask.args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let sources = String::from_utf8(sources)?;
    let archive = sources
        .lines()
        .find(|source| source.trim_end_matches('/').ends_with("/debian"));
    let archive = archive.context("apt-get has its packages from elsewhere than Debian")?;
    Ok(archive.to_owned())
}

/// apt-get with everything that it reads and writes in `folder`, for which no one needs to be root.
fn private_apt_get(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    let folder_of = |name: &str| folder.join(name).display().to_string();
    for (option, value) in [
        ("Dir::Etc::sourcelist", folder_of("sources.list")),
        ("Dir::Etc::sourceparts", "/dev/null".into()),
        ("Dir::State::lists", folder_of("lists")),
        ("Dir::Cache", folder_of("cache")),
        // As root it would become a user who may not write here.
        ("APT::Sandbox::User", "root".into()),
        ("Acquire::Languages", "none".into()),
    ] {
        command.arg("-o").arg(format!("{option}={value}"));
    }
    command.arg("-qq").args(arguments).current_dir(folder);
    command
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
