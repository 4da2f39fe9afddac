//! Q4_K. GGUF block: d f16; dmin f16; 12 bytes of six-bit scales and minima; 128 bytes of nibbles,
//! byte 32i + l holding k = 64i + l low and k = 64i + 32 + l high. With sub-block j = k / 32 the
//! value is d * scale\[j\] * n - dmin * min\[j\].
//!
//! The header of the record (scales, minima, d, dmin) is the same in Q5_K, which uses it from here.

use super::{copy_f16, f16, words};

pub const BLOCK: usize = 144;
pub const RECORD: usize = 1184;
pub const SCALES: usize = 0;
pub const MINS: usize = 64;
pub const D: usize = 128;
pub const DMIN: usize = 144;
pub const QUANTS: usize = 160;

pub fn pack(block: &[u8; BLOCK], record: &mut [u8; RECORD], r: usize) {
    pack_header(block, record, r);
    for i in 0..4 {
        for v in 0..4 {
            // Two sub-blocks share these bytes; in the record the halves of one sub-block do.
            let first = words::load(block, 16 + 32 * i + 4 * v);
            let second = words::load(block, 16 + 32 * i + 16 + 4 * v);
            let at = QUANTS + 2 * i * 128 + v * 32 + r * 4;
            words::store(
                record,
                at,
                first & words::NIBBLES | (second & words::NIBBLES) << 4,
            );
            words::store(
                record,
                at + 128,
                first >> 4 & words::NIBBLES | second & !words::NIBBLES,
            );
        }
    }
}

/// The first 16 bytes of a block, the same in Q4_K and Q5_K, into the first 160 of a record.
pub fn pack_header(block: &[u8], record: &mut [u8], r: usize) {
    copy_f16(block, 0, record, D, r);
    copy_f16(block, 2, record, DMIN, r);
    // Bytes 0..4 have scale j in their low six bits and 4..8 minimum j, for j < 4. Bytes 8..12
    // have the low nibbles of scale and minimum j + 4, whose top bits are those of the others.
    let [low, high, nibbles] = [4, 8, 12].map(|at| words::load(block, at));
    let (six_bits, two_bits) = (0x3f3f_3f3f, 0x3030_3030);
    let scales = [
        low & six_bits,
        nibbles & words::NIBBLES | low >> 2 & two_bits,
    ];
    let mins = [
        high & six_bits,
        nibbles >> 4 & words::NIBBLES | high >> 2 & two_bits,
    ];
    for half in 0..2 {
        words::store(record, MINS + half * 32 + r * 4, mins[half]);
        for (j, scale) in scales[half].to_le_bytes().into_iter().enumerate() {
            record[SCALES + 8 * (4 * half + j) + r] = scale;
        }
    }
}

/// The scale of sub-block `j`, 0 ..= 63 in a record that was packed from a block.
pub fn scale(record: &[u8], j: usize, r: usize) -> u8 {
    record[SCALES + 8 * j + r]
}

/// The minimum of sub-block `j`, 0 ..= 63 in a record that was packed from a block.
pub fn min(record: &[u8], j: usize, r: usize) -> u8 {
    record[MINS + j / 4 * 32 + r * 4 + j % 4]
}

/// The weights of row `r`, 0 ..= 15.
pub fn quants(record: &[u8; RECORD], r: usize) -> [i8; 256] {
    let mut q = [0; 256];
    for (j, q) in q.chunks_exact_mut(32).enumerate() {
        for v in 0..4 {
            for c in 0..4 {
                let byte = record[QUANTS + j * 128 + v * 32 + r * 4 + c];
                q[4 * v + c] = (byte & 15) as i8;
                q[16 + 4 * v + c] = (byte >> 4) as i8;
            }
        }
    }
    q
}

pub fn unpack(record: &[u8; RECORD], r: usize, out: &mut [f32; 256]) {
    unpack_scaled(record, r, &quants(record, r), out);
}

/// Weights with the header of Q4_K and Q5_K to values.
pub fn unpack_scaled(record: &[u8], r: usize, quants: &[i8; 256], out: &mut [f32; 256]) {
    let (d, dmin) = (f16(record, D, r), f16(record, DMIN, r));
    for (j, (q, out)) in quants
        .chunks_exact(32)
        .zip(out.chunks_exact_mut(32))
        .enumerate()
    {
        let step = d * f32::from(scale(record, j, r));
        let offset = dmin * f32::from(min(record, j, r));
        for (&q, out) in q.iter().zip(out) {
            *out = step * f32::from(q) - offset;
        }
    }
}
