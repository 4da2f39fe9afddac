//! Q2_K. GGUF block: 16 bytes of scales, low nibble, and minima, high; 64 bytes of two-bit digits;
//! d f16; dmin f16. Of each half of 128 weights, quarter i = k / 32 % 4 has its digits at bit 2i of
//! the half's 32 bytes. With sub-block j = k / 16 the value is
//! d * scale\[j\] * q - dmin * min\[j\].

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 84;
pub const RECORD: usize = 672;
pub const SCALES: usize = 0;
pub const D: usize = 128;
pub const DMIN: usize = 144;
pub const QUANTS: usize = 160;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    for j in 0..16 {
        record[SCALES + 8 * j + r] = block[j];
    }
    copy_f16(block, 80, record, D, r);
    copy_f16(block, 82, record, DMIN, r);
    pack_digits(&block[16..80], &mut record[QUANTS..], r);
}

/// The 64 bytes of digits of Q2_K or TQ2_0 into a record's 512.
#[inline(always)]
pub fn pack_digits(digits: &[u8], packed: &mut [u8], r: usize) {
    for j in 0..16 {
        // A sub-block of 16 is one half of a quarter.
        let (half, quarter, l) = (j / 8, j / 2 % 4, j % 2 * 16);
        let u = core::array::from_fn(|v| {
            words::load(digits, 32 * half + l + 4 * v) >> (2 * quarter) & words::THREES
        });
        words::store(packed, j * 32 + r * 4, words::pack2(u));
    }
}

/// Digits of row `r`, 0 ..= 3, from a record's 512 bytes.
#[inline(never)] // shared by the reference and the unpacking, neither of which is to be large
pub fn digits(packed: &[u8], r: usize) -> [i8; 256] {
    let mut q = [0; 256];
    for (j, q) in q.chunks_exact_mut(16).enumerate() {
        let words = words::unpack2(words::load(packed, j * 32 + r * 4));
        for (q, word) in q.chunks_exact_mut(4).zip(words) {
            q.copy_from_slice(&word.to_le_bytes().map(|u| u as i8));
        }
    }
    q
}

/// The scale of sub-block `j`, 0 ..= 15.
pub fn scale(record: &[u8; RECORD], j: usize, r: usize) -> u8 {
    record[SCALES + 8 * j + r] & 15
}

/// The minimum of sub-block `j`, 0 ..= 15.
pub fn min(record: &[u8; RECORD], j: usize, r: usize) -> u8 {
    record[SCALES + 8 * j + r] >> 4
}

/// The weights of row `r`, 0 ..= 3.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 256] {
    digits(&record[QUANTS..], r)
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 256]) {
    let (d, dmin) = (f16(record, D, r), f16(record, DMIN, r));
    let quants = quants(record, r);
    for (k, (&q, out)) in quants.iter().zip(out).enumerate() {
        let step = d * f32::from(scale(record, k / 16, r));
        let offset = dmin * f32::from(min(record, k / 16, r));
        *out = step * f32::from(q) - offset;
    }
}
