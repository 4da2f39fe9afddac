//! The programs that are measured, each asked for one repetition of one test at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::log::figure;
use crate::{command, exit, peer};

/// One phase of a run, measured alone.
pub struct Test {
    /// As both benchmarks name it.
    pub name: &'static str,
    /// The flags that ask for it, the same of both.
    flags: &'static [&'static str],
}

/// Decoding and prefill, each with an empty context before. A prefill is long enough to need no
/// warming up, which would be another one.
pub static TESTS: [Test; 2] = [
    Test {
        name: "tg128",
        flags: &["-p", "0", "-n", "128"],
    },
    Test {
        name: "pp512",
        flags: &["-p", "512", "-n", "0", "--no-warmup"],
    },
];

/// Decoding where a context of 2,048 is nearly full.
pub static DEEP: Test = Test {
    name: "tg32 @ d1984",
    flags: &["-p", "0", "-n", "32", "-d", "1984"],
};

/// A program to measure.
pub struct Contestant {
    /// What the report calls it.
    pub name: String,
    program: PathBuf,
    kind: Kind,
    /// What a build of rushlight is told to keep to. The peer was built for it.
    isa: Option<&'static str>,
}

enum Kind {
    /// This build or another one.
    Rushlight,
    /// The benchmark of llama.cpp, with weights in another layout than their file's or not.
    LlamaBench { repack: &'static str },
}

impl Contestant {
    /// This build.
    pub fn ours(program: PathBuf, isa: Option<&'static str>) -> Self {
        Contestant {
            name: "this build".to_owned(),
            program,
            kind: Kind::Rushlight,
            isa,
        }
    }

    /// What `--against NAME` means: the peer by its name, as it is and without repacking, which
    /// may be faster; or else a build of rushlight. All keep to `isa`, if that is given.
    pub fn named(name: &str, isa: Option<&'static str>) -> Result<Vec<Self>> {
        if name == peer::NAME {
            let program = match isa {
                Some(_) => peer::ensure_avx2(peer::BENCH)?,
                None => peer::ensure(peer::BENCH)?,
            };
            let peer = |name: &str, repack| Contestant {
                name: name.to_owned(),
                program: program.clone(),
                kind: Kind::LlamaBench { repack },
                isa,
            };
            return Ok(vec![
                peer(peer::NAME, "1"),
                peer("llama.cpp --repack 0", "0"),
            ]);
        }
        match fs::canonicalize(name) {
            Ok(binary) => Ok(vec![Contestant {
                name: name.rsplit('/').next().unwrap_or(name).to_owned(),
                ..Contestant::ours(binary, isa)
            }]),
            Err(error) => exit::usage(
                &format!("cannot compare with `{name}`: {error}"),
                &format!(
                    "--against takes {} or the path of a build of rushlight",
                    peer::NAME
                ),
            ),
        }
    }

    /// Runs `test` once and returns its tokens per second.
    pub fn tok_s(&self, test: &Test, model: &Path, threads: usize) -> Result<f64> {
        let program = &self.program;
        let mut command = Command::new(program);
        let field = match self.kind {
            Kind::Rushlight => {
                command.args(["bench", "-q", "--format", "jsonl"]);
                command.args(self.isa.map(|isa| ["--isa", isa]).into_iter().flatten());
                "tok_s"
            }
            Kind::LlamaBench { repack } => {
                command.args(["-o", "jsonl", "--repack", repack]);
                "avg_ts"
            }
        };
        command.arg("-m").arg(model).args(["-r", "1"]);
        command.args(["-t", &threads.to_string()]).args(test.flags);
        let rows = String::from_utf8(command::read(&mut command)?)?;
        figure(&rows, field).with_context(|| format!("{} tells no {field}", program.display()))
    }
}
