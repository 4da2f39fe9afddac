//! GEMV of IQ4_NL: nibbles that are places in a table of signed weights.

use super::{Format, Tier, finish_block, high_nibbles, load, low_nibbles, prefetch, repeat};
use crate::pack::iq4_nl::{D, RECORD, TABLE};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct IQ4_NL;

impl Format for IQ4_NL {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 48;

    #[inline(always)]
    unsafe fn step<T: Tier, const N: usize>(
        weights: [*const u8; N],
        x: *const u8,
        mut acc: [__m256; N],
    ) -> [__m256; N] {
        // SAFETY: the caller vouches for a record at every pointer, and for the features; the
        // table has 16 bytes.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(TABLE.as_ptr().cast()));
            let mut sums = [T::signed_start(repeat(x.add(40))); N];
            for v in 0..4 {
                let (x_low, x_high) = (repeat(x.add(4 * v)), repeat(x.add(16 + 4 * v)));
                for (w, sums) in weights.iter().zip(&mut sums) {
                    // Less than a line apart: none is left out.
                    if v < 3 {
                        prefetch(w.add(48 * v));
                    }
                    let q = load(w.add(32 * v));
                    let low = _mm256_shuffle_epi8(table, low_nibbles(q));
                    let high = _mm256_shuffle_epi8(table, high_nibbles(q));
                    *sums = T::add_signed_products(*sums, low, x_low);
                    *sums = T::add_signed_products(*sums, high, x_high);
                }
            }
            for ((w, sums), acc) in weights.iter().zip(sums).zip(&mut acc) {
                *acc = finish_block(w.add(D), x, sums, *acc);
            }
        }
        acc
    }
}
