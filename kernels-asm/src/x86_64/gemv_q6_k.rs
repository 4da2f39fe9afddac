//! GEMV of Q6_K. Weights are taken as 0 ..= 63, 32 more than they are.

use super::{Format, Tier, load, load_f16, prefetch, repeat, repeat_f32};
use crate::pack::q6_k::{D, QUANTS, RECORD, SCALES};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q6_K;

impl Format for Q6_K {
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
                let mut scaled_sums = _mm256_setzero_si256();
                for pair in 0..8 {
                    let scales_at = w.add(SCALES + 16 * pair);
                    let scales = [
                        T::signed_scales(scales_at),
                        T::signed_scales(scales_at.add(8)),
                    ];
                    for (half, scales) in scales.into_iter().enumerate() {
                        let j = 2 * pair + half;
                        prefetch(w.add(105 * j));
                        if half == 1 {
                            prefetch(w.add(105 * j + 53));
                        }
                        let q = load_six_bits(w.add(QUANTS + 96 * j));
                        // Two sums: an i16 takes no more than 2 * 2 * 63 * 127 = 32004.
                        let mut sums = [_mm256_setzero_si256(); 2];
                        for v in 0..4 {
                            let x = repeat(x.add(16 * j + 4 * v));
                            sums[v / 2] = T::add_products(sums[v / 2], q[v], x);
                        }
                        scaled = T::add_scaled(scaled, sums, scales);
                    }
                    // The sums of two sub-blocks lie side by side, as i16.
                    let sums = repeat(x.add(296 + 4 * pair));
                    scaled_sums = T::add_scaled_pair(scaled_sums, scales, sums);
                }
                let product = _mm256_sub_epi32(scaled, _mm256_slli_epi32(scaled_sums, 5));
                let t = _mm256_mul_ps(load_f16(w.add(D)), _mm256_cvtepi32_ps(product));
                *acc = _mm256_fmadd_ps(t, repeat_f32(x.add(272)), *acc);
            }
        }
        acc
    }
}

/// Four vectors of weights, plus 32, from the three that hold them.
///
/// # Safety
/// 96 bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn load_six_bits(at: *const u8) -> [__m256i; 4] {
    // Adding 32 to six bits of two's complement flips their top bit; that of the fourth weight is
    // bit 1 of the first byte.
    let flip = |bytes: __m256i, mask: u8| _mm256_xor_si256(bytes, _mm256_set1_epi8(mask as i8));
    // SAFETY: three times 32 of the caller's 96 bytes.
    let bytes = unsafe {
        [
            flip(load(at), 0x82),
            flip(load(at.add(32)), 0x80),
            flip(load(at.add(64)), 0x80),
        ]
    };
    let masked = |bytes: __m256i, mask: i8| _mm256_and_si256(bytes, _mm256_set1_epi8(mask));
    let [q0, q1, q2] = bytes.map(|bytes| masked(_mm256_srli_epi16(bytes, 2), 63));
    let [high, middle, low] = bytes.map(|bytes| masked(bytes, 3));
    let high_and_middle = _mm256_or_si256(_mm256_slli_epi16(high, 4), _mm256_slli_epi16(middle, 2));
    [q0, q1, q2, _mm256_or_si256(high_and_middle, low)]
}
