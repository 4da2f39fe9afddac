//! GEMV of Q2_K: `t = d * A`, `t = fma(-dmin, M, t)`, `acc = fma(t, da, acc)` per record, A and M
//! the integer sums of scale times dot product and of minimum times activation sum.

use super::{GemvArguments, f32_at, products};
use crate::fused::mul_add;
use crate::pack::{f16, q2_k};

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
pub unsafe extern "C" fn gemv_q2_k(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    // SAFETY: the caller keeps the contract of `Gemv`, with the record sizes of this format.
    unsafe { GemvArguments::new(weights, groups, records, activations, out) }.run(step);
}

fn step(record: &[u8; q2_k::RECORD], r: usize, x: &[u8; 336], acc: f32) -> f32 {
    let quants = q2_k::quants(record, r);
    let (mut scaled, mut offset) = (0, 0);
    for (j, (q, x)) in quants.chunks_exact(16).zip(x.chunks_exact(16)).enumerate() {
        let sum: i32 = x.iter().map(|&x| i32::from(x as i8)).sum();
        scaled += i32::from(q2_k::scale(record, j, r)) * products(q, x).sum::<i32>();
        offset += i32::from(q2_k::min(record, j, r)) * sum;
    }
    let t = f16(record, q2_k::D, r) * scaled as f32;
    let t = mul_add(-f16(record, q2_k::DMIN, r), offset as f32, t);
    mul_add(t, f32_at(x, 272), acc)
}
