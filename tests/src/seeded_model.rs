//! Small models of every architecture with random weights, the same on every machine.
//!
//! Each has what its architecture has beyond plain `llama`, at a size where it shows within
//! [`IDS`]: windows shorter than the prompt, layers without RoPE, two rotary bases, soft caps that
//! bend, biases, and the ways of RoPE scaling. `golden/architectures.bin` has what an independent
//! reference makes of them.

use crate::gguf_writer::GgufWriter;
use crate::mixed_model::{Random, VOCABULARY, ggml_type, vocabulary};
use kernels_asm::format::WeightFormat::{self, *};

/// A prompt: ids that the vocabulary has.
pub const IDS: &str = "28 30 42 100 101 102 7 9 250 198 33 57 58 59 60 61 62 63 64 65 200 201 202";

/// What the weights of a model are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weights {
    /// Float32, which meets activations as they are.
    Floats,
    /// A matrix in each format after the other, as its rows allow.
    Mixed,
}

impl Weights {
    /// Both.
    pub const ALL: [Weights; 2] = [Weights::Floats, Weights::Mixed];

    /// In names of files.
    pub fn name(self) -> &'static str {
        match self {
            Weights::Floats => "floats",
            Weights::Mixed => "mixed",
        }
    }
}

/// A recipe of a model.
#[derive(Clone, Copy)]
pub struct SeededModel {
    /// What it shows, in names of files.
    pub name: &'static str,
    pub(crate) architecture: &'static str,
    pub(crate) layers: u32,
    pub(crate) width: u64,
    pub(crate) hidden: u64,
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) head_dim: u32,
    pub(crate) is_tied: bool,
    pub(crate) has_biases: bool,
    pub(crate) has_head_norms: bool,
    pub(crate) has_post_norms: bool,
    /// The rest of its metadata, and tensors beside those of layers; the prefix of keys is given.
    pub(crate) more: fn(GgufWriter, &str) -> GgufWriter,
}

/// What the recipes below leave out.
pub(crate) const PLAIN: SeededModel = SeededModel {
    name: "",
    architecture: "llama",
    layers: 3,
    width: 256,
    hidden: 512,
    heads: 4,
    kv_heads: 2,
    head_dim: 64,
    is_tied: false,
    has_biases: false,
    has_head_norms: false,
    has_post_norms: false,
    more: |file, _| file,
};

/// Every model.
pub const MODELS: [SeededModel; 8] = [
    SeededModel {
        name: "llama-divisors",
        more: |file, _| {
            // As Llama 3.1 has them: high frequencies kept, low ones divided by eight.
            let divisor = |pair: u32| 1.0 + 7.0 * (pair.clamp(4, 20) - 4) as f32 / 16.0;
            let divisors = (0..32).flat_map(|pair| divisor(pair).to_le_bytes());
            let bytes: Vec<u8> = divisors.collect();
            file.tensor("rope_freqs.weight", &[32], 0, &bytes)
        },
        ..PLAIN
    },
    SeededModel {
        name: "mistral-linear",
        kv_heads: 1,
        head_dim: 80,
        more: |file, prefix| {
            file.u32(&format!("{prefix}.attention.sliding_window"), 6)
                .string(&format!("{prefix}.rope.scaling.type"), "linear")
                .f32(&format!("{prefix}.rope.scaling.factor"), 4.0)
        },
        ..PLAIN
    },
    SeededModel {
        name: "smollm3",
        architecture: "smollm3",
        layers: 5,
        is_tied: true,
        more: |file, prefix| file.f32(&format!("{prefix}.rope.freq_base"), 50_000.0),
        ..PLAIN
    },
    SeededModel {
        name: "qwen2",
        architecture: "qwen2",
        is_tied: true,
        has_biases: true,
        more: |file, prefix| file.f32(&format!("{prefix}.rope.freq_base"), 1e6),
        ..PLAIN
    },
    SeededModel {
        name: "qwen2-yarn",
        architecture: "qwen2",
        heads: 2,
        kv_heads: 1,
        head_dim: 128,
        has_biases: true,
        more: |file, prefix| {
            file.string(&format!("{prefix}.rope.scaling.type"), "yarn")
                .f32(&format!("{prefix}.rope.scaling.factor"), 4.0)
                .u32(
                    &format!("{prefix}.rope.scaling.original_context_length"),
                    64,
                )
                .f32(&format!("{prefix}.rope.scaling.yarn_beta_fast"), 4.0)
                .f32(&format!("{prefix}.rope.scaling.yarn_beta_slow"), 1.0)
        },
        ..PLAIN
    },
    SeededModel {
        name: "qwen3",
        architecture: "qwen3",
        head_dim: 128,
        is_tied: true,
        has_head_norms: true,
        more: |file, prefix| file.f32(&format!("{prefix}.rope.freq_base"), 1e6),
        ..PLAIN
    },
    SeededModel {
        name: "gemma2",
        architecture: "gemma2",
        layers: 4,
        head_dim: 96,
        is_tied: true,
        has_post_norms: true,
        more: |file, prefix| {
            file.u32(&format!("{prefix}.attention.sliding_window"), 6)
                .f32(&format!("{prefix}.attn_logit_softcapping"), 1.5)
                .f32(&format!("{prefix}.final_logit_softcapping"), 30.0)
        },
        ..PLAIN
    },
    SeededModel {
        name: "gemma3",
        architecture: "gemma3",
        layers: 7,
        heads: 2,
        kv_heads: 1,
        head_dim: 256,
        is_tied: true,
        has_head_norms: true,
        has_post_norms: true,
        more: |file, prefix| {
            file.u32(&format!("{prefix}.attention.sliding_window"), 9)
                .f32(&format!("{prefix}.rope.freq_base"), 1e6)
                .string(&format!("{prefix}.rope.scaling.type"), "linear")
                .f32(&format!("{prefix}.rope.scaling.factor"), 8.0)
        },
        ..PLAIN
    },
];

impl SeededModel {
    /// The bytes of its file.
    pub fn gguf(&self, weights: Weights) -> Vec<u8> {
        self.build(weights).finish()
    }

    /// The same, open for more.
    pub fn build(&self, weights: Weights) -> GgufWriter {
        let mut random = Random(self.name.bytes().map(u64::from).sum());
        let file = (self.more)(vocabulary(self.metadata()), self.architecture);
        let mut tensors = Tensors {
            file,
            random: &mut random,
            weights,
            matrices: 0,
        };
        // So great that what a layer adds is the lesser part, as in trained models.
        let power = match self.has_post_norms {
            true => 2, // and the width's square root
            false => 4,
        };
        tensors.matrix("token_embd.weight", self.width, VOCABULARY, power);
        for index in 0..self.layers {
            self.layer(&mut tensors, index);
        }
        tensors.norm("output_norm.weight", self.width);
        if !self.is_tied {
            tensors.matrix("output.weight", self.width, VOCABULARY, 0);
        }
        tensors.file
    }

    fn metadata(&self) -> GgufWriter {
        let name = self.architecture;
        let key = |key: &str| format!("{name}.{key}");
        GgufWriter::new()
            .string("general.architecture", name)
            .u32(&key("block_count"), self.layers)
            .u32(&key("context_length"), 256)
            .u32(&key("embedding_length"), self.width as u32)
            .u32(&key("feed_forward_length"), self.hidden as u32)
            .u32(&key("attention.head_count"), self.heads)
            .u32(&key("attention.head_count_kv"), self.kv_heads)
            .u32(&key("attention.key_length"), self.head_dim)
            .u32(&key("attention.value_length"), self.head_dim)
            .f32(&key("attention.layer_norm_rms_epsilon"), 1e-6)
    }

    fn layer(&self, tensors: &mut Tensors<'_>, index: u32) {
        let name = |part: &str| format!("blk.{index}.{part}");
        let (width, hidden, dim) = (self.width, self.hidden, u64::from(self.head_dim));
        let (query, kv) = (u64::from(self.heads) * dim, u64::from(self.kv_heads) * dim);
        for (part, columns, rows) in [
            ("attn_q", width, query),
            ("attn_k", width, kv),
            ("attn_v", width, kv),
            ("attn_output", query, width),
            ("ffn_gate", width, hidden),
            ("ffn_up", width, hidden),
            ("ffn_down", hidden, width),
        ] {
            tensors.matrix(&name(&format!("{part}.weight")), columns, rows, 0);
        }
        let mut norms = vec![("attn_norm", width), ("ffn_norm", width)];
        if self.has_head_norms {
            norms.extend([("attn_q_norm", dim), ("attn_k_norm", dim)]);
        }
        if self.has_post_norms {
            norms.extend([("post_attention_norm", width), ("post_ffw_norm", width)]);
        }
        for (part, len) in norms {
            tensors.norm(&name(&format!("{part}.weight")), len);
        }
        if self.has_biases {
            for (part, len) in [("attn_q", query), ("attn_k", kv), ("attn_v", kv)] {
                tensors.norm(&name(&format!("{part}.bias")), len);
            }
        }
    }
}

/// A file to which tensors are added.
struct Tensors<'r> {
    file: GgufWriter,
    random: &'r mut Random,
    weights: Weights,
    /// Matrices so far.
    matrices: usize,
}

impl Tensors<'_> {
    /// A matrix times `2^power`.
    fn matrix(&mut self, name: &str, columns: u64, rows: u64, power: u16) {
        const FORMATS: [WeightFormat; 16] = [
            Q8_0, Q4_K, Q5_0, Q6_K, Q4_0, Q5_K, F16, Q4_1, IQ4_NL, BF16, Q5_1, Q3_K, F32, Q2_K,
            TQ1_0, TQ2_0,
        ];
        let format = match self.weights {
            Weights::Floats => F32,
            Weights::Mixed => FORMATS[self.matrices % FORMATS.len()],
        };
        // As quantisers do where the rows are no whole blocks.
        let format = match columns.is_multiple_of(format.block_len() as u64) {
            true => format,
            false => Q5_0,
        };
        self.matrices += 1;
        // Digits of Q8_0 are the least of all for their scale.
        let power = power + if format == Q8_0 { 2 } else { 0 };
        let bytes = self.random.matrix_times(format, columns, rows, power);
        self.add(name, &[columns, rows], format, &bytes);
    }

    /// Numbers around one.
    fn norm(&mut self, name: &str, len: u64) {
        let bytes = self.random.norm(len);
        self.add(name, &[len], F32, &bytes);
    }

    fn add(&mut self, name: &str, shape: &[u64], format: WeightFormat, bytes: &[u8]) {
        let file = core::mem::take(&mut self.file);
        self.file = file.tensor(name, shape, ggml_type(format), bytes);
    }
}
