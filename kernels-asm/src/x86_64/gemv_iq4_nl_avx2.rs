//! GEMV of IQ4_NL with AVX2. Weights of -127 ..= 113 have no offset that an i16 could take: their
//! magnitudes are multiplied with activations that have taken their signs.

use super::{
    Arguments, high_nibbles, load, load_f16, low_nibbles, prefetch, repeat, repeat_f32, widen,
};
use crate::pack::iq4_nl::{D, RECORD, TABLE};
use core::arch::x86_64::*;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe extern "C" fn gemv_iq4_nl_avx2(
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
    // SAFETY: the table has 16 bytes.
    let table = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(TABLE.as_ptr().cast()) });
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
                    let q = load(w.add(32 * v));
                    let low = signed_products(_mm256_shuffle_epi8(table, low_nibbles(q)), x_low);
                    let high = signed_products(_mm256_shuffle_epi8(table, high_nibbles(q)), x_high);
                    *sums = _mm256_add_epi32(*sums, _mm256_add_epi32(widen(low), widen(high)));
                }
            }
            for ((w, sums), acc) in weights.iter_mut().zip(sums).zip(&mut acc) {
                let product = _mm256_cvtepi32_ps(sums);
                let scale = _mm256_mul_ps(load_f16(w.add(D)), repeat_f32(x.add(32)));
                *acc = _mm256_fmadd_ps(product, scale, *acc);
                *w = w.add(RECORD);
            }
        }
    }
    acc
}

/// The products of signed weights with `x`, added in pairs: at most 2 * 127 * 127 = 32258.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn signed_products(weights: __m256i, x: __m256i) -> __m256i {
    _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights))
}
