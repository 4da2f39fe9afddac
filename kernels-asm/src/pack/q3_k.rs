//! Q3_K. GGUF block: 32 bytes of high bits, bit k / 32 of byte k % 32; 64 bytes of low digits, as
//! in Q2_K; 12 bytes of six-bit scales; d f16. With sub-block j = k / 16 the value is
//! d * (scale\[j\] - 32) * (u - 4), where u has its high bit from the first and the others from
//! the second.

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 110;
pub const RECORD: usize = 912;
pub const SCALES: usize = 0;
pub const D: usize = 128;
pub const QUANTS: usize = 144;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    copy_f16(block, 108, record, D, r);
    pack_scales(block, record, r);
    for j in 0..8 {
        let (half, quarter) = (j / 4, j % 4);
        let u = core::array::from_fn(|v| {
            let low = words::load(block, 32 + 32 * half + 4 * v) >> (2 * quarter) & words::THREES;
            let high = words::load(block, 4 * v) >> j & words::ONES;
            low | high << 2
        });
        for (i, word) in words::pack3(u).into_iter().enumerate() {
            words::store(record, QUANTS + j * 96 + i * 32 + r * 4, word);
        }
    }
}

/// Scales less 32, which is how they are used.
fn pack_scales(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    // Bytes 0..8 have the low nibbles of scales j and j + 8; bytes 8..12 the two high bits of
    // scales j, j + 4, j + 8 and j + 12.
    let high = words::load(block, 104);
    for quarter in 0..4 {
        let nibbles = words::load(block, 96 + quarter % 2 * 4) >> (quarter / 2 * 4);
        let pairs = high >> (2 * quarter) & words::THREES;
        let scales = nibbles & words::NIBBLES | pairs << 4;
        for (j, scale) in scales.to_le_bytes().into_iter().enumerate() {
            record[SCALES + 8 * (4 * quarter + j) + r] = scale.wrapping_sub(32);
        }
    }
}

/// The scale of sub-block `j`, -32 ..= 31 in a record that was packed from a block.
pub fn scale(record: &[u8; RECORD], j: usize, r: usize) -> i8 {
    record[SCALES + 8 * j + r] as i8
}

/// The weights of row `r`, -4 ..= 3.
#[inline(never)] // shared by the reference and the unpacking, neither of which is to be large
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 256] {
    let mut q = [0; 256];
    for (j, q) in q.chunks_exact_mut(32).enumerate() {
        let at = QUANTS + j * 96 + r * 4;
        let packed = core::array::from_fn(|i| words::load(record, at + i * 32));
        for (q, word) in q.chunks_exact_mut(4).zip(words::unpack3(packed)) {
            q.copy_from_slice(&word.to_le_bytes().map(|u| u as i8 - 4));
        }
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 256]) {
    let d = f16(record, D, r);
    let quants = quants(record, r);
    for (k, (&q, out)) in quants.iter().zip(out).enumerate() {
        *out = d * f32::from(scale(record, k / 16, r)) * f32::from(q);
    }
}
