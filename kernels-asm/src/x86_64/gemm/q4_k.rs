//! Q4_K.

use super::Format;
use super::panel::{Half, Panel};
use super::records::{finish_with_minima, put_header, put_nibbles};
use super::rows::Rows;
use super::tier::Tier;
use crate::pack::q4_k::{QUANTS, RECORD};

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q4_K;

impl Format for Q4_K {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 336;
    const RECORDS: usize = 1;
    const SUBS: usize = 8;
    const QUADS: usize = 8;
    const LIMIT: usize = 8; // 8 * 2 * 15 * 127 = 30480
    const SCALED: bool = true;

    #[inline(always)]
    unsafe fn unpack<T: Tier>(record: *const u8, mut half: Half<'_>) {
        // SAFETY: the caller's record, and features.
        unsafe {
            for sub in 0..8 {
                put_nibbles(record.add(QUANTS + 128 * sub), 0, 8 * sub, &mut half);
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
