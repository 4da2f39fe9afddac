//! Q4_1. GGUF block: d f16; m f16; 16 bytes of nibbles, low k = i, high k = 16 + i, value d*n + m.

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 20;
pub const RECORD: usize = 160;
pub const D: usize = 128;
pub const M: usize = 144;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    for v in 0..4 {
        words::store(record, v * 32 + r * 4, words::load(block, 4 + 4 * v));
    }
    copy_f16(block, 0, record, D, r);
    copy_f16(block, 2, record, M, r);
}

/// The weights of row `r`, 0 ..= 15.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 32] {
    let mut q = [0; 32];
    for v in 0..4 {
        for c in 0..4 {
            let byte = record[v * 32 + r * 4 + c];
            q[4 * v + c] = (byte & 15) as i8;
            q[16 + 4 * v + c] = (byte >> 4) as i8;
        }
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 32]) {
    let (d, m) = (f16(record, D, r), f16(record, M, r));
    *out = quants(record, r).map(|q| d * f32::from(q) + m);
}
