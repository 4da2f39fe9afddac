//! Q4_0: 32 weights, each a scale times a level of four bits.
//!
//! Block: d f16; 16 bytes of nibbles, of weights 0..16 the low ones and of 16..32 the high ones. A
//! value is d * (level - 8).

use crate::{LEN, check, farthest, inverse, nearest, stored};

const SUB: usize = 32;
const SUB_BYTES: usize = 18;
/// Bytes of [`LEN`] weights.
pub const BLOCK: usize = LEN / SUB * SUB_BYTES;
/// The level of the greatest magnitude.
const LEVEL_MIN: f32 = -8.0;
const LEVEL_MAX: f32 = 7.0;

/// Eight blocks, each with the scale that its farthest value asks for, as GGML's reference has it.
///
/// # Panics
/// If the magnitude of a value is above [`VALUE_MAX`](crate::VALUE_MAX), or none at all.
pub fn quantize(values: &[f32; LEN]) -> [u8; BLOCK] {
    check(values);
    let mut blocks = [0; BLOCK];
    let subs: &[[f32; SUB]] = values.as_chunks().0;
    let (outs, _) = blocks.as_chunks_mut::<SUB_BYTES>();
    for (sub, out) in subs.iter().zip(outs) {
        // No value at all would give a negative zero.
        let (bytes, d) = stored(farthest(sub) / LEVEL_MIN + 0.0);
        let per_d = inverse(d);
        let level =
            |value: f32| (nearest((value * per_d).clamp(LEVEL_MIN, LEVEL_MAX)) - LEVEL_MIN) as u8;
        out[..2].copy_from_slice(&bytes);
        for (i, byte) in out[2..].iter_mut().enumerate() {
            *byte = level(sub[i]) | level(sub[i + SUB / 2]) << 4;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VALUE_MIN;
    use crate::testing::{bell, edges, values};
    use kernels_asm::format::WeightFormat;

    fn round_trip(block: &[f32; LEN]) -> [f32; LEN] {
        values(WeightFormat::Q4_0, &quantize(block))
    }

    #[test]
    fn value_loses_half_a_step_or_the_one_level_that_is_missing() {
        for block in (0..50).map(|seed| bell(seed, 0.02)).chain(edges()) {
            for (i, (before, after)) in block.iter().zip(round_trip(&block)).enumerate() {
                let sub: &[f32; SUB] = &block.as_chunks().0[i / SUB];
                let step = farthest(sub).abs() / 8.0;
                // binary16 loses some of the scale, eight times.
                let bound = step * 1.01 + 8.0 * VALUE_MIN;
                assert!(
                    (before - after).abs() <= bound,
                    "{i}: {before:e}, {after:e}"
                );
            }
        }
    }

    #[test]
    fn block_on_a_grid_is_kept_exactly() {
        let block = std::array::from_fn(|i| (i % 16) as f32 * 0.25 - 2.0);
        assert_eq!(round_trip(&block), block);
        assert_eq!(round_trip(&[0.0; LEN]), [0.0; LEN]);
    }
}
