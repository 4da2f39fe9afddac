//! How much memory a text's tokens take to make, told from the text and the file's header: memory is
//! planned before there is an index.
//!
//! What counts is the longest word, since words are merged one by one. Where words end depends on the
//! vocabulary, but none reaches across a joint ([`is_joint`]); so the longest stretch between two joints bounds
//! it, with room for what becomes of characters that are cut, since a token that is cut out of the text may start
//! and end inside them ([`CUT`]).

use core::ops::Add;

use super::Family;
use super::error::{Cancelled, TokenizerError};
use super::markers::Marks;
use super::merge::Merger;
use super::pretokenize::Pretokenizer;
use super::sentencepiece::{Cuts, SPACE, sentence_words};
use super::unicode::{Class, CodePoint, code_points};
use crate::arena::rounded;
use crate::gguf::Gguf;

/// Bytes that one byte of a text can become: U+FFFD and U+2581 have three.
const EXPANSION: usize = 3;

/// Bytes that a word has more for characters that are cut at its two ends: up to three bytes are left
/// of each. For byte-level BPE each of them becomes U+FFFD, and all around is decoded as before. For
/// SentencePiece they stand as they are, but what is left of a U+2581 is no space, before which the text
/// would have been cut.
const CUT: usize = 2 * 3 * EXPANSION;

/// A bound for texts of which one follows another.
#[derive(Clone, Copy, Default, Debug)]
pub struct Extent {
    /// Bytes.
    text: usize,
    /// Bytes of the longest word, as it is merged.
    word: usize,
}

impl Extent {
    /// That of a text. Takes time for each of its bytes and, for SentencePiece, each byte of the
    /// vocabulary.
    ///
    /// # Errors
    /// The vocabulary is missing, or of a kind that is not known, or a signal came first.
    pub fn of(gguf: &Gguf<'_>, text: &[u8]) -> Result<Self, TokenizerError> {
        let word = match Family::of(gguf)? {
            Family::ByteBpe(pretokenizer) => longest_stretch(pretokenizer, text)? + CUT,
            Family::SentencePiece if core::str::from_utf8(text).is_ok() => {
                let mut longest = 0;
                for word in sentence_words(Cuts::of(gguf)?, text) {
                    Cancelled::check()?;
                    let spaces = word.iter().filter(|&&byte| byte == b' ').count();
                    longest = longest.max(word.len() + spaces * (SPACE.len() - 1));
                }
                longest + SPACE.len() + CUT // the first one has a space more
            }
            // A byte that is no character's takes others along, here or there.
            Family::SentencePiece => Self::whole(text.len()).word,
        };
        Ok(Extent {
            text: text.len(),
            word,
        })
    }

    /// That of any text of so many bytes.
    pub fn whole(bytes: usize) -> Self {
        Extent {
            text: bytes,
            word: bytes.saturating_add(1).saturating_mul(EXPANSION),
        }
    }

    /// Bytes of all texts.
    pub fn text_bytes(self) -> usize {
        self.text
    }

    /// Tokens of one text at most.
    ///
    /// A token has at least a byte of what the text becomes. `b` bytes outside of markers become up to
    /// `3 b`; each of the `p` parts that they make up may have a space of three bytes put before it;
    /// and `m` markers are a token each: `3 b + 3 p + m`. There are at most `m + 1` parts and at most
    /// `b`, so `p <= (5 (m + 1) + b) / 6`, and with `b + m <= n` bytes of text that is at most
    /// `(7 n + 5) / 2`. Markers of one byte with one byte between them come up to it.
    pub fn tokens_max(self) -> usize {
        self.text.saturating_mul(7).saturating_add(5) / 2
    }

    /// Bytes of the Forward scope that [`encode_each`](super::Tokenizer::encode_each) takes at most.
    pub fn encode_bytes(self) -> usize {
        Marks::bytes(self.text)
            .saturating_add(Merger::bytes(self.word))
            .saturating_add(rounded(self.word))
    }
}

impl Add for Extent {
    type Output = Extent;

    /// That of one text after another: a word may reach from this to that.
    fn add(self, other: Extent) -> Extent {
        Extent {
            text: self.text.saturating_add(other.text),
            word: self.word.saturating_add(other.word),
        }
    }
}

/// What a code point is to a [`is_joint`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    LineEnd,
    /// The white space that a word may start with.
    Blank,
    Space,
    /// What goes with the line ends before it in `tekken` and its kin.
    Slash,
    Word,
}

impl Part {
    fn of(point: CodePoint) -> Part {
        match (point.value, point.class()) {
            // Spelled in more bytes than it takes: what looks for the byte does not find it.
            (0x0A | 0x0D | 0x20, _) if point.len > 1 => Part::Space,
            (0x0A | 0x0D, _) => Part::LineEnd,
            (0x20, _) => Part::Blank,
            (0x2F, _) => Part::Slash,
            (_, Class::Space) => Part::Space,
            _ => Part::Word,
        }
    }
}

/// Bytes of the longest stretch between two joints, once it is valid UTF-8.
///
/// # Errors
/// A signal came first.
fn longest_stretch(pretokenizer: &Pretokenizer, text: &[u8]) -> Result<usize, Cancelled> {
    let (mut longest, mut stretch, mut before) = (0, 0, Part::Space);
    for point in code_points(text) {
        Cancelled::check()?;
        let part = Part::of(point);
        if is_joint(before, part, pretokenizer.cuts_spaces) {
            stretch = 0;
        }
        stretch += point.utf8().1;
        longest = longest.max(stretch);
        before = part;
    }
    Ok(longest)
}

/// Whether no word has these two next to each other. `cuts_spaces`: that of the pre-tokenizer.
fn is_joint(before: Part, after: Part, cuts_spaces: bool) -> bool {
    match (before, after) {
        (Part::LineEnd, Part::Word) => true,
        (Part::Word | Part::Slash, Part::Blank) => cuts_spaces,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, is_joint};
    use crate::sampler::Random;
    use crate::tokenizer::pretokenize::{PRETOKENIZERS, Words};
    use crate::tokenizer::unicode::code_points;

    #[test]
    fn no_word_reaches_across_a_joint() {
        const ALPHABET: [&str; 24] = [
            " ",
            "\n",
            "\r",
            "\t",
            "\u{3000}",
            "\u{1}",
            "\u{7f}",
            "a",
            "Z",
            "s",
            "'",
            "/",
            "1",
            "2",
            "\u{e9}",
            "\u{301}",
            "\u{4e00}",
            "\u{3042}",
            "\u{627}",
            "\u{20ac}",
            "`",
            "\u{ff01}",
            ".",
            "\u{1f600}",
        ];
        /// A line end, a space and a slash, spelled in more bytes than they take.
        const OVERLONG: [&[u8]; 3] = [b"\xC0\x8A", b"\xC0\xA0", b"\xC0\xAF"];
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let mut text = [0; 64];
            let mut len = 0;
            while len < text.len() - 4 {
                let next = (random.bits() % (ALPHABET.len() + OVERLONG.len()) as u64) as usize;
                let next = match ALPHABET.get(next) {
                    Some(text) => text.as_bytes(),
                    None => OVERLONG[next - ALPHABET.len()],
                };
                text[len..len + next.len()].copy_from_slice(next);
                len += next.len();
            }
            for one in &PRETOKENIZERS {
                for word in Words::new(one.splits, &text[..len]) {
                    let parts = code_points(word).map(Part::of);
                    let mut pairs = parts.clone().zip(parts.skip(1));
                    assert!(
                        !pairs.any(|(before, after)| is_joint(before, after, one.cuts_spaces)),
                        "{:?}: {}",
                        one.names,
                        word.escape_ascii()
                    );
                }
            }
        }
    }
}
