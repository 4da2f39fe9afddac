//! GEMV of Q2_K with AVX2.

use super::{Arguments, add_digits, load, load_f16, prefetch, repeat, repeat_f32, spread_scales};
use crate::pack::q2_k::{D, DMIN, QUANTS, RECORD, SCALES};
use core::arch::x86_64::*;

/// The low nibble of every byte.
const NIBBLES: i64 = 0x0f0f_0f0f_0f0f_0f0f;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_q2_k_avx2(
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
                        let both = w.add(SCALES + 8 * j).cast::<i64>().read_unaligned();
                        let scales = spread_scales(both & NIBBLES);
                        *mins = spread_scales(both >> 4 & NIBBLES);
                        let digits = load(w.add(QUANTS + 32 * j));
                        // An i16 takes 4 * 2 * 3 * 127 = 3048.
                        let sums = add_digits(_mm256_setzero_si256(), digits, x.add(16 * j));
                        scaled = _mm256_add_epi32(scaled, _mm256_madd_epi16(sums, scales));
                    }
                    // The sums of two sub-blocks lie side by side, as i16.
                    let both = _mm256_blend_epi16(mins[0], mins[1], 0b1010_1010);
                    let sums = repeat(x.add(296 + 4 * pair));
                    minima = _mm256_add_epi32(minima, _mm256_madd_epi16(both, sums));
                }
                let t = _mm256_mul_ps(load_f16(w.add(D)), _mm256_cvtepi32_ps(scaled));
                let t = _mm256_fnmadd_ps(load_f16(w.add(DMIN)), _mm256_cvtepi32_ps(minima), t);
                *acc = _mm256_fmadd_ps(t, repeat_f32(x.add(272)), *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
}
