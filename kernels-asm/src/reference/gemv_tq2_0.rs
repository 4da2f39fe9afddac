//! GEMV of TQ2_0 and TQ1_0, whose records are the same: `acc = fma(d * A, da, acc)` per record, A
//! the integer dot product.

use super::{GemvArguments, f32_at, products};
use crate::fused::mul_add;
use crate::pack::{f16, ternary};

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
pub unsafe extern "C" fn gemv_tq2_0(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    // SAFETY: the caller keeps the contract of `Gemv`, with the record sizes of this format.
    unsafe { GemvArguments::new(weights, groups, records, activations, out) }.run(step);
}

fn step(record: &[u8; ternary::RECORD], r: usize, x: &[u8; 336], acc: f32) -> f32 {
    let sum: i32 = products(&ternary::quants(record, r), x).sum();
    mul_add(f16(record, ternary::D, r) * sum as f32, f32_at(x, 272), acc)
}
