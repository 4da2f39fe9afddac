//! A run whose resident memory is watched from outside, on this machine or under emulation.
//!
//! The emulator's own memory is kept apart by giving the guest an address range of its own: pages
//! inside it are the guest's, and the kernel counts them.

use crate::{ARM64, HOST, Output};
use std::fs;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Where the emulated program lives.
const GUEST: Range<u64> = 0x1000_0000_0000..0x1002_0000_0000;

/// A run, and the most that was seen of what was watched.
#[derive(Debug)]
pub struct Watched {
    /// What it left behind.
    pub output: Output,
    /// Bytes.
    pub most: u64,
}

/// Runs the host's binary and watches its resident set, by the kernel's own high-water mark.
pub fn resident(arguments: &[&str]) -> Watched {
    watch_host(arguments, |process| {
        let status = fs::read_to_string(format!("{process}/status")).ok()?;
        Some(1024 * field(&status, "VmHWM:")?)
    })
}

/// Runs the host's binary and watches the bytes that it has storage read.
pub fn reads(arguments: &[&str]) -> Watched {
    watch_host(arguments, |process| {
        let io = fs::read_to_string(format!("{process}/io")).ok()?;
        field(&io, "read_bytes:")
    })
}

/// Runs the 64-bit Arm binary on an emulated `cpu` and watches its resident set, by many looks.
pub fn resident_arm64(cpu: &str, arguments: &[&str]) -> Watched {
    let mut qemu = Command::new("qemu-aarch64-static");
    let (base, size) = (GUEST.start, GUEST.end - GUEST.start);
    qemu.args([
        "-cpu",
        cpu,
        "-B",
        &format!("{base:#x}"),
        "-R",
        &format!("{size:#x}"),
    ]);
    watch(qemu.arg(ARM64.linked()).args(arguments), |process| {
        let smaps = fs::read_to_string(format!("{process}/smaps")).ok()?;
        Some(1024 * guest_kb(&smaps))
    })
}

fn watch_host(arguments: &[&str], look: impl Fn(&str) -> Option<u64> + Sync) -> Watched {
    watch(Command::new(HOST.linked()).args(arguments), look)
}

fn watch(command: &mut Command, look: impl Fn(&str) -> Option<u64> + Sync) -> Watched {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
    let process = format!("/proc/{}", child.id());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !ended.load(Ordering::Relaxed) {
                most = most.max(look(&process).unwrap_or(0));
                thread::sleep(Duration::from_millis(5));
            }
            most
        });
        let output = finish(child);
        ended.store(true, Ordering::Relaxed);
        Watched {
            output,
            most: watcher.join().expect("the watcher does not fail"),
        }
    })
}

fn finish(child: Child) -> Output {
    let output = child.wait_with_output().expect("a started program ends");
    Output {
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("logs are UTF-8"),
        code: output.status.code().unwrap_or(-1),
    }
}

/// The number in a line of a file of `/proc/PID`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The resident part of the mappings in [`GUEST`], from `/proc/PID/smaps`.
fn guest_kb(smaps: &str) -> u64 {
    let (mut inside, mut sum) = (false, 0);
    for line in smaps.lines() {
        let start = line.split('-').next().unwrap_or_default();
        if let Some(kb) = line.strip_prefix("Rss:") {
            let kb = kb.trim_end_matches("kB").trim().parse::<u64>();
            sum += if inside { kb.unwrap_or(0) } else { 0 };
        } else if let Ok(start) = u64::from_str_radix(start, 16) {
            inside = GUEST.contains(&start);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_of_the_guest_are_counted() {
        let smaps = "\
            00400000-00500000 r-xp 00000000 08:01 1 /usr/bin/qemu\nRss:   900 kB\n\
            100000200000-100000216000 r--p 00000000 08:01 2 /x\nSize: 88 kB\nRss:    88 kB\n\
            1001ff800000-100200000000 rw-p 00000000 00:00 0\nRss:     4 kB\nPss: 4 kB\n\
            7f0000000000-7f0000100000 rw-p 00000000 00:00 0\nRss:   500 kB\n";
        assert_eq!(guest_kb(smaps), 92);
    }
}
