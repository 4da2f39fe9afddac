//! GEMV of Q4_0 with AVX2. Weights are taken as 0 ..= 15, eight more than they are.

use super::{
    Arguments, add_products, high_nibbles, load, load_f16, low_nibbles, prefetch, repeat,
    repeat_f32, widen,
};
use crate::pack::q4_0::{D, RECORD};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_q4_0_avx2(
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
            for v in 0..4 {
                let (x_low, x_high) = (repeat(x.add(4 * v)), repeat(x.add(16 + 4 * v)));
                for (w, sums) in weights.iter().zip(&mut sums) {
                    if v % 2 == 0 {
                        prefetch(w.add(36 * v));
                    }
                    // Two's complement to offset 8. An i16 takes 8 * 2 * 15 * 127 = 30480.
                    let q = _mm256_xor_si256(load(w.add(32 * v)), _mm256_set1_epi8(0x88_u8 as i8));
                    *sums = add_products(*sums, low_nibbles(q), x_low);
                    *sums = add_products(*sums, high_nibbles(q), x_high);
                }
            }
            let offset = _mm256_slli_epi32(repeat(x.add(40)), 3);
            for ((w, sums), acc) in weights.iter_mut().zip(sums).zip(&mut acc) {
                let product = _mm256_cvtepi32_ps(_mm256_sub_epi32(widen(sums), offset));
                let scale = _mm256_mul_ps(load_f16(w.add(D)), repeat_f32(x.add(32)));
                *acc = _mm256_fmadd_ps(product, scale, *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
}
