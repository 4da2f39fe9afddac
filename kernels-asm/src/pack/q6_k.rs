//! Q6_K. GGUF block: 128 bytes of low nibbles; 64 bytes of high bit pairs; 16 scales i8; d f16.
//! Of each half of 128 weights, quarter i = k / 32 % 4 has its nibbles in bytes 32 (i % 2) + l of
//! the half's 64, low for i < 2, and its bit pairs at bit 2i of the half's 32. With sub-block
//! j = k / 16 the value is d * scale\[j\] * (u - 32).

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 210;
pub const RECORD: usize = 1680;
pub const SCALES: usize = 0;
pub const D: usize = 128;
pub const QUANTS: usize = 144;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    copy_f16(block, 208, record, D, r);
    for j in 0..16 {
        record[SCALES + 8 * j + r] = block[192 + j];
        // A sub-block of 16 is one half of a quarter.
        let (half, quarter, l) = (j / 8, j / 2 % 4, j % 2 * 16);
        let q = core::array::from_fn(|v| {
            let nibbles = words::load(block, 64 * half + 32 * (quarter % 2) + l + 4 * v);
            let pairs = words::load(block, 128 + 32 * half + l + 4 * v);
            let low = nibbles >> (quarter / 2 * 4) & words::NIBBLES;
            let high = pairs >> (2 * quarter) & (3 * words::ONES);
            // u - 32 in six bits of two's complement is u ^ 32.
            (low | high << 4) ^ (32 * words::ONES)
        });
        for (v, word) in words::pack6(q).into_iter().enumerate() {
            words::store(record, QUANTS + j * 96 + v * 32 + r * 4, word);
        }
    }
}

/// The scale of sub-block `j`.
pub fn scale(record: &[u8; RECORD], j: usize, r: usize) -> i8 {
    record[SCALES + 8 * j + r] as i8
}

/// The weights of row `r`, -32 ..= 31.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 256] {
    let mut q = [0; 256];
    for (j, q) in q.chunks_exact_mut(16).enumerate() {
        let at = QUANTS + j * 96 + r * 4;
        let packed = core::array::from_fn(|v| words::load(record, at + v * 32));
        for (q, word) in q.chunks_exact_mut(4).zip(words::unpack6(packed)) {
            q.copy_from_slice(&word.to_le_bytes().map(|six| (six as i8) << 2 >> 2));
        }
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 256]) {
    let d = f16(record, D, r);
    let quants = quants(record, r);
    for (j, (q, out)) in quants
        .chunks_exact(16)
        .zip(out.chunks_exact_mut(16))
        .enumerate()
    {
        let step = d * f32::from(scale(record, j, r));
        for (&q, out) in q.iter().zip(out) {
            *out = step * f32::from(q);
        }
    }
}
