//! Q5_K. GGUF block: the header of Q4_K; 32 bytes of high bits, bit j of byte l for k = 32j + l;
//! the 128 bytes of nibbles of Q4_K. Values as in Q4_K.

use super::{q4_k, words};

pub const BLOCK: usize = 176;
pub const RECORD: usize = 1440;
pub const QUANTS: usize = 160;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    q4_k::pack_header(block, record, r);
    for j in 0..8 {
        let u = core::array::from_fn(|v| {
            let nibbles = words::load(block, 48 + 32 * (j / 2) + 4 * v) >> (j % 2 * 4);
            let high = words::load(block, 16 + 4 * v) >> j & words::ONES;
            nibbles & words::NIBBLES | high << 4
        });
        for (v, word) in words::pack5(u).into_iter().enumerate() {
            words::store(record, QUANTS + j * 160 + v * 32 + r * 4, word);
        }
    }
}

/// The weights of row `r`, 0 ..= 31.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 256] {
    let mut q = [0; 256];
    for (j, q) in q.chunks_exact_mut(32).enumerate() {
        let at = QUANTS + j * 160 + r * 4;
        let packed = core::array::from_fn(|v| words::load(record, at + v * 32));
        for (q, word) in q.chunks_exact_mut(4).zip(words::unpack5(packed)) {
            q.copy_from_slice(&word.to_le_bytes().map(|u| u as i8));
        }
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 256]) {
    q4_k::unpack_scaled(record, r, &quants(record, r), out);
}
