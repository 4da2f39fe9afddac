//! GEMV of Q5_1 with AVX2: the weights of Q5_0 with the end of Q4_1.

use super::{
    Arguments, add_products, load_f16, load_five_bits, prefetch, repeat, repeat_f32, widen,
};
use crate::pack::q5_1::{D, M, RECORD};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_q5_1_avx2(
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
            for (w, acc) in weights.iter_mut().zip(&mut acc) {
                let q = load_five_bits(*w);
                // Two sums: an i16 takes no more than 4 * 2 * 31 * 127 = 31496.
                let mut sums = [_mm256_setzero_si256(); 2];
                for v in 0..8 {
                    if v % 3 == 0 {
                        prefetch(w.add(21 * v));
                    }
                    sums[v / 4] = add_products(sums[v / 4], q[v], repeat(x.add(4 * v)));
                }
                let product = _mm256_add_epi32(widen(sums[0]), widen(sums[1]));
                let product = _mm256_cvtepi32_ps(product);
                let scale = _mm256_mul_ps(load_f16(w.add(D)), repeat_f32(x.add(32)));
                *acc = _mm256_fmadd_ps(product, scale, *acc);
                *acc = _mm256_fmadd_ps(load_f16(w.add(M)), repeat_f32(x.add(36)), *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
}
