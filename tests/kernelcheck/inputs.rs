//! Weights and activations to check kernels with: random ones, and those at the edges.

use kernels_asm::activation::ActivationFormat;
use kernels_asm::format::WeightFormat;
use std::ops::Range;

/// A small generator (SplitMix64, Steele, Lea and Flood 2014): the same numbers everywhere.
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is small enough for the bias not to matter.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() >> 32) as usize % bound
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// What the integers of a buffer are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Integers {
    /// Any, evenly.
    Random,
    /// The least everywhere.
    Lowest,
    /// The greatest everywhere.
    Highest,
    /// The least or the greatest, at random.
    Extremes,
}

/// What the float scales of a buffer are. All are finite, and so are all results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scales {
    /// As in a model.
    Ordinary,
    /// Zero; of either sign where a sign is allowed.
    Zero,
    /// Subnormal.
    Subnormal,
    /// The greatest binary16; for an activation, far beyond any model's.
    Largest,
    /// All of these.
    Mixed,
}

impl Integers {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Random, Self::Lowest, Self::Highest, Self::Extremes];

    fn byte(self, rng: &mut Rng, lowest: u8, highest: u8) -> u8 {
        match self {
            Self::Random => rng.bits() as u8,
            Self::Lowest => lowest,
            Self::Highest => highest,
            Self::Extremes => rng.pick(&[lowest, highest]),
        }
    }
}

impl Scales {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Ordinary,
        Self::Zero,
        Self::Subnormal,
        Self::Largest,
        Self::Mixed,
    ];

    fn resolve(self, rng: &mut Rng) -> Self {
        match self {
            Self::Mixed => rng.pick(&Self::ALL[..4]),
            one => one,
        }
    }

    /// A binary16 of this kind.
    fn f16(self, rng: &mut Rng) -> u16 {
        let sign = (rng.bits() as u16) & 0x8000;
        let fraction = (rng.bits() as u16) & 0x3ff;
        let magnitude = match self.resolve(rng) {
            Self::Zero => 0,
            Self::Subnormal => fraction,
            Self::Largest => 0x7bff,
            _ => (5 + rng.below(11) as u16) << 10 | fraction, // 2^-10 to 2
        };
        sign | magnitude
    }

    /// A scale of activations of this kind: never negative.
    fn f32(self, rng: &mut Rng) -> f32 {
        let fraction = rng.bits() as u32 & 0x7f_ffff;
        let exponent = match self.resolve(rng) {
            Self::Zero => return 0.0,
            Self::Subnormal => 0,
            Self::Largest => 127 + 40,
            _ => 127 - 12 + rng.below(12) as u32, // 2^-12 to 1
        };
        f32::from_bits(exponent << 23 | fraction)
    }
}

/// Where a GGUF block has its binary16 scales, and where signed bytes. All else is bits, whose
/// extremes are all of them clear and all of them set.
fn fields(format: WeightFormat) -> (&'static [usize], Range<usize>) {
    match format {
        WeightFormat::Q4_0 | WeightFormat::Q5_0 | WeightFormat::IQ4_NL => (&[0], 0..0),
        WeightFormat::Q4_1 | WeightFormat::Q5_1 => (&[0, 2], 0..0),
        WeightFormat::Q4_K | WeightFormat::Q5_K => (&[0, 2], 0..0),
        WeightFormat::Q2_K => (&[80, 82], 0..0),
        WeightFormat::Q3_K => (&[108], 0..0),
        WeightFormat::TQ1_0 => (&[52], 0..0),
        WeightFormat::TQ2_0 => (&[64], 0..0),
        WeightFormat::F16 => (&[0, 2, 4, 6, 8, 10, 12, 14], 0..0),
        WeightFormat::F32 | WeightFormat::BF16 => (&[], 0..0), // see `floats`
        WeightFormat::Q8_0 => (&[0], 2..34),
        WeightFormat::Q6_K => (&[208], 192..208),
    }
}

/// GGUF blocks, end to end.
pub fn gguf_blocks(
    rng: &mut Rng,
    format: WeightFormat,
    blocks: usize,
    integers: Integers,
    scales: Scales,
) -> Vec<u8> {
    let (f16_offsets, signed) = fields(format);
    let mut bytes = Vec::with_capacity(blocks * format.block_bytes());
    for _ in 0..blocks {
        let start = bytes.len();
        bytes.extend(
            (0..format.block_bytes()).map(|at| match signed.contains(&at) {
                true => integers.byte(rng, 0x80, 0x7f),
                false => integers.byte(rng, 0x00, 0xff),
            }),
        );
        for offset in f16_offsets {
            let at = start + offset;
            bytes[at..at + 2].copy_from_slice(&scales.f16(rng).to_le_bytes());
        }
        match format {
            WeightFormat::F32 => floats::<4>(rng, scales, &mut bytes[start..]),
            WeightFormat::BF16 => floats::<2>(rng, scales, &mut bytes[start..]),
            _ => {}
        }
    }
    bytes
}

/// Floats of either sign, of which the upper `SIZE` bytes are stored.
fn floats<const SIZE: usize>(rng: &mut Rng, scales: Scales, out: &mut [u8]) {
    for out in out.as_chunks_mut::<SIZE>().0 {
        let float = f32::from_bits(scales.f32(rng).to_bits() | (rng.bits() as u32) << 31);
        out.copy_from_slice(&float.to_le_bytes()[4 - SIZE..]);
    }
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
