//! The buffers of a check: GGUF blocks and activation records.

use kernels_asm::activation::ActivationFormat;
use kernels_asm::format::WeightFormat;
use kernels_asm::samples::{Integers, Rng, Scales, fill_blocks};

/// GGUF blocks, end to end.
pub fn gguf_blocks(
    rng: &mut Rng,
    format: WeightFormat,
    blocks: usize,
    integers: Integers,
    scales: Scales,
) -> Vec<u8> {
    let mut bytes = vec![0; blocks * format.block_bytes()];
    fill_blocks(rng, format, integers, scales, &mut bytes);
    bytes
}

/// A quantised vector: the integers, and a scale for each block of them.
pub struct Activations {
    /// -127 ..= 127.
    pub quants: Vec<i8>,
    /// One for each block; of floats, one for each number.
    pub scales: Vec<f32>,
}

/// Numbers to a scale.
fn scaled_len(format: ActivationFormat) -> usize {
    match format {
        ActivationFormat::Floats => 1,
        integers => integers.block_len(),
    }
}

impl Activations {
    /// A vector of `len` values, whole blocks of `format`.
    pub fn new(
        rng: &mut Rng,
        format: ActivationFormat,
        len: usize,
        integers: Integers,
        scales: Scales,
    ) -> Self {
        let blocks = len / scaled_len(format);
        let scales = (0..blocks).map(|_| scales.f32(rng)).collect();
        let quants = (0..len)
            .map(|_| (integers.byte(rng, 0x81, 0x7f) as i8).max(-127))
            .collect();
        Self { quants, scales }
    }

    /// Number `k`: exact, or of floats what the record holds.
    pub fn value(&self, format: ActivationFormat, k: usize) -> f64 {
        let (q, d) = (self.quants[k], self.scales[k / scaled_len(format)]);
        match format {
            ActivationFormat::Floats => f64::from(f32::from(q) * d),
            _ => f64::from(q) * f64::from(d),
        }
    }

    /// The vector that records of integers hold.
    pub fn from_records(format: ActivationFormat, records: &[u8]) -> Self {
        let (mut quants, mut scales) = (Vec::new(), Vec::new());
        for record in records.chunks_exact(format.record_bytes()) {
            quants.extend(record[..format.block_len()].iter().map(|&q| q as i8));
            let at = match format {
                ActivationFormat::Per32 => 32,
                ActivationFormat::Per256 => 272,
                ActivationFormat::Floats => unreachable!("no integers to be read"),
            };
            let d = record[at..at + 4].try_into().expect("four bytes");
            scales.push(f32::from_le_bytes(d));
        }
        Self { quants, scales }
    }

    /// The records, field by field as the table in `kernels_asm::activation` has them.
    pub fn records(&self, format: ActivationFormat) -> Vec<u8> {
        let blocks = self
            .quants
            .chunks_exact(scaled_len(format))
            .zip(&self.scales);
        let mut records = Vec::new();
        for (q, &d) in blocks {
            let sum = |len: usize| {
                q.chunks_exact(len)
                    .map(|q| q.iter().map(|&q| i32::from(q)).sum())
            };
            if format == ActivationFormat::Floats {
                records.extend((f32::from(q[0]) * d).to_le_bytes());
                continue;
            }
            records.extend(q.iter().map(|&q| q as u8));
            match format {
                ActivationFormat::Floats => unreachable!("continued above"),
                ActivationFormat::Per32 => {
                    let sum: i32 = sum(32).next().expect("32 values");
                    records.extend(d.to_le_bytes());
                    records.extend((d * sum as f32).to_le_bytes());
                    records.extend(sum.to_le_bytes());
                    records.extend([0; 4]);
                }
                ActivationFormat::Per256 => {
                    let high = |sum: i32| (sum + 64) >> 7;
                    records.extend(sum(32).map(|sum: i32| (sum - 128 * high(sum)) as i8 as u8));
                    records.extend(sum(32).map(|sum: i32| high(sum) as i8 as u8));
                    records.extend(d.to_le_bytes());
                    records.extend([0; 4]);
                    records.extend(sum(32).flat_map(|sum: i32| (sum as i16).to_le_bytes()));
                    records.extend(sum(16).flat_map(|sum: i32| (sum as i16).to_le_bytes()));
                    records.extend([0; 8]);
                }
            }
        }
        assert_eq!(records.len(), format.bytes(self.quants.len()));
        records
    }
}
