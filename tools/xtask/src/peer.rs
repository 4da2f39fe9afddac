//! The peer: llama.cpp's own programs, built once for this machine.

mod arm64;
mod avx2;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::fetch::Fetch;
use crate::{apt, command, llama_cpp, workspace};

pub use self::arm64::ensure as ensure_arm64;
pub use self::avx2::ensure as ensure_avx2;

/// What `--against` calls the peer.
pub const NAME: &str = "llama.cpp";
/// Measures speed.
pub const BENCH: &str = "llama-bench";
/// Completes a prompt and ends: a run like one of ours.
pub const COMPLETION: &str = "llama-completion";
/// Scores a text.
pub const PERPLEXITY: &str = "llama-perplexity";
/// Ours, over its library: continues a text greedily and writes its logits.
pub const GREEDY: &str = "llama-greedy";
/// Ours, over ggml: single products, for `tools/gemv`.
pub const GEMV: &str = "ggml-gemv";
/// All that is built. What takes minutes is the library below them, so they are built together.
const PROGRAMS: [&str; 5] = [BENCH, COMPLETION, PERPLEXITY, GREEDY, GEMV];

/// What is put beside the sources: a project that has llama.cpp as a part, the programs that it
/// adds, and what is included into every file, since no compiler option is as narrow.
const FILES: [(&str, &str); 4] = [
    ("CMakeLists.txt", include_str!("peer/CMakeLists.txt")),
    ("greedy.cpp", include_str!("peer/greedy.cpp")),
    ("gemv.cpp", include_str!("peer/gemv.cpp")),
    ("tiles.h", include_str!("peer/tiles.h")),
];

/// How the peer is built: for this very CPU and with all its kernels, each program as one file,
/// and without the parts that these do not call.
const OPTIONS: [&str; 11] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_COMMON=ON",
    "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_APP=OFF",
];

/// The path of the peer's program called `name`, which is built first where it is missing.
pub fn ensure(name: &str) -> Result<PathBuf> {
    let folder = workspace::cache().join("peer");
    built(&folder, &place(&folder, name), |work| {
        build(work, &missing(&folder))
    })
}

/// The path of what is at `path` once `build` was there, in a folder of its own.
fn built(folder: &Path, path: &Path, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    fs::create_dir_all(folder)?;
    // A lock of its own: the build takes minutes, in which others may want to download.
    let lock = File::create(folder.join("lock"))?;
    lock.lock().context("cannot lock the peer's folder")?;
    // Another process may have built it while this one waited.
    if !path.is_file() {
        let work = folder.join("partial");
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir(&work)?;
        build(&work).context("cannot build llama.cpp to compare with")?;
        fs::remove_dir_all(&work)?;
    }
    Ok(path.to_owned())
}

/// Where a program lies. The version is in the name, so that a new pin is built anew; and in those
/// of our own programs so is what their source is.
fn place(folder: &Path, program: &str) -> PathBuf {
    let mut name = format!("{program}-{}", llama_cpp::VERSION);
    let own = match program {
        GREEDY => Some(include_str!("peer/greedy.cpp")),
        GEMV => Some(include_str!("peer/gemv.cpp")),
        _ => None,
    };
    if let Some(source) = own.map(Sha256::digest) {
        name.push('-');
        name.extend(source.iter().take(4).map(|byte| format!("{byte:02x}")));
    }
    folder.join(name)
}

/// The programs that are not there yet, and their places.
fn missing(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    PROGRAMS
        .into_iter()
        .map(|program| (program, place(folder, program)))
        .filter(|(_, place)| !place.is_file())
        .collect()
}

/// Fetches the sources and builds the programs inside the folder `work`, then moves each to its
/// place.
fn build(work: &Path, programs: &[(&str, PathBuf)]) -> Result<()> {
    if !command::exists("g++") {
        apt::install("g++", "building llama.cpp")?;
    }
    let tiles = work.join("tiles.h");
    let flags = format!("-DCMAKE_CXX_FLAGS=-include '{}'", tiles.display());
    build_with(&Fetch::begin()?, work, &[flags], programs)
}

/// The same with options of CMake's besides, of which the last counts.
fn build_with(
    fetch: &Fetch,
    work: &Path,
    options: &[String],
    programs: &[(&str, PathBuf)],
) -> Result<()> {
    for program in ["cmake", "make"] {
        if !command::exists(program) {
            apt::install(program, "building llama.cpp")?;
        }
    }
    let (sources, output) = (work.join("sources"), work.join("build"));
    llama_cpp::each_source(fetch, |path, source| {
        let file = sources.join(path);
        fs::create_dir_all(file.parent().context("a file lies in a folder")?)?;
        source.unpack(file)?;
        Ok(())
    })?;

    eprintln!("peer: building llama.cpp, once; this takes minutes");
    for (name, text) in FILES {
        fs::write(work.join(name), text)?;
    }
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(work).arg("-B").arg(&output);
    configure.args(OPTIONS).args(options);
    command::run_quietly(&mut configure)?;
    let jobs = thread::available_parallelism()?.to_string();
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&output);
    build.args(["--parallel", &jobs, "--target"]);
    build.args(programs.iter().map(|(program, _)| program));
    command::run_quietly(&mut build)?;
    for (program, place) in programs {
        fs::rename(output.join("bin").join(program), place)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_is_there_is_not_built_again() {
        let folder = std::env::temp_dir().join(format!("xtask-peer-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(missing(&folder).len(), PROGRAMS.len());
        for program in [BENCH, PERPLEXITY, GREEDY] {
            fs::write(place(&folder, program), "").unwrap();
        }
        let others = [COMPLETION, GEMV].map(|program| (program, place(&folder, program)));
        assert_eq!(missing(&folder), others);
        fs::remove_dir_all(&folder).unwrap();
    }
}
