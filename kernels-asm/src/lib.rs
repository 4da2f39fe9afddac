//! Kernels over packed GGUF weights, and the one list of them.
//!
//! Every kernel of one operation gives the same bits: the integer part is exact, and the float
//! part follows one order of operations (`docs/numerics.md`). So the choice of a kernel is a
//! question of speed alone, and `tests/kernelcheck` compares with `==`.
//!
//! - [`format`]: the weight formats, their GGUF blocks and their packed records, to the byte
//! - [`pack`]: GGUF rows to packed records, and one row of those back to floats
//! - [`half`], [`fused`]: binary16 and the fused multiply-add, in software
//! - [`activation`]: the records that a GEMV reads, int8 or floats
//! - [`features`]: what a CPU has, and the instruction-set tiers built on it
//! - [`registry`]: the one list of kernels, and the choice among them
//! - [`mod@reference`]: each operation in plain Rust, written to be read
//! - [`vector`]: the float operations, written once over an eight-lane vector
//! - `x86_64`, `aarch64`: the fast tiers
//! - [`samples`]: inputs to check kernels with
//!
//! This crate knows blocks and registers. It does not know models, files or threads, and it
//! allocates nothing.
#![no_std]

#[cfg(target_arch = "aarch64")]
pub mod aarch64;
pub mod activation;
mod dispatch;
pub mod features;
pub mod format;
pub mod fused;
pub mod half;
pub mod pack;
pub mod reference;
pub mod registry;
pub mod samples;
pub mod vector;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;
