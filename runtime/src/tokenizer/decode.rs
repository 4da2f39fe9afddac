//! Tokens to bytes.
//!
//! A token's bytes need not be UTF-8: a character may be spread over several tokens. They are put
//! together again, and held back until they are whole, by [`TextStream`](super::TextStream).

use super::byte_bpe::byte_of_char;
use super::sentencepiece::SPACE;
use super::unicode::first;
use super::vocab::{TokenKind, Vocab, byte_of_name};

/// The bytes of a token, one after another.
#[derive(Clone, Debug)]
pub struct TokenBytes<'m> {
    /// What is still to be read of the token's text.
    text: &'m [u8],
    spelling: Spelling,
}

/// How a text in the vocabulary spells bytes.
#[derive(Clone, Copy, Debug)]
enum Spelling {
    /// As they are.
    Plain,
    /// A character for each byte.
    ByteLevel,
    /// As they are, but for U+2581, which is a space.
    Spaced,
    /// In hexadecimal: one byte.
    Named,
}

impl<'m> TokenBytes<'m> {
    /// The bytes of a token. `is_byte_level`: the kind of its vocabulary. As the reference has it
    /// (`token_to_piece`), tokens that are structure, unknown or reserved have none.
    pub(super) fn new(vocab: &Vocab<'m>, id: u32, is_byte_level: bool) -> Self {
        let spelling = match vocab.kind(id) {
            TokenKind::Normal if is_byte_level => Some(Spelling::ByteLevel),
            TokenKind::Normal => Some(Spelling::Spaced),
            TokenKind::UserDefined => Some(Spelling::Plain),
            TokenKind::Byte => Some(Spelling::Named),
            TokenKind::Undefined | TokenKind::Unknown | TokenKind::Control | TokenKind::Unused => {
                None
            }
        };
        TokenBytes {
            text: spelling.map_or(&[], |_| vocab.text(id)),
            spelling: spelling.unwrap_or(Spelling::Plain),
        }
    }

    fn take(&mut self, len: usize) -> &'m [u8] {
        let (taken, rest) = self.text.split_at(len);
        self.text = rest;
        taken
    }
}

impl Iterator for TokenBytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        match self.spelling {
            Spelling::Plain => {}
            Spelling::Named => return byte_of_name(self.take(self.text.len())),
            Spelling::Spaced if self.text.starts_with(SPACE) => {
                self.take(SPACE.len());
                return Some(b' ');
            }
            Spelling::Spaced => {}
            Spelling::ByteLevel => {
                let character = first(self.text)?;
                if let Some(byte) = byte_of_char(character.value) {
                    self.take(character.len);
                    return Some(byte);
                }
                // No character of this vocabulary's alphabet: shown as it is, byte by byte. What
                // is left of it is no such character either.
            }
        }
        let (&byte, rest) = self.text.split_first()?;
        self.text = rest;
        Some(byte)
    }
}
