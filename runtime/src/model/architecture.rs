//! What differs between the architectures that are supported: a row of the table for each.
//!
//! All of them are decoders of the same plan: norm, attention, residual; norm, gated feed-forward
//! network, residual. `config` reads the numbers of a file by these rows, `weights` its tensors,
//! and `forward` computes by them.

/// One architecture, as GGUF names it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Architecture {
    /// `general.architecture`, and what the keys of its numbers start with.
    pub name: &'static str,
    /// Which numbers of a head the rotary embedding turns together.
    pub pairing: Pairing,
    /// Every so many layers one has no rotary embedding; 0: none.
    pub unrotated_every: usize,
    /// Whether `rope_freqs.weight` may divide the rotary frequencies (Llama 3.1).
    pub has_rope_factors: bool,
    /// Whether queries, keys and values have biases.
    pub has_biases: bool,
    /// Whether each head of queries and keys is normalised before the rotary embedding.
    pub has_head_norms: bool,
    /// Whether what attention and the feed-forward network give is normalised before it is added.
    pub has_post_norms: bool,
    /// Whether the embedding is multiplied with the square root of the width.
    pub is_embedding_scaled: bool,
    /// Function of the gate.
    pub activation: Activation,
    /// Attention that sees the last positions only; `None`: never.
    pub window: Option<Window>,
    /// Layers of the model whose scores are scaled by the width of a layer over its heads, where
    /// others take the size of a head; no key tells.
    pub layers_scaled_by_width: Option<usize>,
    /// Bound of attention scores: the default of its key; `None`: no such key.
    pub score_cap: Option<f32>,
    /// Bound of logits: the default of its key, 0 for no bound; `None`: no such key.
    pub logit_cap: Option<f32>,
}

/// Which two numbers of a head of `dim` are turned by the angle of pair `i`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairing {
    /// `2i` and `2i + 1`.
    Adjacent,
    /// `i` and `i + dim / 2`.
    Halves,
}

/// The function of the gate in the feed-forward network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// The tanh form of GELU.
    Gelu,
}

/// Sliding windows: which layers have them, and what else is different there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    /// Positions, if the file does not say; 0: no window then.
    pub default: usize,
    /// Every so many layers one sees all positions, if the file does not say; 0: none does.
    pub global_every: usize,
    /// Base of the rotary frequencies under a window, which no scaling changes there, if the file
    /// does not say; `None`: that of all layers, scaled as they are.
    pub rope_base: Option<f32>,
}

/// Llama 2 to 3.2 and what is built like it: TinyLlama, SmolLM2, Mistral.
const LLAMA: Architecture = Architecture {
    name: "llama",
    pairing: Pairing::Adjacent,
    unrotated_every: 0,
    has_rope_factors: true,
    has_biases: false,
    has_head_norms: false,
    has_post_norms: false,
    is_embedding_scaled: false,
    activation: Activation::Silu,
    window: Some(Window {
        default: 0,
        global_every: 0,
        rope_base: None,
    }),
    layers_scaled_by_width: None,
    score_cap: None,
    logit_cap: None,
};

const SMOLLM3: Architecture = Architecture {
    name: "smollm3",
    unrotated_every: 4,
    has_rope_factors: false,
    window: None,
    ..LLAMA
};

/// Qwen 2 and 2.5.
const QWEN2: Architecture = Architecture {
    name: "qwen2",
    pairing: Pairing::Halves,
    has_rope_factors: false,
    has_biases: true,
    window: None,
    ..LLAMA
};

const QWEN3: Architecture = Architecture {
    name: "qwen3",
    has_biases: false,
    has_head_norms: true,
    ..QWEN2
};

const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    pairing: Pairing::Halves,
    has_rope_factors: false,
    has_post_norms: true,
    is_embedding_scaled: true,
    activation: Activation::Gelu,
    window: Some(Window {
        default: 4096,
        global_every: 2,
        rope_base: None,
    }),
    layers_scaled_by_width: Some(46), // 27B
    score_cap: Some(50.0),
    logit_cap: Some(30.0),
    ..LLAMA
};

/// The text part of Gemma 3.
const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    has_head_norms: true,
    window: Some(Window {
        default: 0,
        global_every: 6,
        rope_base: Some(10_000.0),
    }),
    layers_scaled_by_width: Some(62), // 27B
    score_cap: None,
    logit_cap: Some(0.0),
    ..GEMMA2
};

/// Every architecture that is supported.
pub static ARCHITECTURES: [Architecture; 6] = [LLAMA, SMOLLM3, QWEN2, QWEN3, GEMMA2, GEMMA3];

impl Architecture {
    /// The architecture of that name.
    pub fn from_name(name: &[u8]) -> Option<&'static Architecture> {
        ARCHITECTURES
            .iter()
            .find(|architecture| architecture.name.as_bytes() == name)
    }

    /// Whether a layer has the rotary embedding.
    pub fn is_rotated(&self, layer: usize) -> bool {
        !is_last_of(self.unrotated_every, layer)
    }
}

/// Whether `layer` is the last of a period of so many; 0: never.
pub fn is_last_of(period: usize, layer: usize) -> bool {
    period > 0 && (layer + 1).is_multiple_of(period)
}
