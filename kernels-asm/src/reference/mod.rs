//! Each GEMV in plain Rust, written to be read: the definition that every other tier is held to.
//!
//! A result is the chain, from +0 and in the order of the records, of what the `step` of a format
//! does. The integer part of a step is exact in i32 for every weight and every activation within
//! the contract of [`activation`](crate::activation); the largest sum is below 2^27. The float
//! part is in exactly this order, with every multiply-add fused. Float weights have four chains.
//!
//! Nothing here is fast, and nothing depends on the machine.
#![allow(unsafe_code)] // a GEMV takes pointers, as the assembly tiers do

use crate::fused::mul_add;
use crate::pack::{f16, q4_k};

mod gemv_bf16;
mod gemv_f16;
mod gemv_f32;
mod gemv_iq4_nl;
mod gemv_q2_k;
mod gemv_q3_k;
mod gemv_q4_0;
mod gemv_q4_1;
mod gemv_q4_k;
mod gemv_q5_0;
mod gemv_q5_1;
mod gemv_q5_k;
mod gemv_q6_k;
mod gemv_q8_0;
mod gemv_tq2_0;

pub use gemv_bf16::gemv_bf16;
pub use gemv_f16::gemv_f16;
pub use gemv_f32::gemv_f32;
pub use gemv_iq4_nl::gemv_iq4_nl;
pub use gemv_q2_k::gemv_q2_k;
pub use gemv_q3_k::gemv_q3_k;
pub use gemv_q4_0::gemv_q4_0;
pub use gemv_q4_1::gemv_q4_1;
pub use gemv_q4_k::gemv_q4_k;
pub use gemv_q5_0::gemv_q5_0;
pub use gemv_q5_1::gemv_q5_1;
pub use gemv_q5_k::gemv_q5_k;
pub use gemv_q6_k::gemv_q6_k;
pub use gemv_q8_0::gemv_q8_0;
pub use gemv_tq2_0::gemv_tq2_0;

/// The arguments of a GEMV as slices: `RECORD` bytes of weights meet `ACTIVATION` of activations.
struct GemvArguments<'a, const RECORD: usize, const ACTIVATION: usize> {
    weights: &'a [[u8; RECORD]],
    activations: &'a [[u8; ACTIVATION]],
    out: &'a mut [[f32; 8]],
}

impl<const RECORD: usize, const ACTIVATION: usize> GemvArguments<'_, RECORD, ACTIVATION> {
    /// # Safety
    /// The contract of [`Gemv`](crate::registry::Gemv), with these record sizes.
    unsafe fn new(
        weights: *const u8,
        groups: usize,
        records: usize,
        activations: *const u8,
        out: *mut f32,
    ) -> Self {
        use core::slice::{from_raw_parts, from_raw_parts_mut};
        // SAFETY: the caller says that so many bytes and floats are there, and `out` is no one
        // else's; byte arrays need no alignment, and `[f32; 8]` that of `f32`.
        unsafe {
            Self {
                weights: from_raw_parts(weights.cast(), groups * records),
                activations: from_raw_parts(activations.cast(), records),
                out: from_raw_parts_mut(out.cast(), groups),
            }
        }
    }

    /// Every row of every group: the chain of `step` over its records.
    fn run(self, step: impl Fn(&[u8; RECORD], usize, &[u8; ACTIVATION], f32) -> f32) {
        let groups = self.weights.chunks_exact(self.activations.len());
        for (group, out) in groups.zip(self.out) {
            for (r, out) in out.iter_mut().enumerate() {
                let records = group.iter().zip(self.activations);
                *out = records.fold(0.0, |acc, (record, x)| step(record, r, x, acc));
            }
        }
    }
}

impl<const RECORD: usize> GemvArguments<'_, RECORD, 32> {
    /// The same for float weights, which have four chains a row: column `k` goes to chain `k % 4`
    /// as `acc = fma(weight, x, acc)`, and the result is `(0 + 1) + (2 + 3)`.
    fn run_floats(self, weight: impl Fn(&[u8; RECORD], usize, usize) -> f32) {
        let groups = self.weights.chunks_exact(self.activations.len());
        for (group, out) in groups.zip(self.out) {
            for (r, out) in out.iter_mut().enumerate() {
                let mut acc = [0.0; 4];
                for (record, x) in group.iter().zip(self.activations) {
                    for k in 0..8 {
                        let x = f32_at(x, 4 * k);
                        acc[k % 4] = mul_add(weight(record, k, r), x, acc[k % 4]);
                    }
                }
                *out = (acc[0] + acc[1]) + (acc[2] + acc[3]);
            }
        }
    }
}

/// The record step of Q4_K and Q5_K, with A and M the integer dot products of the scales with the
/// sub-block products and of the minima with the sub-block sums:
/// `t = d * A`, `t = fma(-dmin, M, t)`, `acc = fma(t, da, acc)`.
fn step_k(record: &[u8], quants: &[i8; 256], r: usize, x: &[u8; 336], acc: f32) -> f32 {
    let (mut scaled, mut offset) = (0, 0);
    for (j, (q, x)) in quants.chunks_exact(32).zip(x.chunks_exact(32)).enumerate() {
        let sum: i32 = x.iter().map(|&x| i32::from(x as i8)).sum();
        scaled += i32::from(q4_k::scale(record, j, r)) * products(q, x).sum::<i32>();
        offset += i32::from(q4_k::min(record, j, r)) * sum;
    }
    let t = f16(record, q4_k::D, r) * scaled as f32;
    let t = mul_add(-f16(record, q4_k::DMIN, r), offset as f32, t);
    mul_add(t, f32_at(x, 272), acc)
}

/// Products of weights and the activations at the front of `x`, one by one.
fn products(quants: &[i8], x: &[u8]) -> impl Iterator<Item = i32> {
    quants
        .iter()
        .zip(x)
        .map(|(&q, &x)| i32::from(q) * i32::from(x as i8))
}

/// The f32 at `at` of an activation record.
fn f32_at(record: &[u8], at: usize) -> f32 {
    f32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}
