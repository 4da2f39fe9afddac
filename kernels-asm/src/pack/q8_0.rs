//! Q8_0. GGUF block: d f16; 32 weights i8; value d * q.

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 34;
pub const RECORD: usize = 272;
pub const D: usize = 256;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    for v in 0..8 {
        words::store(record, v * 32 + r * 4, words::load(block, 2 + 4 * v));
    }
    copy_f16(block, 0, record, D, r);
}

/// The weights of row `r`, -128 ..= 127.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 32] {
    core::array::from_fn(|k| record[k / 4 * 32 + r * 4 + k % 4] as i8)
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 32]) {
    let d = f16(record, D, r);
    *out = quants(record, r).map(|q| d * f32::from(q));
}
