//! `cargo xtask image BOARD [--model M]`: what a board needs to boot Rushlight as its only program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};

use crate::board::{self, Board};
use crate::flags::Flags;
use crate::{build, command, initramfs, virt, workspace};

const USAGE: &str = "usage: cargo xtask image BOARD [--model M]\n  \
    --model M  a model of `cargo xtask model`, or a file, for the image of its partition";

const INITRAMFS: &str = "initramfs.cpio.gz";
const MODEL: &str = "model.rush";
const README: &str = "README";
const SUMS: &str = "SHA256SUMS";

/// Writes the files into `target/image/BOARD`, and prints the folder.
pub fn run(board: &str, words: &[&str]) -> Result<()> {
    let mut model = None;
    let mut flags = Flags::new(words, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--model" => model = Some(flags.value()?),
            _ => return flags.unknown(),
        }
    }
    let board = board::named(board)?;
    ensure!(
        board.name != board::HOST,
        "{} is the machine that one works on: it boots by itself",
        board.name
    );
    let model = model.map(virt::named_or_file).transpose()?;
    let image = Image::write(&board, model.as_deref())?;
    println!("{}", image.folder.display());
    Ok(())
}

/// What was written.
pub struct Image {
    /// Where.
    pub folder: PathBuf,
    /// What the kernel starts with.
    pub initramfs: PathBuf,
    /// The packed model.
    pub model: Option<PathBuf>,
}

impl Image {
    /// Writes all that a board needs, into a folder that holds nothing else.
    pub fn write(board: &Board, model: Option<&Path>) -> Result<Image> {
        let program = fs::read(build::board(board)?)?;
        let folder = workspace::target().join("image").join(&board.name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?; // nothing of another model stays
        }
        fs::create_dir_all(&folder)?;
        let initramfs = folder.join(INITRAMFS);
        fs::write(&initramfs, initramfs::of(&program)?)?;
        fs::write(folder.join(README), readme(&board.name, model))?;
        let mut files = vec![INITRAMFS, README];
        let packed = folder.join(MODEL);
        if let Some(model) = model {
            pack(model, &packed)?;
            files.push(MODEL);
        }
        fs::write(folder.join(SUMS), sums(&folder, &files)?)?;
        Ok(Image {
            folder,
            initramfs,
            model: model.map(|_| packed),
        })
    }
}

/// Writes the packed image of a model. It is the same whichever machine makes it.
pub fn pack(model: &Path, image: &Path) -> Result<()> {
    let rushlight = build::board(&board::named(board::HOST)?)?;
    eprintln!("image: packing {}", model.display());
    command::run_quietly(Command::new(rushlight).arg("pack").arg(model).arg(image))
}

/// A line a file, as `sha256sum --check` takes it.
fn sums(folder: &Path, files: &[&str]) -> Result<String> {
    let mut sums = String::new();
    for file in files {
        let mut hash = Sha256::new();
        let mut reader = BufReader::with_capacity(1 << 20, File::open(folder.join(file))?);
        while let bytes @ [_, ..] = reader.fill_buf()? {
            hash.update(bytes);
            let count = bytes.len();
            reader.consume(count);
        }
        for byte in hash.finalize() {
            sums += &format!("{byte:02x}");
        }
        sums += &format!("  {file}\n");
    }
    Ok(sums)
}

fn readme(board: &str, model: Option<&Path>) -> String {
    let name = model.and_then(Path::file_name);
    let image = match name.map(OsStr::to_string_lossy) {
        Some(model) => format!(
            "{MODEL} is {model}, packed. PARTITION is where it goes, such as /dev/mmcblk0p3; all that is\n\
             there is lost:\n\n    \
             sudo dd if={MODEL} of=PARTITION bs=4M conv=fsync\n"
        ),
        None => "Write a packed image (`rushlight pack`) or a GGUF file to a partition with dd, or have it\n\
             as a file on ext4.\n"
            .to_owned(),
    };
    format!(
        "Rushlight for the board {board}\n\n\
         Check what was copied: sha256sum --check {SUMS}\n\n\
         {image}\n\
         {INITRAMFS} goes where the boot loader finds the kernel, and is its initrd. The kernel needs\n\
         built in: devtmpfs, the UART, the storage (and ext4, for a model that is a file). Its command\n\
         line, for a UART ttyS0 and a partition mmcblk0p3:\n\n    \
         console=ttyS0,115200 panic=10 rushlight.model=/dev/mmcblk0p3\n\n\
         docs/virt.md of the source has all words of that line, docs/boards.md the names of the\n\
         UART on this board.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::sums;
    use std::fs;

    /// The digest is that of FIPS 180-2, appendix B.1.
    #[test]
    fn sums_are_what_sha256sum_checks() {
        let folder = std::env::temp_dir().join(format!("image-sums-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "abc").unwrap();
        let sums = sums(&folder, &["file"]).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sums, format!("{digest}  file\n"));
    }
}
