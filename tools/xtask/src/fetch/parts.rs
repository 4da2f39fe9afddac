//! A file that comes in parts, each in an archive of its own.
//!
//! A part that is whole stays when the process ends, so a download of a gigabyte goes on where it
//! stopped. Beside the file lies a list of the parts' lengths, a line each: what is in the file
//! beyond their sum is a part that was interrupted, and is cut off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::{Checked, Pin};

/// The parts so far.
pub struct Parts {
    whole: Checked,
    /// How many parts are there.
    pub count: usize,
    lengths: PathBuf,
}

impl Parts {
    /// Goes on with what is in `folder`, or starts.
    pub fn open(folder: &Path, pin: &'static Pin) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(pin.sha256);
        let lengths = path.with_extension("lengths");
        let parts = read_lengths(&lengths)?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)?;
        let mut bytes = parts.iter().sum();
        let mut count = parts.len();
        if bytes > file.metadata()?.len().min(pin.bytes) {
            // The list and the file do not belong together.
            (bytes, count) = (0, 0);
            fs::write(&lengths, "")?;
        }
        file.set_len(bytes)?;
        let whole = Checked {
            pin,
            hash: hash_to_end(&mut file)?,
            partial: path,
            file,
            left: pin.bytes - bytes,
        };
        Ok(Parts {
            whole,
            count,
            lengths,
        })
    }

    /// Appends the next part.
    pub fn append(&mut self, part: &mut dyn Read) -> Result<()> {
        let bytes = io::copy(part, &mut self.whole)?;
        self.whole.file.sync_all()?;
        let mut list = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.lengths)?;
        writeln!(list, "{bytes}")?;
        self.count += 1;
        Ok(())
    }

    /// Compares length and checksum, then moves the file to its place. What is wrong is removed:
    /// going on with it would help nobody.
    pub fn finish(self, to: &Path) -> Result<()> {
        let Parts { whole, lengths, .. } = self;
        let partial = whole.partial.clone();
        let finished = whole.finish(to);
        fs::remove_file(lengths)?;
        if finished.is_err() {
            fs::remove_file(partial)?;
        }
        finished
    }
}

/// Hashes a file, and leaves it at its end.
fn hash_to_end(file: &mut File) -> Result<Sha256> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash),
            len => hash.update(&buffer[..len]),
        }
    }
}

fn read_lengths(path: &Path) -> Result<Vec<u64>> {
    if !path.exists() {
        File::create(path)?;
    }
    let lines = fs::read_to_string(path)?;
    // A line that was interrupted counts a part less.
    let whole = &lines[..lines.rfind('\n').map_or(0, |end| end + 1)];
    let lengths = whole.lines().map(str::parse);
    let lengths = lengths.collect::<Result<_, _>>();
    lengths.with_context(|| format!("{} is not what was written there", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `abc`, from FIPS 180-2.
    static ABC: Pin = Pin {
        bytes: 3,
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    };

    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn download_goes_on_after_the_last_whole_part() {
        let folder = folder("resumed");
        let mut parts = Parts::open(&folder, &ABC).unwrap();
        parts.append(&mut &b"ab"[..]).unwrap();
        // Interrupted in the second part: some of it is in the file, and in no list.
        parts.whole.write_all(b"x").unwrap();
        drop(parts);
        let mut parts = Parts::open(&folder, &ABC).unwrap();
        assert_eq!(parts.count, 1);
        parts.append(&mut &b"c"[..]).unwrap();
        parts.finish(&folder.join("abc")).unwrap();
        assert_eq!(fs::read(folder.join("abc")).unwrap(), b"abc");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn wrong_parts_are_forgotten() {
        let folder = folder("wrong");
        let mut parts = Parts::open(&folder, &ABC).unwrap();
        parts.append(&mut &b"abd"[..]).unwrap();
        assert!(parts.finish(&folder.join("abc")).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(Parts::open(&folder, &ABC).unwrap().count, 0);
    }
}
