//! Why a dialog has no tokens.

use core::fmt;

use super::family;
use crate::arena::ArenaError;
use crate::gguf::{GgufError, Name};
use crate::tokenizer::TokenizerError;

/// Why a dialog has no tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChatError {
    /// The file's template is of no known family.
    UnknownTemplate,
    /// No family has that name.
    UnknownName {
        /// As asked for.
        name: Name,
    },
    /// The vocabulary lacks a marker of the family.
    MissingToken {
        /// The family.
        family: &'static str,
        /// The marker.
        token: &'static str,
    },
    /// A dialog of more than one text, and no template to tell them apart.
    NeedsTemplate,
    /// The template's key has another type.
    Gguf(GgufError),
    /// A text cannot be tokenised.
    Tokenizer(TokenizerError),
}

impl From<GgufError> for ChatError {
    fn from(error: GgufError) -> Self {
        ChatError::Gguf(error)
    }
}

impl From<TokenizerError> for ChatError {
    fn from(error: TokenizerError) -> Self {
        ChatError::Tokenizer(error)
    }
}

impl From<ArenaError> for ChatError {
    fn from(error: ArenaError) -> Self {
        ChatError::Tokenizer(error.into())
    }
}

impl fmt::Display for ChatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChatError::UnknownTemplate => {
                f.write_str("the model's chat template is not known: --raw takes the text as it ")?;
                f.write_str("is, --chat NAME takes one of")?;
                family::names().try_for_each(|name| write!(f, " {name}"))
            }
            ChatError::UnknownName { name } => {
                write!(f, "no chat template is called {name}; there are auto none")?;
                family::names().try_for_each(|name| write!(f, " {name}"))
            }
            ChatError::MissingToken { family, token } => write!(
                f,
                "chat template {family}: the vocabulary has no {token}; --raw goes without"
            ),
            ChatError::NeedsTemplate => f.write_str(
                "a system prompt or a dialog needs a chat template: give one with --chat NAME",
            ),
            ChatError::Gguf(error) => error.fmt(f),
            ChatError::Tokenizer(error) => error.fmt(f),
        }
    }
}
