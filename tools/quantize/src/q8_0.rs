//! Q8_0: 32 weights, each a scale times a level of eight bits.
//!
//! Block: d f16; 32 levels i8. A value is d * level.

use crate::{LEN, check, farthest, inverse, nearest, stored};

const SUB: usize = 32;
const SUB_BYTES: usize = 34;
/// Bytes of [`LEN`] weights.
pub const BLOCK: usize = LEN / SUB * SUB_BYTES;
const LEVEL_MAX: f32 = 127.0;

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
        let (bytes, d) = stored(farthest(sub).abs() / LEVEL_MAX);
        let per_d = inverse(d);
        out[..2].copy_from_slice(&bytes);
        for (byte, value) in out[2..].iter_mut().zip(sub) {
            let level = nearest((value * per_d).clamp(-LEVEL_MAX, LEVEL_MAX));
            *byte = level as i8 as u8;
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
        values(WeightFormat::Q8_0, &quantize(block))
    }

    #[test]
    fn value_loses_half_a_step() {
        for block in (0..50).map(|seed| bell(seed, 0.02)).chain(edges()) {
            for (i, (before, after)) in block.iter().zip(round_trip(&block)).enumerate() {
                let sub: &[f32; SUB] = &block.as_chunks().0[i / SUB];
                let far = farthest(sub).abs();
                // binary16 loses 2^-11 of the scale, and of the least ones more.
                let bound = far / 127.0 * 0.5 + far / 2000.0 + 127.0 * VALUE_MIN;
                assert!(
                    (before - after).abs() <= bound,
                    "{i}: {before:e}, {after:e}"
                );
            }
        }
    }

    #[test]
    fn block_on_a_grid_is_kept_exactly() {
        let block = std::array::from_fn(|i| match i % SUB {
            0 => -127.0 / 64.0,
            level => (level as f32 * 8.0 - 124.0) / 64.0,
        });
        assert_eq!(round_trip(&block), block);
        assert_eq!(round_trip(&[0.0; LEN]), [0.0; LEN]);
    }
}
