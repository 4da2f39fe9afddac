//! GEMV of TQ2_0 and TQ1_0 with AVX2. Weights are stored as 0 ..= 3, one more than they are.

use super::{Arguments, add_digits, load, load_f16, prefetch, repeat_f32, widen};
use crate::pack::ternary::{D, QUANTS, RECORD};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_tq2_0_avx2(
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
            let offset = sum_of_all(x);
            let mut products = [_mm256_setzero_si256(); N];
            for half in 0..2 {
                // An i16 takes 8 * 4 * 2 * 3 * 127 = 24384.
                let mut sums = [_mm256_setzero_si256(); N];
                for j in 8 * half..8 * half + 8 {
                    for (w, sums) in weights.iter().zip(&mut sums) {
                        if j % 2 == 0 {
                            prefetch(w.add(33 * j));
                        }
                        *sums = add_digits(*sums, load(w.add(QUANTS + 32 * j)), x.add(16 * j));
                    }
                }
                for (product, sums) in products.iter_mut().zip(sums) {
                    *product = _mm256_add_epi32(*product, widen(sums));
                }
            }
            for ((w, product), acc) in weights.iter_mut().zip(products).zip(&mut acc) {
                let product = _mm256_cvtepi32_ps(_mm256_sub_epi32(product, offset));
                let t = _mm256_mul_ps(load_f16(w.add(D)), product);
                *acc = _mm256_fmadd_ps(t, repeat_f32(x.add(272)), *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
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
