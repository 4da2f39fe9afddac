//! Golden logits: what a model computes from a few fixed tokens, as one number.
//!
//! It is the same on every machine, whatever computes it (`docs/numerics.md`). So `pack` writes it
//! into an image, and `selftest` computes it again wherever the image has come to.

use crate::arena::{Forward, Region};
use crate::error::Error;
use crate::ids;
use crate::kv::{KvCache, KvFormat};
use crate::model::Engine;
use crate::plan::Request;
use crate::sampler::check_finite;
use crate::sys;
use core::fmt;
use xxhash_rust::xxh64::Xxh64;

/// Tokens, and positions of the context that they need.
pub const TOKENS: usize = 8;
/// Tokens of the first step, which multiplies matrices with all of them together. The others come
/// one by one.
pub const CHUNK: usize = 5;
/// How their keys and values are stored.
pub const KV_FORMAT: KvFormat = KvFormat::F16;

/// What computing them takes memory for.
pub fn request(threads: usize) -> Request {
    Request {
        context: TOKENS,
        batch: CHUNK,
        threads,
        key_format: KV_FORMAT,
        value_format: KV_FORMAT,
    }
}

/// XXH64 (seed 0) of the logits after each token, f32 little-endian, `[TOKENS][vocabulary]`. Never
/// zero, which in an image says that there is none.
///
/// # Errors
/// A logit is no number, a row of the embedding cannot be read, or a signal came first.
pub fn checksum(
    engine: &mut Engine<'_>,
    cache: &mut KvCache<'_>,
    forward: &mut Region<'_, Forward>,
) -> Result<u64, Error> {
    let mut tokens = [0; TOKENS];
    ids::spread_over(engine.config.vocabulary, &mut tokens);
    let (chunk, others) = tokens.split_at(CHUNK);
    let steps = core::iter::once(chunk).chain(others.chunks(1));
    let (mut position, mut hash) = (0, Xxh64::new(0));
    for step_tokens in steps {
        if let Some(code) = sys::pending_signal() {
            return Err(Error::Cancelled(code));
        }
        let scratch = forward.open();
        let mut step = engine.forward(cache, &scratch, step_tokens, position)?;
        for token in 0..step_tokens.len() {
            let logits = engine.logits(&mut step, token);
            check_finite(logits)?;
            logits
                .iter()
                .for_each(|logit| hash.update(&logit.to_le_bytes()));
        }
        position += step_tokens.len();
    }
    Ok(hash.digest().max(1))
}

/// A checksum as it is shown: sixteen digits of base 16, or that there is none.
pub struct Shown(pub Option<u64>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(checksum) => write!(f, "{checksum:016x}"),
            None => f.write_str("none"),
        }
    }
}
