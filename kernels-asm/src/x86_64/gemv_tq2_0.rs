//! GEMV of TQ2_0 and TQ1_0. Weights are stored as 0 ..= 3, one more than they are.

use super::{Format, Tier, add_digits, load, load_f16, prefetch, repeat_f32};
use crate::pack::ternary::{D, QUANTS, RECORD};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct TQ2_0;

impl Format for TQ2_0 {
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
            // Two sums: an i16 takes 8 * 4 * 2 * 3 * 127 = 24384. In turns, since VNNI adds to the
            // same one only every four or five cycles.
            let mut sums = [[_mm256_setzero_si256(); 2]; N];
            for j in 0..16 {
                for (w, sums) in weights.iter().zip(&mut sums) {
                    if j % 2 == 0 {
                        prefetch(w.add(33 * j));
                    }
                    let digits = load(w.add(QUANTS + 32 * j));
                    sums[j % 2] = add_digits::<T>(sums[j % 2], digits, x.add(16 * j));
                }
            }
            let offset = sum_of_all(x);
            for ((w, sums), acc) in weights.iter().zip(sums).zip(&mut acc) {
                let product = _mm256_sub_epi32(T::total(sums), offset);
                let t = _mm256_mul_ps(load_f16(w.add(D)), _mm256_cvtepi32_ps(product));
                *acc = _mm256_fmadd_ps(t, repeat_f32(x.add(272)), *acc);
            }
        }
        acc
    }
}

/// The sum of a record's 256 activations, in every lane.
///
/// # Safety
/// `x` is an activation record.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum_of_all(x: *const u8) -> __m256i {
    // SAFETY: the eight sums of 32, as i16.
    let sums = unsafe { _mm_loadu_si128(x.add(280).cast()) };
    let by_64 = _mm_madd_epi16(sums, _mm_set1_epi16(1));
    let by_128 = _mm_add_epi32(by_64, _mm_shuffle_epi32::<0b01_00_11_10>(by_64));
    let all = _mm_add_epi32(by_128, _mm_shuffle_epi32::<0b10_11_00_01>(by_128));
    _mm256_broadcastd_epi32(all)
}
