//! Why a vocabulary was refused, or a text could not be tokenised.

use core::fmt;

use crate::arena::ArenaError;
use crate::gguf::{GgufError, Name};
use crate::sys;

/// Why a vocabulary was refused, or a text could not be tokenised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenizerError {
    /// A key of the vocabulary has another type.
    Gguf(GgufError),
    /// A key that every vocabulary of the kind has is not there.
    MissingKey {
        /// Which.
        key: &'static str,
    },
    /// `tokenizer.ggml.model` is none that is known here.
    UnknownModel {
        /// What the file has.
        name: Name,
    },
    /// `tokenizer.ggml.pre` is none that is known here.
    UnknownPretokenizer {
        /// What the file has.
        name: Name,
    },
    /// No token, or more than are believed.
    TokenCount {
        /// Length of `tokenizer.ggml.tokens`.
        found: usize,
    },
    /// More merges than are believed.
    TooManyMerges {
        /// Length of `tokenizer.ggml.merges`.
        found: usize,
    },
    /// An array that has one element for each token is longer or shorter than the vocabulary.
    LengthMismatch {
        /// Which array.
        key: &'static str,
        /// Its length.
        found: usize,
        /// The number of tokens.
        tokens: usize,
    },
    /// The text of a token is longer than is believed.
    TokenTooLong {
        /// Which.
        id: u32,
        /// Bytes of its text.
        bytes: usize,
        /// Bytes it may have.
        limit: usize,
    },
    /// Two tokens have one text.
    DuplicateToken {
        /// The later one.
        id: u32,
        /// The earlier one.
        first: u32,
    },
    /// A token of type byte whose text is not `<0x00>` to `<0xFF>`.
    BadByteToken {
        /// Which.
        id: u32,
    },
    /// A score is not a number.
    BadScore {
        /// Of this token.
        id: u32,
    },
    /// An entry of `tokenizer.ggml.merges` is not two pieces with one space between them.
    MalformedMerge {
        /// Which entry.
        rank: u32,
        /// Its text.
        text: Name,
    },
    /// A piece of a merge, or what the merge makes, is no token.
    UnknownPiece {
        /// Of this entry of `tokenizer.ggml.merges`.
        rank: u32,
        /// Its text.
        text: Name,
    },
    /// The texts hash so badly that only a file made to do so can be the cause.
    HashCollisions,
    /// The text is longer than 1 GiB.
    TextTooLong {
        /// Bytes it has.
        bytes: usize,
    },
    /// A scope is too small for the index or for the text.
    Arena(ArenaError),
    /// A signal came; with the exit code that it asks for.
    Cancelled(u8),
}

/// A signal came before a text was gone through; with the exit code that it asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cancelled(u8);

impl Cancelled {
    /// Ends long work when a signal asks for it. That is one look at a number in memory: no step
    /// over a text is too small for it.
    pub(super) fn check() -> Result<(), Cancelled> {
        match sys::pending_signal() {
            Some(code) => Err(Cancelled(code)),
            None => Ok(()),
        }
    }
}

impl From<Cancelled> for TokenizerError {
    fn from(Cancelled(code): Cancelled) -> Self {
        TokenizerError::Cancelled(code)
    }
}

impl From<GgufError> for TokenizerError {
    fn from(error: GgufError) -> Self {
        TokenizerError::Gguf(error)
    }
}

impl From<ArenaError> for TokenizerError {
    fn from(error: ArenaError) -> Self {
        TokenizerError::Arena(error)
    }
}

impl fmt::Display for TokenizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TokenizerError::*;
        match *self {
            Gguf(error) => error.fmt(f),
            MissingKey { key } => write!(f, "the file has no {key}"),
            UnknownModel { name } => write!(
                f,
                "tokenizer model {name} is not supported (gpt2 and llama are)"
            ),
            UnknownPretokenizer { name } => {
                write!(f, "pre-tokenizer {name} is not supported")
            }
            TokenCount { found } => write!(
                f,
                "{found} tokens, 1 to {} are supported",
                super::TOKENS_MAX
            ),
            TooManyMerges { found } => {
                write!(f, "{found} merges, at most {}", super::MERGES_MAX)
            }
            LengthMismatch { key, found, tokens } => {
                write!(f, "{key} has {found} elements for {tokens} tokens")
            }
            TokenTooLong { id, bytes, limit } => {
                write!(f, "token {id} has {bytes} bytes, at most {limit}")
            }
            DuplicateToken { id, first } => {
                write!(f, "token {id} has the text of token {first}")
            }
            BadByteToken { id } => write!(f, "token {id} is a byte, but is not named <0xHH>"),
            BadScore { id } => write!(f, "the score of token {id} is not a number"),
            MalformedMerge { rank, text } => {
                write!(f, "merge {rank} \"{text}\" is not two pieces and one space")
            }
            UnknownPiece { rank, text } => {
                write!(
                    f,
                    "merge {rank} \"{text}\" has or makes a piece that is no token"
                )
            }
            HashCollisions => f.write_str("the vocabulary is made to collide in a hash table"),
            TextTooLong { bytes } => write!(
                f,
                "a text of {bytes} bytes, at most {}",
                super::TEXT_BYTES_MAX
            ),
            Arena(ArenaError { wanted, left }) => {
                write!(
                    f,
                    "the tokenizer needs {wanted} bytes more, {left} are left"
                )
            }
            Cancelled(_) => f.write_str("cancelled by a signal"),
        }
    }
}
