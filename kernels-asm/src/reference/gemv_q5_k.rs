//! GEMV of Q5_K; the arithmetic is [`step_k`](super::step_k).

use super::{GemvArguments, step_k};
use crate::pack::q5_k;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
pub unsafe extern "C" fn gemv_q5_k(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    // SAFETY: the caller keeps the contract of `Gemv`, with the record sizes of this format.
    unsafe { GemvArguments::new(weights, groups, records, activations, out) }.run(step);
}

fn step(record: &[u8; q5_k::RECORD], r: usize, x: &[u8; 336], acc: f32) -> f32 {
    step_k(record, &q5_k::quants(record, r), r, x, acc)
}
