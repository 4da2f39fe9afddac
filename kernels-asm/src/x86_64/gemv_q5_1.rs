//! GEMV of Q5_1: the weights of Q5_0 with the end of Q4_1.

use super::{Format, Tier, finish_block, load_f16, load_five_bits, prefetch, repeat, repeat_f32};
use crate::pack::q5_1::{D, M, RECORD};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q5_1;

impl Format for Q5_1 {
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
            for (w, acc) in weights.iter().zip(&mut acc) {
                let q = load_five_bits(*w);
                // Two sums: an i16 takes no more than 4 * 2 * 31 * 127 = 31496.
                let mut sums = [_mm256_setzero_si256(); 2];
                for v in 0..8 {
                    if v % 3 == 0 {
                        prefetch(w.add(21 * v));
                    }
                    sums[v / 4] = T::add_products(sums[v / 4], q[v], repeat(x.add(4 * v)));
                }
                *acc = finish_block(w.add(D), x, T::total(sums), *acc);
                *acc = _mm256_fmadd_ps(load_f16(w.add(M)), repeat_f32(x.add(36)), *acc);
            }
        }
        acc
    }
}
