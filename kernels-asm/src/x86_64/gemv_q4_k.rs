//! GEMV of Q4_K.

use super::{Format, Tier, finish_k, high_nibbles, load, low_nibbles, prefetch, repeat};
use crate::pack::q4_k::{QUANTS, RECORD, SCALES};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q4_K;

impl Format for Q4_K {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 336;

    #[inline(always)]
    unsafe fn step<T: Tier, const N: usize>(
        weights: [*const u8; N],
        x: *const u8,
        mut acc: [__m256; N],
    ) -> [__m256; N] {
        // SAFETY: the caller vouches for a record at every pointer, and for the features.
        unsafe {
            let mut scaled = [_mm256_setzero_si256(); N];
            for j in 0..8 {
                let mut sums = [_mm256_setzero_si256(); N];
                for v in 0..4 {
                    let x = x.add(32 * j + 4 * v);
                    let (x_low, x_high) = (repeat(x), repeat(x.add(16)));
                    for (w, sums) in weights.iter().zip(&mut sums) {
                        if v % 2 == 0 {
                            prefetch(w.add(148 * j + 32 * v));
                        }
                        // An i16 takes 8 * 2 * 15 * 127 = 30480.
                        let q = load(w.add(QUANTS + 128 * j + 32 * v));
                        *sums = T::add_products(*sums, low_nibbles(q), x_low);
                        *sums = T::add_products(*sums, high_nibbles(q), x_high);
                    }
                }
                for ((w, sums), scaled) in weights.iter().zip(sums).zip(&mut scaled) {
                    let scales = T::scales(w.add(SCALES + 8 * j));
                    *scaled = T::add_scaled(*scaled, [sums], scales);
                }
            }
            for ((w, scaled), acc) in weights.iter().zip(scaled).zip(&mut acc) {
                *acc = finish_k::<T>(*w, x, scaled, *acc);
            }
        }
        acc
    }
}
