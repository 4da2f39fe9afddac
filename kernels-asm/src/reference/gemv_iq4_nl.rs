//! GEMV of IQ4_NL: `acc = fma(P, d * da, acc)` per record, P the integer dot product.

use super::{GemvArguments, f32_at, products};
use crate::fused::mul_add;
use crate::pack::{f16, iq4_nl};

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
pub unsafe extern "C" fn gemv_iq4_nl(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    // SAFETY: the caller keeps the contract of `Gemv`, with the record sizes of this format.
    unsafe { GemvArguments::new(weights, groups, records, activations, out) }.run(step);
}

fn step(record: &[u8; iq4_nl::RECORD], r: usize, x: &[u8; 48], acc: f32) -> f32 {
    let sum: i32 = products(&iq4_nl::quants(record, r), x).sum();
    mul_add(sum as f32, f16(record, iq4_nl::D, r) * f32_at(x, 32), acc)
}
