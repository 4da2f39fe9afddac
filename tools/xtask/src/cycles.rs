//! `cargo xtask cycles`: the assembly kernels by a model of the Cortex-A55, held to their budgets.

use std::fs;

use anyhow::{Result, bail};
use cycles::gate::{self, Measured};
use cycles::image;

use crate::{board, build, workspace};

/// The board whose program has the kernels.
const BOARD: &str = "generic-arm64";

/// Builds the board and prints a line for each kernel that the core can run, with its cycles for a
/// weight and each vector; fails if one does not keep its budget or its bounds.
pub fn run() -> Result<()> {
    let board = board::named(BOARD)?;
    build::board(&board)?;
    let functions = image::functions(&fs::read(board.linked())?)?;
    let budgets = gate::budgets(&workspace::root().join("kernels-asm/src/aarch64"))?;
    println!(
        "{:40} {:>7} {:>7} {:>9} {:>8}",
        "kernel", "budget", "cycles", "forwarded", "a weight"
    );
    let mut failures = Vec::new();
    for budget in &budgets {
        let hot_loop = gate::function(&functions, &budget.kernel)?.hot_loop()?;
        let measured = Measured::of(&hot_loop);
        let share = gate::per_weight(&budget.kernel, measured.cycles);
        println!(
            "{:40} {:7} {:7.1} {:9.1} {:>8}",
            budget.kernel,
            budget.cycles,
            measured.cycles,
            measured.forwarded,
            share.map_or("-".to_owned(), |share| format!("{share:.4}"))
        );
        failures.extend(gate::failures(budget, &measured));
    }
    if !failures.is_empty() {
        bail!(
            "kernels do not keep their budgets:\n{}",
            failures.join("\n")
        );
    }
    Ok(())
}
