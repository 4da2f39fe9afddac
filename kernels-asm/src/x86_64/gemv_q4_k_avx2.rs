//! GEMV of Q4_K with AVX2.

use super::{
    Arguments, add_products, finish_k, high_nibbles, load, load_scales, low_nibbles, prefetch,
    repeat,
};
use crate::pack::q4_k::{QUANTS, RECORD, SCALES};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_q4_k_avx2(
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
                        *sums = add_products(*sums, low_nibbles(q), x_low);
                        *sums = add_products(*sums, high_nibbles(q), x_high);
                    }
                }
                for ((w, sums), scaled) in weights.iter().zip(sums).zip(&mut scaled) {
                    let scales = load_scales(w.add(SCALES + 8 * j));
                    *scaled = _mm256_add_epi32(*scaled, _mm256_madd_epi16(sums, scales));
                }
            }
            for ((w, scaled), acc) in weights.iter_mut().zip(scaled).zip(&mut acc) {
                *acc = finish_k(*w, x, scaled, *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
}
