//! Floats to the int8 records of [`crate::activation`], for any tier.
//!
//! A block has no digits, and every byte of its record but the scale is zero, when
//! - its greatest magnitude is zero or below 3.74e-37, where `127 / amax` overflows: `d = 0`;
//! - it holds an infinity or a NaN: `d` is NaN (and so is `d*sum`), which reaches every output of
//!   every GEMV that reads the record.
//!
//! In all others `|x * (127 / amax)|` rounds to at most 127: two roundings can pass 127 by one
//! part in 2^23, not by a half.

use super::lanes::Lanes;
use crate::activation::ActivationFormat::{Per32, Per256};

const PER_32: usize = Per32.record_bytes();
const PER_256: usize = Per256.record_bytes();

/// See [`super::VectorOps::quantize_per_32`].
#[inline(always)]
pub(super) fn quantize_per_32<L: Lanes>(x: &[f32], out: &mut [u8]) {
    assert!(x.len().is_multiple_of(32) && out.len() == Per32.bytes(x.len()));
    let blocks = x.as_chunks::<32>().0;
    for (block, record) in blocks.iter().zip(out.as_chunks_mut::<PER_32>().0) {
        let x = load32::<L>(block);
        let scale = Scale::of(magnitude(x, L::splat(0.0)).max_magnitude_lane());
        *record = [0; PER_32];
        let (q, tail) = split_digits(record);
        let mut sum = 0;
        if let Some(inverse) = scale.inverse {
            let [low, high] = L::round_to_i8(scaled(x, L::splat(inverse)), q);
            sum = low + high;
        }
        tail[0..4].copy_from_slice(&scale.d.to_le_bytes());
        tail[4..8].copy_from_slice(&(scale.d * sum as f32).to_le_bytes());
        tail[8..12].copy_from_slice(&sum.to_le_bytes());
    }
}

/// See [`super::VectorOps::quantize_per_256`].
#[inline(always)]
pub(super) fn quantize_per_256<L: Lanes>(x: &[f32], out: &mut [u8]) {
    assert!(x.len().is_multiple_of(256) && out.len() == Per256.bytes(x.len()));
    let blocks = x.as_chunks::<256>().0;
    for (block, record) in blocks.iter().zip(out.as_chunks_mut::<PER_256>().0) {
        let parts = block.as_chunks::<32>().0;
        let mut amax = L::splat(0.0);
        for part in parts {
            amax = magnitude(load32::<L>(part), amax);
        }
        let scale = Scale::of(amax.max_magnitude_lane());
        let (q, tail) = record.split_at_mut(256);
        let mut sums = [[0; 2]; 8];
        if let Some(inverse) = scale.inverse {
            let inverse = L::splat(inverse);
            for ((part, q), sums) in parts.iter().zip(q.as_chunks_mut().0).zip(&mut sums) {
                *sums = L::round_to_i8(scaled(load32::<L>(part), inverse), q);
            }
        } else {
            q.fill(0);
        }
        write_sums(scale.d, sums, tail);
    }
}

/// What follows the digits of a per-256 record.
#[inline(always)]
fn write_sums(d: f32, sums: [[i32; 2]; 8], tail: &mut [u8]) {
    const AT: usize = 256;
    tail.fill(0);
    tail[272 - AT..276 - AT].copy_from_slice(&d.to_le_bytes());
    for (j, [low, high]) in sums.into_iter().enumerate() {
        // |s32| <= 32 * 127 = 4064, so all of these fit.
        let s32 = low + high;
        let hi = (s32 + 64) >> 7;
        tail[256 - AT + j] = (s32 - 128 * hi) as u8;
        tail[264 - AT + j] = hi as u8;
        put_i16(tail, 280 - AT + 2 * j, s32);
        put_i16(tail, 296 - AT + 4 * j, low);
        put_i16(tail, 298 - AT + 4 * j, high);
    }
}

#[inline(always)]
fn put_i16(bytes: &mut [u8], at: usize, value: i32) {
    bytes[at..at + 2].copy_from_slice(&(value as i16).to_le_bytes());
}

/// How a block is scaled.
struct Scale {
    /// The value of one step.
    d: f32,
    /// Steps per unit; none for a block without digits.
    inverse: Option<f32>,
}

impl Scale {
    #[inline(always)]
    fn of(amax: f32) -> Self {
        let inverse = 127.0 / amax;
        if !amax.is_finite() {
            Self {
                d: f32::NAN,
                inverse: None,
            }
        } else if !inverse.is_finite() {
            Self {
                d: 0.0,
                inverse: None,
            }
        } else {
            Self {
                d: amax / 127.0,
                inverse: Some(inverse),
            }
        }
    }
}

#[inline(always)]
fn load32<L: Lanes>(x: &[f32; 32]) -> [L; 4] {
    let x = x.as_chunks::<8>().0;
    [
        L::load(&x[0]),
        L::load(&x[1]),
        L::load(&x[2]),
        L::load(&x[3]),
    ]
}

#[inline(always)]
fn scaled<L: Lanes>([a, b, c, d]: [L; 4], factor: L) -> [L; 4] {
    [a.mul(factor), b.mul(factor), c.mul(factor), d.mul(factor)]
}

/// The greatest magnitude in each lane, among `x` and `so_far`.
#[inline(always)]
fn magnitude<L: Lanes>([a, b, c, d]: [L; 4], so_far: L) -> L {
    so_far
        .max_magnitude(a)
        .max_magnitude(b)
        .max_magnitude(c)
        .max_magnitude(d)
}

#[inline(always)]
fn split_digits(record: &mut [u8; PER_32]) -> (&mut [u8; 32], &mut [u8]) {
    record
        .split_first_chunk_mut()
        .expect("a record is longer than its digits")
}
