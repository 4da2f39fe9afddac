//! The tables of rotary angles (RoPE, Su et al. 2021), and how angles are scaled for contexts
//! longer than those of the training.
//!
//! Computed in f64 by plain Rust (`libm`), rounded once to f32: the same bits on every machine,
//! and no power or sine in the step.

use super::config::Config;
use crate::arena::{ArenaError, Model, Open, rounded};

/// The rotary frequencies of a model, or of some of its layers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rope {
    /// Base of the frequencies.
    pub base: f32,
    /// What is done to them.
    pub scaling: Scaling,
    /// Factor on sines and cosines.
    pub magnitude: f64,
}

/// How rotary frequencies are scaled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scaling {
    /// Divided by a factor, which may be 1 (Position Interpolation, Chen et al. 2023).
    Linear(f32),
    /// The low ones divided, the high ones kept.
    Yarn(Yarn),
}

/// The parameters of YaRN (Peng et al. 2023).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Yarn {
    /// What low frequencies are divided by.
    pub factor: f32,
    /// Context of the training.
    pub context: usize,
    /// Turns over that context from which on a frequency is kept.
    pub beta_fast: f32,
    /// Turns over that context up to which a frequency is divided whole.
    pub beta_slow: f32,
}

impl Rope {
    /// Frequencies that nothing was done to.
    pub fn plain(base: f32) -> Rope {
        Rope {
            base,
            scaling: Scaling::Linear(1.0),
            magnitude: 1.0,
        }
    }

    /// Radians a position of pair `pair` of a head of `dim`; `divisor` comes before the scaling.
    fn frequency(&self, pair: usize, dim: usize, divisor: f32) -> f64 {
        let power = libm::pow(self.base.into(), -((2 * pair) as f64) / dim as f64);
        let frequency = power / f64::from(divisor);
        match self.scaling {
            Scaling::Linear(factor) => frequency / f64::from(factor),
            Scaling::Yarn(yarn) => {
                let kept = yarn.share_kept(self.base.into(), pair, dim);
                frequency / f64::from(yarn.factor) * (1.0 - kept) + frequency * kept
            }
        }
    }
}

impl Yarn {
    /// How much of a pair's frequency is kept, 0 to 1: a ramp over the pairs between the two
    /// bounds, each rounded to the pair outside of it.
    fn share_kept(&self, base: f64, pair: usize, dim: usize) -> f64 {
        let dim = dim as f64;
        let pair_of = |turns: f32| {
            let per_turn = self.context as f64 / (f64::from(turns) * core::f64::consts::TAU);
            dim * libm::log(per_turn) / (2.0 * libm::log(base))
        };
        let low = libm::floor(pair_of(self.beta_fast)).max(0.0);
        let high = libm::ceil(pair_of(self.beta_slow)).min(dim - 1.0);
        let ramp = (pair as f64 - low) / (high - low).max(0.001);
        1.0 - ramp.clamp(0.0, 1.0)
    }
}

/// Cosines and sines of every position.
pub struct RopeTable<'m> {
    /// `[context][cos of dim / 2, sin of dim / 2]`.
    angles: &'m [f32],
    dim: usize,
}

impl<'m> RopeTable<'m> {
    /// Bytes of the Model scope that the table takes.
    pub fn bytes(context: usize, dim: usize) -> usize {
        rounded(context * dim * size_of::<f32>())
    }

    /// The table for positions below `context` of heads of `dim`: pair `i` turns by
    /// `position * base^(-2i / dim)`, scaled, and divided by `divisors[i]` if there are such.
    ///
    /// # Errors
    /// The scope is full.
    pub fn new(
        model: &Open<'m, Model>,
        context: usize,
        dim: usize,
        rope: &Rope,
        divisors: Option<&[f32]>,
    ) -> Result<Self, ArenaError> {
        let angles = model.alloc::<f32>(context * dim)?;
        let half = dim / 2;
        for pair in 0..half {
            let divisor = divisors.map_or(1.0, |divisors| divisors[pair]);
            let frequency = rope.frequency(pair, dim, divisor);
            for (position, row) in angles.chunks_exact_mut(dim).enumerate() {
                let (sin, cos) = libm::sincos(position as f64 * frequency);
                row[pair] = (cos * rope.magnitude) as f32;
                row[half + pair] = (sin * rope.magnitude) as f32;
            }
        }
        Ok(RopeTable { angles, dim })
    }

    /// The row of one position: `dim / 2` cosines, then as many sines.
    pub fn position(&self, position: usize) -> &[f32] {
        &self.angles[position * self.dim..][..self.dim]
    }
}

/// The tables of a model: one for all layers, or one for those that see everything and one for
/// those under a window.
pub struct RopeTables<'m> {
    common: RopeTable<'m>,
    local: Option<RopeTable<'m>>,
}

impl<'m> RopeTables<'m> {
    /// Bytes of the Model scope that the tables take.
    pub fn bytes(config: &Config, context: usize) -> usize {
        let tables = 1 + usize::from(config.local_rope.is_some());
        tables * RopeTable::bytes(context, config.head_dim)
    }

    /// The tables for positions below `context`; `divisors` as the file has them.
    ///
    /// # Errors
    /// The scope is full.
    pub fn new(
        model: &Open<'m, Model>,
        config: &Config,
        context: usize,
        divisors: Option<&[f32]>,
    ) -> Result<Self, ArenaError> {
        let table = |rope: &Rope| RopeTable::new(model, context, config.head_dim, rope, divisors);
        Ok(RopeTables {
            common: table(&config.rope)?,
            local: config.local_rope.as_ref().map(table).transpose()?,
        })
    }

    /// The table of a layer; `None` if it has no rotary embedding.
    pub fn of_layer(&self, config: &Config, layer: usize) -> Option<&RopeTable<'m>> {
        if !config.architecture.is_rotated(layer) {
            return None;
        }
        let local = self.local.as_ref();
        Some(match config.window_of(layer) {
            Some(_) => local.unwrap_or(&self.common),
            None => &self.common,
        })
    }
}
