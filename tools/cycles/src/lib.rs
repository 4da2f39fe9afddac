//! What the assembly kernels cost on a Cortex-A55, by a model of its pipeline.
//!
//! Emulators show right or wrong, never fast or slow, and boards are not at hand for every change.
//! An in-order core runs a loop the same way every time, so a model of its issue rules can say what
//! a schedule costs, and notice when an edit takes it apart.
//!
//! - [`decode`]: an instruction word to what it reads, writes and occupies
//! - [`pipeline`]: the rules of the core, and the cycles of a loop by them
//! - [`image`]: functions of a linked program, and the hot loop in each
//! - [`gate`]: budgets and bounds, and whether the kernels keep them
//!
//! The model knows the core and its first-level cache, and no memory behind that. It says which of
//! two schedules is better, not how fast a board will be.

pub mod decode;
pub mod gate;
pub mod image;
pub mod pipeline;
