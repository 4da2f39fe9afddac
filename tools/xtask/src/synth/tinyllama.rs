//! The shapes, formats and keys of TinyLlama-1.1B-Chat-v1.0 as llama.cpp quantises it.

use anyhow::Result;

use super::header::{self, Header};

const WIDTH: usize = 2048;
const HIDDEN: usize = 5632;
const LAYERS: usize = 22;
const HEADS: usize = 32;
const KV_HEADS: usize = 4;
const HEAD_WIDTH: usize = WIDTH / HEADS;
const KV_WIDTH: usize = KV_HEADS * HEAD_WIDTH;
const CONTEXT: usize = 2048;
const VOCABULARY: usize = 32_000;

/// How llama.cpp spreads formats over the tensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// Q4_K, and Q6_K where it tells most.
    Q4KM,
    /// Q4_0, but Q6_K for the output.
    Q40,
    /// Q8_0 everywhere.
    Q80,
    /// Q6_K everywhere.
    Q6K,
}

impl Mix {
    /// The number of the mix (GGUF specification, `general.file_type`).
    fn file_type(self) -> u32 {
        match self {
            Mix::Q40 => 2,
            Mix::Q80 => 7,
            Mix::Q4KM => 15,
            Mix::Q6K => 18,
        }
    }

    /// The format of most tensors, and that of those which get more bits where a mix has both: the
    /// output, and the values and the way down of some layers.
    fn kinds(self) -> [Kind; 2] {
        match self {
            Mix::Q4KM => [Kind::Q4K, Kind::Q6K],
            Mix::Q40 => [Kind::Q40, Kind::Q6K],
            Mix::Q80 => [Kind::Q80; 2],
            Mix::Q6K => [Kind::Q6K; 2],
        }
    }
}

/// What is copied from the vocabulary's file: the pieces, which are those of Llama 2.
const COPIED: [&str; 5] = [
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.token_type",
];

/// As the model's authors have it.
const CHAT_TEMPLATE: &str = "\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}";

/// How a tensor is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    F32,
    Q40,
    Q80,
    Q4K,
    Q6K,
}

impl Kind {
    /// The bytes of a row.
    pub fn row_bytes(self, columns: usize) -> usize {
        match self {
            Kind::F32 => columns * size_of::<f32>(),
            Kind::Q40 => columns / quantize::LEN * quantize::q4_0::BLOCK,
            Kind::Q80 => columns / quantize::LEN * quantize::q8_0::BLOCK,
            Kind::Q4K => columns / quantize::LEN * quantize::q4_k::BLOCK,
            Kind::Q6K => columns / quantize::LEN * quantize::q6_k::BLOCK,
        }
    }

    /// The number of the format (GGUF specification, `ggml_type`).
    fn number(self) -> u32 {
        match self {
            Kind::F32 => 0,
            Kind::Q40 => 2,
            Kind::Q80 => 8,
            Kind::Q4K => 12,
            Kind::Q6K => 14,
        }
    }
}

/// A tensor, without its weights.
pub struct Tensor {
    pub name: String,
    pub kind: Kind,
    pub columns: usize,
    /// One for a vector.
    pub rows: usize,
    /// What its weights deviate by from zero; a vector's lie around one.
    pub deviation: f32,
}

impl Tensor {
    fn vector(name: impl Into<String>) -> Self {
        Tensor {
            name: name.into(),
            kind: Kind::F32,
            columns: WIDTH,
            rows: 1,
            deviation: 0.0,
        }
    }

    /// A matrix whose product with a vector of ones and minus ones deviates by `gain`.
    fn matrix(name: impl Into<String>, kind: Kind, shape: [usize; 2], gain: f32) -> Self {
        let [columns, rows] = shape;
        Tensor {
            name: name.into(),
            kind,
            columns,
            rows,
            deviation: gain / (columns as f32).sqrt(),
        }
    }

    fn bytes(&self) -> usize {
        self.rows * self.kind.row_bytes(self.columns)
    }
}

/// The tensors, in the order of a file that llama.cpp has quantised: layer by layer, by name.
///
/// The gains keep the model sane. Embeddings are as large as what a layer adds to them, so that
/// the prompt matters to the end; logits are as far apart as those of a trained model.
pub fn tensors(mix: Mix) -> Vec<Tensor> {
    let [most, finer] = mix.kinds();
    let embedding = (WIDTH as f32).sqrt();
    let vocabulary = [WIDTH, VOCABULARY];
    let mut all = vec![
        Tensor::matrix("output.weight", finer, vocabulary, 4.0),
        Tensor::vector("output_norm.weight"),
        Tensor::matrix("token_embd.weight", most, vocabulary, embedding),
    ];
    for index in 0..LAYERS {
        let more = match mix {
            Mix::Q4KM if more_bits(index) => finer,
            _ => most,
        };
        let vector = |name| Tensor::vector(format!("blk.{index}.{name}.weight"));
        let matrix = |name, kind, columns, rows| {
            Tensor::matrix(
                format!("blk.{index}.{name}.weight"),
                kind,
                [columns, rows],
                1.0,
            )
        };
        all.extend([
            matrix("attn_k", most, WIDTH, KV_WIDTH),
            vector("attn_norm"),
            matrix("attn_output", most, WIDTH, WIDTH),
            matrix("attn_q", most, WIDTH, WIDTH),
            matrix("attn_v", more, WIDTH, KV_WIDTH),
            matrix("ffn_down", more, HIDDEN, WIDTH),
            matrix("ffn_gate", most, WIDTH, HIDDEN),
            vector("ffn_norm"),
            matrix("ffn_up", most, WIDTH, HIDDEN),
        ]);
    }
    all
}

/// In which layers llama.cpp's Q4_K_M spends more on values and on the way down: the first and the
/// last eighth, and every third between.
fn more_bits(layer: usize) -> bool {
    let eighth = LAYERS / 8;
    layer < eighth || layer >= 7 * LAYERS / 8 || (layer - eighth) % 3 == 2
}

/// All that precedes the tensors. `vocabulary` is a GGUF file that has the pieces.
pub fn header(mix: Mix, vocabulary: &[u8], tensors: &[Tensor]) -> Result<Vec<u8>> {
    let mut header = Header::default()
        .string("general.architecture", "llama")
        .string("general.name", "TinyLlama-1.1B, random weights")
        .u32("llama.context_length", CONTEXT as u32)
        .u32("llama.embedding_length", WIDTH as u32)
        .u32("llama.block_count", LAYERS as u32)
        .u32("llama.feed_forward_length", HIDDEN as u32)
        .u32("llama.rope.dimension_count", HEAD_WIDTH as u32)
        .u32("llama.attention.head_count", HEADS as u32)
        .u32("llama.attention.head_count_kv", KV_HEADS as u32)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .f32("llama.rope.freq_base", 10_000.0)
        .u32("llama.vocab_size", VOCABULARY as u32)
        .u32("general.file_type", mix.file_type())
        .u32("general.quantization_version", 2);
    for key in COPIED {
        header = header.record(header::record(vocabulary, key)?);
    }
    header = header
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
        .u32("tokenizer.ggml.unknown_token_id", 0)
        .u32("tokenizer.ggml.padding_token_id", 2)
        .bool("tokenizer.ggml.add_bos_token", true)
        .bool("tokenizer.ggml.add_eos_token", false)
        .string("tokenizer.chat_template", CHAT_TEMPLATE);
    for tensor in tensors {
        let shape = [tensor.columns, tensor.rows];
        // A vector has one dimension, as the row count of a matrix tells nothing of it.
        let shape = if tensor.kind == Kind::F32 {
            &shape[..1]
        } else {
            &shape
        };
        header = header.tensor(&tensor.name, shape, tensor.kind.number(), tensor.bytes());
    }
    Ok(header.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_is_that_of_a_quantised_tinyllama() {
        let tensors = tensors(Mix::Q4KM);
        let count = |kind| tensors.iter().filter(|tensor| tensor.kind == kind).count();
        assert_eq!(count(Kind::F32), 45);
        assert_eq!(count(Kind::Q4K), 135);
        assert_eq!(count(Kind::Q6K), 21);
        let weights: usize = tensors
            .iter()
            .map(|tensor| tensor.columns * tensor.rows)
            .sum();
        assert_eq!(weights, 1_100_048_384);
    }

    #[test]
    fn mix_of_one_format_has_no_other_but_for_q4_0s_output() {
        for (mix, most, finer) in [
            (Mix::Q40, Kind::Q40, Kind::Q6K),
            (Mix::Q80, Kind::Q80, Kind::Q80),
            (Mix::Q6K, Kind::Q6K, Kind::Q6K),
        ] {
            let tensors = tensors(mix);
            let mut matrices = tensors.iter().filter(|tensor| tensor.kind != Kind::F32);
            assert_eq!(matrices.next().map(|output| output.kind), Some(finer));
            assert!(matrices.all(|matrix| matrix.kind == most));
        }
    }

    #[test]
    fn layers_with_more_bits_are_those_of_llama_cpp() {
        let layers: Vec<usize> = (0..LAYERS).filter(|&layer| more_bits(layer)).collect();
        assert_eq!(layers, [0, 1, 4, 7, 10, 13, 16, 19, 20, 21]);
    }

    #[test]
    fn header_needs_the_vocabulary() {
        let error = header(Mix::Q4KM, &Header::default().finish(), &[]).unwrap_err();
        assert_eq!(error.to_string(), "there is no key tokenizer.ggml.model");
    }
}
