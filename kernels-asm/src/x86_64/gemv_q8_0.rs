//! GEMV of Q8_0. How a tier multiplies signed weights is its own affair; where it takes them for
//! 128 more than they are, the sums start at what that is too much.

use super::{Format, Tier, finish_block, load, prefetch, repeat};
use crate::pack::q8_0::{D, RECORD};
use core::arch::x86_64::*;

#[allow(non_camel_case_types)] // the name of the GGUF specification
pub(super) struct Q8_0;

impl Format for Q8_0 {
    const RECORD: usize = RECORD;
    const ACTIVATION: usize = 48;

    #[inline(always)]
    unsafe fn step<T: Tier, const N: usize>(
        weights: [*const u8; N],
        x: *const u8,
        mut acc: [__m256; N],
    ) -> [__m256; N] {
        // SAFETY: the caller vouches for a record at every pointer, and for the features.
        unsafe {
            let mut sums = [T::signed_start(repeat(x.add(40))); N];
            for v in 0..8 {
                let x = repeat(x.add(4 * v));
                for (w, sums) in weights.iter().zip(&mut sums) {
                    if v % 2 == 0 {
                        prefetch(w.add(34 * v));
                    }
                    *sums = T::add_signed_products(*sums, load(w.add(32 * v)), x);
                }
            }
            for ((w, sums), acc) in weights.iter().zip(sums).zip(&mut acc) {
                *acc = finish_block(w.add(D), x, sums, *acc);
            }
        }
        acc
    }
}
