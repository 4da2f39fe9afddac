//! GEMV of Q6_K with AVX2. Weights are taken as 0 ..= 63, 32 more than they are.

use super::{Arguments, add_products, load, load_f16, prefetch, repeat, repeat_f32};
use crate::pack::q6_k::{D, QUANTS, RECORD, SCALES};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_q6_k_avx2(
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
                for pair in 0..8 {
                    let scales_at = w.add(SCALES + 16 * pair);
                    let scales = [
                        load_signed_scales(scales_at),
                        load_signed_scales(scales_at.add(8)),
                    ];
                    for (half, scales) in scales.into_iter().enumerate() {
                        let j = 2 * pair + half;
                        prefetch(w.add(105 * j));
                        if half == 1 {
                            prefetch(w.add(105 * j + 53));
                        }
                        let q = load_six_bits(w.add(QUANTS + 96 * j));
                        let x = |v: usize| repeat(x.add(16 * j + 4 * v));
                        // Two sums: an i16 takes no more than 2 * 2 * 63 * 127 = 32004.
                        let first = _mm256_maddubs_epi16(q[0], x(0));
                        let second = _mm256_maddubs_epi16(q[2], x(2));
                        for sums in [
                            add_products(first, q[1], x(1)),
                            add_products(second, q[3], x(3)),
                        ] {
                            scaled = _mm256_add_epi32(scaled, _mm256_madd_epi16(sums, scales));
                        }
                    }
                    // The sums of two sub-blocks lie side by side, as i16.
                    let both = _mm256_blend_epi16(scales[0], scales[1], 0b1010_1010);
                    let sums = repeat(x.add(296 + 4 * pair));
                    scaled_sums = _mm256_add_epi32(scaled_sums, _mm256_madd_epi16(both, sums));
                }
                let product = _mm256_sub_epi32(scaled, _mm256_slli_epi32(scaled_sums, 5));
                let t = _mm256_mul_ps(load_f16(w.add(D)), _mm256_cvtepi32_ps(product));
                *acc = _mm256_fmadd_ps(t, repeat_f32(x.add(272)), *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
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

/// Eight signed bytes, one a row, as a pair of equal i16 in each lane.
///
/// # Safety
/// Eight bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_signed_scales(at: *const u8) -> __m256i {
    // Into the high bytes, from where a shift brings them down with their sign.
    let places = _mm256_setr_epi8(
        -1, 0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, //
        -1, 4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7,
    );
    // SAFETY: the caller's eight bytes.
    let bytes = unsafe { at.cast::<i64>().read_unaligned() };
    _mm256_srai_epi16(_mm256_shuffle_epi8(_mm256_set1_epi64x(bytes), places), 8)
}
