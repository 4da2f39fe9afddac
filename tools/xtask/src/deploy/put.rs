//! A file onto the far end: written under another name, compared, and then moved.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use super::far::{Folder, quoted, sum_of};
use crate::command;

/// Bytes that are sent together.
const PIECE_BYTES: usize = 1 << 18;

/// A file that is to be somewhere else.
pub struct Parcel<'a> {
    path: PathBuf,
    /// Its name there.
    name: &'a str,
    /// The name that it has until it is whole.
    partial: String,
    bytes: u64,
    sum: String,
}

impl<'a> Parcel<'a> {
    /// Reads the file once.
    pub fn file(path: &Path, name: &'a str) -> Result<Self> {
        let shown = || format!("cannot read {}", path.display());
        let mut file = File::open(path).with_context(shown)?;
        let (bytes, sum) = hash(&mut file).with_context(shown)?;
        Ok(Parcel {
            path: path.to_owned(),
            name,
            partial: quoted(&format!("./{name}.partial")),
            bytes,
            sum,
        })
    }

    /// Puts it into a folder, unless it is there.
    pub fn put(&self, folder: &Folder<'_>) -> Result<()> {
        if self.is_there(folder)? {
            return Ok(());
        }
        self.send(folder)?;
        self.place(folder)
    }

    /// The same for a program, which gets its name only if it starts there.
    pub fn put_program(&self, folder: &Folder<'_>) -> Result<()> {
        let (partial, name) = (&self.partial, self.name);
        if self.is_there(folder)? {
            return folder.show(&format!("./{name} --version"));
        }
        self.send(folder)?;
        let start = format!("chmod 755 {partial} && {partial} --version");
        let started = folder.ask(&start).inspect_err(|_| self.discard(folder));
        println!("{}", started.with_context(|| self.unchanged(folder))?);
        self.place(folder)
    }

    /// Whether the far end has it, as far as it can tell.
    fn is_there(&self, folder: &Folder<'_>) -> Result<bool> {
        let name = quoted(&format!("./{}", self.name));
        let ask = format!("if [ -d {name} ]; then echo folder; elif [ -f {name} ]; then ");
        let sum = match folder.has_sums {
            true => format!("sha256sum < {name}; fi"),
            false => ":; fi".to_owned(),
        };
        let answer = folder.ask(&(ask + &sum))?;
        ensure!(
            answer != "folder",
            "{}/{} is a folder",
            folder.path,
            self.name
        );
        let is_there = sum_of(&answer) == Some(&self.sum);
        if is_there {
            eprintln!("deploy: {} is there already", self.name);
        }
        Ok(is_there)
    }

    /// Sends it under its other name, and compares.
    fn send(&self, folder: &Folder<'_>) -> Result<()> {
        let sent = self.check_room(folder).and_then(|()| {
            eprintln!("deploy: {}, {:.1} MB", self.name, self.bytes as f64 / 1e6);
            self.stream(folder)?;
            self.compare(folder)
        });
        sent.with_context(|| self.unchanged(folder))
    }

    fn unchanged(&self, folder: &Folder<'_>) -> String {
        format!("{}/{} is as it was", folder.path, self.name)
    }

    /// Begins the file, and asks whether there is room for the rest of it.
    fn check_room(&self, folder: &Folder<'_>) -> Result<()> {
        let ask = format!(
            ": > {} && {{ df -kP . 2> /dev/null || df -k . 2> /dev/null || :; }}",
            self.partial
        );
        let Some(free) = free_bytes(&folder.ask(&ask)?) else {
            return Ok(()); // then it shows while it is written
        };
        if free < self.bytes {
            self.discard(folder);
            let mb = |bytes| bytes as f64 / 1e6;
            bail!(
                "no room there: {:.1} MB needed beside what is there, {:.1} MB free",
                mb(self.bytes),
                mb(free)
            );
        }
        Ok(())
    }

    fn stream(&self, folder: &Folder<'_>) -> Result<()> {
        let partial = &self.partial;
        let script = format!("{{ cat > {partial} || {{ rm -f {partial}; exit 1; }}; }}");
        let script = folder.script(&script);
        let mut ssh = folder.far.command(&script);
        ssh.stdin(Stdio::piped()).stdout(Stdio::from(io::stderr()));
        let mut child = ssh
            .spawn()
            .map_err(|error| command::not_started(&ssh, &error))?;
        let to = child.stdin.take().context("stdin is piped")?;
        let (count, copied) = self.copy(to);
        let status = child.wait()?;
        // Why the far end took no more says more than that it did not.
        let ended = folder.far.check(status.code(), "cat");
        ended
            .and(copied.map_err(Into::into))
            .with_context(|| format!("it broke off after {count} of {} bytes", self.bytes))
    }

    /// Copies the file; how far it came, whatever ended it.
    fn copy(&self, mut to: impl Write) -> (u64, io::Result<()>) {
        let mut count = 0;
        let copied = File::open(&self.path).and_then(|mut file| {
            let shows = io::stderr().is_terminal();
            let mut shown = Instant::now();
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let len = file.read(&mut piece)?;
                if len == 0 {
                    return Ok(());
                }
                to.write_all(&piece[..len])?;
                count += len as u64;
                let is_last = count == self.bytes;
                if shows && is_last {
                    eprint!("\r\x1b[K");
                } else if shows && shown.elapsed() > Duration::from_millis(500) {
                    shown = Instant::now();
                    eprint!("\rdeploy: {} %\x1b[K", 100 * count / self.bytes);
                }
            }
        });
        (count, copied)
    }

    /// Compares what is there with what was sent: by a checksum, or by reading it back.
    fn compare(&self, folder: &Folder<'_>) -> Result<()> {
        let partial = &self.partial;
        let sum = match folder.has_sums {
            true => {
                let line = folder.ask(&format!("sha256sum < {partial}"))?;
                sum_of(&line).unwrap_or_default().to_owned()
            }
            false => {
                eprintln!("deploy: no sha256sum there: reading it back");
                let script = folder.script(&format!("cat {partial}"));
                let mut ssh = folder.far.command(&script);
                ssh.stdin(Stdio::null()).stdout(Stdio::piped());
                let mut child = ssh.spawn()?;
                let mut from = child.stdout.take().context("stdout is piped")?;
                let (_, sum) = hash(&mut from)?;
                folder.far.check(child.wait()?.code(), "cat")?;
                sum
            }
        };
        if sum != self.sum {
            self.discard(folder);
            bail!("what arrived is not what was sent: its checksum is another");
        }
        Ok(())
    }

    /// Gives it its name, in the place of what had it.
    fn place(&self, folder: &Folder<'_>) -> Result<()> {
        let name = quoted(&format!("./{}", self.name));
        // First onto the storage: a name is a promise, also after a power cut.
        let script = format!(
            "{{ sync || :; }} 2> /dev/null; mv -f {} {name}",
            self.partial
        );
        let moved = folder.ask(&script);
        moved.with_context(|| self.unchanged(folder)).map(drop)
    }

    /// Removes what was begun. The error that led here is the one to tell.
    fn discard(&self, folder: &Folder<'_>) {
        let _ = folder.ask(&format!("rm -f {}", self.partial));
    }
}

/// Length and SHA-256 of what comes.
fn hash(from: &mut impl Read) -> io::Result<(u64, String)> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let len = from.read(&mut piece)?;
        if len == 0 {
            break;
        }
        hash.update(&piece[..len]);
        bytes += len as u64;
    }
    let sum = hash.finalize();
    Ok((
        bytes,
        sum.iter().map(|byte| format!("{byte:02x}")).collect(),
    ))
}

/// Free bytes by `df -k`: the number before the percentage. A long device has a line of its own.
fn free_bytes(table: &str) -> Option<u64> {
    let words: Vec<&str> = table
        .lines()
        .skip(1)
        .flat_map(str::split_whitespace)
        .collect();
    let percent = words.iter().position(|word| {
        let digits = word.strip_suffix('%');
        digits.is_some_and(|digits| digits.parse::<u32>().is_ok())
    })?;
    let kib: u64 = words.get(percent.checked_sub(1)?)?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::free_bytes;

    #[test]
    fn free_room_is_read_from_a_table() {
        let busybox = "Filesystem           1024-blocks    Used Available Capacity Mounted on\n\
            /dev/mmcblk0p2          7397296   1500   5000  24% /\n";
        assert_eq!(free_bytes(busybox), Some(5000 * 1024));
        let wrapped = "Filesystem 1K-blocks Used Available Use% Mounted on\n\
            /dev/disk/by-uuid/0b1c2d3e-with-a-long-name\n   100  40  60  40% /mnt/a 5% b\n";
        assert_eq!(free_bytes(wrapped), Some(60 * 1024));
        assert_eq!(free_bytes(""), None);
        assert_eq!(free_bytes("Filesystem\ntmpfs - - - - /tmp\n"), None);
    }
}
