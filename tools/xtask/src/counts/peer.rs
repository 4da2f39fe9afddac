//! Beside llama.cpp for 64-bit Arm, and what the counts mean for a Cortex-A55.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::counter::{Counter, PLAIN, TUNED, output};
use super::modelled::{Modelled, REST_IPC};
use super::{Phase, emulator, with_image};
use crate::{command, model, peer};

/// Clock that cycles are turned into speed with.
const GHZ: f64 = 2.0;

/// Counts decoding by both, and prints the ratios and the modelled cycles.
pub fn compare() -> Result<()> {
    emulator::ensure()?;
    let (plain, tuned) = (Counter::arm64(PLAIN)?, Counter::arm64(TUNED)?);
    let program = peer::ensure_arm64()?;
    let mut modelled = Vec::new();
    println!("Instructions of a decoded token, 64-bit Arm with dot products, one thread\n");
    println!(
        "| model | llama.cpp | `--repack 0` | Rushlight, out-of-order | to the better | \
         Rushlight, Cortex-A55 | to the better |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for name in [model::DEFAULT, model::SYNTHETIC] {
        let [plain, tuned] = with_image(name, |image| {
            Ok([
                plain.count(image, Phase::Decode)?,
                tuned.count(image, Phase::Decode)?,
            ])
        })?;
        let file = model::ensure(name)?;
        let repacked = count(&program, &file, "1")?;
        let mapped = count(&program, &file, "0")?;
        let millions = |count: u64| format!("{:.1} M", count as f64 / 1e6);
        let ratio = |ours: u64| ours as f64 / repacked.min(mapped) as f64;
        println!(
            "| {name} | {} | {} | {} | {:.2}x | {} | {:.2}x |",
            millions(repacked),
            millions(mapped),
            millions(plain.total),
            ratio(plain.total),
            millions(tuned.total),
            ratio(tuned.total)
        );
        modelled.push((name, Modelled::of(&file, &tuned)?));
    }
    println!(
        "\nModelled cycles of a decoded token, one Cortex-A55, weights in its first-level cache; \
         the rest at {REST_IPC} instructions a cycle\n"
    );
    println!(
        "| model | matrices, cycles | the rest, instructions | together, cycles | tok/s at {GHZ} GHz | \
         GB/s that it needs |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, token) in modelled {
        let tok_s = GHZ * 1e9 / token.cycles();
        println!(
            "| {name} | {:.1} M | {:.1} M | {:.1} M | {tok_s:.1} | {:.1} |",
            token.weights / 1e6,
            token.rest as f64 / 1e6,
            token.cycles() / 1e6,
            token.bytes as f64 * tok_s / 1e9,
        );
    }
    Ok(())
}

/// Instructions of a token that llama.cpp decodes, with its weights in another layout or not.
fn count(program: &Path, model: &Path, repack: &str) -> Result<u64> {
    let [short, long] = Phase::Decode.lengths();
    let run = |tokens| -> Result<u64> {
        let out = output("llama-bench")?;
        let mut qemu = emulator::counting(&out);
        let mut words: Vec<OsString> = vec!["-m".into(), model.into()];
        words.extend(["-r", "1", "--no-warmup", "-t", "1", "-lm", "mmap"].map(Into::into));
        words.extend(["--repack", repack].map(Into::into));
        words.extend(Phase::Decode.flags(tokens).map(Into::into));
        command::read_log(qemu.arg(program).args(words))?;
        let blocks = emulator::blocks(&fs::read_to_string(out)?)?;
        Ok(blocks.iter().map(|(_, executed)| executed).sum())
    };
    Ok((run(long)? - run(short)?) / (long - short) as u64)
}
