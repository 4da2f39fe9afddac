//! `cargo xtask image BOARD [--model M]`: what a board needs to boot Rushlight as its only program.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};

use crate::flags::Flags;
use crate::virt::{self, disk};
use crate::{board, build, initramfs, workspace};

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
    let program = fs::read(build::board(&board)?)?;
    let folder = workspace::target().join("image").join(&board.name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?; // nothing of another model stays
    }
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(INITRAMFS), initramfs::of(&program)?)?;
    let mut files = vec![INITRAMFS];
    if let Some(model) = model {
        disk::pack(&virt::named_or_file(model)?, &folder.join(MODEL))?;
        files.push(MODEL);
    }
    fs::write(folder.join(README), readme(&board.name, model))?;
    files.push(README);
    fs::write(folder.join(SUMS), sums(&folder, &files)?)?;
    println!("{}", folder.display());
    Ok(())
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

fn readme(board: &str, model: Option<&str>) -> String {
    let image = match model {
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
         docs/virt.md of the source has all words of that line.\n"
    )
}
