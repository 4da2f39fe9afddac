//! What the formats share: how parts of a record get into a panel, and how a record ends.

use super::panel::{Half, Panel};
use super::rows::Rows;
use super::tier::Tier;
use crate::pack::q4_k;
use crate::x86_64::{high_nibbles, load, load_f16, low_nibbles};
use core::arch::x86_64::*;

/// Eight quads of four vectors of nibbles, each XOR `flip`: the low ones, then the high ones.
///
/// # Safety
/// 128 bytes can be read at `at`, and the CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn put_nibbles(at: *const u8, flip: u8, first: usize, half: &mut Half<'_>) {
    for v in 0..4 {
        // SAFETY: 32 of the caller's bytes; the features are the caller's promise.
        unsafe {
            let q = _mm256_xor_si256(load(at.add(32 * v)), _mm256_set1_epi8(flip as i8));
            half.put_quad(first + v, low_nibbles(q));
            half.put_quad(first + 4 + v, high_nibbles(q));
        }
    }
}

/// What the sum of a block's activations, an i32 that fits i16, is multiplied with to take the
/// offset of its weights off again.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn put_offset(offset: i16, half: &mut Half<'_>) {
    // SAFETY: the feature is the caller's promise.
    unsafe { half.put_pairs(0, _mm256_set1_epi32(i32::from(-offset) & 0xffff)) };
}

/// `sums` and `N` pairs of factors times the pairs of activation sums from `x` on.
///
/// # Safety
/// There are `N` pairs at `x`, and the CPU has the features of the rows.
#[inline(always)]
pub(super) unsafe fn add_sums<R: Rows, const N: usize>(
    panel: &Panel,
    x: *const u8,
    mut sums: R::Ints,
) -> R::Ints {
    for (pair, factors) in panel.pairs[..N].iter().enumerate() {
        // SAFETY: the caller's pairs, and features.
        unsafe { sums = R::add_pairs(sums, R::load(factors), R::repeat(x.add(4 * pair))) };
    }
    sums
}

/// The end of a record of a block format: `acc = fma(P, d * da, acc)`.
///
/// # Safety
/// A record of activations is at `x`, and the CPU has the features of the rows.
#[inline(always)]
pub(super) unsafe fn add_scaled<R: Rows>(
    panel: &Panel,
    index: usize,
    x: *const u8,
    products: R::Ints,
    acc: R::Floats,
) -> R::Floats {
    // SAFETY: the caller's record, and features.
    unsafe {
        let scale = R::mul(R::load_floats(&panel.d[index]), R::repeat_float(x.add(32)));
        R::fma(R::to_floats(products), scale, acc)
    }
}

/// The same for weights with an offset.
///
/// # Safety
/// As for [`add_scaled`].
#[inline(always)]
pub(super) unsafe fn finish_block<R: Rows>(
    panel: &Panel,
    index: usize,
    x: *const u8,
    sums: R::Ints,
    acc: R::Floats,
) -> R::Floats {
    // SAFETY: the caller's record, and features; the sum is at 40.
    unsafe {
        let products = add_sums::<R, 1>(panel, x.add(40), sums);
        add_scaled::<R>(panel, index, x, products, acc)
    }
}

/// The header of Q4_K and Q5_K.
///
/// # Safety
/// There is such a header at `record`, and the CPU has the features of the tier.
#[inline(always)]
pub(super) unsafe fn put_header<T: Tier>(record: *const u8, half: &mut Half<'_>) {
    // SAFETY: the offsets are those of the header; the features are the caller's promise.
    unsafe {
        for sub in 0..8 {
            let scales = _mm_loadl_epi64(record.add(q4_k::SCALES + 8 * sub).cast());
            half.put_scales(sub, T::spread_scales(_mm_cvtepu8_epi16(scales)));
        }
        // The minima of four sub-blocks to a row: two pairs of i16.
        const ZERO: i8 = -1;
        let first = _mm_setr_epi8(
            0, ZERO, 1, ZERO, 4, ZERO, 5, ZERO, 8, ZERO, 9, ZERO, 12, ZERO, 13, ZERO,
        );
        let first = _mm256_broadcastsi128_si256(first);
        for four in 0..2 {
            let minima = load(record.add(q4_k::MINS + 32 * four));
            let next = _mm256_srli_epi32(minima, 16);
            half.put_pairs(2 * four, _mm256_shuffle_epi8(minima, first));
            half.put_pairs(2 * four + 1, _mm256_shuffle_epi8(next, first));
        }
        half.put_d(load_f16(record.add(q4_k::D)));
        half.put_m(load_f16(record.add(q4_k::DMIN)));
    }
}

/// The end of a record of Q4_K and Q5_K:
/// `t = d * A`, `t = fma(-dmin, M, t)`, `acc = fma(t, da, acc)`.
///
/// # Safety
/// A record of activations is at `x`, and the CPU has the features of the rows.
#[inline(always)]
pub(super) unsafe fn finish_with_minima<R: Rows>(
    panel: &Panel,
    index: usize,
    x: *const u8,
    sums: R::Ints,
    acc: R::Floats,
) -> R::Floats {
    // SAFETY: the caller's record, and features; the sums of thirty-twos are at 280.
    unsafe {
        let minima = R::to_floats(add_sums::<R, 4>(panel, x.add(280), R::ZERO));
        let t = R::mul(R::load_floats(&panel.d[index]), R::to_floats(sums));
        let t = R::fnma(R::load_floats(&panel.m[index]), minima, t);
        R::fma(t, R::repeat_float(x.add(272)), acc)
    }
}
