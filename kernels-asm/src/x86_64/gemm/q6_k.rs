//! Q6_K. Weights are taken as 0 ..= 63, 32 more than they are.

use super::Format;
use super::panel::{Half, Panel};
use super::records::add_sums;
use super::rows::Rows;
use super::tier::{Tier, interleave};
use crate::pack::q6_k::{D, QUANTS, RECORD, SCALES};
use crate::x86_64::{load_f16, load_six_bits};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q6_K;

impl Format for Q6_K {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 336;
    const RECORDS: usize = 1;
    const SUBS: usize = 16;
    const QUADS: usize = 4;
    const LIMIT: usize = 2; // 2 * 2 * 63 * 127 = 32004
    const SCALED: bool = true;

    #[inline(always)]
    unsafe fn unpack<T: Tier>(record: *const u8, mut half: Half<'_>) {
        // SAFETY: the caller's record, and features.
        unsafe {
            let scales = |sub: usize| {
                let scales = record.add(SCALES + 8 * sub);
                _mm_cvtepi8_epi16(_mm_loadl_epi64(scales.cast()))
            };
            for sub in 0..16 {
                let quads = load_six_bits(record.add(QUANTS + 96 * sub));
                for (quad, q) in quads.into_iter().enumerate() {
                    half.put_quad(4 * sub + quad, q);
                }
                half.put_scales(sub, T::spread_scales(scales(sub)));
            }
            // -32 times the scale, for the sum of the activations of a sub-block.
            let offsets = |sub: usize| {
                let scales = scales(sub);
                _mm_sub_epi16(_mm_setzero_si128(), _mm_slli_epi16(scales, 5))
            };
            for pair in 0..8 {
                half.put_pairs(pair, interleave(offsets(2 * pair), offsets(2 * pair + 1)));
            }
            half.put_d(load_f16(record.add(D)));
        }
    }

    /// `t = d * A`, `acc = fma(t, da, acc)`.
    #[inline(always)]
    unsafe fn finish<R: Rows>(
        panel: &Panel,
        index: usize,
        x: *const u8,
        sums: R::Ints,
        acc: R::Floats,
    ) -> R::Floats {
        // SAFETY: the caller's record, and features; the sums of sixteens are at 296.
        unsafe {
            let sums = R::to_floats(add_sums::<R, 8>(panel, x.add(296), sums));
            let t = R::mul(R::load_floats(&panel.d[index]), sums);
            R::fma(t, R::repeat_float(x.add(272)), acc)
        }
    }
}
