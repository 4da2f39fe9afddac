//! Text to tokens and back, with the vocabulary that is in the model's file.
//!
//! Two kinds of vocabulary are known: byte-level BPE (`gpt2`, see `byte_bpe`) and SentencePiece BPE
//! (`llama`, see `sentencepiece`). Both give the ids that the reference, llama.cpp, gives. The file
//! is not trusted: whatever of it is used is checked by [`Tokenizer::new`], after which nothing
//! fails but for want of memory. A text is any bytes; it takes `n log n` time, constant stack, and
//! memory for its longest word ([`Extent`]).
//!
//! A text never becomes a control token, whatever it says: those come from templates
//! ([`crate::chat`]), and from a text that is said to have them ([`Segment::Marked`]). Nothing here
//! adds BOS; [`Tokenizer::adds_bos`] says if a prompt wants it. As in the reference, no text is
//! normalised, whatever its model was trained with.
//!
//! The way of a text: `markers` cuts out user-defined tokens, `pretokenize` cuts what is between
//! them into words, `merge` joins the parts of each word. The way back: `decode` gives the bytes of a
//! token, `stream` holds back what is not whole.

mod byte_bpe;
mod decode;
mod error;
mod extent;
mod markers;
mod merge;
mod pretokenize;
mod sentencepiece;
mod slots;
mod special;
mod splits;
mod stream;
mod unicode;
mod unicode_table;
mod vocab;

pub use byte_bpe::MERGES_MAX;
pub use decode::TokenBytes;
pub use error::TokenizerError;
pub use extent::Extent;
pub use stream::{Flow, STOP_BYTES_MAX, STOPS_MAX, StopError, TextStream};
pub use vocab::{TOKEN_BYTES_MAX, TOKENS_MAX, TokenKind};

use crate::arena::{Forward, Model, Open};
use crate::gguf::{Gguf, Name};
use byte_bpe::ByteBpe;
use error::Cancelled;
use markers::Marks;
use merge::Merger;
use pretokenize::{Pretokenizer, Words};
use sentencepiece::SentencePiece;
use special::{Defaults, Specials};
use vocab::{Vocab, VocabBuilder};

/// Bytes that a text may have, so that a `u32` reaches all of it with its spaces written out.
pub const TEXT_BYTES_MAX: usize = 1 << 30;
const MODEL: &str = "tokenizer.ggml.model";
const MODEL_NAME: &str = "general.name";

/// The vocabulary of a file, ready to use.
#[derive(Clone)]
pub struct Tokenizer<'m> {
    vocab: Vocab<'m>,
    kind: Kind<'m>,
    specials: Specials,
    lacks_pretokenizer: bool,
    /// Whether white space after a marker is left out.
    strips: bool,
}

/// How a word becomes tokens.
#[derive(Clone, Copy)]
enum Kind<'m> {
    ByteBpe(ByteBpe<'m>),
    SentencePiece(SentencePiece<'m>),
}

/// What `tokenizer.ggml.model` asks for.
enum Family {
    ByteBpe(&'static Pretokenizer),
    SentencePiece,
}

/// A part of a prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment<'t> {
    /// Text, tokenised by itself.
    Text(&'t [u8]),
    /// Text in which the texts of control tokens stand for these.
    Marked(&'t [u8]),
    /// A token that stands for itself.
    Token(u32),
}

/// What is left of a segment when it is cut up.
enum Piece<'t> {
    /// A word, and whether it is the first of a text.
    Word(&'t [u8], bool),
    Token(u32),
}

impl<'m> Tokenizer<'m> {
    /// Bytes of the Model scope that [`new`](Self::new) takes.
    ///
    /// # Errors
    /// The vocabulary is missing, or of a kind that is not known.
    pub fn bytes(gguf: &Gguf<'_>) -> Result<usize, TokenizerError> {
        let kind = match Family::of(gguf)? {
            Family::ByteBpe(_) => ByteBpe::bytes(gguf)?,
            Family::SentencePiece => SentencePiece::bytes(),
        };
        Ok(Vocab::bytes(gguf)? + kind)
    }

    /// Checks the vocabulary of a file and builds its index, in linear time. Texts stay in the
    /// file.
    ///
    /// # Errors
    /// The vocabulary is malformed, of a kind that is not known, or does not fit the scope.
    pub fn new(gguf: &Gguf<'m>, model: &Open<'m, Model>) -> Result<Self, TokenizerError> {
        let family = Family::of(gguf)?;
        let mut vocab = VocabBuilder::new(gguf, model)?;
        let specials = Specials::new(gguf, &mut vocab, &family.defaults())?;
        let vocab = vocab.finish()?;
        let kind = match family {
            Family::ByteBpe(pretokenizer) => {
                Kind::ByteBpe(ByteBpe::new(gguf, &vocab, pretokenizer, model)?)
            }
            Family::SentencePiece => {
                let unknown = specials.unknown;
                Kind::SentencePiece(SentencePiece::new(gguf, &vocab, unknown, model)?)
            }
        };
        Ok(Tokenizer {
            lacks_pretokenizer: matches!(kind, Kind::ByteBpe(_))
                && byte_bpe::lacks_pretokenizer(gguf),
            vocab,
            kind,
            specials,
            strips: gguf.string(MODEL_NAME)?.is_some_and(is_phi3),
        })
    }

    /// Number of tokens; ids are below it.
    #[allow(clippy::len_without_is_empty)] // a vocabulary without tokens is refused
    pub fn len(&self) -> usize {
        self.vocab.len()
    }

    /// What a token is for; `Undefined` for an id that is none.
    pub fn kind(&self, id: u32) -> TokenKind {
        self.vocab.kind(id)
    }

    /// The text of a token as the vocabulary has it; empty for an id that is none.
    pub fn text(&self, id: u32) -> &'m [u8] {
        self.vocab.text(id)
    }

    /// Whether a prompt starts with BOS: the file says so or, where it does not, its kind of
    /// vocabulary does; and there is a BOS.
    pub fn adds_bos(&self) -> bool {
        self.specials.adds_bos && self.specials.bos.is_some()
    }

    /// The token that starts a text.
    pub fn bos(&self) -> Option<u32> {
        self.specials.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.specials.eos
    }

    /// All tokens that end an answer: of a text, of a turn, of a message, and of a file in code.
    pub fn end_tokens(&self) -> &[u32] {
        &self.specials.ends
    }

    /// Whether a space is put before every text, which its tokens then give back.
    pub fn adds_space(&self) -> bool {
        matches!(self.kind, Kind::SentencePiece(model) if model.adds_space)
    }

    /// Whether the file does not say how its texts are cut into words. The reference's `default` is
    /// taken then, which may not be what the model was trained with: worth a warning.
    pub fn lacks_pretokenizer(&self) -> bool {
        self.lacks_pretokenizer
    }

    /// The token of a template's marker such as `<|im_start|>`: a control or user-defined token by
    /// its text.
    pub fn special(&self, text: &[u8]) -> Option<u32> {
        let is_special =
            |&id: &u32| matches!(self.kind(id), TokenKind::Control | TokenKind::UserDefined);
        self.vocab.find(text.iter().copied()).filter(is_special)
    }

    /// The tokens of a prompt, one segment after another: a call for each, so that a reader keeps no
    /// more of them than it has room for.
    ///
    /// # Errors
    /// A text is longer than [`TEXT_BYTES_MAX`], the scope is too small, or a signal came before the
    /// last token.
    pub fn encode_each<'t>(
        &self,
        segments: impl Iterator<Item = Segment<'t>> + Clone,
        scratch: &Open<'_, Forward>,
        sink: &mut dyn FnMut(u32),
    ) -> Result<(), TokenizerError> {
        Ok(Encoder::new(self, segments.clone(), scratch)?.run(segments, sink)?)
    }

    /// The bytes of a token; none for structure and for an id that is no token. A character may be
    /// spread over tokens.
    pub fn token_bytes(&self, id: u32) -> TokenBytes<'m> {
        TokenBytes::new(&self.vocab, id, matches!(self.kind, Kind::ByteBpe(_)))
    }

    /// The text of tokens that start a text: the space that [`adds_space`](Self::adds_space) put
    /// before it is left out.
    pub fn decode(&self, ids: &[u32]) -> impl Iterator<Item = u8> {
        ids.iter().enumerate().flat_map(|(at, &id)| {
            let mut bytes = self.token_bytes(id);
            let skips = at == 0 && self.adds_space() && bytes.clone().next() == Some(b' ');
            if skips {
                bytes.next();
            }
            bytes
        })
    }

    /// Cuts segments up: calls `visit` with each word and token, in order.
    ///
    /// # Errors
    /// That of `visit`, or a signal came first.
    fn visit<'t>(
        &self,
        segments: impl Iterator<Item = Segment<'t>>,
        marks: &mut Marks<'_>,
        visit: &mut dyn FnMut(Piece<'t>) -> Result<(), Cancelled>,
    ) -> Result<(), Cancelled> {
        let mut strips = false;
        let mut visit_part = |part: Segment<'t>| match part {
            Segment::Token(id) => {
                strips = self.strips_after(id);
                visit(Piece::Token(id))
            }
            Segment::Text(text) | Segment::Marked(text) => {
                let is_kept = |byte: &u8| !matches!(byte, 9..=13 | b' ');
                let start = match core::mem::take(&mut strips) {
                    true => text.iter().position(is_kept).unwrap_or(text.len()),
                    false => 0,
                };
                self.words(&text[start..], visit)
            }
        };
        for segment in segments {
            match segment {
                Segment::Token(_) => visit_part(segment)?,
                Segment::Text(text) => {
                    marks.partition(&self.vocab, text, false, &mut visit_part)?;
                }
                Segment::Marked(text) => {
                    marks.partition(&self.vocab, text, true, &mut visit_part)?;
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with each word of a text without markers.
    fn words<'t>(
        &self,
        text: &'t [u8],
        visit: &mut dyn FnMut(Piece<'t>) -> Result<(), Cancelled>,
    ) -> Result<(), Cancelled> {
        let visit = |(at, word)| {
            Cancelled::check()?;
            visit(Piece::Word(word, at == 0))
        };
        match self.kind {
            Kind::ByteBpe(model) => Words::new(model.pretokenizer().splits, text)
                .enumerate()
                .try_for_each(visit),
            Kind::SentencePiece(model) => model.words(text).enumerate().try_for_each(visit),
        }
    }

    /// Whether white space after a token is left out: for Phi-3, after a marker but for three (in
    /// the reference by the model's name, since files do not say so).
    fn strips_after(&self, id: u32) -> bool {
        let keeps: [&[u8]; 3] = [b"<unk>", b"<s>", b"<|endoftext|>"];
        self.strips && !keeps.contains(&self.text(id))
    }

    /// Bytes of a word as it is merged.
    fn word_bytes(&self, word: &[u8], is_first: bool) -> usize {
        match &self.kind {
            Kind::ByteBpe(model) => model.word_bytes(word),
            Kind::SentencePiece(model) => model.word_bytes(word, is_first),
        }
    }
}

impl Family {
    fn of(gguf: &Gguf<'_>) -> Result<Self, TokenizerError> {
        let missing = TokenizerError::MissingKey { key: MODEL };
        match gguf.string(MODEL)?.ok_or(missing)? {
            b"gpt2" => Ok(Family::ByteBpe(byte_bpe::pretokenizer(gguf)?)),
            b"llama" => Ok(Family::SentencePiece),
            other => Err(TokenizerError::UnknownModel {
                name: Name::from_bytes(other),
            }),
        }
    }

    /// What holds where a file does not say. For byte-level BPE the reference takes the ids of
    /// Falcon; no token is taken here.
    fn defaults(&self) -> Defaults {
        match self {
            Family::ByteBpe(pretokenizer) => Defaults {
                bos: None,
                eos: None,
                unknown: None,
                adds_bos: pretokenizer.adds_bos,
            },
            Family::SentencePiece => Defaults {
                bos: Some(1),
                eos: Some(2),
                unknown: Some(0),
                adds_bos: true,
            },
        }
    }
}

/// A tokenizer with scratch for one prompt. The prompt is gone through twice: to see how long its
/// longest word is, and to merge its words.
struct Encoder<'a, 'm, 'f> {
    tokenizer: &'a Tokenizer<'m>,
    marks: Marks<'f>,
    merger: Merger<'f>,
    /// A word with its spaces written out.
    buffer: &'f mut [u8],
}

impl<'a, 'm, 'f> Encoder<'a, 'm, 'f> {
    fn new<'t>(
        tokenizer: &'a Tokenizer<'m>,
        segments: impl Iterator<Item = Segment<'t>> + Clone,
        scratch: &Open<'f, Forward>,
    ) -> Result<Self, TokenizerError> {
        let texts = segments.clone().map(|segment| match segment {
            Segment::Text(text) | Segment::Marked(text) => text.len(),
            Segment::Token(_) => 0,
        });
        let longest_text = texts.max().unwrap_or(0);
        if longest_text > TEXT_BYTES_MAX {
            return Err(TokenizerError::TextTooLong {
                bytes: longest_text,
            });
        }
        let mut marks = Marks::new(longest_text, scratch)?;
        let mut longest_word = 0;
        tokenizer.visit(segments, &mut marks, &mut |piece| {
            if let Piece::Word(word, is_first) = piece {
                longest_word = longest_word.max(tokenizer.word_bytes(word, is_first));
            }
            Ok(())
        })?;
        Ok(Encoder {
            tokenizer,
            marks,
            merger: Merger::new(longest_word, scratch)?,
            buffer: scratch.alloc(longest_word)?,
        })
    }

    /// Gives the tokens to `sink`. `segments` are those of [`new`](Self::new).
    fn run<'t>(
        &mut self,
        segments: impl Iterator<Item = Segment<'t>>,
        sink: &mut dyn FnMut(u32),
    ) -> Result<(), Cancelled> {
        let Encoder {
            tokenizer,
            marks,
            merger,
            buffer,
            ..
        } = self;
        tokenizer.visit(
            segments,
            marks,
            &mut |piece| match (piece, &tokenizer.kind) {
                (Piece::Token(id), _) => {
                    sink(id);
                    Ok(())
                }
                (Piece::Word(word, _), Kind::ByteBpe(model)) => {
                    model.encode_word(&tokenizer.vocab, word, merger, sink)
                }
                (Piece::Word(word, is_first), Kind::SentencePiece(model)) => {
                    let word = (word, is_first);
                    model.encode_word(&tokenizer.vocab, word, merger, buffer, sink)
                }
            },
        )
    }
}

/// Whether a model's name is one of Phi-3, as the reference tells it.
fn is_phi3(name: &[u8]) -> bool {
    let is = |part: &[u8]| part.eq_ignore_ascii_case(b"phi3");
    name.windows(4).any(is)
        || name
            .windows(5)
            .any(|part| part.eq_ignore_ascii_case(b"phi-3"))
}
