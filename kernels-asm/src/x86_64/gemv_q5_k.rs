//! GEMV of Q5_K: the weights of Q5_0 under the header of Q4_K.

use super::{Format, Tier, finish_k, load_five_bits, prefetch, repeat};
use crate::pack::q4_k::SCALES;
use crate::pack::q5_k::{QUANTS, RECORD};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q5_K;

impl Format for Q5_K {
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
                for (w, scaled) in weights.iter().zip(&mut scaled) {
                    let q = load_five_bits(w.add(QUANTS + 160 * j));
                    // Two sums: an i16 takes no more than 4 * 2 * 31 * 127 = 31496.
                    let mut sums = [_mm256_setzero_si256(); 2];
                    for v in 0..8 {
                        if v % 3 == 0 {
                            prefetch(w.add(180 * j + 20 * v));
                        }
                        let x = repeat(x.add(32 * j + 4 * v));
                        sums[v / 4] = T::add_products(sums[v / 4], q[v], x);
                    }
                    *scaled = T::add_scaled(*scaled, sums, T::scales(w.add(SCALES + 8 * j)));
                }
            }
            for ((w, scaled), acc) in weights.iter().zip(scaled).zip(&mut acc) {
                *acc = finish_k::<T>(*w, x, scaled, *acc);
            }
        }
        acc
    }
}
