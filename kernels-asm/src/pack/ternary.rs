//! TQ1_0 and TQ2_0, ternary weights with one scale: value d * (digit - 1). Two ways for a file to
//! store the same, so they share a record, with the digits of Q2_K.
//!
//! TQ2_0's GGUF block: 64 bytes of two-bit digits, as in Q2_K; d f16. A digit may be 3.
//!
//! TQ1_0's: 52 bytes of five digits (the last four: of four); d f16. Digit n of byte b is the n-th
//! of b / 256 after the point in base 3. The weights are digit 0 of 32 bytes, then digit 1, and so
//! on; then those of the next 16 bytes; then those of the last four.

use super::{copy_f16, f16, q2_k, words};

pub const BLOCK_TQ1_0: usize = 54;
pub const BLOCK_TQ2_0: usize = 66;
pub const RECORD: usize = 528;
pub const D: usize = 0;
pub const QUANTS: usize = 16;

pub fn pack_tq1_0(block: &[u8; BLOCK_TQ1_0], record: &mut [u8; RECORD], r: usize) {
    copy_f16(block, 52, record, D, r);
    for j in 0..16 {
        let u = core::array::from_fn(|v| {
            // Four successive weights are the same digit of successive bytes.
            let (start, bytes, k) = match 16 * j + 4 * v {
                k @ 0..160 => (0, 32, k),
                k @ 160..240 => (32, 16, k - 160),
                k => (48, 4, k - 240),
            };
            let shift = [1u8, 3, 9, 27, 81][k / bytes];
            let word = words::load(block, start + k % bytes).to_le_bytes();
            // What is before the point after these multiplications is dropped.
            let digit = |byte: u8| (u16::from(byte.wrapping_mul(shift)) * 3).to_le_bytes()[1];
            u32::from_le_bytes(word.map(digit))
        });
        words::store(record, QUANTS + j * 32 + r * 4, words::pack2(u));
    }
}

pub fn pack_tq2_0(block: &[u8; BLOCK_TQ2_0], record: &mut [u8; RECORD], r: usize) {
    copy_f16(block, 64, record, D, r);
    q2_k::pack_digits(&block[..64], &mut record[QUANTS..], r);
}

/// The weights of row `r`, -1 ..= 1, or 2.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 256] {
    q2_k::digits(&record[QUANTS..], r).map(|digit| digit - 1)
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 256]) {
    let d = f16(record, D, r);
    *out = quants(record, r).map(|q| d * f32::from(q));
}
