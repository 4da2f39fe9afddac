//! The peer for a 64-bit Arm core with dot products, to be emulated: its instructions are counted.
//!
//! Clang compiles it, whose code for its kernels takes fewer instructions than that of GCC: as part
//! of Zig, which brings a C library and comes as one Python package.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::{BENCH, build_with, built};
use crate::fetch::{self, Archive, Fetch};
use crate::{command, llama_cpp, workspace};

const PACKAGE: &str = "ziglang";
const VERSION: &str = "0.14.1";
/// Of the package for x86-64, the one machine that this was made for.
const SHA256: &str = "6eb9d4d759b292c83810dbee2e9e8e3fbfbf01d864e6e9811bae711fd74e1c2f";

/// The core, as Zig names it. Its features are ggml's `armv8.2-a+dotprod`.
const CORE: &str = "cortex_a55";

/// Beside the options for this machine: for another one, without its kernels for this CPU, in one
/// file and without threads of another library.
const OPTIONS: [&str; 4] = [
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF",
    "-DGGML_CCACHE=OFF",
    "-DCMAKE_EXE_LINKER_FLAGS=-static",
];

/// The path of its benchmark, which is built first where it is missing.
pub fn ensure() -> Result<PathBuf> {
    let folder = workspace::cache().join("peer");
    let path = folder.join(format!("{BENCH}-arm64-{}", llama_cpp::VERSION));
    built(&folder, &path, |work| build(work, &path))
}

fn build(work: &Path, path: &Path) -> Result<()> {
    ensure!(
        ARCH == "x86_64",
        "it is compiled on an x86-64 machine, and this is none"
    );
    let fetch = Fetch::begin()?;
    let zig = unpack_zig(&fetch, work)?;
    for tool in ["ar", "ranlib"] {
        let script = work.join(tool);
        fs::write(&script, format!("#!/bin/sh\nexec '{zig}' {tool} \"$@\"\n"))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    }
    let toolchain = work.join("arm64.cmake");
    let folder = work.display();
    let text = format!(
        "set(CMAKE_SYSTEM_NAME Linux)\n\
         set(CMAKE_SYSTEM_PROCESSOR aarch64)\n\
         set(CMAKE_C_COMPILER {zig} cc)\n\
         set(CMAKE_CXX_COMPILER {zig} c++)\n\
         set(CMAKE_C_COMPILER_TARGET aarch64-linux-musl)\n\
         set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-musl)\n\
         set(CMAKE_C_FLAGS_INIT -mcpu={CORE})\n\
         set(CMAKE_CXX_FLAGS_INIT -mcpu={CORE})\n\
         set(CMAKE_AR {folder}/ar)\n\
         set(CMAKE_RANLIB {folder}/ranlib)\n"
    );
    fs::write(&toolchain, text)?;
    let mut options = OPTIONS.map(str::to_owned).to_vec();
    options.push(format!("-DCMAKE_TOOLCHAIN_FILE={}", toolchain.display()));
    build_with(&fetch, work, &options, &[(BENCH, path.to_owned())])
}

/// Unpacks Zig, and returns its program.
fn unpack_zig(fetch: &Fetch, work: &Path) -> Result<String> {
    let wheel = fetch.archive(PACKAGE, VERSION, &Archive::Wheel)?;
    fetch::check(Sha256::new_with_prefix(fs::read(&wheel)?), SHA256)?;
    let folder = work.join("zig");
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&folder);
    command::run_quietly(&mut unzip)?;
    let zig = folder.join("ziglang/zig");
    fs::set_permissions(&zig, fs::Permissions::from_mode(0o755))?;
    let zig = zig.to_str().context("the cache has a path in UTF-8")?;
    Ok(zig.to_owned())
}
