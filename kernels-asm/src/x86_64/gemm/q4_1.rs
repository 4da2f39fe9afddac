//! Q4_1.

use super::Format;
use super::panel::{Half, Panel};
use super::records::{add_scaled, put_nibbles};
use super::rows::Rows;
use super::tier::Tier;
use crate::pack::q4_1::{D, M, RECORD};
use crate::x86_64::load_f16;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q4_1;

impl Format for Q4_1 {
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
            put_nibbles(record, 0, 0, &mut half);
            half.put_d(load_f16(record.add(D)));
            half.put_m(load_f16(record.add(M)));
        }
    }

    /// `acc = fma(P, d * da, acc)`, `acc = fma(m, da * sum, acc)`.
    #[inline(always)]
    unsafe fn finish<R: Rows>(
        panel: &Panel,
        index: usize,
        x: *const u8,
        sums: R::Ints,
        acc: R::Floats,
    ) -> R::Floats {
        // SAFETY: the caller's record, and features.
        unsafe {
            let acc = add_scaled::<R>(panel, index, x, sums, acc);
            R::fma(
                R::load_floats(&panel.m[index]),
                R::repeat_float(x.add(36)),
                acc,
            )
        }
    }
}
