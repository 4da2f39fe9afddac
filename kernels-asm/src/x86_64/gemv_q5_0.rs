//! GEMV of Q5_0. Weights are stored as 0 ..= 31, sixteen more than they are.

use super::{Format, Tier, finish_block, load_five_bits, prefetch, repeat};
use crate::pack::q5_0::{D, RECORD};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q5_0;

impl Format for Q5_0 {
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
            let offset = _mm256_slli_epi32(repeat(x.add(40)), 4);
            for (w, acc) in weights.iter().zip(&mut acc) {
                let q = load_five_bits(*w);
                // Two sums: an i16 takes no more than 4 * 2 * 31 * 127 = 31496.
                let mut sums = [_mm256_setzero_si256(); 2];
                for v in 0..8 {
                    if v % 3 == 0 {
                        prefetch(w.add(20 * v));
                    }
                    sums[v / 4] = T::add_products(sums[v / 4], q[v], repeat(x.add(4 * v)));
                }
                let products = _mm256_sub_epi32(T::total(sums), offset);
                *acc = finish_block(w.add(D), x, products, *acc);
            }
        }
        acc
    }
}
