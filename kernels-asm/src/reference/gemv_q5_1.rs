//! GEMV of Q5_1: `acc = fma(P, d * da, acc)`, then `acc = fma(m, da * sum, acc)` per record, P the
//! integer dot product and `da * sum` a field of the activation record.

use super::{GemvArguments, f32_at, products};
use crate::fused::mul_add;
use crate::pack::{f16, q5_1};

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
pub unsafe extern "C" fn gemv_q5_1(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    // SAFETY: the caller keeps the contract of `Gemv`, with the record sizes of this format.
    unsafe { GemvArguments::new(weights, groups, records, activations, out) }.run(step);
}

fn step(record: &[u8; q5_1::RECORD], r: usize, x: &[u8; 48], acc: f32) -> f32 {
    let sum: i32 = products(&q5_1::quants(record, r), x).sum();
    let acc = mul_add(sum as f32, f16(record, q5_1::D, r) * f32_at(x, 32), acc);
    mul_add(f16(record, q5_1::M, r), f32_at(x, 36), acc)
}
