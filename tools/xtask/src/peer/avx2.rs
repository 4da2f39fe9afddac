//! The peer for x86-64 with AVX2, FMA and F16C: what the small x86 boards have, and less than a
//! server has for whose very CPU it is built otherwise.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::{BENCH, COMPLETION, build_with, built};
use crate::fetch::Fetch;
use crate::{llama_cpp, workspace};

/// Beside the options for this machine, of which they take back the first.
const OPTIONS: [&str; 6] = [
    "-DGGML_NATIVE=OFF",
    "-DGGML_AVX=ON",
    "-DGGML_AVX2=ON",
    "-DGGML_FMA=ON",
    "-DGGML_F16C=ON",
    "-DGGML_BMI2=ON",
];

/// The path of its program called `name`, of the two that are built.
pub fn ensure(name: &str) -> Result<PathBuf> {
    ensure!(ARCH == "x86_64", "AVX2 is not for this machine");
    let folder = workspace::cache().join("peer");
    let place = |name| folder.join(format!("{name}-avx2-{}", llama_cpp::VERSION));
    built(&folder, &place(name), |work| {
        let programs = [BENCH, COMPLETION].map(|name| (name, place(name)));
        build(work, &programs)
    })
}

fn build(work: &Path, programs: &[(&str, PathBuf)]) -> Result<()> {
    let options = OPTIONS.map(str::to_owned);
    build_with(&Fetch::begin()?, work, &options, programs)
}
