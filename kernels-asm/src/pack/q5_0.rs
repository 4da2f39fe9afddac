//! Q5_0. GGUF block: d f16; high bits u32, bit k; 16 bytes of low nibbles, low k = i, high
//! k = 16 + i; value d * (u - 16).

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 22;
pub const RECORD: usize = 176;
pub const D: usize = 160;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    pack_weights(block, 2, record, r);
    copy_f16(block, 0, record, D, r);
}

/// High bits and nibbles, which lie at `at` of a block of Q5_0 or Q5_1.
#[inline(always)]
pub fn pack_weights(block: &[u8], at: usize, record: &mut [u8], r: usize) {
    let high = words::load(block, at);
    let u = core::array::from_fn(|v| {
        let nibbles = words::load(block, at + 4 + 4 * (v % 4)) >> (v / 4 * 4) & words::NIBBLES;
        nibbles | words::spread(high >> (4 * v)) << 4
    });
    for (v, word) in words::pack5(u).into_iter().enumerate() {
        words::store(record, v * 32 + r * 4, word);
    }
}

/// The weights of row `r`, -16 ..= 15.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 32] {
    let packed = core::array::from_fn(|v| words::load(record, v * 32 + r * 4));
    let mut q = [0; 32];
    for (q, word) in q.chunks_exact_mut(4).zip(words::unpack5(packed)) {
        q.copy_from_slice(&word.to_le_bytes().map(|u| u as i8 - 16));
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 32]) {
    let d = f16(record, D, r);
    *out = quants(record, r).map(|q| d * f32::from(q));
}
