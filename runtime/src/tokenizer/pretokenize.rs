//! Pre-tokenizers: what cuts a text into words before bytes are merged.
//!
//! The reference states each as a list of regular expressions; each expression cuts the pieces of
//! the one before it. Here an expression is a [`Split`], a scanner in [`splits`](super::splits).
//!
//! All of them cut between a line end and what is neither white space nor a slash, and most before a
//! space that follows something else; on that `extent` relies.

use super::splits::*;

/// Splits that a pre-tokenizer may have.
const SPLITS_MAX: usize = 6;

/// How a vocabulary cuts a text into words.
pub(super) struct Pretokenizer {
    /// The names in `tokenizer.ggml.pre` that ask for it.
    pub(super) names: &'static [&'static str],
    /// Each cuts the pieces of the one before it.
    pub(super) splits: &'static [Split],
    /// Whether no word has a space after something that is no white space.
    pub(super) cuts_spaces: bool,
    /// Whether a word that is a token is taken as it is, without merging.
    pub(super) whole_words: bool,
    /// Whether BOS is added where the file does not say (`add_bos_token`).
    pub(super) adds_bos: bool,
}

/// Those that are known (llama.cpp, `llama_vocab::impl::load` and `llm_tokenizer_bpe`).
#[rustfmt::skip]
pub(super) static PRETOKENIZERS: [Pretokenizer; 15] = [
    Pretokenizer {
        names: &["default"],
        splits: &[punctuation_apart, gpt2, numbers_apart, three_digits_apart],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["falcon"],
        splits: &[punctuation_and_backtick_apart, gpt2, three_digits_apart],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "gigachat", "mellum",
                 "modern-bert", "trillion", "granite-docling", "a.x-4.0"],
        splits: &[gpt2],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone",
                 "minerva-7b", "mellum2"],
        splits: &[each_number_apart, gpt2],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
                 "lfm2"],
        splits: &[llama3],
        cuts_spaces: true, whole_words: true, adds_bos: true,
    },
    Pretokenizer {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe"],
        splits: &[llama3],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["glm4", "glm5"],
        splits: &[llama3],
        cuts_spaces: true, whole_words: true, adds_bos: false,
    },
    Pretokenizer {
        names: &["minicpm5"],
        splits: &[three_numbers_apart, llama3],
        cuts_spaces: true, whole_words: true, adds_bos: false,
    },
    Pretokenizer {
        names: &["qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "solar-open",
                 "grok-2", "kormo", "bailingmoe", "bailingmoe2", "llada-moe"],
        splits: &[qwen2],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["qwen35"],
        splits: &[qwen35],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["tekken"],
        splits: &[tekken],
        cuts_spaces: true, whole_words: true, adds_bos: true,
    },
    Pretokenizer {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        splits: &[gpt4o],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"],
        splits: &[three_numbers_apart, ideographs_and_kana_apart, deepseek3],
        cuts_spaces: true, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["deepseek-llm"],
        splits: &[line_ends_apart, deepseek_letters, deepseek_punctuation, last_spaces_apart,
                  cjk_apart, numbers_apart],
        cuts_spaces: false, whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["deepseek-coder"],
        splits: &[line_ends_apart, spaced_letters, spaced_punctuation, cjk_apart,
                  each_number_apart],
        cuts_spaces: false, whole_words: false, adds_bos: false,
    },
];

impl Pretokenizer {
    /// The one that a name asks for.
    pub(super) fn from_name(name: &[u8]) -> Option<&'static Pretokenizer> {
        PRETOKENIZERS
            .iter()
            .find(|one| one.names.iter().any(|known| known.as_bytes() == name))
    }
}

/// The words of a text.
pub(super) struct Words<'t> {
    splits: &'static [Split],
    /// By split: what it has not cut yet.
    rest: [&'t [u8]; SPLITS_MAX],
}

impl<'t> Words<'t> {
    pub(super) fn new(splits: &'static [Split], text: &'t [u8]) -> Self {
        let mut rest: [&[u8]; SPLITS_MAX] = [&[]; SPLITS_MAX];
        rest[0] = text;
        Words { splits, rest }
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        let used = &self.rest[..self.splits.len()];
        let mut level = used.iter().rposition(|rest| !rest.is_empty())?;
        loop {
            let rest = self.rest[level];
            let (piece, after) = rest.split_at(self.splits[level](rest));
            self.rest[level] = after;
            level += 1;
            match self.rest[..self.splits.len()].get_mut(level) {
                Some(next) => *next = piece,
                None => return Some(piece),
            }
        }
    }
}
