//! Q6_K: sixteen sub-blocks of 16 weights, each with a scale of eight bits.
//!
//! Block: 128 bytes of low nibbles; 64 bytes of high bit pairs; 16 scales i8; d f16. A value is
//! d * scale * level, with a level of -32 ..= 31. The bytes are described where they are read, in
//! the packing of `kernels-asm`.

use crate::{LEN, STRETCHES, VALUE_MIN, check, farthest, inverse, nearest, stored, sum};

/// Bytes of a block.
pub const BLOCK: usize = 210;

const SUB: usize = 16;
/// The level of the greatest magnitude.
const LEVEL_MIN: f32 = -32.0;
const LEVEL_MAX: f32 = 31.0;
/// The scale of the greatest magnitude.
const SCALE_MIN: f32 = -128.0;
const SCALE_MAX: f32 = 127.0;
/// Where a block has its scales.
const SCALES: usize = 192;
/// Where it has its high bit pairs.
const PAIRS: usize = 128;

/// A block with the nearest values that the search finds.
///
/// # Panics
/// If the magnitude of a value is above [`VALUE_MAX`](crate::VALUE_MAX), or none at all.
pub fn quantize(values: &[f32; LEN]) -> [u8; BLOCK] {
    check(values);
    let subs: &[[f32; SUB]] = values.as_chunks().0;
    let mut steps = [0.0; LEN / SUB];
    for (step, sub) in steps.iter_mut().zip(subs) {
        *step = fit(sub);
    }
    // The longest step gets the scale of the greatest magnitude, which is below zero. No step at
    // all would give a negative zero.
    let (d_bytes, d) = stored(farthest(&steps) / SCALE_MIN + 0.0);
    let per_d = inverse(d);

    let mut block = [0; BLOCK];
    block[208..].copy_from_slice(&d_bytes);
    for (j, (step, sub)) in steps.iter().zip(subs).enumerate() {
        let scale = nearest((step * per_d).clamp(SCALE_MIN, SCALE_MAX));
        block[SCALES + j] = scale as i8 as u8;
        put_levels(&mut block, j, &levels(sub, inverse(d * scale)));
    }
    block
}

/// The step that fits a sub-block best, which may be negative: for some ways to assign levels the
/// best one by least squares, and of these the best.
fn fit(values: &[f32; SUB]) -> f32 {
    let far = farthest(values);
    if far.abs() < VALUE_MIN {
        return 0.0;
    }
    let (mut best, mut best_gain) = (0.0, 0.0);
    for stretch in STRETCHES {
        let levels = levels(values, (LEVEL_MIN + stretch) / far);
        let lx = sum::<SUB>(|i| levels[i] * values[i]);
        let ll = sum::<SUB>(|i| levels[i] * levels[i]);
        // What the sum of squares loses by this step: all of it, if every value is met.
        let gain = lx * lx / ll;
        if gain > best_gain {
            (best, best_gain) = (lx / ll, gain);
        }
    }
    best
}

/// The levels next to the values.
#[inline(always)]
fn levels(values: &[f32; SUB], per_step: f32) -> [f32; SUB] {
    values.map(|value| nearest((value * per_step).clamp(LEVEL_MIN, LEVEL_MAX)))
}

/// Writes the levels of sub-block `j`, which is one half of a quarter of one half of the block.
fn put_levels(block: &mut [u8; BLOCK], j: usize, levels: &[f32; SUB]) {
    let (half, quarter, start) = (j / 8, j / 2 % 4, j % 2 * SUB);
    let nibbles = 64 * half + 32 * (quarter % 2) + start;
    let pairs = PAIRS + 32 * half + start;
    for (i, &level) in levels.iter().enumerate() {
        let level = (level - LEVEL_MIN) as u8;
        block[nibbles + i] |= (level & 15) << (quarter / 2 * 4);
        block[pairs + i] |= level >> 4 << (2 * quarter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bell, deviation, edges, values};
    use kernels_asm::format::WeightFormat;

    fn round_trip(block: &[f32; LEN]) -> [f32; LEN] {
        values(WeightFormat::Q6_K, &quantize(block))
    }

    /// What no value of a block may lose more than: one and a half steps of its own sub-block, and
    /// what eight bits lose of the scale, 32 times; then what binary16 loses of d.
    fn assert_near(block: &[f32; LEN]) {
        let far = farthest(block).abs();
        let coarse = far / 31.0 / 128.0 / 2.0 * 32.0;
        let half = far / 1024.0 + 32.0 * 128.0 * VALUE_MIN;
        for (i, (before, after)) in block.iter().zip(round_trip(block)).enumerate() {
            let sub: &[f32; SUB] = &block.as_chunks().0[i / SUB];
            let bound = farthest(sub).abs() / 31.0 * 1.5 + coarse * 1.1 + half;
            let lost = (before - after).abs();
            assert!(lost <= bound, "{i}: {before:e} became {after:e}: {lost:e}");
        }
    }

    #[test]
    fn block_of_bell_shaped_weights_keeps_them() {
        for seed in 0..200 {
            let block = bell(seed, 0.02);
            assert_near(&block);
            let lost = deviation(&block, &round_trip(&block));
            assert!(lost < 0.02 * 0.022, "{seed}: {lost}");
        }
    }

    #[test]
    fn block_at_the_edges_of_the_range_stays_near() {
        for block in edges() {
            assert_near(&block);
        }
    }

    #[test]
    fn zero_block_has_scales_of_zero() {
        let block = quantize(&[0.0; LEN]);
        assert_eq!(block[SCALES..], [0; 18]);
        assert_eq!(round_trip(&[0.0; LEN]), [0.0; LEN]);
    }

    #[test]
    fn block_on_a_grid_is_kept_exactly() {
        // Levels from -32 or -31 on, and scales of both signs, -128 among them; d is 1/64.
        let block = std::array::from_fn(|i| {
            let j = i / SUB;
            let level = (i % SUB * 4 + j / 2 % 2) as f32 + LEVEL_MIN;
            let scale = if j.is_multiple_of(2) {
                -128 + 5 * j as i32
            } else {
                120 - 3 * j as i32
            };
            level * scale as f32 / 64.0
        });
        assert_eq!(round_trip(&block), block);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn value_without_bound_is_refused() {
        let mut block = [0.0; LEN];
        block[200] = f32::INFINITY;
        quantize(&block);
    }
}
