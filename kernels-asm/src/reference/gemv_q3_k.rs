//! GEMV of Q3_K: `acc = fma(d * A, da, acc)` per record, A the integer dot product with the
//! sub-block scales folded in.

use super::{GemvArguments, f32_at, products};
use crate::fused::mul_add;
use crate::pack::{f16, q3_k};

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
pub unsafe extern "C" fn gemv_q3_k(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    // SAFETY: the caller keeps the contract of `Gemv`, with the record sizes of this format.
    unsafe { GemvArguments::new(weights, groups, records, activations, out) }.run(step);
}

fn step(record: &[u8; q3_k::RECORD], r: usize, x: &[u8; 336], acc: f32) -> f32 {
    let quants = q3_k::quants(record, r);
    let mut sum = 0;
    for (j, (q, x)) in quants.chunks_exact(16).zip(x.chunks_exact(16)).enumerate() {
        sum += i32::from(q3_k::scale(record, j, r)) * products(q, x).sum::<i32>();
    }
    mul_add(f16(record, q3_k::D, r) * sum as f32, f32_at(x, 272), acc)
}
