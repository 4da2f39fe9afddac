//! QEMU for whole machines, and a kernel for the machine: from Debian's packages, into the cache.
//!
//! QEMU comes with all the libraries that it needs, down to the C library, so it runs wherever its
//! own package would not install; nothing on this machine changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::archive::{self, Archive};
use crate::fetch::Fetch;
use crate::{command, workspace};

const PROGRAM: &str = "qemu-system-aarch64";
/// The first whose `virt` machine has a second serial line is 9.1.
const MAJOR_LEAST: u32 = 10;
const SUITE: &str = "bookworm";
const BACKPORTS: &str = "bookworm-backports";
/// The package of the emulator.
const PACKAGE: &str = "qemu-system-arm";
/// The package that depends on that of the newest kernel for machines without devices of their own:
/// NVMe, ext4 and the UART are built in.
const KERNEL: &str = "linux-image-cloud-arm64";
const KERNEL_PREFIX: &str = "linux-image-6";

/// All that is needed to boot.
pub struct Machine {
    /// As the emulator is called.
    program: Vec<PathBuf>,
    kernel: PathBuf,
}

impl Machine {
    /// Fetches what is missing.
    pub fn ensure() -> Result<Self> {
        let folder = workspace::cache().join("virt");
        let (qemu, kernel) = (folder.join("qemu"), folder.join("vmlinuz"));
        let installed = is_new_enough(&[PROGRAM.into()]);
        if !kernel.exists() {
            let fetch = Fetch::begin()?;
            eprintln!("fetch: a Linux kernel for the virt board, {KERNEL} of {SUITE}, 21 MB");
            fetch_kernel(&fetch, &kernel).context("cannot get a kernel")?;
        }
        if !installed && !qemu.exists() {
            let fetch = Fetch::begin()?;
            eprintln!("fetch: {PACKAGE} of {BACKPORTS} and its libraries, 35 MB");
            fetch_qemu(&fetch, &qemu).context("cannot get QEMU")?;
        }
        let program = match installed {
            true => vec![PROGRAM.into()],
            false => archive::words(&qemu, &format!("usr/bin/{PROGRAM}"), &[]),
        };
        ensure!(
            is_new_enough(&program),
            "{PROGRAM} of {} does not run",
            qemu.display()
        );
        Ok(Machine { program, kernel })
    }

    /// The machine: two Cortex-A55, a block device, and two serial lines: stdin and stdout, and
    /// stderr. Without `-append`.
    pub fn command(&self, memory: &str, initramfs: &Path, disk: &Path) -> Command {
        let mut qemu = called(&self.program);
        qemu.args([
            "-M",
            "virt",
            "-cpu",
            "cortex-a55",
            "-smp",
            "2",
            "-m",
            memory,
        ]);
        qemu.args(["-nodefaults", "-display", "none", "-no-reboot"]);
        qemu.args([
            "-chardev",
            "stdio,id=text,signal=off,mux=on", // Ctrl-A b is a BREAK
            "-serial",
            "chardev:text",
        ]);
        qemu.args([
            "-chardev",
            "file,id=logs,path=/dev/stderr",
            "-serial",
            "chardev:logs",
        ]);
        let drive = "if=none,id=model,format=raw,readonly=on,file=";
        // A comma in a value is written twice.
        let disk = disk.display().to_string().replace(',', ",,");
        qemu.arg("-drive").arg(format!("{drive}{disk}"));
        qemu.args(["-device", "nvme,serial=model,drive=model"]);
        qemu.arg("-kernel").arg(&self.kernel);
        qemu.arg("-initrd").arg(initramfs);
        qemu
    }
}

fn fetch_kernel(fetch: &Fetch, to: &Path) -> Result<()> {
    let archive = Archive::open(fetch, &[SUITE], Some("arm64"))?;
    let package = archive.dependency(KERNEL, KERNEL_PREFIX)?;
    archive.download(&package)?;
    let version = package.trim_start_matches("linux-image-");
    let path = format!("boot/vmlinuz-{version}");
    archive.unpack(Some(&path))?;
    archive.place(&path, to)
}

fn fetch_qemu(fetch: &Fetch, to: &Path) -> Result<()> {
    let archive = Archive::open(fetch, &[SUITE, BACKPORTS], None)?;
    archive.download_all(PACKAGE, BACKPORTS)?;
    archive.unpack(None)?;
    archive.place("", to)
}

fn called(program: &[PathBuf]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    command
}

fn is_new_enough(program: &[PathBuf]) -> bool {
    let mut ask = called(program);
    if !command::exists(&program[0].display().to_string()) && !program[0].exists() {
        return false;
    }
    let Ok(version) = command::read(ask.arg("--version")) else {
        return false;
    };
    major(&String::from_utf8_lossy(&version)).is_some_and(|major| major >= MAJOR_LEAST)
}

/// Of `QEMU emulator version 10.0.2 (...)`.
fn major(text: &str) -> Option<u32> {
    let version = text.split_once("version ")?.1;
    version.split_once('.')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn version_is_read_from_the_first_line() {
        let text = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright (c) 2003";
        assert_eq!(major(text), Some(10));
        assert_eq!(major("no such thing"), None);
    }
}
