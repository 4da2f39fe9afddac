//! Q5_1. GGUF block: d f16; m f16; high bits u32, bit k; 16 bytes of low nibbles, low k = i, high
//! k = 16 + i; value d * u + m.

use super::{copy_f16, f16, q5_0, words};

pub const BLOCK: usize = 24;
pub const RECORD: usize = 192;
pub const D: usize = 160;
pub const M: usize = 176;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    q5_0::pack_weights(block, 4, record, r);
    copy_f16(block, 0, record, D, r);
    copy_f16(block, 2, record, M, r);
}

/// The weights of row `r`, 0 ..= 31.
#[inline(never)] // shared by the reference and the unpacking, neither of which is to be large
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 32] {
    let packed = core::array::from_fn(|v| words::load(record, v * 32 + r * 4));
    let mut q = [0; 32];
    for (q, word) in q.chunks_exact_mut(4).zip(words::unpack5(packed)) {
        q.copy_from_slice(&word.to_le_bytes().map(|u| u as i8));
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 32]) {
    let (d, m) = (f16(record, D, r), f16(record, M, r));
    *out = quants(record, r).map(|q| d * f32::from(q) + m);
}
