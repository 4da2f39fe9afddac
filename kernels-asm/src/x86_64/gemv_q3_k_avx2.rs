//! GEMV of Q3_K with AVX2. Weights are stored as 0 ..= 7, four more than they are.

use super::{
    Arguments, add_products, load, load_f16, load_signed_scales, prefetch, repeat, repeat_f32,
};
use crate::pack::q3_k::{D, QUANTS, RECORD, SCALES};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_q3_k_avx2(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    let arguments = Arguments {
        weights,
        groups,
        records,
        activations,
        out,
    };
    // SAFETY: the caller keeps the contract of `Gemv`; `rows` reads records of this format.
    unsafe { arguments.run(RECORD, rows::<2>, rows::<1>) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows<const N: usize>(
    mut weights: [*const u8; N],
    records: usize,
    activations: *const u8,
) -> [__m256; N] {
    let mut acc = [_mm256_setzero_ps(); N];
    for record in 0..records {
        // SAFETY: the caller vouches for `records` records at every pointer.
        unsafe {
            let x = activations.add(336 * record);
            for (w, acc) in weights.iter_mut().zip(&mut acc) {
                let mut scaled = _mm256_setzero_si256();
                let mut scaled_sums = _mm256_setzero_si256();
                for j in 0..8 {
                    prefetch(w.add(114 * j));
                    prefetch(w.add(114 * j + 57));
                    let q = load_three_bits(w.add(QUANTS + 96 * j));
                    let scales_at = w.add(SCALES + 16 * j);
                    let scales = [
                        load_signed_scales(scales_at),
                        load_signed_scales(scales_at.add(8)),
                    ];
                    for (half, (q, scales)) in q.into_iter().zip(scales).enumerate() {
                        let x = x.add(32 * j + 16 * half);
                        // An i16 takes 4 * 2 * 7 * 127 = 7112.
                        let mut sums = _mm256_setzero_si256();
                        for (v, q) in q.into_iter().enumerate() {
                            sums = add_products(sums, q, repeat(x.add(4 * v)));
                        }
                        scaled = _mm256_add_epi32(scaled, _mm256_madd_epi16(sums, scales));
                    }
                    // The sums of two sub-blocks lie side by side, as i16.
                    let both = _mm256_blend_epi16(scales[0], scales[1], 0b1010_1010);
                    let sums = repeat(x.add(296 + 4 * j));
                    scaled_sums = _mm256_add_epi32(scaled_sums, _mm256_madd_epi16(both, sums));
                }
                let product = _mm256_sub_epi32(scaled, _mm256_slli_epi32(scaled_sums, 2));
                let t = _mm256_mul_ps(load_f16(w.add(D)), _mm256_cvtepi32_ps(product));
                *acc = _mm256_fmadd_ps(t, repeat_f32(x.add(272)), *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
}

/// Eight vectors of weights 0 ..= 7, two sub-blocks, from the three that hold them.
///
/// # Safety
/// 96 bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_three_bits(at: *const u8) -> [[__m256i; 4]; 2] {
    // SAFETY: three times 32 of the caller's 96 bytes.
    let bytes = unsafe { [load(at), load(at.add(32)), load(at.add(64))] };
    let masked = |bytes: __m256i, mask: i8| _mm256_and_si256(bytes, _mm256_set1_epi8(mask));
    // Shifts of i16 carry bits across the bytes; the masks drop them.
    let [u0, u2, u4] = bytes.map(|bytes| masked(bytes, 7));
    let [u1, u3, u5] = bytes.map(|bytes| masked(_mm256_srli_epi16::<3>(bytes), 7));
    let bits_1_to_0 = |bytes: __m256i| masked(_mm256_srli_epi16::<6>(bytes), 3);
    let bit_2_of_6 = masked(_mm256_srli_epi16::<4>(bytes[2]), 4);
    let bit_2_of_7 = masked(_mm256_srli_epi16::<5>(bytes[2]), 4);
    let u6 = _mm256_or_si256(bits_1_to_0(bytes[0]), bit_2_of_6);
    let u7 = _mm256_or_si256(bits_1_to_0(bytes[1]), bit_2_of_7);
    [[u0, u1, u2, u3], [u4, u5, u6, u7]]
}
