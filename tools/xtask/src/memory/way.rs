//! The ways to run a model, each measured once.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::log::figure;
use crate::{command, peer, workspace};

/// What this project's program is called.
pub const RUSHLIGHT: &str = "rushlight";

/// How the weights get to where they are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Read and packed once.
    Streamed,
    /// Packed before, mapped from that file.
    MappedImage,
    /// Mapped from the model's file as they are.
    Mapped,
    /// Mapped, and most of them copied into another layout: llama.cpp's default.
    Repacked,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Mode::Streamed => "streamed and packed",
            Mode::MappedImage => "mapped from a packed image",
            Mode::Mapped => "mapped, not repacked",
            Mode::Repacked => "mapped and repacked (its default)",
        })
    }
}

/// What all runs have in common, beside the model.
#[derive(Clone, Copy)]
pub struct Settings {
    pub context: usize,
    /// Whether the prompt fills the context.
    pub fill: bool,
    pub threads: usize,
    /// The instruction set that this project's program keeps to, if it is to.
    pub isa: Option<&'static str>,
}

/// A program, and how it takes the weights.
pub struct Way {
    pub program: &'static str,
    pub mode: Mode,
    binary: PathBuf,
    file: PathBuf,
}

/// What a run took.
pub struct Measured {
    /// The peak of the resident memory.
    pub rss_kib: u64,
    /// The time to load, as the program reports it.
    pub load_ms: f64,
    /// The time from then to the first token, likewise.
    pub first_ms: f64,
    /// What the program planned for, if it plans.
    pub plan_kib: Option<f64>,
}

/// The files and programs of a measurement.
pub struct Files<'a> {
    /// This build of rushlight.
    pub ours: &'a Path,
    /// The peer, if it is measured.
    pub peer: Option<&'a Path>,
    /// The model.
    pub model: &'a Path,
    /// Its packed image.
    pub image: &'a Path,
}

/// Every way there is with these: two of ours, and two of the peer's if it is there.
pub fn all(files: &Files) -> Vec<Way> {
    let way = |program, mode, binary: &Path, file: &Path| Way {
        program,
        mode,
        binary: binary.to_path_buf(),
        file: file.to_path_buf(),
    };
    let mut ways = vec![
        way(RUSHLIGHT, Mode::Streamed, files.ours, files.model),
        way(RUSHLIGHT, Mode::MappedImage, files.ours, files.image),
    ];
    for mode in [Mode::Mapped, Mode::Repacked] {
        ways.extend(
            files
                .peer
                .map(|peer| way(peer::NAME, mode, peer, files.model)),
        );
    }
    ways
}

/// Packs the model, and returns where.
pub fn pack(ours: &Path, model: &Path) -> Result<PathBuf> {
    let image = output()?.join("model.rush");
    let mut pack = Command::new(ours);
    command::run_quietly(pack.arg("pack").arg(model).arg(&image))?;
    Ok(image)
}

/// Where files of a measurement go.
fn output() -> Result<PathBuf> {
    let folder = workspace::target().join("memory");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The prompt, a token in every vocabulary, as often as asked for.
const WORD: &str = " the";
/// How often in a short prompt.
const SHORT: usize = 8;
/// What a long prompt leaves of the context: for the answer, and what a tokenizer adds.
pub const ROOM: usize = 16;
/// The least context that all of this fits into.
pub const CONTEXT_MIN: usize = 64;
/// A short answer, the same for everybody.
const RUN: &[&str] = &[
    "-n",
    "8",
    "--ignore-eos",
    "--temp",
    "0",
    "-ctk",
    "f16",
    "-ctv",
    "f16",
];
const OF_RUSHLIGHT: &[&str] = &["--raw", "--log-format", "json"];
/// Plain completion, with the file mapped.
const OF_LLAMA_CPP: &[&str] = &["-no-cnv", "-lm", "mmap"];

impl Way {
    /// Who and how.
    pub fn names(&self) -> (&'static str, Mode) {
        (self.program, self.mode)
    }

    /// Runs the model once.
    pub fn measure(&self, settings: &Settings) -> Result<Measured> {
        let told = output()?.join("time");
        let mut time = Command::new("time");
        time.arg("-v").arg("-o").arg(&told);
        time.arg(&self.binary).arg("-m").arg(&self.file).args(RUN);
        time.arg("-f").arg(prompt(settings)?);
        time.args(["-c", &settings.context.to_string()]);
        time.args(["-t", &settings.threads.to_string()]);
        match self.mode {
            Mode::Streamed | Mode::MappedImage => {
                time.args(settings.isa.map(|isa| ["--isa", isa]).into_iter().flatten());
                time.args(OF_RUSHLIGHT)
            }
            Mode::Mapped => time.args(OF_LLAMA_CPP).arg("--no-repack"),
            Mode::Repacked => time.args(OF_LLAMA_CPP).arg("--repack"),
        };
        // Ours drops the file from the page cache behind it: the next would have to read it anew.
        io::copy(&mut File::open(&self.file)?, &mut io::sink())?;
        let log = command::read_log(&mut time)?;
        let log = String::from_utf8_lossy(&log);
        let load_ms = figure(&log, "ms").or_else(|| number_after(&log, "load time ="));
        let first_ms = figure(&log, "ttft_ms").or_else(|| number_after(&log, "prompt eval time ="));
        let told = fs::read_to_string(told)?;
        let rss_kib = number_after(&told, "Maximum resident set size (kbytes):");
        Ok(Measured {
            rss_kib: rss_kib.context("`time -v` tells no peak")? as u64,
            load_ms: load_ms.with_context(|| format!("{} tells no load time", self.program))?,
            first_ms: first_ms
                .with_context(|| format!("{} tells no prefill time", self.program))?,
            plan_kib: figure(&log, "plan_kb"),
        })
    }
}

/// Writes the prompt.
fn prompt(settings: &Settings) -> Result<PathBuf> {
    let words = if settings.fill {
        settings.context - ROOM
    } else {
        SHORT
    };
    let file = output()?.join("prompt");
    fs::write(&file, WORD.repeat(words))?;
    Ok(file)
}

/// The number behind the first `label`.
fn number_after(text: &str, label: &str) -> Option<f64> {
    let (_, rest) = text.split_once(label)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_read_behind_its_label() {
        let told = "\tCommand: \"x\"\n\tMaximum resident set size (kbytes): 717896\n\tSwaps: 0\n";
        let label = "Maximum resident set size (kbytes):";
        assert_eq!(number_after(told, label), Some(717_896.0));
        let log = "0.1 I perf:        load time =    2586.68 ms\n";
        assert_eq!(number_after(log, "load time ="), Some(2586.68));
        assert_eq!(number_after("", label), None);
    }

    #[test]
    fn ways_of_the_peer_need_the_peer() {
        let modes = |peer| -> Vec<Mode> {
            let [ours, model, image] = ["ours", "model", "image"].map(Path::new);
            let files = Files {
                ours,
                peer,
                model,
                image,
            };
            all(&files).into_iter().map(|way| way.mode).collect()
        };
        let ours = [Mode::Streamed, Mode::MappedImage];
        assert_eq!(modes(None), ours);
        let theirs = [Mode::Mapped, Mode::Repacked];
        assert_eq!(modes(Some(Path::new("peer"))), [ours, theirs].concat());
    }
}
