//! IQ4_NL. GGUF block: d f16; 16 bytes of nibbles, low k = i, high k = 16 + i, value
//! d * `TABLE`\[n\].

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 18;
pub const RECORD: usize = 144;
pub const D: usize = 128;

/// The weights that a nibble chooses from (GGML's `kvalues_iq4nl`).
pub const TABLE: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    for v in 0..4 {
        words::store(record, v * 32 + r * 4, words::load(block, 2 + 4 * v));
    }
    copy_f16(block, 0, record, D, r);
}

/// The weights of row `r`, those of `TABLE`.
#[inline(never)] // shared by the reference and the unpacking, neither of which is to be large
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 32] {
    let mut q = [0; 32];
    for v in 0..4 {
        for c in 0..4 {
            let byte = record[v * 32 + r * 4 + c];
            q[4 * v + c] = TABLE[usize::from(byte & 15)];
            q[16 + 4 * v + c] = TABLE[usize::from(byte >> 4)];
        }
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 32]) {
    let d = f16(record, D, r);
    *out = quants(record, r).map(|q| d * f32::from(q));
}
