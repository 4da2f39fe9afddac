//! The table of rotary angles (RoPE, Su et al. 2021).
//!
//! Computed in f64 by plain Rust (`libm`), rounded once to f32: the same bits on every machine,
//! and no power or sine in the step.

use crate::arena::{ArenaError, Model, Open};

/// Cosines and sines of every position.
pub struct RopeTable<'m> {
    /// `[context][cos of dim / 2, sin of dim / 2]`.
    angles: &'m [f32],
    dim: usize,
}

impl<'m> RopeTable<'m> {
    /// Bytes of the Model scope that the table takes.
    pub fn bytes(context: usize, dim: usize) -> usize {
        crate::arena::rounded(context * dim * size_of::<f32>())
    }

    /// The table for positions below `context` of heads of `dim`: pair `i` turns by
    /// `position * base^(-2i / dim)`.
    ///
    /// # Errors
    /// The scope is full.
    pub fn new(
        model: &Open<'m, Model>,
        context: usize,
        dim: usize,
        base: f32,
    ) -> Result<Self, ArenaError> {
        let angles = model.alloc::<f32>(context * dim)?;
        let half = dim / 2;
        for pair in 0..half {
            let frequency = libm::pow(base.into(), -((2 * pair) as f64) / dim as f64);
            for (position, row) in angles.chunks_exact_mut(dim).enumerate() {
                let (sin, cos) = libm::sincos(position as f64 * frequency);
                row[pair] = cos as f32;
                row[half + pair] = sin as f32;
            }
        }
        Ok(RopeTable { angles, dim })
    }

    /// The row of one position: `dim / 2` cosines, then as many sines.
    pub fn position(&self, position: usize) -> &[f32] {
        &self.angles[position * self.dim..][..self.dim]
    }
}
