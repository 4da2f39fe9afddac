//! Q5_K.

use super::Format;
use super::panel::{Half, Panel};
use super::records::{finish_with_minima, put_header};
use super::rows::Rows;
use super::tier::Tier;
use crate::pack::q5_k::{QUANTS, RECORD};
use crate::x86_64::load_five_bits;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q5_K;

impl Format for Q5_K {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 336;
    const RECORDS: usize = 1;
    const SUBS: usize = 8;
    const QUADS: usize = 8;
    const LIMIT: usize = 4; // 4 * 2 * 31 * 127 = 31496
    const SCALED: bool = true;

    #[inline(always)]
    unsafe fn unpack<T: Tier>(record: *const u8, mut half: Half<'_>) {
        // SAFETY: the caller's record, and features.
        unsafe {
            for sub in 0..8 {
                let quads = load_five_bits(record.add(QUANTS + 160 * sub));
                for (quad, q) in quads.into_iter().enumerate() {
                    half.put_quad(8 * sub + quad, q);
                }
            }
            put_header::<T>(record, &mut half);
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
        unsafe { finish_with_minima::<R>(panel, index, x, sums, acc) }
    }
}
