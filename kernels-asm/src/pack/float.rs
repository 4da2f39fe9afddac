//! F32, F16 and BF16. GGUF stores bare numbers; eight of them make a block here.

use crate::half::f16_to_f32;

/// Bytes of an F32 record.
pub const RECORD_F32: usize = 256;
/// Bytes of an F16 or BF16 record.
pub const RECORD_F16: usize = 128;

/// `BLOCK` is eight numbers, `RECORD` eight blocks.
pub fn pack<const BLOCK: usize, const RECORD: usize>(
    block: &[u8; BLOCK],
    record: &mut [u8; RECORD],
    r: usize,
) {
    let size = BLOCK / 8;
    for (number, column) in block
        .chunks_exact(size)
        .zip(record.chunks_exact_mut(8 * size))
    {
        column[r * size..][..size].copy_from_slice(number);
    }
}

/// Column `k` of row `r`.
pub fn f32(record: &[u8; RECORD_F32], k: usize, r: usize) -> f32 {
    f32::from_le_bytes(core::array::from_fn(|i| record[k * 32 + r * 4 + i]))
}

/// Column `k` of row `r`.
pub fn f16(record: &[u8; RECORD_F16], k: usize, r: usize) -> f32 {
    f16_to_f32(bits(record, k, r))
}

/// Column `k` of row `r`: a bfloat16 is the upper half of an f32.
pub fn bf16(record: &[u8; RECORD_F16], k: usize, r: usize) -> f32 {
    f32::from_bits(u32::from(bits(record, k, r)) << 16)
}

fn bits(record: &[u8; RECORD_F16], k: usize, r: usize) -> u16 {
    u16::from_le_bytes([record[k * 16 + r * 2], record[k * 16 + r * 2 + 1]])
}

pub fn unpack_f32(record: &[u8; RECORD_F32], r: usize, out: &mut [f32; 8]) {
    *out = core::array::from_fn(|k| f32(record, k, r));
}

pub fn unpack_f16(record: &[u8; RECORD_F16], r: usize, out: &mut [f32; 8]) {
    *out = core::array::from_fn(|k| f16(record, k, r));
}

pub fn unpack_bf16(record: &[u8; RECORD_F16], r: usize, out: &mut [f32; 8]) {
    *out = core::array::from_fn(|k| bf16(record, k, r));
}
