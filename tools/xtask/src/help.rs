//! `cargo xtask help`: what there is to call.

use anyhow::Result;

use crate::{board, model};

/// Prints the list of commands.
pub fn run() -> Result<()> {
    println!("{}", text());
    Ok(())
}

/// The list of commands, with the boards and models of today.
pub fn text() -> String {
    format!(
        "\
usage: cargo xtask COMMAND

  setup          install what building and testing needs; does nothing twice
  demo           set up, build, and let the default model sum up this repository's last commits
  build [BOARD]  build a board's release binary and print its path (default: host)
  model NAME     fetch or make a model once and print its path
  virt [FLAGS]   boot Rushlight as the only program of an emulated board, and ask it
  deploy U@HOST  copy the program, and a model, onto a board through ssh, and try it there
  image BOARD    write what a board boots: an initramfs, and with `--model M` its partition's image
  log [FILE]     a log of `--log-format defmt` as lines of text, from FILE or stdin
  test           set up, build every board, check formatting and lints, run all tests
  ci             test, then demo
  cycles         time the 64-bit Arm kernels by a model of the Cortex-A55; check their budgets
  counts [FLAGS] count instructions for each token, hold them to budgets; `--against llama.cpp`
  fuzz [FLAGS]   look for input that breaks a reader of files, texts or lines; `--minutes N`
  kernelcheck .. every kernel against its reference, here and on emulated Arm cores; `--long`
  bench [FLAGS]  measure decoding and prefill; `--against llama.cpp` builds that and takes turns
  gemv [FLAGS]   time single products; `--against llama.cpp` has ggml's take turns with ours
  memory [FLAGS] measure peak memory; `--against llama.cpp` measures that too and checks the bounds
  accuracy ...   compare perplexity, logits and memory with llama.cpp's; let models answer questions
  perf-log ...   write a measured change into docs/perf-history.csv and docs/logbook.md
  yardstick ...  time our kernels beside a checkout of KleidiAI, on a 64-bit Arm machine
  help           this list

{}
{}

Downloads go to .cache/, or to the folder that RUSHLIGHT_CACHE names.",
        board::names(),
        model::names(),
    )
}
