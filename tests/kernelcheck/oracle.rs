//! A second opinion on packing and on the reference kernels, so that no error is common to both.
//!
//! Written from the description of the GGUF block formats, weight by weight and in f64, without a
//! line of `kernels_asm`: what a file means, not how it is packed.

use crate::inputs::{Activations, gguf_blocks};
use kernels_asm::format::WeightFormat;
use kernels_asm::half::f16_to_f32;
use kernels_asm::pack::{pack_group, unpack_row};
use kernels_asm::registry::Kernels;
use kernels_asm::samples::{Integers, Rng, Scales};

/// A weight is the difference of these, each exact.
struct Weight {
    product: f64,
    minimum: f64,
}

fn f16(block: &[u8], at: usize) -> f64 {
    f64::from(f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]])))
}

/// Scale and minimum of sub-block `j`, from the twelve bytes that hold eight of each in six bits.
fn scale_and_minimum(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        let scale = packed[j + 4] & 15 | packed[j - 4] >> 6 << 4;
        let minimum = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
        (scale, minimum)
    }
}

/// Nibble `k` of 32, of which the first 16 are the low ones.
fn nibble_of_32(bytes: &[u8], k: usize) -> u8 {
    bytes[k % 16] >> (k / 16 * 4) & 15
}

/// Nibble `k` of 256: 64 to each 32 bytes, the first 32 the low ones.
fn nibble_of_256(bytes: &[u8], k: usize) -> u8 {
    bytes[k / 64 * 32 + k % 32] >> (k / 32 % 2 * 4) & 15
}

/// Pair of bits `k` of 256: 128 to each 32 bytes, the first 32 the lowest.
fn pair_of_256(bytes: &[u8], k: usize) -> u8 {
    bytes[k / 128 * 32 + k % 32] >> (k / 32 % 4 * 2) & 3
}

/// Six bits of 16 in twelve bytes: nibbles of the first eight, pairs of the last four.
fn six_bits_of_16(bytes: &[u8], j: usize) -> u8 {
    let low = bytes[j % 8] >> (j / 8 * 4) & 15;
    low | (bytes[8 + j % 4] >> (j / 4 * 2) & 3) << 4
}

/// Base-3 digit `k` of TQ1_0: the byte is 256 times a fraction, from which digits are drawn.
fn base_3(bytes: &[u8], k: usize) -> u8 {
    let (byte, digit) = match k {
        0..160 => (k % 32, k / 32),
        160..240 => (32 + (k - 160) % 16, (k - 160) / 16),
        _ => (48 + (k - 240) % 4, (k - 240) / 4),
    };
    let mut fraction = u32::from(bytes[byte]);
    for _ in 0..digit {
        fraction = fraction * 3 % 256;
    }
    (fraction * 3 / 256) as u8
}

/// What the nibbles of IQ4_NL stand for.
const IQ4_NL: [i32; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Number `k` of a float format.
fn number(format: WeightFormat, block: &[u8], k: usize) -> f64 {
    let float = |bytes| f64::from(f32::from_le_bytes(bytes));
    match format {
        WeightFormat::F32 => float([0, 1, 2, 3].map(|i| block[4 * k + i])),
        WeightFormat::BF16 => float([0, 0, block[2 * k], block[2 * k + 1]]),
        _ => f16(block, 2 * k),
    }
}

/// Weight `k` of a GGUF block.
fn weight(format: WeightFormat, block: &[u8], k: usize) -> Weight {
    let scaled = |d: f64, q: i32| Weight {
        product: d * f64::from(q),
        minimum: 0.0,
    };
    let five_or_four_bits = |quant: u8| {
        let (scale, minimum) = scale_and_minimum(&block[4..16], k / 32);
        Weight {
            product: f16(block, 0) * f64::from(scale) * f64::from(quant),
            minimum: f16(block, 2) * f64::from(minimum),
        }
    };
    match format {
        WeightFormat::F32 | WeightFormat::F16 | WeightFormat::BF16 => Weight {
            product: number(format, block, k),
            minimum: 0.0,
        },
        WeightFormat::Q4_0 => scaled(f16(block, 0), i32::from(nibble_of_32(&block[2..], k)) - 8),
        WeightFormat::Q4_1 => Weight {
            product: f16(block, 0) * f64::from(nibble_of_32(&block[4..], k)),
            minimum: -f16(block, 2),
        },
        WeightFormat::Q5_0 => {
            let high = block[2 + k / 8] >> (k % 8) & 1;
            let quant = nibble_of_32(&block[6..], k) | high << 4;
            scaled(f16(block, 0), i32::from(quant) - 16)
        }
        WeightFormat::Q5_1 => {
            let high = block[4 + k / 8] >> (k % 8) & 1;
            let quant = nibble_of_32(&block[8..], k) | high << 4;
            Weight {
                product: f16(block, 0) * f64::from(quant),
                minimum: -f16(block, 2),
            }
        }
        WeightFormat::IQ4_NL => {
            let nibble = nibble_of_32(&block[2..], k);
            scaled(f16(block, 0), IQ4_NL[usize::from(nibble)])
        }
        WeightFormat::Q2_K => {
            let (scale, minimum) = (block[k / 16] & 15, block[k / 16] >> 4);
            let product = f64::from(scale) * f64::from(pair_of_256(&block[16..], k));
            Weight {
                product: f16(block, 80) * product,
                minimum: f16(block, 82) * f64::from(minimum),
            }
        }
        WeightFormat::Q3_K => {
            let (low, high) = (pair_of_256(&block[32..], k), block[k % 32] >> (k / 32) & 1);
            let scale = f64::from(i32::from(six_bits_of_16(&block[96..], k / 16)) - 32);
            scaled(f16(block, 108) * scale, i32::from(low | high << 2) - 4)
        }
        WeightFormat::TQ1_0 => scaled(f16(block, 52), i32::from(base_3(block, k)) - 1),
        WeightFormat::TQ2_0 => scaled(f16(block, 64), i32::from(pair_of_256(block, k)) - 1),
        WeightFormat::Q8_0 => scaled(f16(block, 0), i32::from(block[2 + k] as i8)),
        WeightFormat::Q4_K => five_or_four_bits(nibble_of_256(&block[16..], k)),
        WeightFormat::Q5_K => {
            let high = block[16 + k % 32] >> (k / 32) & 1;
            five_or_four_bits(nibble_of_256(&block[48..], k) | high << 4)
        }
        WeightFormat::Q6_K => {
            let (half, within) = (k / 128, k % 128);
            let low = block[64 * half + within % 64] >> (within / 64 * 4) & 15;
            let high = block[128 + 32 * half + within % 32] >> (within / 32 * 2) & 3;
            let scale = f64::from(block[192 + k / 16] as i8);
            scaled(f16(block, 208) * scale, i32::from(low | high << 4) - 32)
        }
    }
}

/// Checks one group of `rows` rows: unpacked bit for bit, and its product to within rounding.
fn check_group(
    rng: &mut Rng,
    format: WeightFormat,
    records: usize,
    rows: usize,
    integers: Integers,
    scales: Scales,
) -> Result<(), String> {
    let columns = records * format.block_len();
    let raw: Vec<Vec<u8>> = (0..rows)
        .map(|_| gguf_blocks(rng, format, records, integers, scales))
        .collect();
    let mut group = vec![0x5a; format.group_bytes(columns)];
    let row = |r: usize| raw.get(r).map(Vec::as_slice);
    pack_group(format, std::array::from_fn(row), columns, &mut group);

    let activations = Activations::new(
        rng,
        format.activation(),
        columns,
        Integers::Random,
        Scales::Ordinary,
    );
    let mut products = [f32::NAN; 8];
    let reference = Kernels::resolve(kernels_asm::features::Features::NONE, None, &[])
        .map_err(|error| format!("{error:?}"))?;
    let records_of_x = activations.records(format.activation());
    reference.gemv(format, &group, columns, &records_of_x, &mut products);

    let mut values = vec![f32::NAN; columns];
    for (r, product) in products.into_iter().enumerate() {
        unpack_row(format, &group, r, columns, &mut values);
        let Some(raw) = row(r) else {
            if product.to_bits() != 0 || values.iter().any(|&value| value != 0.0) {
                return Err(format!("missing row {r} is not zero: {product:e}"));
            }
            continue;
        };
        let (mut exact, mut magnitude) = (0.0, 0.0);
        for (k, &value) in values.iter().enumerate() {
            let block = &raw[k / format.block_len() * format.block_bytes()..];
            let Weight { product, minimum } = weight(format, block, k % format.block_len());
            let expected = (product - minimum) as f32;
            if value.to_bits() != expected.to_bits() {
                return Err(format!(
                    "row {r}, column {k}: {value:e} is not {expected:e}"
                ));
            }
            let x = activations.value(format.activation(), k);
            exact += (product - minimum) * x;
            magnitude += (product.abs() + minimum.abs()) * x.abs();
        }
        let error = (f64::from(product) - exact).abs();
        // Below the normal floats a rounding has no relative bound: half of the least float each.
        let subnormal = columns as f64 * f64::from(f32::from_bits(1));
        if error > 1e-6 * magnitude + subnormal {
            return Err(format!("row {r}: {product:e} is {error:e} off {exact:e}"));
        }
    }
    Ok(())
}

/// Checks packing, unpacking and the reference kernel of a format.
pub fn check(format: WeightFormat, seed: u64) -> Result<usize, String> {
    let mut rng = Rng(seed);
    let mut groups = 0;
    for integers in Integers::ALL {
        for scales in Scales::ALL {
            for records in 1..=4 {
                let rows = 1 + rng.below(8);
                check_group(&mut rng, format, records, rows, integers, scales)
                    .map_err(|error| format!("{integers:?} {scales:?} x{records}: {error}"))?;
                groups += 1;
            }
        }
    }
    Ok(groups)
}
