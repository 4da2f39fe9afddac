//! Random weights and vectors, and what their product has to be.

use crate::shape::Shape;
use kernels_asm::features::Features;
use kernels_asm::format::WeightFormat;
use kernels_asm::pack::{pack_group, unpack_row};
use kernels_asm::registry::Kernels;

/// The error that a row may have, as a share of the root of the sum of its terms' squares.
///
/// Rounding a vector of even numbers to 8 bits, which both sides do, moves the product by 0.004
/// of that, give or take (one standard deviation); a wrong nibble order moves it by about 1.
const TOLERANCE: f64 = 0.03;

/// Groups of eight rows that are judged, evenly spread: enough to meet each thread's share.
const JUDGED: usize = 64;

/// A small generator (SplitMix64, Steele, Lea and Flood 2014): the same numbers everywhere.
struct Rng(u64);

impl Rng {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A positive binary16 of 2^-10 to 2^-5 with eight significant bits, so that bfloat16 holds
    /// the very same number: KleidiAI's kernels want either.
    fn scale(&mut self) -> u16 {
        let bits = self.bits() as u16;
        (5 + (bits >> 10) % 5) << 10 | bits & 0x3f8
    }
}

/// Numbers from -1 to 1, evenly.
pub fn vector(len: usize) -> Vec<f32> {
    let mut rng = Rng(2);
    let mut value = || (rng.bits() as i32) as f32 / 2_147_483_648.0;
    (0..len).map(|_| value()).collect()
}

/// A matrix in blocks as GGUF has them, row after row.
pub struct Matrix {
    /// The format of the blocks.
    pub format: WeightFormat,
    /// Rows and columns.
    pub shape: Shape,
    /// The blocks.
    pub gguf: Vec<u8>,
}

impl Matrix {
    /// Random integers with scales as in a model, or random floats.
    pub fn random(format: WeightFormat, shape: Shape) -> Self {
        let mut rng = Rng(1);
        let mut gguf = vec![0; shape.rows * format.row_bytes(shape.columns)];
        for eight in gguf.chunks_mut(8) {
            eight.copy_from_slice(&rng.bits().to_le_bytes()[..eight.len()]);
        }
        let scales = match format {
            WeightFormat::F32 => return Self::floats(format, shape, gguf, 4, [0x3f, 0xbf]),
            WeightFormat::BF16 => return Self::floats(format, shape, gguf, 2, [0x3f, 0xbf]),
            WeightFormat::F16 => return Self::floats(format, shape, gguf, 2, [0x2c, 0xac]),
            WeightFormat::Q4_1 | WeightFormat::Q5_1 | WeightFormat::Q4_K | WeightFormat::Q5_K => {
                &[0, 2][..]
            }
            WeightFormat::Q2_K => &[80, 82],
            WeightFormat::Q3_K => &[108],
            WeightFormat::Q6_K => &[208],
            WeightFormat::TQ1_0 => &[52],
            WeightFormat::TQ2_0 => &[64],
            WeightFormat::Q4_0 | WeightFormat::Q5_0 | WeightFormat::Q8_0 | WeightFormat::IQ4_NL => {
                &[0]
            }
        };
        for block in gguf.chunks_exact_mut(format.block_bytes()) {
            for &at in scales {
                block[at..at + 2].copy_from_slice(&rng.scale().to_le_bytes());
            }
        }
        Self {
            format,
            shape,
            gguf,
        }
    }

    /// Random bytes as finite floats of like magnitudes: the last byte of each has the sign and
    /// most of the exponent, and is one of `highest`.
    fn floats(
        format: WeightFormat,
        shape: Shape,
        mut gguf: Vec<u8>,
        len: usize,
        highest: [u8; 2],
    ) -> Self {
        for float in gguf.chunks_exact_mut(len) {
            float[len - 1] = highest[usize::from(float[len - 1] & 1)];
        }
        Self {
            format,
            shape,
            gguf,
        }
    }

    /// Packs eight rows as our kernels want them.
    pub fn pack_group(&self, group: usize, out: &mut [u8]) {
        let bytes = self.format.row_bytes(self.shape.columns);
        let row = |r| &self.gguf[(8 * group + r) * bytes..][..bytes];
        let rows = std::array::from_fn(|r| Some(row(r)));
        pack_group(self.format, rows, self.shape.columns, out);
    }
}

/// What a product has to be, for some of the rows.
#[derive(Clone)]
pub struct Expected {
    rows: Vec<Row>,
    bits: bool,
}

/// One row's product.
#[derive(Clone)]
struct Row {
    row: usize,
    /// In f64, with the vector as it was before it was rounded to 8 bits.
    exact: f64,
    /// The root of the sum of the terms' squares.
    norm: f64,
    /// What our reference kernel makes of it.
    reference: f32,
}

impl Expected {
    /// Computes it for rows all over the matrix, the first and the last ones included.
    pub fn new(matrix: &Matrix, x: &[f32]) -> Self {
        let (format, columns) = (matrix.format, matrix.shape.columns);
        let reference = Kernels::resolve(Features::NONE, None, &[]).expect("nothing is forced");
        let mut activations = vec![0; format.activation().bytes(columns)];
        reference.quantize(format.activation(), x, &mut activations);

        let groups = matrix.shape.rows / 8;
        let judged = groups.min(JUDGED);
        let (mut group, mut weights) = (vec![0; format.group_bytes(columns)], vec![0.0; columns]);
        let mut rows = Vec::new();
        for i in 0..judged {
            let place = i * (groups - 1) / (judged - 1).max(1);
            matrix.pack_group(place, &mut group);
            let mut products = [0.0; 8];
            reference.gemv(format, &group, columns, &activations, &mut products);
            for (r, reference) in products.into_iter().enumerate() {
                unpack_row(format, &group, r, columns, &mut weights);
                let terms = || {
                    weights
                        .iter()
                        .zip(x)
                        .map(|(&w, &x)| f64::from(w) * f64::from(x))
                };
                rows.push(Row {
                    row: 8 * place + r,
                    exact: terms().sum(),
                    norm: terms().map(|term| term * term).sum::<f64>().sqrt(),
                    reference,
                });
            }
        }
        Self { rows, bits: true }
    }

    /// The same for another's kernel, which rounds as it likes.
    #[must_use]
    pub fn without_bits(self) -> Self {
        Self {
            bits: false,
            ..self
        }
    }

    /// Whether a product has to equal our reference's to the last bit.
    pub fn has_bits(&self) -> bool {
        self.bits
    }

    /// The largest error in `out`, as a share of the row's norm, or what is wrong with it.
    pub fn judge(&self, out: &[f32]) -> Result<f64, String> {
        if let Some(row) = out.iter().position(|value| !value.is_finite()) {
            return Err(format!("row {row} is {}", out[row]));
        }
        let mut worst: f64 = 0.0;
        for row in &self.rows {
            let value = out[row.row];
            if self.bits && value.to_bits() != row.reference.to_bits() {
                return Err(format!(
                    "row {} is {value:e}, the reference has {:e}",
                    row.row, row.reference
                ));
            }
            let error = (f64::from(value) - row.exact).abs() / row.norm;
            if error > TOLERANCE {
                return Err(format!(
                    "row {} is {value:e}, which is {error:.3} off {:e}",
                    row.row, row.exact
                ));
            }
            worst = worst.max(error);
        }
        Ok(worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels_asm::half::f16_to_f32;

    #[test]
    fn scales_are_the_same_in_both_sixteen_bit_formats() {
        let mut rng = Rng(3);
        for _ in 0..1000 {
            let scale = f16_to_f32(rng.scale());
            assert!(scale > 0.0);
            assert_eq!(scale.to_bits() & 0xffff, 0);
        }
    }

    #[test]
    fn wrong_row_last_bit_and_gap_are_found() {
        let shape = crate::shape::small()[0];
        let x = vector(shape.columns);
        let expected = Expected::new(&Matrix::random(WeightFormat::Q4_0, shape), &x);
        let mut out: Vec<f32> = expected.rows.iter().map(|row| row.reference).collect();
        assert!(expected.judge(&out).unwrap() < 0.02);
        out[9] = out[9].next_up();
        assert!(expected.judge(&out).unwrap_err().contains("row 9 "));
        let lenient = expected.without_bits();
        assert!(lenient.judge(&out).is_ok());
        out.swap(9, 10);
        assert!(lenient.judge(&out).is_err());
        out[3] = f32::NAN;
        assert!(lenient.judge(&out).unwrap_err().contains("row 3 "));
    }
}
