//! Tokens with a meaning of their own: those that start a text, and those that end an answer.
//!
//! A file names some of them by id; the others are known by their texts, since most files leave
//! them out. The lists and their order are the reference's (llama.cpp, `llama_vocab::impl::load`).
//! An id that is not below the number of tokens counts as absent, as files in use have -1 there.

use heapless::Vec;

use super::error::TokenizerError;
use super::vocab::VocabBuilder;
use crate::gguf::Gguf;

/// End tokens that a vocabulary may have.
const ENDS_MAX: usize = END_TEXTS.len() + 6;

/// Texts of tokens that end an answer. Whatever the file says, they are structure.
const END_TEXTS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "[e~[",
];

/// Tokens of code completion: the key with the id, and the texts that they go by without it. The
/// first that is there is structure; `ends` says whether it ends an answer too.
struct Infill {
    key: &'static str,
    texts: &'static [&'static str],
    ends: bool,
}

#[rustfmt::skip]
const INFILL: [Infill; 6] = [
    Infill { key: "tokenizer.ggml.fim_pre_token_id", ends: false, texts: &[
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\u{ff5c}fim\u{2581}begin\u{ff5c}>",
        "<PRE>", "\u{2581}<PRE>", "<|code_prefix|>", "<|prefix|>"] },
    Infill { key: "tokenizer.ggml.fim_suf_token_id", ends: false, texts: &[
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\u{ff5c}fim\u{2581}hole\u{ff5c}>",
        "<SUF>", "\u{2581}<SUF>", "<|code_suffix|>", "<|suffix|>"] },
    Infill { key: "tokenizer.ggml.fim_mid_token_id", ends: false, texts: &[
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\u{ff5c}fim\u{2581}end\u{ff5c}>",
        "<MID>", "\u{2581}<MID>", "<|code_middle|>", "<|middle|>"] },
    Infill { key: "tokenizer.ggml.fim_pad_token_id", ends: true, texts: &[
        "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"] },
    Infill { key: "tokenizer.ggml.fim_rep_token_id", ends: true, texts: &[
        "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"] },
    Infill { key: "tokenizer.ggml.fim_sep_token_id", ends: true, texts: &["<|file_sep|>"] },
];

/// What holds where a file does not say.
pub(super) struct Defaults {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) unknown: Option<u32>,
    pub(super) adds_bos: bool,
}

/// Tokens with a meaning of their own.
#[derive(Clone)]
pub(super) struct Specials {
    /// Starts a text.
    pub(super) bos: Option<u32>,
    /// Ends a text.
    pub(super) eos: Option<u32>,
    /// Stands for what has no token.
    pub(super) unknown: Option<u32>,
    /// Whether a prompt starts with BOS.
    pub(super) adds_bos: bool,
    /// All that end an answer, EOS among them.
    pub(super) ends: Vec<u32, ENDS_MAX>,
}

impl Specials {
    /// Reads them, and makes those known by their texts structure.
    pub(super) fn new(
        gguf: &Gguf<'_>,
        vocab: &mut VocabBuilder<'_>,
        defaults: &Defaults,
    ) -> Result<Self, TokenizerError> {
        let tokens = vocab.len();
        let id = |key: &str, default: Option<u32>| {
            // -1 and the like count as absent.
            let stated = match gguf.get(key).and_then(|value| value.as_integer()) {
                Some(id) => u32::try_from(id).ok(),
                None => gguf.u32(key)?.or(default),
            };
            Ok::<_, TokenizerError>(stated.filter(|&id| (id as usize) < tokens))
        };
        let bos = id("tokenizer.ggml.bos_token_id", defaults.bos)?;
        let eos = id("tokenizer.ggml.eos_token_id", defaults.eos)?;
        let eot = id("tokenizer.ggml.eot_token_id", None)?;
        let eom = id("tokenizer.ggml.eom_token_id", None)?;
        let mut specials = Specials {
            bos,
            eos,
            unknown: id("tokenizer.ggml.unknown_token_id", defaults.unknown)?,
            adds_bos: gguf
                .bool("tokenizer.ggml.add_bos_token")?
                .unwrap_or(defaults.adds_bos),
            ends: Vec::new(),
        };
        for end in [eos, eot, eom].into_iter().flatten() {
            specials.add_end(end);
        }
        for infill in &INFILL {
            let stated = id(infill.key, None)?;
            let found = infill
                .texts
                .iter()
                .find_map(|text| vocab.find(text.as_bytes()));
            if let (None, Some(found)) = (stated, found) {
                vocab.make_control(found);
            }
            if let Some(end) = stated.or(found).filter(|_| infill.ends) {
                specials.add_end(end);
            }
        }
        for text in END_TEXTS {
            if let Some(end) = vocab.find(text.as_bytes()) {
                vocab.make_control(end);
                specials.add_end(end);
            }
        }
        Ok(specials)
    }

    fn add_end(&mut self, id: u32) {
        if !self.ends.contains(&id) {
            // There is room for every list and every key.
            let _ = self.ends.push(id);
        }
    }
}
