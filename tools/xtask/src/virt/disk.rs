//! The block device of the machine, which holds the model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use crate::{command, workspace};

/// What the device holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disk {
    /// The bytes of a GGUF file: weights are streamed and packed.
    Gguf,
    /// A packed image: weights are mapped.
    Packed,
    /// A file system with the GGUF file on it.
    Ext4,
}

/// The file's name on the file system.
const FILE: &str = "model.gguf";

impl FromStr for Disk {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "gguf" => Disk::Gguf,
            "packed" => Disk::Packed,
            "ext4" => Disk::Ext4,
            _ => bail!("no such kind of disk"),
        })
    }
}

impl Disk {
    /// As `rushlight.model` has it.
    pub fn in_the_machine(self) -> String {
        const DEVICE: &str = "/dev/nvme0n1";
        match self {
            Disk::Gguf | Disk::Packed => DEVICE.into(),
            Disk::Ext4 => format!("{DEVICE}:/{FILE}"),
        }
    }

    /// The device's content for a model that is not packed.
    pub fn of(self, model: &Path) -> Result<PathBuf> {
        match self {
            Disk::Gguf => Ok(model.to_owned()),
            Disk::Packed => bail!("the packed model is a part of the image"),
            Disk::Ext4 => file_system(model),
        }
    }
}

/// A file system with a model on it, made once.
fn file_system(model: &Path) -> Result<PathBuf> {
    let name = model.with_extension("ext4");
    let name = name.file_name().context("a model is a file")?;
    let path = workspace::target().join("virt").join(name);
    if is_newer(&path, model)? {
        return Ok(path);
    }
    let partial = path.with_extension("partial");
    fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
    make_file_system(model, &partial)?;
    fs::rename(&partial, &path)?;
    Ok(path)
}

fn is_newer(made: &Path, from: &Path) -> Result<bool> {
    let Ok(made) = fs::metadata(made) else {
        return Ok(false);
    };
    Ok(made.modified()? >= fs::metadata(from)?.modified()?)
}

/// Writes an ext4 file system with the model as its one file.
fn make_file_system(model: &Path, image: &Path) -> Result<()> {
    let mke2fs = Path::new("/sbin/mke2fs"); // not on the path of everybody
    ensure!(mke2fs.exists(), "there is no mke2fs (package e2fsprogs)");
    let folder = image.with_extension("folder");
    fs::create_dir_all(&folder)?;
    let file = folder.join(FILE);
    fs::copy(model, &file)?;
    let kib = fs::metadata(model)?.len() / 1024;
    let mut make = Command::new(mke2fs);
    make.args(["-q", "-F", "-t", "ext4", "-d"]).arg(&folder);
    make.arg(image).arg(format!("{}k", kib + kib / 16 + 8192));
    let made = command::run_quietly(&mut make);
    fs::remove_dir_all(&folder)?;
    made
}
