//! The weights: pseudo-random, and of a bell shape.

use kernels_asm::half::{f16_to_f32, f32_to_f16};
use quantize::{LEN, q4_0, q4_k, q6_k, q8_0};

use super::tinyllama::{Kind, Tensor};

/// Fills `out` with row `row` of the tensor with number `index`.
pub fn row(index: usize, tensor: &Tensor, row: usize, out: &mut [u8]) {
    let mut random = Random::new(index, row);
    match tensor.kind {
        Kind::F32 => {
            for bytes in out.as_chunks_mut().0 {
                *bytes = random.around_one().to_le_bytes();
            }
        }
        Kind::Q40 => blocks(&mut random, tensor.deviation, out, q4_0::quantize),
        Kind::Q80 => blocks(&mut random, tensor.deviation, out, q8_0::quantize),
        Kind::Q4K => blocks(&mut random, tensor.deviation, out, q4_k::quantize),
        Kind::Q6K => blocks(&mut random, tensor.deviation, out, q6_k::quantize),
    }
}

fn blocks<const BLOCK: usize>(
    random: &mut Random,
    deviation: f32,
    out: &mut [u8],
    quantize: impl Fn(&[f32; LEN]) -> [u8; BLOCK],
) {
    for block in out.as_chunks_mut().0 {
        *block = quantize(&random.bell(deviation));
    }
}

/// `SplitMix64` (Steele, Lea and Flood, 2014), one for each row: rows can be made in any order.
struct Random(u64);

/// What it counts by, an odd number near 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    fn new(tensor: usize, row: usize) -> Self {
        // Once through the mixer, so that neighbours do not walk along the same sequence.
        let place = (tensor as u64) << 32 | row as u64;
        Random(Random(place).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Weights as an F16 file has them: sums of four uniforms each, which reach 3.46 times as far
    /// as they deviate.
    fn bell(&mut self, deviation: f32) -> [f32; LEN] {
        /// What the sum of four numbers of 16 bits is on average.
        const MEAN: i32 = 2 * 0xffff;
        /// What it deviates by: the root of 4 * (2^32 - 1) / 12.
        const DEVIATION: f32 = 37_837.227;
        let scale = deviation / DEVIATION;
        std::array::from_fn(|_| {
            let bits = self.next();
            let parts = [bits, bits >> 16, bits >> 32, bits >> 48];
            let sum: i32 = parts.iter().map(|part| i32::from(*part as u16)).sum();
            f16_to_f32(f32_to_f16((sum - MEAN) as f32 * scale))
        })
    }

    /// A weight of a norm: between 3/4 and 5/4.
    fn around_one(&mut self) -> f32 {
        0.75 + (self.next() >> 48) as f32 / 131_072.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    use crate::fetch;

    /// What the checksum of the whole says in a minute, this says at once, under emulation too.
    #[test]
    fn rows_are_the_same_on_every_machine() {
        let mut hash = Sha256::new();
        for (kind, columns) in [(Kind::Q4K, 2048), (Kind::Q6K, 5632), (Kind::F32, 2048)] {
            let tensor = Tensor {
                name: String::new(),
                kind,
                columns,
                rows: 2,
                deviation: 1.0 / (columns as f32).sqrt(),
            };
            let mut bytes = vec![0; kind.row_bytes(columns)];
            for index in 0..2 {
                row(7, &tensor, index, &mut bytes);
                hash.update(&bytes);
            }
        }
        let expected = "162c62d49265eed9cda4cdbc2c84fbae94b0685aee74eded093729c2c9b562bf";
        fetch::check(hash, expected).unwrap();
    }

    #[test]
    fn weights_are_centred_and_deviate_as_asked() {
        let mut random = Random::new(3, 1000);
        let all: Vec<f32> = (0..400).flat_map(|_| random.bell(0.5)).collect();
        let count = all.len() as f32;
        let mean = all.iter().sum::<f32>() / count;
        let square = all.iter().map(|value| value * value).sum::<f32>() / count;
        assert!(mean.abs() < 0.006, "{mean}");
        assert!((square - 0.25).abs() < 0.004, "{square}");
        let far = all.iter().fold(0.0_f32, |far, value| far.max(value.abs()));
        assert!((1.5..=0.5 * 3.47).contains(&far), "{far}");
        let norm = (0..1000).map(|_| random.around_one());
        assert!(norm.into_iter().all(|value| (0.75..1.25).contains(&value)));
    }

    #[test]
    fn generator_gives_the_published_numbers() {
        // The first two of seed 1234567, from the generator's reference in C.
        let mut random = Random(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn rows_have_weights_of_their_own() {
        let weights = [(0, 0), (0, 1), (1, 0)].map(|(t, r)| Random::new(t, r).bell(1.0));
        for (i, one) in weights.iter().enumerate() {
            for other in &weights[i + 1..] {
                let same = one.iter().filter(|value| other.contains(value)).count();
                assert!(same < 16, "{same}");
            }
        }
    }
}
