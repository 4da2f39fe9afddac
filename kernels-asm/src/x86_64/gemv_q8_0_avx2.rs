//! GEMV of Q8_0 with AVX2. The sign of a weight moves to the activation, and its magnitude,
//! 0 ..= 128, is unsigned. That is exact because an activation is never -128.

use super::{Arguments, load, load_f16, prefetch, repeat, repeat_f32, widen};
use crate::pack::q8_0::{D, RECORD};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_q8_0_avx2(
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
            let x = activations.add(48 * record);
            let mut sums = [_mm256_setzero_si256(); N];
            for v in 0..8 {
                let x = repeat(x.add(4 * v));
                for (w, sums) in weights.iter().zip(&mut sums) {
                    if v % 2 == 0 {
                        prefetch(w.add(34 * v));
                    }
                    let q = load(w.add(32 * v));
                    // One pair is all that an i16 takes: 2 * 128 * 127 = 32512.
                    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(x, q));
                    *sums = _mm256_add_epi32(*sums, widen(pairs));
                }
            }
            for ((w, sums), acc) in weights.iter_mut().zip(sums).zip(&mut acc) {
                let scale = _mm256_mul_ps(load_f16(w.add(D)), repeat_f32(x.add(32)));
                *acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), scale, *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
}
