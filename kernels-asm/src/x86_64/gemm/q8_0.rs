//! Q8_0. Weights are taken as 0 ..= 255, 128 more than they are.

use super::Format;
use super::panel::{Half, Panel};
use super::records::{finish_block, put_offset};
use super::rows::Rows;
use super::tier::Tier;
use crate::pack::q8_0::{D, RECORD};
use crate::x86_64::{high_nibbles, load, load_f16, low_nibbles};
use core::arch::x86_64::*;

/// For products that are added up in i32.
#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q8_0;

impl Format for Q8_0 {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 48;
    const RECORDS: usize = 8;
    const SUBS: usize = 1;
    const QUADS: usize = 8;
    const LIMIT: usize = 0; // not for i16
    const SCALED: bool = false;

    #[inline(always)]
    unsafe fn unpack<T: Tier>(record: *const u8, mut half: Half<'_>) {
        // SAFETY: the caller's record, and features.
        unsafe {
            for quad in 0..8 {
                half.put_quad(quad, offset_quad(record, quad));
            }
            put_offset(128, &mut half);
            half.put_d(load_f16(record.add(D)));
        }
    }

    #[inline(always)]
    unsafe fn finish<R: Rows>(
        panel: &Panel,
        index: usize,
        x: *const u8,
        sums: R::Ints,
        acc: R::Floats,
    ) -> R::Floats {
        // SAFETY: the caller's record, and features.
        unsafe { finish_block::<R>(panel, index, x, sums, acc) }
    }
}

/// For products that are added up in i16, which can take those of a nibble: the low and the high
/// ones are two sub-blocks, with the scales 1 and 16, over the same activations.
#[allow(non_camel_case_types)]
pub(super) struct Q8_0InNibbles;

impl Format for Q8_0InNibbles {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 48;
    const RECORDS: usize = 4;
    const SUBS: usize = 2;
    const QUADS: usize = 8;
    const SUB_STRIDE: usize = 0;
    const LIMIT: usize = 8; // 8 * 2 * 15 * 127 = 30480
    const SCALED: bool = true;

    #[inline(always)]
    unsafe fn unpack<T: Tier>(record: *const u8, mut half: Half<'_>) {
        // SAFETY: the caller's record, and features.
        unsafe {
            for quad in 0..8 {
                let q = offset_quad(record, quad);
                half.put_quad(quad, low_nibbles(q));
                half.put_quad(8 + quad, high_nibbles(q));
            }
            half.put_scales(0, T::spread_scales(_mm_set1_epi16(1)));
            half.put_scales(1, T::spread_scales(_mm_set1_epi16(16)));
            put_offset(128, &mut half);
            half.put_d(load_f16(record.add(D)));
        }
    }

    #[inline(always)]
    unsafe fn finish<R: Rows>(
        panel: &Panel,
        index: usize,
        x: *const u8,
        sums: R::Ints,
        acc: R::Floats,
    ) -> R::Floats {
        // SAFETY: the caller's record, and features.
        unsafe { finish_block::<R>(panel, index, x, sums, acc) }
    }
}

/// Four k, plus 128.
#[inline(always)]
unsafe fn offset_quad(record: *const u8, quad: usize) -> __m256i {
    // SAFETY: the caller's record, and features.
    unsafe { _mm256_xor_si256(load(record.add(32 * quad)), _mm256_set1_epi8(-128)) }
}
