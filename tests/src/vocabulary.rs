//! Tokenizers for tests: of files, and of vocabularies made up in memory.

use std::fs;
use std::io::Read;
use std::path::Path;

use runtime::arena::{self, Forward, Region};
use runtime::gguf::Gguf;
use runtime::tokenizer::{Extent, Segment, Tokenizer, TokenizerError};

use crate::gguf_writer::GgufWriter;
use crate::memory::Block;

/// `tokenizer.ggml.token_type` of text.
pub const NORMAL: i32 = 1;
/// `tokenizer.ggml.token_type` of the token for what has no token.
pub const UNKNOWN: i32 = 2;
/// `tokenizer.ggml.token_type` of structure.
pub const CONTROL: i32 = 3;
/// `tokenizer.ggml.token_type` of what is found before anything else.
pub const USER_DEFINED: i32 = 4;
/// `tokenizer.ggml.token_type` of a byte.
pub const BYTE: i32 = 6;

/// Runs `test` with the vocabulary of a GGUF file and `scratch` bytes for texts.
///
/// # Errors
/// The vocabulary is refused.
pub fn with_tokenizer<T>(
    file: &[u8],
    scratch: usize,
    test: impl FnOnce(&Gguf<'_>, &Tokenizer<'_>, Region<'_, Forward>) -> T,
) -> Result<T, TokenizerError> {
    let gguf = Gguf::check(file).expect("the container is well formed");
    let model_bytes = Tokenizer::bytes(&gguf)?;
    let mut block = Block::new(model_bytes + scratch);
    let (model, _, forward) = arena::split(block.bytes(), model_bytes, 0).unwrap();
    let model = model.open_once();
    let tokenizer = Tokenizer::new(&gguf, &model)?;
    assert_eq!(model.used(), model_bytes, "the plan and the index agree");
    Ok(test(&gguf, &tokenizer, forward))
}

/// As [`with_tokenizer`], with a file that is well formed.
pub fn with_file<T>(
    path: impl AsRef<Path>,
    scratch: usize,
    test: impl FnOnce(&Gguf<'_>, &Tokenizer<'_>, Region<'_, Forward>) -> T,
) -> T {
    let file = vocabulary_of(path);
    with_tokenizer(&file, scratch, test).unwrap_or_else(|error| panic!("{error}"))
}

/// The tokens of a text. Checks that no more scratch is taken than is said.
pub fn encode(
    tokenizer: &Tokenizer<'_>,
    forward: &mut Region<'_, Forward>,
    text: impl AsRef<[u8]>,
) -> Vec<u32> {
    encode_segment(tokenizer, forward, Segment::Text(text.as_ref()))
}

/// The tokens of a segment.
pub fn encode_segment(
    tokenizer: &Tokenizer<'_>,
    forward: &mut Region<'_, Forward>,
    segment: Segment<'_>,
) -> Vec<u32> {
    let scratch = forward.open();
    let mut ids = Vec::new();
    let segments = std::iter::once(segment);
    tokenizer
        .encode_each(segments, &scratch, &mut |id| ids.push(id))
        .unwrap();
    let (Segment::Text(text) | Segment::Marked(text)) = segment else {
        return ids;
    };
    assert!(scratch.used() <= Extent::whole(text.len()).encode_bytes());
    ids
}

/// A file's vocabulary as a file without tensors: of a model, its first bytes.
pub fn vocabulary_of(path: impl AsRef<Path>) -> Vec<u8> {
    const METADATA_MAX: u64 = 32 << 20;
    const TENSOR_COUNT: std::ops::Range<usize> = 8..16;
    let mut file = Vec::new();
    let begin = fs::File::open(path).unwrap().take(METADATA_MAX);
    { begin }.read_to_end(&mut file).unwrap();
    file[TENSOR_COUNT].fill(0);
    file
}

/// A vocabulary made up in memory.
#[derive(Clone, Default)]
pub struct Vocabulary {
    /// `tokenizer.ggml.model`.
    pub model: String,
    /// `tokenizer.ggml.pre`.
    pub pre: Option<String>,
    /// Texts and types.
    pub tokens: Vec<(Vec<u8>, i32)>,
    /// `tokenizer.ggml.scores`.
    pub scores: Option<Vec<f32>>,
    /// `tokenizer.ggml.merges`.
    pub merges: Option<Vec<String>>,
    /// Further keys.
    pub keys: GgufWriter,
}

impl Vocabulary {
    /// Byte-level BPE with the printable ASCII characters as tokens, in their order from id 0 for
    /// `!`, and then what the merges make.
    pub fn byte_level(merges: &[&str]) -> Self {
        let mut tokens: Vec<_> = (b'!'..=b'~').map(|byte| (vec![byte], NORMAL)).collect();
        tokens.push(("\u{120}".into(), NORMAL)); // a space
        tokens.extend(
            merges
                .iter()
                .map(|merge| (merge.replace(' ', "").into(), NORMAL)),
        );
        Vocabulary {
            model: "gpt2".into(),
            pre: Some("gpt-2".into()),
            tokens,
            merges: Some(merges.iter().map(|&merge| merge.into()).collect()),
            ..Vocabulary::default()
        }
    }

    /// SentencePiece BPE with `<unk>`, `<s>`, `</s>`, the 256 bytes from id 3 on, and then `pieces`
    /// with their scores.
    pub fn sentencepiece(pieces: &[(&str, f32)]) -> Self {
        let mut tokens: Vec<(Vec<u8>, i32)> = vec![
            ("<unk>".into(), UNKNOWN),
            ("<s>".into(), CONTROL),
            ("</s>".into(), CONTROL),
        ];
        tokens.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>").into(), BYTE)));
        let mut scores = vec![0.0; tokens.len()];
        for &(piece, score) in pieces {
            tokens.push((piece.into(), NORMAL));
            scores.push(score);
        }
        Vocabulary {
            model: "llama".into(),
            tokens,
            scores: Some(scores),
            ..Vocabulary::default()
        }
    }

    /// Adds a token and gives its id.
    pub fn push(&mut self, text: impl AsRef<[u8]>, kind: i32) -> u32 {
        self.tokens.push((text.as_ref().to_vec(), kind));
        if let Some(scores) = &mut self.scores {
            scores.push(0.0);
        }
        self.tokens.len() as u32 - 1
    }

    /// The id of the token with that text.
    pub fn id(&self, text: &str) -> u32 {
        let is = |(other, _): &(Vec<u8>, i32)| other == text.as_bytes();
        self.tokens.iter().position(is).unwrap() as u32
    }

    /// The file.
    pub fn file(&self) -> Vec<u8> {
        let texts: Vec<_> = self.tokens.iter().map(|(text, _)| text).collect();
        let kinds: Vec<_> = self.tokens.iter().map(|&(_, kind)| kind).collect();
        let mut writer = (self.keys.clone())
            .string("tokenizer.ggml.model", &self.model)
            .strings("tokenizer.ggml.tokens", &texts)
            .i32s("tokenizer.ggml.token_type", &kinds);
        if let Some(pre) = &self.pre {
            writer = writer.string("tokenizer.ggml.pre", pre);
        }
        if let Some(scores) = &self.scores {
            writer = writer.f32s("tokenizer.ggml.scores", scores);
        }
        if let Some(merges) = &self.merges {
            writer = writer.strings("tokenizer.ggml.merges", merges);
        }
        writer.finish()
    }
}
