//! GEMV of Q5_K with AVX2: the weights of Q5_0 under the header of Q4_K.

use super::{Arguments, add_products, finish_k, load_five_bits, load_scales, prefetch, repeat};
use crate::pack::q4_k::SCALES;
use crate::pack::q5_k::{QUANTS, RECORD};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_q5_k_avx2(
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
                for (w, scaled) in weights.iter().zip(&mut scaled) {
                    let q = load_five_bits(w.add(QUANTS + 160 * j));
                    let scales = load_scales(w.add(SCALES + 8 * j));
                    // Two sums: an i16 takes no more than 4 * 2 * 31 * 127 = 31496.
                    let mut sums = [_mm256_setzero_si256(); 2];
                    for v in 0..8 {
                        if v % 3 == 0 {
                            prefetch(w.add(180 * j + 20 * v));
                        }
                        let x = repeat(x.add(32 * j + 4 * v));
                        sums[v / 4] = add_products(sums[v / 4], q[v], x);
                    }
                    for sums in sums {
                        *scaled = _mm256_add_epi32(*scaled, _mm256_madd_epi16(sums, scales));
                    }
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
