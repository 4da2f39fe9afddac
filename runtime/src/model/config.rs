//! Metadata keys to the numbers of a model (GGUF specification, keys under the architecture).
//!
//! [`Config::read`] checks every relation that the forward pass relies on, so nothing later has to.

use super::architecture::{Architecture, Pairing, Window, is_last_of};
use super::error::{ConfigError, Key};
use super::rope::{Rope, Scaling, Yarn};
use crate::gguf::{Gguf, Name};
use core::fmt;

/// Layers that a model may have.
pub const LAYERS_MAX: usize = 128;
/// Bound on widths, heads and vocabulary, so that products stay far from overflow.
const DIMENSION_MAX: u32 = 1 << 20;

/// Bound on each of the two factors on sines and cosines. They are near 1, and the square of their
/// product is a factor on attention scores, which stays a number this way.
const MAGNITUDE_MAX: f32 = 1e6;

/// The shape of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// What it computes beside what all models do.
    pub architecture: &'static Architecture,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Width inside the feed-forward network.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Size of a head, a multiple of eight; of sixteen, where its halves are paired.
    pub head_dim: usize,
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// Context that the model was trained for.
    pub context_max: usize,
    /// Added to the mean square in RMSNorm.
    pub norm_epsilon: f32,
    /// Rotary frequencies.
    pub rope: Rope,
    /// Those of layers under a window, if they are others.
    pub local_rope: Option<Rope>,
    /// Positions that a layer under a window sees, its own included; `None`: no layer has one.
    pub window: Option<usize>,
    /// Every so many layers one has no window; 0: none.
    pub global_every: usize,
    /// Factor on attention scores.
    pub score_scale: f32,
    /// Soft bound of attention scores.
    pub score_cap: Option<f32>,
    /// Soft bound of logits.
    pub logit_cap: Option<f32>,
}

/// Reads keys under the architecture's prefix.
struct Keys<'g, 'a> {
    gguf: &'g Gguf<'a>,
    architecture: &'static Architecture,
}

impl Keys<'_, '_> {
    fn key(&self, name: &'static str) -> Key {
        let architecture = self.architecture.name;
        Key { architecture, name }
    }

    /// The key as the file has it.
    fn full(&self, name: &'static str) -> heapless::String<64> {
        let mut full = heapless::String::new();
        let _ = fmt::write(&mut full, format_args!("{}", self.key(name))); // all keys are short
        full
    }

    fn number(&self, name: &'static str) -> Result<Option<u32>, ConfigError> {
        Ok(self.gguf.u32(&self.full(name))?)
    }

    fn float(&self, name: &'static str) -> Result<Option<f32>, ConfigError> {
        Ok(self.gguf.f32(&self.full(name))?)
    }

    fn missing(&self, name: &'static str) -> ConfigError {
        let key = self.key(name);
        ConfigError::MissingKey { key }
    }

    fn bad(&self, name: &'static str, found: impl Into<f64>) -> ConfigError {
        let (key, found) = (self.key(name), found.into());
        ConfigError::BadValue { key, found }
    }

    /// A number from 1 to [`DIMENSION_MAX`].
    fn dimension(&self, name: &'static str, default: Option<usize>) -> Result<usize, ConfigError> {
        match self.number(name)? {
            Some(found) if (1..=DIMENSION_MAX).contains(&found) => Ok(found as usize),
            Some(found) => Err(self.bad(name, found)),
            None => default.ok_or(self.missing(name)),
        }
    }

    /// Tokens that the model was trained for: a file may say any number, nothing is sized by it.
    fn context_length(&self) -> Result<usize, ConfigError> {
        const KEY: &str = "context_length";
        match self.number(KEY)? {
            Some(0) => Err(self.bad(KEY, 0u32)),
            Some(found) => Ok(found as usize),
            None => Err(self.missing(KEY)),
        }
    }

    fn positive(&self, name: &'static str, default: Option<f32>) -> Result<f32, ConfigError> {
        match self.float(name)? {
            Some(found) if found > 0.0 && found.is_finite() => Ok(found),
            Some(found) => Err(self.bad(name, found)),
            None => default.ok_or(self.missing(name)),
        }
    }

    /// A number that is off at 0.
    fn optional(&self, name: &'static str, default: f32) -> Result<Option<f32>, ConfigError> {
        match self.float(name)?.unwrap_or(default) {
            0.0 => Ok(None),
            found if found > 0.0 && found.is_finite() => Ok(Some(found)),
            found => Err(self.bad(name, found)),
        }
    }

    /// A factor on sines and cosines, off at 0.
    fn magnitude(&self, name: &'static str) -> Result<Option<f32>, ConfigError> {
        match self.optional(name, 0.0)? {
            Some(found) if found > MAGNITUDE_MAX => Err(self.bad(name, found)),
            magnitude => Ok(magnitude),
        }
    }
}

impl Config {
    /// Reads and checks the metadata of a model.
    ///
    /// # Errors
    /// Another architecture, a missing or impossible number, or a feature that is not supported.
    pub fn read(gguf: &Gguf<'_>) -> Result<Config, ConfigError> {
        let found = gguf.string("general.architecture")?;
        let architecture = found.and_then(Architecture::from_name);
        let found = found.map(Name::from_bytes);
        let architecture = architecture.ok_or(ConfigError::Architecture { found })?;
        let keys = Keys { gguf, architecture };
        refuse_unsupported(&keys)?;
        let layers = keys.dimension("block_count", None)?;
        if layers > LAYERS_MAX {
            return Err(keys.bad("block_count", layers as u32));
        }
        let width = keys.dimension("embedding_length", None)?;
        let heads = keys.dimension("attention.head_count", None)?;
        let kv_heads = keys.dimension("attention.head_count_kv", Some(heads))?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(keys.bad("attention.head_count_kv", kv_heads as u32));
        }
        let head_dim = read_head_dim(&keys, width, heads)?;
        let scored_width = match architecture.layers_scaled_by_width {
            Some(of) if of == layers => width / heads,
            _ => head_dim,
        };
        if scored_width == 0 {
            return Err(keys.bad("attention.head_count", heads as u32));
        }
        let rope = read_rope(&keys)?;
        let (window, global_every, local_rope) = match architecture.window {
            Some(window) => read_window(&keys, window)?,
            None => (None, 0, None),
        };
        let cap = |name, default: Option<f32>| match default {
            Some(default) => keys.optional(name, default),
            None => Ok(None),
        };
        Ok(Config {
            architecture,
            layers,
            width,
            hidden: keys.dimension("feed_forward_length", None)?,
            heads,
            kv_heads,
            head_dim,
            vocabulary: read_vocabulary(&keys)?,
            context_max: keys.context_length()?,
            norm_epsilon: keys.positive("attention.layer_norm_rms_epsilon", None)?,
            rope,
            local_rope,
            window,
            global_every,
            score_scale: 1.0 / libm::sqrtf(scored_width as f32),
            score_cap: cap(SCORE_CAP, architecture.score_cap)?,
            logit_cap: cap(LOGIT_CAP, architecture.logit_cap)?,
        })
    }

    /// Query heads that share a KV head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Width of all query heads together.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key heads together, and of all value heads.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// The positions that a layer sees, its own included, if it has a window.
    pub fn window_of(&self, layer: usize) -> Option<usize> {
        self.window
            .filter(|_| !is_last_of(self.global_every, layer))
    }
}

const WINDOW: &str = "attention.sliding_window";
const LOCAL_BASE: &str = "rope.freq_base_swa";
const SCORE_CAP: &str = "attn_logit_softcapping";
const LOGIT_CAP: &str = "final_logit_softcapping";

/// The size of a head: one for queries, keys and values, and all of it is rotated.
fn read_head_dim(keys: &Keys<'_, '_>, width: usize, heads: usize) -> Result<usize, ConfigError> {
    const KEY: &str = "attention.key_length";
    if keys.number(KEY)?.is_none() && !width.is_multiple_of(heads) {
        return Err(keys.bad("attention.head_count", heads as u32));
    }
    let head_dim = keys.dimension(KEY, Some(width / heads))?;
    let whole = match keys.architecture.pairing {
        Pairing::Adjacent => 8,
        Pairing::Halves => 16, // each half is whole vectors
    };
    if head_dim == 0 || !head_dim.is_multiple_of(whole) || head_dim > 256 {
        return Err(keys.bad(KEY, head_dim as u32));
    }
    for name in ["attention.value_length", "rope.dimension_count"] {
        let found = keys.dimension(name, Some(head_dim))?;
        if found != head_dim {
            return Err(keys.bad(name, found as u32));
        }
    }
    Ok(head_dim)
}

/// Tokens in the vocabulary: the rows of the embedding.
fn read_vocabulary(keys: &Keys<'_, '_>) -> Result<usize, ConfigError> {
    const EMBEDDING: &str = "token_embd.weight";
    let tensor = Name::new(EMBEDDING);
    let embedding = keys.gguf.tensor(EMBEDDING);
    let rows = embedding
        .ok_or(ConfigError::MissingTensor { tensor })?
        .shape[1];
    if rows > u64::from(DIMENSION_MAX) {
        return Err(ConfigError::TensorRows {
            tensor,
            found: rows,
            limit: DIMENSION_MAX,
        });
    }
    Ok(rows as usize)
}

/// The rotary frequencies of all layers, or of those without a window.
fn read_rope(keys: &Keys<'_, '_>) -> Result<Rope, ConfigError> {
    const FACTOR: &str = "rope.scaling.factor";
    let base = keys.positive("rope.freq_base", Some(10_000.0))?;
    let old = keys.optional("rope.scale_linear", 0.0)?.unwrap_or(1.0);
    let factor = keys.optional(FACTOR, 0.0)?.unwrap_or(old);
    let kind = keys.gguf.string(&keys.full("rope.scaling.type"))?;
    let stretched = 1.0 + 0.1 * libm::log(f64::from(factor).max(1.0));
    let (scaling, magnitude) = match kind {
        Some(b"none") => (Scaling::Linear(1.0), 1.0),
        None | Some(b"linear") => (Scaling::Linear(factor), 1.0),
        Some(b"yarn") => {
            let stated = keys.magnitude("rope.scaling.yarn_attn_factor")?;
            let yarn = read_yarn(keys, factor)?;
            (Scaling::Yarn(yarn), stated.map_or(stretched, f64::from))
        }
        Some(other) => {
            let found = Name::from_bytes(other);
            return Err(ConfigError::RopeScaling { found });
        }
    };
    let more = keys.magnitude("rope.scaling.attn_factor")?;
    Ok(Rope {
        base,
        scaling,
        magnitude: magnitude * f64::from(more.unwrap_or(1.0)),
    })
}

fn read_yarn(keys: &Keys<'_, '_>, factor: f32) -> Result<Yarn, ConfigError> {
    for (name, neutral) in [
        ("rope.scaling.yarn_ext_factor", 1.0),
        ("rope.scaling.yarn_log_multiplier", 0.0),
    ] {
        if let Some(found) = keys.float(name)?.filter(|&found| found != neutral) {
            return Err(keys.bad(name, found));
        }
    }
    let trained = keys.context_length()?;
    Ok(Yarn {
        factor,
        context: keys.dimension("rope.scaling.original_context_length", Some(trained))?,
        beta_fast: keys.positive("rope.scaling.yarn_beta_fast", Some(32.0))?,
        beta_slow: keys.positive("rope.scaling.yarn_beta_slow", Some(1.0))?,
    })
}

/// Positions of a window, after how many layers one has none, and the rotary frequencies of the
/// others, if they are not those of all.
type Windowed = (Option<usize>, usize, Option<Rope>);

fn read_window(keys: &Keys<'_, '_>, window: Window) -> Result<Windowed, ConfigError> {
    let positions = match keys.number(WINDOW)? {
        Some(found) => found as usize,
        None => window.default,
    };
    if positions == 0 {
        return Ok((None, 0, None));
    }
    let pattern = keys.number("attention.sliding_window_pattern")?;
    let global_every = pattern.map_or(window.global_every, |found| found as usize);
    let local_base = match window.rope_base {
        Some(base) => Some(keys.positive(LOCAL_BASE, Some(base))?),
        None => None,
    };
    Ok((Some(positions), global_every, local_base.map(Rope::plain)))
}

/// Things that a file may ask for and that are not computed here: better no text than wrong text.
/// Tensors that would go unused are found by `Weights::gather`.
fn refuse_unsupported(keys: &Keys<'_, '_>) -> Result<(), ConfigError> {
    let unsupported = |what| Err(ConfigError::Unsupported { what });
    let architecture = keys.architecture;
    if keys.number("expert_count")?.unwrap_or(0) > 0 {
        return unsupported("a mixture of experts");
    }
    if keys.gguf.u32("split.count")?.unwrap_or(1) > 1 {
        return unsupported("a model split over several files");
    }
    if architecture.window.is_none() && keys.number(WINDOW)?.unwrap_or(0) > 0 {
        return unsupported("a sliding window in this architecture");
    }
    let has_local_base = architecture.window.is_some_and(|w| w.rope_base.is_some());
    // Numbers that change nothing at these values, unless the architecture has them.
    for (is_known, name, neutral, what) in [
        (
            false,
            "attention.clamp_kqv",
            0.0,
            "clamping of queries, keys and values",
        ),
        (false, "logit_scale", 1.0, "a logit scale"),
        (false, "attention.scale", 0.0, "an attention scale"),
        (
            architecture.score_cap.is_some(),
            SCORE_CAP,
            0.0,
            "a cap of scores",
        ),
        (
            architecture.logit_cap.is_some(),
            LOGIT_CAP,
            0.0,
            "a cap of logits",
        ),
        (has_local_base, LOCAL_BASE, 0.0, "a rotary base of windows"),
    ] {
        let found = keys.float(name)?.unwrap_or(neutral);
        if !is_known && found != neutral && found != 0.0 {
            return unsupported(what);
        }
    }
    if keys.gguf.bool(&keys.full("attention.causal"))? == Some(false) {
        return unsupported("attention that is not causal");
    }
    Ok(())
}
