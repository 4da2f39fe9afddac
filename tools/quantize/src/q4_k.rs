//! Q4_K: eight sub-blocks of 32 weights, each with a scale and a minimum of six bits.
//!
//! Block: d f16; dmin f16; 12 bytes of scales and minima; 128 bytes of nibbles. A value is
//! d * scale * level - dmin * minimum, so no minimum lies above zero. The bytes are described where
//! they are read, in the packing of `kernels-asm`.

use crate::{LEN, STRETCHES, VALUE_MIN, check, inverse, nearest, stored, sum};

/// Bytes of a block.
pub const BLOCK: usize = 144;

const SUB: usize = 32;
/// The highest level of a weight.
const LEVEL_MAX: f32 = 15.0;
/// The highest scale, and the highest minimum.
const SIX_BITS: f32 = 63.0;

/// How a sub-block is written: a value is `step * level - offset`, neither below zero.
#[derive(Clone, Copy)]
struct Grid {
    step: f32,
    offset: f32,
}

/// A block with the nearest values that the search finds.
///
/// # Panics
/// If the magnitude of a value is above [`VALUE_MAX`](crate::VALUE_MAX), or none at all.
pub fn quantize(values: &[f32; LEN]) -> [u8; BLOCK] {
    check(values);
    let subs: &[[f32; SUB]] = values.as_chunks().0;
    let mut grids = [Grid {
        step: 0.0,
        offset: 0.0,
    }; LEN / SUB];
    for (grid, sub) in grids.iter_mut().zip(subs) {
        *grid = fit(sub);
    }
    let step_max = grids.iter().fold(0.0, |max, grid| greater(max, grid.step));
    let offset_max = grids
        .iter()
        .fold(0.0, |max, grid| greater(max, grid.offset));
    let (d_bytes, d) = stored(step_max / SIX_BITS);
    let (dmin_bytes, dmin) = stored(offset_max / SIX_BITS);

    let mut block = [0; BLOCK];
    block[..2].copy_from_slice(&d_bytes);
    block[2..4].copy_from_slice(&dmin_bytes);
    let per_d = inverse(d);
    let per_dmin = inverse(dmin);
    for (j, (grid, sub)) in grids.iter().zip(subs).enumerate() {
        let scale = nearest((grid.step * per_d).clamp(0.0, SIX_BITS));
        let min = nearest((grid.offset * per_dmin).clamp(0.0, SIX_BITS));
        put_header(&mut block, j, scale as u8, min as u8);
        let written = Grid {
            step: d * scale,
            offset: dmin * min,
        };
        put_levels(&mut block, j, &levels(sub, &written));
    }
    block
}

/// The grid that fits a sub-block best: for some ways to assign levels the best one by least
/// squares, and of these the best.
fn fit(values: &[f32; SUB]) -> Grid {
    let min = values.iter().fold(0.0, |min, &value| lesser(min, value));
    let max = values
        .iter()
        .fold(values[0], |max, &value| greater(max, value));
    let range = max - min;
    if range < VALUE_MIN {
        return Grid {
            step: 0.0,
            offset: -min,
        };
    }
    let mut best = Grid {
        step: range / LEVEL_MAX,
        offset: -min,
    };
    let mut best_error = f32::INFINITY;
    for stretch in STRETCHES {
        let tried = Grid {
            step: range / (LEVEL_MAX + stretch),
            offset: -min,
        };
        let levels = levels(values, &tried);
        if let Some(fitted) = least_squares(values, &levels) {
            let error = error(values, &levels, &fitted);
            if error < best_error {
                (best, best_error) = (fitted, error);
            }
        }
    }
    best
}

/// The levels next to the values on a grid.
#[inline(always)]
fn levels(values: &[f32; SUB], grid: &Grid) -> [f32; SUB] {
    let per_step = inverse(grid.step);
    values.map(|value| nearest(((value + grid.offset) * per_step).clamp(0.0, LEVEL_MAX)))
}

/// The grid on which these levels come nearest to the values, if they differ at all.
#[inline(always)]
fn least_squares(values: &[f32; SUB], levels: &[f32; SUB]) -> Option<Grid> {
    let count = SUB as f32;
    let x = sum::<SUB>(|i| values[i]);
    let l = sum::<SUB>(|i| levels[i]);
    let ll = sum::<SUB>(|i| levels[i] * levels[i]);
    let lx = sum::<SUB>(|i| levels[i] * values[i]);
    // Whole numbers below 2^24: exact.
    let determinant = count * ll - l * l;
    if determinant <= 0.0 {
        return None;
    }
    let offset = (l * lx - ll * x) / determinant;
    let grid = if offset >= 0.0 {
        let step = (count * lx - l * x) / determinant;
        Grid { step, offset }
    } else {
        Grid {
            step: lx / ll,
            offset: 0.0,
        }
    };
    (grid.step > 0.0).then_some(grid)
}

/// The sum of the squares of what is lost.
#[inline(always)]
fn error(values: &[f32; SUB], levels: &[f32; SUB], grid: &Grid) -> f32 {
    sum::<SUB>(|i| {
        let lost = grid.step * levels[i] - grid.offset - values[i];
        lost * lost
    })
}

/// Writes scale and minimum of sub-block `j`. Those of the last four have their low nibbles in
/// bytes of their own, and their top bits above the six bits of the first four.
fn put_header(block: &mut [u8; BLOCK], j: usize, scale: u8, min: u8) {
    let bytes = &mut block[4..16];
    if j < 4 {
        bytes[j] |= scale;
        bytes[j + 4] |= min;
    } else {
        bytes[j + 4] = scale & 15 | min << 4;
        bytes[j - 4] |= scale >> 4 << 6;
        bytes[j] |= min >> 4 << 6;
    }
}

/// Writes the nibbles of sub-block `j`: two sub-blocks share 32 bytes, the first has the low ones.
fn put_levels(block: &mut [u8; BLOCK], j: usize, levels: &[f32; SUB]) {
    let start = 16 + j / 2 * SUB;
    let shift = j % 2 * 4;
    for (byte, &level) in block[start..start + SUB].iter_mut().zip(levels) {
        *byte |= (level as u8) << shift;
    }
}

/// As `f32::min`, but of two zeros always the first.
fn lesser(a: f32, b: f32) -> f32 {
    if b < a { b } else { a }
}

/// As `f32::max`, but of two zeros always the first.
fn greater(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bell, deviation, edges, values};
    use kernels_asm::format::WeightFormat;

    fn round_trip(block: &[f32; LEN]) -> [f32; LEN] {
        values(WeightFormat::Q4_K, &quantize(block))
    }

    /// What no value of a block may lose more than: one step of its own sub-block, and what six
    /// bits lose of the scale, 15 times, and of the minimum; then what binary16 loses of the two.
    fn assert_near(block: &[f32; LEN]) {
        let spans = block.as_chunks::<SUB>().0.iter().map(|sub| {
            let min = sub.iter().fold(0.0_f32, |min, &value| min.min(value));
            let max = sub.iter().fold(f32::MIN, |max, &value| max.max(value));
            (max - min, -min)
        });
        let (spans, depths): (Vec<f32>, Vec<f32>) = spans.unzip();
        let most = |all: &[f32]| all.iter().fold(0.0_f32, |max, &one| max.max(one));
        let (span_max, depth_max) = (most(&spans), most(&depths));
        let coarse = span_max / SIX_BITS / 2.0 + depth_max / SIX_BITS / 2.0;
        let half = (span_max + depth_max) / 1024.0 + (15.0 + 1.0) * SIX_BITS * VALUE_MIN;
        for (i, (before, after)) in block.iter().zip(round_trip(block)).enumerate() {
            let bound = spans[i / SUB] / 14.0 + coarse * 1.1 + half;
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
            assert!(lost < 0.02 * 0.085, "{seed}: {lost}");
        }
    }

    #[test]
    fn block_at_the_edges_of_the_range_stays_near() {
        for block in edges() {
            assert_near(&block);
        }
    }

    #[test]
    fn zero_block_has_zero_bytes() {
        assert_eq!(quantize(&[0.0; LEN]), [0; BLOCK]);
        assert_eq!(round_trip(&[-0.0; LEN]), [0.0; LEN]);
    }

    #[test]
    fn block_on_a_grid_is_kept_exactly() {
        // Every scale and every minimum from the grid of a block: d 1/64, dmin 1/32.
        let block = std::array::from_fn(|i| {
            let (j, level) = (i / SUB, (i % 16) as f32);
            level * (63 - 7 * j) as f32 / 64.0 - (63 - 9 * j) as f32 / 32.0
        });
        assert_eq!(round_trip(&block), block);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn value_that_is_no_number_is_refused() {
        let mut block = [0.0; LEN];
        block[200] = f32::NAN;
        quantize(&block);
    }
}
