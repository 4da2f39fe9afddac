//! The commands, a file each.

pub mod bench;
pub mod inspect;
pub mod kernels;
pub mod pack;
pub mod perplexity;
pub mod plan;
pub mod run;
pub mod selftest;
pub mod tokenize;

use crate::board::Board;
use crate::error::Error;
use crate::output::Output;

/// `--version`.
///
/// # Errors
/// stdout is closed.
pub fn version(board: &Board) -> Result<(), Error> {
    let mut out = Output::default();
    out.print(format_args!(
        "rushlight {} ({})\n",
        env!("CARGO_PKG_VERSION"),
        board.name
    ))?;
    out.flush()
}
