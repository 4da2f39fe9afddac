//! GEMV of Q2_K.

use super::{Format, Tier, add_digits, load, load_f16, prefetch, repeat, repeat_f32};
use crate::pack::q2_k::{D, DMIN, QUANTS, RECORD, SCALES};
use core::arch::x86_64::*;

/// The low nibble of every byte.
const NIBBLES: u64 = 0x0f0f_0f0f_0f0f_0f0f;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q2_K;

impl Format for Q2_K {
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
            for (w, acc) in weights.into_iter().zip(&mut acc) {
                let mut scaled = _mm256_setzero_si256();
                let mut minima = _mm256_setzero_si256();
                for pair in 0..8 {
                    prefetch(w.add(84 * pair));
                    if pair % 2 == 0 {
                        prefetch(w.add(84 * pair + 64));
                    }
                    let mut mins = [_mm256_setzero_si256(); 2];
                    for (half, mins) in mins.iter_mut().enumerate() {
                        let j = 2 * pair + half;
                        // Scales are the low nibbles, minima the high ones.
                        let both = w.add(SCALES + 8 * j).cast::<u64>().read_unaligned();
                        let scales = T::scales((both & NIBBLES).to_le_bytes().as_ptr());
                        *mins = T::scales((both >> 4 & NIBBLES).to_le_bytes().as_ptr());
                        let digits = load(w.add(QUANTS + 32 * j));
                        // An i16 takes 4 * 2 * 3 * 127 = 3048.
                        let sums = add_digits::<T>(_mm256_setzero_si256(), digits, x.add(16 * j));
                        scaled = T::add_scaled(scaled, [sums], scales);
                    }
                    // The sums of two sub-blocks lie side by side, as i16.
                    minima = T::add_scaled_pair(minima, mins, repeat(x.add(296 + 4 * pair)));
                }
                let t = _mm256_mul_ps(load_f16(w.add(D)), _mm256_cvtepi32_ps(scaled));
                let t = _mm256_fnmadd_ps(load_f16(w.add(DMIN)), _mm256_cvtepi32_ps(minima), t);
                *acc = _mm256_fmadd_ps(t, repeat_f32(x.add(272)), *acc);
            }
        }
        acc
    }
}
