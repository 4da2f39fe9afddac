//! Q4_0. Weights are taken as 0 ..= 15, eight more than they are.

use super::Format;
use super::panel::{Half, Panel};
use super::records::{finish_block, put_nibbles, put_offset};
use super::rows::Rows;
use super::tier::Tier;
use crate::pack::q4_0::{D, RECORD};
use crate::x86_64::load_f16;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q4_0;

impl Format for Q4_0 {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 48;
    const RECORDS: usize = 8;
    const SUBS: usize = 1;
    const QUADS: usize = 8;
    const LIMIT: usize = 8; // 8 * 2 * 15 * 127 = 30480
    const SCALED: bool = false;

    #[inline(always)]
    unsafe fn unpack<T: Tier>(record: *const u8, mut half: Half<'_>) {
        // SAFETY: the caller's record, and features.
        unsafe {
            // Two's complement to offset 8.
            put_nibbles(record, 0x88, 0, &mut half);
            put_offset(8, &mut half);
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
