//! Weights and floats that kernels are checked with: random ones, and those at the edges.
//!
//! What checks them takes its inputs from here: `tests/kernelcheck`, at length and from buffers with
//! guards around them, and the program's own `selftest`, in a moment.

use crate::format::WeightFormat;
use core::ops::Range;

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

    /// One of them, if these are the ends.
    pub fn byte(self, rng: &mut Rng, lowest: u8, highest: u8) -> u8 {
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
    pub fn f16(self, rng: &mut Rng) -> u16 {
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
    pub fn f32(self, rng: &mut Rng) -> f32 {
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

/// Fills `out` with GGUF blocks, end to end.
///
/// # Panics
/// If `out` is not whole blocks.
pub fn fill_blocks(
    rng: &mut Rng,
    format: WeightFormat,
    integers: Integers,
    scales: Scales,
    out: &mut [u8],
) {
    let (f16_offsets, signed) = fields(format);
    let block_bytes = format.block_bytes();
    assert!(out.len().is_multiple_of(block_bytes), "whole blocks");
    for block in out.chunks_exact_mut(block_bytes) {
        for (at, byte) in block.iter_mut().enumerate() {
            *byte = match signed.contains(&at) {
                true => integers.byte(rng, 0x80, 0x7f),
                false => integers.byte(rng, 0x00, 0xff),
            };
        }
        for &at in f16_offsets {
            block[at..at + 2].copy_from_slice(&scales.f16(rng).to_le_bytes());
        }
        match format {
            WeightFormat::F32 => floats::<4>(rng, scales, block),
            WeightFormat::BF16 => floats::<2>(rng, scales, block),
            _ => {}
        }
    }
}

/// Floats of either sign, of which the upper `SIZE` bytes are stored.
fn floats<const SIZE: usize>(rng: &mut Rng, scales: Scales, out: &mut [u8]) {
    for out in out.as_chunks_mut::<SIZE>().0 {
        let float = f32::from_bits(scales.f32(rng).to_bits() | (rng.bits() as u32) << 31);
        out.copy_from_slice(&float.to_le_bytes()[4 - SIZE..]);
    }
}

/// What the floats of an input are.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// As in a model.
    Ordinary,
    /// Zeros of either sign, subnormals, the greatest, limits of formats.
    Edges,
    /// Any finite bits.
    Finite,
    /// Any bits: infinities and NaNs too.
    Any,
}

impl Values {
    /// Every kind, those without NaN first.
    pub const ALL: [Self; 4] = [Self::Ordinary, Self::Edges, Self::Finite, Self::Any];

    /// A float of this kind.
    pub fn f32(self, rng: &mut Rng) -> f32 {
        #[rustfmt::skip]
        const EDGES: [f32; 16] = [
            0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, f32::MIN_POSITIVE, -f32::MIN_POSITIVE,
            f32::MAX, f32::MIN, 65504.0, 65520.0, -88.0, 88.5, 3.74e-37, 127.5,
        ];
        const WIDE: [f32; 3] = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let ordinary = (rng.bits() as i32) as f32 * (4.0 / i32::MAX as f32);
        let bits = f32::from_bits(rng.bits() as u32);
        match self {
            Self::Ordinary => ordinary,
            Self::Edges => rng.pick(&EDGES),
            Self::Finite if bits.is_finite() => bits,
            Self::Finite => ordinary,
            Self::Any if rng.below(16) == 0 => rng.pick(&WIDE),
            Self::Any => bits,
        }
    }
}
