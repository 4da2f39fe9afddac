//! A small `llama` model with random weights, in which every weight format occurs.
//!
//! It computes nonsense, but by every kernel: with it, tiers can be compared whole. Its vocabulary
//! is 256 bytes and an end token.

use crate::gguf_writer::GgufWriter;
use kernels_asm::format::WeightFormat::{self, *};
use kernels_asm::half::f32_to_f16;

const WIDTH: u64 = 256;
const HIDDEN: u64 = 512;
const HEADS: u32 = 4;
const KV_HEADS: u32 = 2;
const KV_WIDTH: u64 = WIDTH * KV_HEADS as u64 / HEADS as u64;
pub(crate) const VOCABULARY: u64 = 257;
/// The `ggml_type` of norms.
const FLOAT: u32 = 0;

/// Formats of the seven matrices of each layer: query, key, value, output, gate, up, down.
const LAYERS: [[WeightFormat; 7]; 3] = [
    [Q4_K, Q5_K, Q6_K, Q4_0, Q4_1, Q5_0, Q8_0],
    [Q5_1, Q8_0, Q4_0, F16, IQ4_NL, Q2_K, Q3_K],
    [TQ2_0, BF16, F32, Q5_K, TQ1_0, Q4_0, Q4_K],
];

/// The bytes of the model's file.
pub fn gguf(seed: u64) -> Vec<u8> {
    gguf_with(seed, |metadata| metadata)
}

/// The same, with more in front of its tensors.
pub fn gguf_with(seed: u64, more: impl FnOnce(GgufWriter) -> GgufWriter) -> Vec<u8> {
    let output = Random(!seed).matrix(Q6_K, WIDTH, VOCABULARY);
    let shape = [WIDTH, VOCABULARY];
    tied(seed, more)
        .tensor("output.weight", &shape, ggml_type(Q6_K), &output)
        .finish()
}

/// The same without an output matrix: the embedding is one too.
pub fn tied(seed: u64, more: impl FnOnce(GgufWriter) -> GgufWriter) -> GgufWriter {
    build(seed, &LAYERS, Q8_0, HIDDEN, more)
}

/// A model of one layer, tied, with all matrices in one format and any width of the hidden layer
/// that a file can have.
pub fn uniform(seed: u64, format: WeightFormat, hidden: u64) -> Vec<u8> {
    build(seed, &[[format; 7]], format, hidden, |metadata| metadata).finish()
}

fn build(
    seed: u64,
    layers: &[[WeightFormat; 7]],
    embedding: WeightFormat,
    hidden: u64,
    more: impl FnOnce(GgufWriter) -> GgufWriter,
) -> GgufWriter {
    let mut random = Random(seed);
    let mut file = more(metadata(layers.len(), hidden)).tensor(
        "token_embd.weight",
        &[WIDTH, VOCABULARY],
        ggml_type(embedding),
        &random.matrix(embedding, WIDTH, VOCABULARY),
    );
    for (index, formats) in layers.iter().enumerate() {
        let shapes = [
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", WIDTH, KV_WIDTH),
            ("attn_v", WIDTH, KV_WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", WIDTH, hidden),
            ("ffn_up", WIDTH, hidden),
            ("ffn_down", hidden, WIDTH),
        ];
        for (part, &format) in shapes.iter().zip(formats) {
            let &(name, columns, rows) = part;
            let bytes = random.matrix(format, columns, rows);
            let name = format!("blk.{index}.{name}.weight");
            file = file.tensor(&name, &[columns, rows], ggml_type(format), &bytes);
        }
        for norm in ["attn_norm", "ffn_norm"] {
            let name = format!("blk.{index}.{norm}.weight");
            file = file.tensor(&name, &[WIDTH], FLOAT, &random.norm(WIDTH));
        }
    }
    file.tensor("output_norm.weight", &[WIDTH], FLOAT, &random.norm(WIDTH))
}

fn metadata(layers: usize, hidden: u64) -> GgufWriter {
    let file = GgufWriter::new()
        .string("general.architecture", "llama")
        .u32("llama.block_count", layers as u32)
        .u32("llama.context_length", 256)
        .u32("llama.embedding_length", WIDTH as u32)
        .u32("llama.feed_forward_length", hidden as u32)
        .u32("llama.attention.head_count", HEADS)
        .u32("llama.attention.head_count_kv", KV_HEADS)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    vocabulary(file)
}

/// Adds the vocabulary: 256 bytes and an end token.
pub(crate) fn vocabulary(file: GgufWriter) -> GgufWriter {
    let bytes = (0..=255u8).map(|byte| format!("<0x{byte:02X}>"));
    let tokens: Vec<String> = bytes.chain(["</s>".to_owned()]).collect();
    let mut kinds = vec![6; 256]; // byte
    kinds.push(3); // control
    file.string("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &tokens)
        .f32s("tokenizer.ggml.scores", &vec![0.0; tokens.len()])
        .i32s("tokenizer.ggml.token_type", &kinds)
        .bool("tokenizer.ggml.add_bos_token", false)
        .u32("tokenizer.ggml.unknown_token_id", 0)
        .u32("tokenizer.ggml.eos_token_id", 256)
}

/// The `ggml_type` of a format.
pub(crate) fn ggml_type(format: WeightFormat) -> u32 {
    let types = 0..=64;
    types
        .into_iter()
        .find(|&number| WeightFormat::from_ggml_type(number) == Some(format))
        .expect("every format has a number")
}

/// Knuth's MMIX generator: the file is the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }

    /// Blocks of random bytes, with scales that keep the products of a row near one.
    fn matrix(&mut self, format: WeightFormat, columns: u64, rows: u64) -> Vec<u8> {
        self.matrix_times(format, columns, rows, 0)
    }

    /// The same times `2^power`.
    pub(crate) fn matrix_times(
        &mut self,
        format: WeightFormat,
        columns: u64,
        rows: u64,
        power: u16,
    ) -> Vec<u8> {
        let numbers = (columns * rows) as usize;
        let factor = f32::from(1u16 << power);
        match format {
            F32 => return self.floats(numbers, |float| (float * factor).to_le_bytes()),
            BF16 => {
                return self.floats(numbers, |float| {
                    (((float * factor).to_bits() >> 16) as u16).to_le_bytes()
                });
            }
            F16 => return self.floats(numbers, |float| f32_to_f16(float * factor).to_le_bytes()),
            _ => {}
        }
        let block = format.block_bytes();
        let blocks = columns as usize / format.block_len() * rows as usize;
        let mut bytes: Vec<u8> = (0..blocks * block).map(|_| self.next() as u8).collect();
        // Where the format has its f16 scales, and their exponent: 2^-9 or so for whole weights of
        // some ten, less where sub-block scales come on top.
        let (scales, exponent): (&[usize], u16) = match format {
            Q4_0 | Q5_0 => (&[0], 5),
            Q4_1 => (&[0, 2], 5),
            Q8_0 => (&[0], 2),
            Q4_K | Q5_K => (&[0, 2], 1),
            Q6_K => (&[208], 0),
            Q5_1 => (&[0, 2], 5),
            IQ4_NL => (&[0], 5),
            Q2_K => (&[80, 82], 4),
            Q3_K => (&[108], 5),
            TQ1_0 => (&[52], 8),
            TQ2_0 => (&[64], 8),
            F32 | F16 | BF16 => unreachable!("no blocks"),
        };
        for block in bytes.chunks_exact_mut(block) {
            for &at in scales {
                let mantissa = (self.next() & 0x3ff) as u16;
                let sign = if format == Q6_K || at == 0 {
                    (self.next() & 1) as u16
                } else {
                    0
                };
                let half = sign << 15 | (exponent + power) << 10 | mantissa;
                block[at..at + 2].copy_from_slice(&half.to_le_bytes());
            }
        }
        bytes
    }

    /// Numbers from -1/8 to 1/8, as `bytes` stores them.
    fn floats<const N: usize>(
        &mut self,
        numbers: usize,
        bytes: impl Fn(f32) -> [u8; N],
    ) -> Vec<u8> {
        let float = |number: u32| ((number & 0xff_ffff) as f32 / 8_388_608.0 - 1.0) / 8.0;
        (0..numbers)
            .flat_map(|_| bytes(float(self.next())))
            .collect()
    }

    /// A norm's weights, around one.
    pub(crate) fn norm(&mut self, len: u64) -> Vec<u8> {
        let float = |number: u32| 0.5 + (number & 0xffff) as f32 / 65536.0;
        (0..len)
            .flat_map(|_| float(self.next()).to_le_bytes())
            .collect()
    }
}
