//! How a tier adds up products: in i16 with AVX2, in i32 with the VNNI instructions.

use super::Format;
use super::panel::Line;
use super::rows::{Rows, Ymm, Zmm};
use core::arch::asm;
use core::arch::x86_64::*;

/// An instruction set. Its functions demand its features.
pub(super) trait Tier {
    /// The registers of sixteen rows.
    type Rows: Rows;

    /// Scales of eight rows, i16, as [`dot`](Self::dot) multiplies with them.
    unsafe fn spread_scales(scales: __m128i) -> __m256i;

    /// Adds to `sums` the products of a sub-block with each vector, times `scales` if the format
    /// has them: `F::QUADS` lines from `quants` on, by as many fours from each of `x` on.
    unsafe fn dot<F: Format, const TILE: usize>(
        quants: *const Line,
        scales: &Line,
        x: [*const u8; TILE],
        sums: &mut [<Self::Rows as Rows>::Ints; TILE],
    );
}

/// `vpmaddubsw`: pairs of products in i16, of which `Format::LIMIT` can be added up.
pub(super) struct Avx2;

impl Tier for Avx2 {
    type Rows = Ymm;

    /// As pairs of equal i16.
    #[inline(always)]
    unsafe fn spread_scales(scales: __m128i) -> __m256i {
        // SAFETY: the features are the caller's promise.
        unsafe { interleave(scales, scales) }
    }

    #[inline(always)]
    unsafe fn dot<F: Format, const TILE: usize>(
        quants: *const Line,
        scales: &Line,
        x: [*const u8; TILE],
        sums: &mut [[__m256i; 2]; TILE],
    ) {
        // SAFETY: the caller's lines and fours, and features.
        unsafe {
            let scales = match F::SCALED {
                true => Ymm::load(scales),
                false => [_mm256_set1_epi16(1); 2],
            };
            for part in 0..F::QUADS / F::LIMIT {
                let first = part * F::LIMIT;
                let w = Ymm::load(&*quants.add(first));
                let mut pairs = x.map(|x| {
                    let [x, _] = Ymm::repeat(x.add(4 * first));
                    w.map(|w| _mm256_maddubs_epi16(w, x))
                });
                for quad in first + 1..first + F::LIMIT {
                    let w = Ymm::load(&*quants.add(quad));
                    for (x, pairs) in x.iter().zip(&mut pairs) {
                        let [x, _] = Ymm::repeat(x.add(4 * quad));
                        *pairs = add_products(*pairs, w, x);
                    }
                }
                for (sums, pairs) in sums.iter_mut().zip(pairs) {
                    *sums = Ymm::add_pairs(*sums, pairs, scales);
                }
            }
        }
    }
}

/// `pairs` and the products of unsigned `w` with signed `x`, added in pairs in i16.
///
/// In assembly, because the compiler makes trees of such chains, and keeps their leaves in memory.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_products(mut pairs: [__m256i; 2], w: [__m256i; 2], x: __m256i) -> [__m256i; 2] {
    // SAFETY: four instructions between registers, of this function's features.
    unsafe {
        asm!(
            "vpmaddubsw {t}, {w0}, {x}",
            "vpmaddubsw {x}, {w1}, {x}",
            "vpaddw {p0}, {p0}, {t}",
            "vpaddw {p1}, {p1}, {x}",
            t = out(ymm_reg) _,
            x = inout(ymm_reg) x => _,
            w0 = in(ymm_reg) w[0],
            w1 = in(ymm_reg) w[1],
            p0 = inout(ymm_reg) pairs[0],
            p1 = inout(ymm_reg) pairs[1],
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    pairs
}

/// `vpdpbusd` of eight rows: four products at once, in i32.
pub(super) struct AvxVnni;

impl Tier for AvxVnni {
    type Rows = Ymm;

    /// As i32.
    #[inline(always)]
    unsafe fn spread_scales(scales: __m128i) -> __m256i {
        // SAFETY: the features are the caller's promise.
        unsafe { _mm256_cvtepi16_epi32(scales) }
    }

    #[inline(always)]
    unsafe fn dot<F: Format, const TILE: usize>(
        quants: *const Line,
        scales: &Line,
        x: [*const u8; TILE],
        sums: &mut [[__m256i; 2]; TILE],
    ) {
        // SAFETY: the caller's lines and fours, and features.
        unsafe {
            let mut products = match F::SCALED {
                true => [Ymm::ZERO; TILE],
                false => *sums,
            };
            for quad in 0..F::QUADS {
                let w = Ymm::load(&*quants.add(quad));
                for (x, products) in x.iter().zip(&mut products) {
                    let [x, _] = Ymm::repeat(x.add(4 * quad));
                    for (products, w) in products.iter_mut().zip(w) {
                        *products = _mm256_dpbusd_avx_epi32(*products, w, x);
                    }
                }
            }
            if !F::SCALED {
                *sums = products;
                return;
            }
            let scales = Ymm::load(scales);
            for (sums, products) in sums.iter_mut().zip(products) {
                for ((sums, products), scales) in sums.iter_mut().zip(products).zip(scales) {
                    *sums = _mm256_add_epi32(*sums, _mm256_mullo_epi32(products, scales));
                }
            }
        }
    }
}

/// `vpdpbusd` of sixteen rows.
pub(super) struct Avx512Vnni;

impl Tier for Avx512Vnni {
    type Rows = Zmm;

    /// As i32.
    #[inline(always)]
    unsafe fn spread_scales(scales: __m128i) -> __m256i {
        // SAFETY: the features are the caller's promise.
        unsafe { _mm256_cvtepi16_epi32(scales) }
    }

    #[inline(always)]
    unsafe fn dot<F: Format, const TILE: usize>(
        quants: *const Line,
        scales: &Line,
        x: [*const u8; TILE],
        sums: &mut [__m512i; TILE],
    ) {
        // SAFETY: the caller's lines and fours, and features.
        unsafe {
            let mut products = match F::SCALED {
                true => [Zmm::ZERO; TILE],
                false => *sums,
            };
            for quad in 0..F::QUADS {
                let w = Zmm::load(&*quants.add(quad));
                for (x, products) in x.iter().zip(&mut products) {
                    *products = _mm512_dpbusd_epi32(*products, w, Zmm::repeat(x.add(4 * quad)));
                }
            }
            if !F::SCALED {
                *sums = products;
                return;
            }
            let scales = Zmm::load(scales);
            for (sums, products) in sums.iter_mut().zip(products) {
                *sums = _mm512_add_epi32(*sums, _mm512_mullo_epi32(products, scales));
            }
        }
    }
}

/// The i16 of two eights, in turns.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn interleave(a: __m128i, b: __m128i) -> __m256i {
    // SAFETY: the feature is the caller's promise.
    unsafe { _mm256_set_m128i(_mm_unpackhi_epi16(a, b), _mm_unpacklo_epi16(a, b)) }
}
