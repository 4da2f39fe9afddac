//! GEMV of Q4_0. Weights are taken as 0 ..= 15, eight more than they are.

use super::{Format, Tier, finish_block, high_nibbles, load, low_nibbles, prefetch, repeat};
use crate::pack::q4_0::{D, RECORD};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q4_0;

impl Format for Q4_0 {
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
                        prefetch(w.add(48 * v));
                    }
                    // Two's complement to offset 8. An i16 takes 8 * 2 * 15 * 127 = 30480.
                    let q = _mm256_xor_si256(load(w.add(32 * v)), _mm256_set1_epi8(0x88_u8 as i8));
                    *sums = T::add_products(*sums, low_nibbles(q), x_low);
                    *sums = T::add_products(*sums, high_nibbles(q), x_high);
                }
            }
            let offset = _mm256_slli_epi32(repeat(x.add(40)), 3);
            for ((w, sums), acc) in weights.iter().zip(sums).zip(&mut acc) {
                let products = _mm256_sub_epi32(T::total([sums]), offset);
                *acc = finish_block(w.add(D), x, products, *acc);
            }
        }
        acc
    }
}
