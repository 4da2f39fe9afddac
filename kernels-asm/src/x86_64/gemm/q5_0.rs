//! Q5_0. The packed weights are 0 ..= 31, sixteen more than they stand for.

use super::Format;
use super::panel::{Half, Panel};
use super::records::{finish_block, put_offset};
use super::rows::Rows;
use super::tier::Tier;
use crate::pack::q5_0::{D, RECORD};
use crate::x86_64::{load_f16, load_five_bits};

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q5_0;

impl Format for Q5_0 {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 48;
    const RECORDS: usize = 8;
    const SUBS: usize = 1;
    const QUADS: usize = 8;
    const LIMIT: usize = 4; // 4 * 2 * 31 * 127 = 31496
    const SCALED: bool = false;

    #[inline(always)]
    unsafe fn unpack<T: Tier>(record: *const u8, mut half: Half<'_>) {
        // SAFETY: the caller's record, and features.
        unsafe {
            for (quad, q) in load_five_bits(record).into_iter().enumerate() {
                half.put_quad(quad, q);
            }
            put_offset(16, &mut half);
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
