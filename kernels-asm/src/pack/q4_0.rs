//! Q4_0. GGUF block: d f16; 16 bytes of nibbles, low k = i, high k = 16 + i, value d * (n - 8).

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 18;
pub const RECORD: usize = 144;
pub const D: usize = 128;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    for v in 0..4 {
        // The nibbles already lie as the record wants them; n - 8 in two's complement is n ^ 8.
        let word = words::load(block, 2 + 4 * v) ^ 0x8888_8888;
        words::store(record, v * 32 + r * 4, word);
    }
    copy_f16(block, 0, record, D, r);
}

/// The weights of row `r`, -8 ..= 7.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 32] {
    let mut q = [0; 32];
    for v in 0..4 {
        for c in 0..4 {
            let byte = record[v * 32 + r * 4 + c] as i8;
            q[4 * v + c] = byte << 4 >> 4;
            q[16 + 4 * v + c] = byte >> 4;
        }
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 32]) {
    let d = f16(record, D, r);
    *out = quants(record, r).map(|q| d * f32::from(q));
}
