//! The programs that are measured, each asked for one repetition of one test at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::log::figure;
use crate::{command, exit, peer, workspace};

/// One phase of a run, measured alone.
pub struct Test {
    /// As llama.cpp's benchmark names it.
    pub name: &'static str,
    prompt_tokens: usize,
    rushlight: &'static [&'static str],
    /// The field of rushlight's log that holds the result.
    rushlight_field: &'static str,
    llama_bench: &'static [&'static str],
}

/// All tests. The first token that rushlight generates comes from the prefill: of 129, decoding
/// makes 128.
pub static TESTS: [Test; 2] = [
    Test {
        name: "tg128",
        prompt_tokens: 1,
        rushlight: &["-n", "129", "-c", "256"],
        rushlight_field: "decode_tok_s",
        llama_bench: &["-p", "0", "-n", "128"],
    },
    Test {
        name: "pp512",
        prompt_tokens: 512,
        rushlight: &["-n", "1", "-c", "600"],
        rushlight_field: "prefill_tok_s",
        llama_bench: &["-p", "512", "-n", "0"],
    },
];

/// A program to measure.
pub enum Contestant {
    /// This build or another one.
    Rushlight(PathBuf),
    /// The benchmark of llama.cpp.
    LlamaBench(PathBuf),
}

impl Contestant {
    /// What `--against NAME` means: the peer by its name, or else a build of rushlight.
    pub fn named(name: &str) -> Result<Self> {
        if name == peer::NAME {
            return Ok(Contestant::LlamaBench(peer::ensure(peer::BENCH)?));
        }
        match fs::canonicalize(name) {
            Ok(binary) => Ok(Contestant::Rushlight(binary)),
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
        let (Contestant::Rushlight(program) | Contestant::LlamaBench(program)) = self;
        let mut command = Command::new(program);
        command.arg("-m").arg(model);
        command.args(["-t", &threads.to_string()]);
        let (lines, field) = match self {
            Contestant::Rushlight(_) => {
                command.arg("--prompt-ids").arg(prompt(test)?);
                command.args(["--ignore-eos", "--ids", "--log-format", "json"]);
                command.args(test.rushlight);
                (command::read_log(&mut command)?, test.rushlight_field)
            }
            Contestant::LlamaBench(_) => {
                command.args(["-r", "1", "-o", "jsonl"]);
                command.args(test.llama_bench);
                (command::read(&mut command)?, "avg_ts")
            }
        };
        let lines = String::from_utf8(lines)?;
        figure(&lines, field).with_context(|| format!("{} tells no {field}", program.display()))
    }
}

/// Writes the prompt of `test`: as with llama.cpp, tokens without sense, for only their number
/// counts.
fn prompt(test: &Test) -> Result<PathBuf> {
    // Spread over the ids that every vocabulary has: one token's row would stay in the cache.
    let ids = (0..test.prompt_tokens).map(|i| format!("{}\n", 1000 + i * 7919 % 20_000));
    let folder = workspace::target().join("bench");
    let file = folder.join(test.name);
    fs::create_dir_all(folder)?;
    fs::write(&file, ids.collect::<String>())?;
    Ok(file)
}
