//! Weights to GGUF blocks, for models that are made here and not fetched.
//!
//! The same values give the same bytes on every machine: there is nothing but correctly rounded
//! operations, each sum has one order, and no function of a C library is called. The blocks are
//! good ones, found by a short search, but not those that llama.cpp would write.
//!
//! - [`q4_0`]: 32 weights in 18 bytes
//! - [`q8_0`]: 32 weights in 34 bytes
//! - [`q4_k`]: 256 weights in 144 bytes
//! - [`q6_k`]: 256 weights in 210 bytes
//!
//! Values must be of the range of a binary16, [`VALUE_MAX`] at most, as weights on their way from
//! an F16 file are: then no scale overflows.

use kernels_asm::half::{f16_to_f32, f32_to_f16};

pub mod q4_0;
pub mod q4_k;
pub mod q6_k;
pub mod q8_0;

/// Weights that are made into blocks together: one of K-quants, eight others.
pub const LEN: usize = 256;

/// The largest magnitude of a value, that of the largest finite binary16.
pub const VALUE_MAX: f32 = 65504.0;

/// Below the least binary16, 2^-24, a difference is none.
const VALUE_MIN: f32 = 1.0 / 16_777_216.0;

/// The grids that a search tries have so many steps more, between the least and the greatest value,
/// than there are levels: with wider steps the extremes come nearer, with narrower ones the rest.
const STRETCHES: [f32; 5] = [0.0, -1.0, -0.5, 0.5, 1.0];

fn check(values: &[f32; LEN]) {
    let fits = |value: &f32| value.abs() <= VALUE_MAX;
    assert!(values.iter().all(fits), "a weight is out of range");
}

/// The nearest whole number, ties to even, for magnitudes below 2^22: adding 1.5 * 2^23 leaves no
/// bits for a fraction. Without SSE4.1 there is no instruction for it, and a call costs a lot.
fn nearest(value: f32) -> f32 {
    const NO_FRACTION: f32 = 12_582_912.0;
    value + NO_FRACTION - NO_FRACTION
}

/// The sum of `N` terms, a multiple of eight, by eight lanes: so a vector unit can do it.
fn sum<const N: usize>(term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0; 8];
    for start in (0..N).step_by(8) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(start + lane);
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// The value as a block stores it: its binary16, and what that is worth.
fn stored(value: f32) -> ([u8; 2], f32) {
    let bits = f32_to_f16(value);
    (bits.to_le_bytes(), f16_to_f32(bits))
}

/// How often `step` goes into 1, or not at all where there is no step.
fn inverse(step: f32) -> f32 {
    if step == 0.0 { 0.0 } else { 1.0 / step }
}

/// The first of the values with the greatest magnitude.
fn farthest<const N: usize>(values: &[f32; N]) -> f32 {
    let mut far = 0.0_f32;
    for &value in values {
        if value.abs() > far.abs() {
            far = value;
        }
    }
    far
}

#[cfg(test)]
mod testing {
    use super::LEN;
    use kernels_asm::format::WeightFormat;
    use kernels_asm::half::{f16_to_f32, f32_to_f16};
    use kernels_asm::pack::{pack_group, unpack_row};

    /// What the kernels take a block for.
    pub fn values(format: WeightFormat, block: &[u8]) -> [f32; LEN] {
        let mut rows = [None; 8];
        rows[3] = Some(block);
        let mut group = vec![0; format.group_bytes(LEN)];
        pack_group(format, rows, LEN, &mut group);
        let mut values = [0.0; LEN];
        unpack_row(format, &group, 3, LEN, &mut values);
        assert!(values.iter().all(|value| value.is_finite()));
        values
    }

    /// Sums of four uniforms, with a deviation of `scale`, as binary16 has them.
    pub fn bell(seed: u64, scale: f32) -> [f32; LEN] {
        let mut state = seed;
        std::array::from_fn(|_| {
            let mut sum = 0.0;
            for _ in 0..4 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                sum += (state >> 48) as f32 / 65536.0 - 0.5;
            }
            f16_to_f32(f32_to_f16(sum * 1.732 * scale))
        })
    }

    /// The root of the mean square of the differences.
    pub fn deviation(a: &[f32; LEN], b: &[f32; LEN]) -> f32 {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
        (squares.sum::<f32>() / LEN as f32).sqrt()
    }

    /// Blocks where something could go wrong.
    pub fn edges() -> Vec<[f32; LEN]> {
        let at = |place: usize, value: f32| {
            let mut block = [0.0; LEN];
            block[place] = value;
            block
        };
        let alternating = |value: f32| std::array::from_fn(|i| [value, -value][i % 2]);
        let least = 1.0 / 16_777_216.0;
        vec![
            [1.0; LEN],
            [-1.0; LEN],
            [65504.0; LEN],
            [-65504.0; LEN],
            [least; LEN],
            [-least; LEN],
            alternating(65504.0),
            alternating(least),
            at(0, 65504.0),
            at(17, -65504.0),
            at(255, least),
            std::array::from_fn(|i| i as f32),
            std::array::from_fn(|i| if i < 32 { 1000.0 } else { i as f32 * 1e-4 }),
            std::array::from_fn(|i| -1.0 - i as f32 / 256.0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_of_a_tie_is_even() {
        let rounded = [-2.5, -1.5, -0.5, 0.49, 0.5, 1.5, 2.5, 62.7].map(nearest);
        assert_eq!(rounded, [-2.0, -2.0, 0.0, 0.0, 0.0, 2.0, 2.0, 63.0]);
    }

    #[test]
    fn sum_takes_every_term_once() {
        assert_eq!(sum::<32>(|i| i as f32), 496.0);
        assert_eq!(sum::<16>(|i| [0.0, 1.0][i / 8]), 8.0);
    }
}
