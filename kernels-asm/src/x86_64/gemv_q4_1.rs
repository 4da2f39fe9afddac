//! GEMV of Q4_1.

use super::{
    Format, Tier, finish_block, high_nibbles, load, load_f16, low_nibbles, prefetch, repeat,
    repeat_f32,
};
use crate::pack::q4_1::{D, M, RECORD};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q4_1;

impl Format for Q4_1 {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 48;

    #[inline(always)]
    unsafe fn step<T: Tier, const N: usize>(
        weights: [*const u8; N],
        x: *const u8,
        mut acc: [__m256; N],
    ) -> [__m256; N] {
        // SAFETY: the caller vouches for a record at every pointer, and for the features.
        unsafe {
            let mut sums = [_mm256_setzero_si256(); N];
            for v in 0..4 {
                let (x_low, x_high) = (repeat(x.add(4 * v)), repeat(x.add(16 + 4 * v)));
                for (w, sums) in weights.iter().zip(&mut sums) {
                    // Less than a line apart: none is left out.
                    if v < 3 {
                        prefetch(w.add(54 * v));
                    }
                    // An i16 takes 8 * 2 * 15 * 127 = 30480.
                    let q = load(w.add(32 * v));
                    *sums = T::add_products(*sums, low_nibbles(q), x_low);
                    *sums = T::add_products(*sums, high_nibbles(q), x_high);
                }
            }
            for ((w, sums), acc) in weights.iter().zip(sums).zip(&mut acc) {
                *acc = finish_block(w.add(D), x, T::total([sums]), *acc);
                *acc = _mm256_fmadd_ps(load_f16(w.add(M)), repeat_f32(x.add(36)), *acc);
            }
        }
        acc
    }
}
