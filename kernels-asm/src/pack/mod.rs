//! GGUF rows to packed records, and one row of those back to floats.
//!
//! Packing moves bits and computes nothing, so it loses nothing: [`unpack_row`] gives the values
//! of the GGUF blocks themselves. It runs once a weight, at load, and is written to be faster than
//! the storage that the weights come from. The layout is the table in [`format`](crate::format);
//! one file per format here says what its GGUF block looks like and which bits go where.
//!
//! Values are those of GGML's `dequantize_row_*`, evaluated in f32 as the source has them, such as
//! `(d * scale) * q - (dmin * min)`. Every product fits f32's 24 bits (11 of a binary16, at most 7
//! of a scale and 6 of a weight), so there is at most one rounding and no order to disagree about.
//! Those of the float formats are the numbers themselves.
//!
//! Sizes are asserted: they are the caller's arithmetic, never a field of a file. The *content* of
//! a block may be anything; every bit pattern is some weight.

use crate::format::WeightFormat;
use crate::half::f16_to_f32;

pub(crate) mod float;
pub(crate) mod iq4_nl;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_1;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;
pub(crate) mod ternary;
mod words;

/// Packs up to eight rows of GGUF blocks into one group.
///
/// Row `r` of the group is `rows[r]`, `columns` weights of `format`; where it is `None` the group
/// gets a row whose product with anything is +0. Fills `out` completely.
///
/// # Panics
/// If `columns` is not whole blocks, a row has not the bytes of `columns` weights, or `out` not
/// those of a group.
pub fn pack_group(format: WeightFormat, rows: [Option<&[u8]>; 8], columns: usize, out: &mut [u8]) {
    assert!(
        columns.is_multiple_of(format.block_len()),
        "columns are whole blocks"
    );
    assert_eq!(
        out.len(),
        format.group_bytes(columns),
        "bytes of the packed group"
    );
    let row_bytes = columns / format.block_len() * format.block_bytes();
    for row in rows.into_iter().flatten() {
        assert_eq!(row.len(), row_bytes, "bytes of a GGUF row");
    }
    if rows.contains(&None) {
        // All-zero bytes have scale zero.
        out.fill(0);
    }
    match format {
        WeightFormat::Q4_0 => pack_records(rows, out, q4_0::pack),
        WeightFormat::Q4_1 => pack_records(rows, out, q4_1::pack),
        WeightFormat::Q5_0 => pack_records(rows, out, q5_0::pack),
        WeightFormat::Q8_0 => pack_records(rows, out, q8_0::pack),
        WeightFormat::Q4_K => pack_records(rows, out, q4_k::pack),
        WeightFormat::Q5_K => pack_records(rows, out, q5_k::pack),
        WeightFormat::Q6_K => pack_records(rows, out, q6_k::pack),
        WeightFormat::Q5_1 => pack_records(rows, out, q5_1::pack),
        WeightFormat::IQ4_NL => pack_records(rows, out, iq4_nl::pack),
        WeightFormat::Q2_K => pack_records(rows, out, q2_k::pack),
        WeightFormat::Q3_K => pack_records(rows, out, q3_k::pack),
        WeightFormat::TQ1_0 => pack_records(rows, out, ternary::pack_tq1_0),
        WeightFormat::TQ2_0 => pack_records(rows, out, ternary::pack_tq2_0),
        WeightFormat::F32 => pack_records(rows, out, float::pack::<32, 256>),
        WeightFormat::F16 | WeightFormat::BF16 => pack_records(rows, out, float::pack::<16, 128>),
    }
}

/// Row `row` of a packed group as floats.
///
/// # Panics
/// If `columns` is not whole blocks, `group` has not the bytes of a group, `row` is not below
/// eight, or `out` has not `columns` places.
pub fn unpack_row(format: WeightFormat, group: &[u8], row: usize, columns: usize, out: &mut [f32]) {
    assert!(
        columns.is_multiple_of(format.block_len()),
        "columns are whole blocks"
    );
    assert_eq!(
        group.len(),
        format.group_bytes(columns),
        "bytes of the packed group"
    );
    assert_eq!(out.len(), columns, "one float a column");
    assert!(row < 8, "a group has eight rows");
    match format {
        WeightFormat::Q4_0 => unpack_records(group, row, out, q4_0::unpack),
        WeightFormat::Q4_1 => unpack_records(group, row, out, q4_1::unpack),
        WeightFormat::Q5_0 => unpack_records(group, row, out, q5_0::unpack),
        WeightFormat::Q8_0 => unpack_records(group, row, out, q8_0::unpack),
        WeightFormat::Q4_K => unpack_records(group, row, out, q4_k::unpack),
        WeightFormat::Q5_K => unpack_records(group, row, out, q5_k::unpack),
        WeightFormat::Q6_K => unpack_records(group, row, out, q6_k::unpack),
        WeightFormat::Q5_1 => unpack_records(group, row, out, q5_1::unpack),
        WeightFormat::IQ4_NL => unpack_records(group, row, out, iq4_nl::unpack),
        WeightFormat::Q2_K => unpack_records(group, row, out, q2_k::unpack),
        WeightFormat::Q3_K => unpack_records(group, row, out, q3_k::unpack),
        WeightFormat::TQ1_0 | WeightFormat::TQ2_0 => {
            unpack_records(group, row, out, ternary::unpack);
        }
        WeightFormat::F32 => unpack_records(group, row, out, float::unpack_f32),
        WeightFormat::F16 => unpack_records(group, row, out, float::unpack_f16),
        WeightFormat::BF16 => unpack_records(group, row, out, float::unpack_bf16),
    }
}

/// Record by record, so that the eight rows of one are written while it is in the L1 cache.
#[inline(always)]
fn pack_records<const BLOCK: usize, const RECORD: usize>(
    rows: [Option<&[u8]>; 8],
    out: &mut [u8],
    pack: impl Fn(&[u8; BLOCK], &mut [u8; RECORD], usize),
) {
    let rows = rows.map(|row| row.unwrap_or_default().as_chunks().0);
    for (i, record) in out.as_chunks_mut().0.iter_mut().enumerate() {
        for (r, row) in rows.iter().enumerate() {
            if let Some(block) = row.get(i) {
                pack(block, record, r);
            }
        }
    }
}

#[inline(always)]
fn unpack_records<const RECORD: usize, const LEN: usize>(
    group: &[u8],
    row: usize,
    out: &mut [f32],
    unpack: impl Fn(&[u8; RECORD], usize, &mut [f32; LEN]),
) {
    for (record, out) in group.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        unpack(record, row, out);
    }
}

/// Puts the binary16 at `from` of a block into place `r` of the eight at `to` of a record.
#[inline(always)]
fn copy_f16(block: &[u8], from: usize, record: &mut [u8], to: usize, r: usize) {
    record[to + 2 * r..to + 2 * r + 2].copy_from_slice(&block[from..from + 2]);
}

/// Binary16 `r` of the eight at `at` of a record.
#[inline(always)]
pub(crate) fn f16(record: &[u8], at: usize, r: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([
        record[at + 2 * r],
        record[at + 2 * r + 1],
    ]))
}
