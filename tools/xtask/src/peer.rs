//! The peer: llama.cpp's own benchmark, built once for this machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use crate::fetch::Fetch;
use crate::{apt, command, llama_cpp, workspace};

const PROGRAM: &str = "llama-bench";

/// How the peer is built: for this very CPU and with all its kernels, as one file, and without
/// the parts that a benchmark does not call.
const OPTIONS: [&str; 9] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_APP=OFF",
];

/// The path of the peer's benchmark, which is built first where it is missing.
pub fn ensure() -> Result<PathBuf> {
    let folder = workspace::cache().join("peer");
    // The version is in the name, so that a new pin is built anew.
    let path = folder.join(format!("{PROGRAM}-{}", llama_cpp::VERSION));
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&folder)?;
    // A lock of its own: the build takes minutes, in which others may want to download.
    let lock = File::create(folder.join("lock"))?;
    lock.lock().context("cannot lock the peer's folder")?;
    // Another process may have built it while this one waited.
    if !path.is_file() {
        let work = folder.join("partial");
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        build(&work, &path).context("cannot build llama.cpp to compare with")?;
        fs::remove_dir_all(&work)?;
    }
    Ok(path)
}

/// Fetches the sources and builds them inside the folder `work`, then moves the program `to` its
/// place.
fn build(work: &Path, to: &Path) -> Result<()> {
    for (program, package) in [("cmake", "cmake"), ("make", "make"), ("g++", "g++")] {
        if !command::exists(program) {
            apt::install(package, "building llama.cpp")?;
        }
    }
    let (sources, output) = (work.join("sources"), work.join("build"));
    llama_cpp::each_source(&Fetch::begin()?, |path, source| {
        let file = sources.join(path);
        fs::create_dir_all(file.parent().context("a file lies in a folder")?)?;
        source.unpack(file)?;
        Ok(())
    })?;

    eprintln!("peer: building llama.cpp, once; this takes minutes");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&sources).arg("-B").arg(&output);
    configure.args(OPTIONS);
    // Included into every file: no compiler option is as narrow.
    let tiles = work.join("tiles.h");
    fs::write(&tiles, include_str!("peer/tiles.h"))?;
    configure.arg(format!("-DCMAKE_CXX_FLAGS=-include '{}'", tiles.display()));
    command::run_quietly(&mut configure)?;
    let jobs = thread::available_parallelism()?.to_string();
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&output);
    build.args(["--target", PROGRAM, "--parallel", &jobs]);
    command::run_quietly(&mut build)?;
    fs::rename(output.join("bin").join(PROGRAM), to)?;
    Ok(())
}
