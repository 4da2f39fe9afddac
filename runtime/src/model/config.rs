//! Metadata keys to the numbers of a Llama model (GGUF specification, `llama` architecture).
//!
//! [`Config::read`] checks every relation that the forward pass relies on, so nothing later has to.

use crate::gguf::{Gguf, GgufError, Name};
use core::fmt;

/// Layers that a model may have.
pub const LAYERS_MAX: usize = 128;
/// Bound on widths, heads and vocabulary, so that products stay far from overflow.
const DIMENSION_MAX: u32 = 1 << 20;

/// The shape of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
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
    /// Size of a head, a multiple of eight.
    pub head_dim: usize,
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// Context that the model was trained for.
    pub context_max: usize,
    /// Added to the mean square in RMSNorm.
    pub norm_epsilon: f32,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
}

/// Why a file is no model that can be run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ConfigError {
    /// The container is malformed.
    Gguf(GgufError),
    /// The architecture is missing or another than `llama`.
    Architecture {
        /// As the file has it; `None` if it is missing.
        found: Option<Name>,
    },
    /// A key that the model needs is missing.
    MissingKey {
        /// Which, without the architecture's prefix.
        key: &'static str,
    },
    /// A number that makes no model.
    BadValue {
        /// Its key, without the architecture's prefix.
        key: &'static str,
        /// As the file has it.
        found: f64,
    },
    /// Something real that is not supported.
    Unsupported {
        /// What.
        what: &'static str,
    },
    /// A tensor that the model needs is missing.
    MissingTensor {
        /// Which.
        tensor: Name,
    },
    /// A tensor that nothing here would use: the model is more than it seems.
    UnknownTensor {
        /// Which.
        tensor: Name,
    },
    /// A tensor has another shape than the metadata asks for.
    TensorShape {
        /// Which.
        tensor: Name,
        /// Row length and rows, as the file has them.
        found: [u64; 2],
        /// Row length and rows, as the metadata asks.
        wanted: [u64; 2],
    },
    /// A tensor's rows are no whole blocks, as kernels read them.
    RowLength {
        /// Which tensor.
        tensor: Name,
        /// Its type.
        format: &'static str,
        /// Weights of a row.
        found: usize,
        /// Weights of a block.
        block: usize,
    },
    /// A tensor's type has no kernel.
    TensorType {
        /// Which tensor.
        tensor: Name,
        /// Its type.
        found: &'static str,
    },
}

impl From<GgufError> for ConfigError {
    fn from(error: GgufError) -> Self {
        ConfigError::Gguf(error)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ConfigError::*;
        match *self {
            Gguf(error) => error.fmt(f),
            Architecture { found: None } => f.write_str("general.architecture is missing"),
            Architecture { found: Some(name) } => {
                write!(f, "architecture \"{name}\" is not supported (llama is)")
            }
            MissingKey { key } => write!(f, "key llama.{key} is missing"),
            BadValue { key, found } => write!(f, "key llama.{key}: {found} makes no model"),
            Unsupported { what } => write!(f, "{what} is not supported"),
            MissingTensor { tensor } => write!(f, "tensor {tensor} is missing"),
            UnknownTensor { tensor } => write!(
                f,
                "tensor {tensor} is no part of the llama models that are supported"
            ),
            TensorShape {
                tensor,
                found,
                wanted,
            } => write!(
                f,
                "tensor {tensor} is {} x {}, the metadata asks for {} x {}",
                found[0], found[1], wanted[0], wanted[1]
            ),
            RowLength {
                tensor,
                format,
                found,
                block,
            } => write!(
                f,
                "tensor {tensor}: rows of {found} weights in {format}, read in blocks of {block}"
            ),
            TensorType { tensor, found } => {
                write!(f, "tensor {tensor}: type {found} is not supported")
            }
        }
    }
}

/// Reads keys under the architecture's prefix.
struct Keys<'g, 'a>(&'g Gguf<'a>);

impl Keys<'_, '_> {
    fn number(&self, key: &'static str) -> Result<Option<u32>, ConfigError> {
        Ok(self.0.u32(prefixed(key).as_str())?)
    }

    /// A number from 1 to [`DIMENSION_MAX`].
    fn dimension(&self, key: &'static str, default: Option<usize>) -> Result<usize, ConfigError> {
        match (self.number(key)?, default) {
            (Some(found), _) if (1..=DIMENSION_MAX).contains(&found) => Ok(found as usize),
            (Some(found), _) => Err(ConfigError::BadValue {
                key,
                found: found.into(),
            }),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(ConfigError::MissingKey { key }),
        }
    }

    fn positive(&self, key: &'static str, default: Option<f32>) -> Result<f32, ConfigError> {
        match (self.0.f32(prefixed(key).as_str())?, default) {
            (Some(found), _) if found > 0.0 && found.is_finite() => Ok(found),
            (Some(found), _) => Err(ConfigError::BadValue {
                key,
                found: found.into(),
            }),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(ConfigError::MissingKey { key }),
        }
    }
}

fn prefixed(key: &'static str) -> heapless::String<64> {
    let mut full = heapless::String::new();
    // The keys of this file are short.
    let _ = full.push_str("llama.");
    let _ = full.push_str(key);
    full
}

impl Config {
    /// Reads and checks the metadata of a Llama model.
    ///
    /// # Errors
    /// Another architecture, a missing or impossible number, or a feature that is not supported.
    pub fn read(gguf: &Gguf<'_>) -> Result<Config, ConfigError> {
        let architecture = gguf.string("general.architecture")?;
        if architecture != Some(b"llama") {
            let found = architecture
                .map(|bytes| Name::new(core::str::from_utf8(bytes).unwrap_or("not UTF-8")));
            return Err(ConfigError::Architecture { found });
        }
        refuse_unsupported(gguf)?;
        let keys = Keys(gguf);
        let layers = keys.dimension("block_count", None)?;
        if layers > LAYERS_MAX {
            return Err(ConfigError::BadValue {
                key: "block_count",
                found: layers as f64,
            });
        }
        let width = keys.dimension("embedding_length", None)?;
        let heads = keys.dimension("attention.head_count", None)?;
        let kv_heads = keys.dimension("attention.head_count_kv", Some(heads))?;
        if !heads.is_multiple_of(kv_heads) {
            let key = "attention.head_count_kv";
            return Err(ConfigError::BadValue {
                key,
                found: kv_heads as f64,
            });
        }
        let stated = keys.number("attention.key_length")?;
        if stated.is_none() && !width.is_multiple_of(heads) {
            let key = "attention.head_count";
            return Err(ConfigError::BadValue {
                key,
                found: heads as f64,
            });
        }
        let head_dim = keys.dimension("attention.key_length", Some(width / heads))?;
        if head_dim == 0 || !head_dim.is_multiple_of(8) || head_dim > 256 {
            let key = "attention.key_length";
            return Err(ConfigError::BadValue {
                key,
                found: head_dim as f64,
            });
        }
        for key in ["attention.value_length", "rope.dimension_count"] {
            let found = keys.dimension(key, Some(head_dim))?;
            if found != head_dim {
                return Err(ConfigError::BadValue {
                    key,
                    found: found as f64,
                });
            }
        }
        let embedding = gguf.tensor("token_embd.weight");
        let tensor = Name::new("token_embd.weight");
        let vocabulary = embedding
            .ok_or(ConfigError::MissingTensor { tensor })?
            .shape[1];
        if vocabulary > u64::from(DIMENSION_MAX) {
            return Err(ConfigError::BadValue {
                key: "vocab_size",
                found: vocabulary as f64,
            });
        }
        Ok(Config {
            layers,
            width,
            hidden: keys.dimension("feed_forward_length", None)?,
            heads,
            kv_heads,
            head_dim,
            vocabulary: vocabulary as usize,
            context_max: keys.dimension("context_length", None)?,
            norm_epsilon: keys.positive("attention.layer_norm_rms_epsilon", None)?,
            rope_base: keys.positive("rope.freq_base", Some(10_000.0))?,
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
}

/// Things that a `llama` file may ask for and that are not computed here: better no text than
/// wrong text. Tensors that would go unused are found by `Weights::gather`.
fn refuse_unsupported(gguf: &Gguf<'_>) -> Result<(), ConfigError> {
    let unsupported = |what| Err(ConfigError::Unsupported { what });
    if gguf.u32("llama.expert_count")?.unwrap_or(0) > 0 {
        return unsupported("a mixture of experts");
    }
    if gguf.u32("split.count")?.unwrap_or(1) > 1 {
        return unsupported("a model split over several files");
    }
    let scaling = gguf.string("llama.rope.scaling.type")?;
    if !matches!(scaling, None | Some(b"none")) || gguf.tensor("rope_freqs.weight").is_some() {
        return unsupported("RoPE scaling");
    }
    // Numbers that change nothing at these values.
    for (key, neutral, what) in [
        ("llama.rope.scaling.factor", 1.0, "RoPE scaling"),
        ("llama.rope.scale_linear", 1.0, "RoPE scaling"),
        (
            "llama.attention.clamp_kqv",
            0.0,
            "clamping of queries, keys and values",
        ),
        ("llama.logit_scale", 1.0, "a logit scale"),
        ("llama.attention.scale", 0.0, "an attention scale"),
    ] {
        if gguf
            .f32(key)?
            .is_some_and(|found| found != neutral && found != 0.0)
        {
            return unsupported(what);
        }
    }
    if gguf.u32("llama.attention.sliding_window")?.unwrap_or(0) > 0 {
        return unsupported("sliding-window attention");
    }
    if gguf.bool("llama.attention.causal")? == Some(false) {
        return unsupported("attention that is not causal");
    }
    Ok(())
}
