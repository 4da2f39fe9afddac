//! Cycles that a token takes on a Cortex-A55, by the model of its pipeline: an estimate, and no
//! figure of a board.
//!
//! Weights take the cycles that `cargo xtask cycles` gives their formats' kernels, everything in
//! the first-level cache. All other instructions are counted, and taken to run at [`REST_IPC`].
//! What waiting for the memory adds is not in it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use cycles::gate;
use kernels_asm::format::WeightFormat;

use super::counter::{Counts, TUNED};
use crate::log::figure;
use crate::{board, build, command, workspace};

/// Instructions a cycle outside the kernels: norms, attention, quantisation, the choice of a token.
/// The core issues two at best; loops of dependent vector operations, in order, less than one.
pub const REST_IPC: f64 = 0.8;

/// What a token takes.
pub struct Modelled {
    /// Cycles of the matrices.
    pub weights: f64,
    /// Instructions of all else.
    pub rest: u64,
    /// Bytes of packed weights that it reads.
    pub bytes: u64,
}

impl Modelled {
    /// For a model whose tokens were counted.
    pub fn of(model: &Path, counts: &Counts) -> Result<Self> {
        let budgets = gate::budgets(&workspace::root().join("kernels-asm/src/aarch64"))?;
        let host = build::board(&board::named(board::HOST)?)?;
        let mut plan = Command::new(host);
        plan.arg("plan").arg(model).args(["--format", "json"]);
        let plan = String::from_utf8(command::read(&mut plan)?)?;
        let (mut weights, mut all) = (0.0, 0);
        for format in WeightFormat::ALL {
            let name = format.name().to_lowercase();
            let Some(bytes) =
                figure(&plan, &format!("weights_{name}")).filter(|&bytes| bytes > 0.0)
            else {
                continue;
            };
            let kernel = format!("gemv_{name}{TUNED}");
            let budget = budgets.iter().find(|budget| budget.kernel == kernel);
            let budget = budget.with_context(|| format!("there is no {kernel}"))?;
            let per_weight = gate::per_weight(&kernel, budget.cycles as f64)
                .with_context(|| format!("{kernel} has no cycles a weight"))?;
            let records = bytes / format.record_bytes() as f64;
            weights += records * 8.0 * format.block_len() as f64 * per_weight;
            all += bytes as u64;
        }
        let kernels = counts.by_function.iter();
        let kernels = kernels.filter(|(name, _)| name.starts_with("gemv_"));
        let kernels: u64 = kernels.map(|(_, count)| count).sum();
        Ok(Modelled {
            weights,
            rest: counts.total - kernels,
            bytes: all,
        })
    }

    /// Cycles of a token.
    pub fn cycles(&self) -> f64 {
        self.weights + self.rest as f64 / REST_IPC
    }
}
