//! Byte-level BPE (`tokenizer.ggml.model` = `gpt2`): words of bytes, merged by rank.
//!
//! A vocabulary of this kind writes each byte as a printable character ([`char_of_byte`]) and lists
//! its merges, best first. A word starts as one token for each of its bytes; what a pair of tokens
//! merges to is looked up by their ids, so texts are compared only while the table is built.
//!
//! As the reference does, undecodable bytes become U+FFFD before they are tokenised, and a byte
//! that has no token is left out after merging. Unlike it, a merge that makes a control token is
//! ignored: structure comes from templates alone.

use super::error::{Cancelled, TokenizerError};
use super::merge::{Merge, Merger, NONE, Pairs, Symbol};
use super::pretokenize::Pretokenizer;
use super::slots::{INDEX_MAX, Slots, SlotsBuilder, mix, slots_for};
use super::unicode::code_points;
use super::vocab::{TOKEN_BYTES_MAX, Vocab, string_array};
use crate::arena::{Model, Open, rounded};
use crate::gguf::{Array, Gguf, Name};

/// Merges that a vocabulary may have.
pub const MERGES_MAX: usize = INDEX_MAX;

const MERGES: &str = "tokenizer.ggml.merges";
const PRETOKENIZER: &str = "tokenizer.ggml.pre";
const BYTES: usize = 256;

/// The merges of a vocabulary.
#[derive(Clone, Copy)]
pub(super) struct ByteBpe<'m> {
    pretokenizer: &'static Pretokenizer,
    /// By byte: its token.
    byte_ids: &'m [u32],
    /// By rank: the two tokens that merge, the left one in the high half.
    pairs: &'m [u64],
    /// By rank: the token they make.
    merged: &'m [u32],
    /// Ranks by pair.
    ranks: Slots<'m>,
}

impl<'m> ByteBpe<'m> {
    /// Bytes of the Model scope that [`new`](Self::new) takes.
    pub(super) fn bytes(gguf: &Gguf<'_>) -> Result<usize, TokenizerError> {
        let merges = merges(gguf)?.len();
        Ok(rounded(BYTES * size_of::<u32>())
            + rounded(merges * size_of::<u64>())
            + rounded(merges * size_of::<u32>())
            + rounded(slots_for(merges) * size_of::<u32>()))
    }

    /// Builds the table of merges.
    pub(super) fn new(
        gguf: &Gguf<'m>,
        vocab: &Vocab<'m>,
        pretokenizer: &'static Pretokenizer,
        model: &Open<'m, Model>,
    ) -> Result<Self, TokenizerError> {
        let merges = merges(gguf)?;
        let byte_ids = model.alloc::<u32>(BYTES)?;
        let pairs = model.alloc::<u64>(merges.len())?;
        let merged = model.alloc::<u32>(merges.len())?;
        let mut ranks = SlotsBuilder::new(model.alloc(slots_for(merges.len()))?);
        for (byte, id) in (0..=u8::MAX).zip(byte_ids.iter_mut()) {
            let mut utf8 = [0; 2];
            let text = char_of_byte(byte).encode_utf8(&mut utf8).bytes();
            *id = vocab.find_text(text).unwrap_or(NONE);
        }
        for (rank, text) in merges.strings().into_iter().flatten().enumerate() {
            let Some([left, right, id]) = read_merge(vocab, rank as u32, text)? else {
                continue;
            };
            pairs[rank] = pair(left, right);
            merged[rank] = id;
            let is = |other: u32| pairs[other as usize] == pairs[rank];
            // A pair that stands twice keeps its better rank.
            ranks
                .insert(mix(pairs[rank]), rank as u32, is)
                .map_err(|_| TokenizerError::HashCollisions)?;
        }
        Ok(ByteBpe {
            pretokenizer,
            byte_ids,
            pairs,
            merged,
            ranks: ranks.finish(),
        })
    }

    pub(super) fn pretokenizer(&self) -> &'static Pretokenizer {
        self.pretokenizer
    }

    /// Bytes that a word has once it is valid UTF-8.
    pub(super) fn word_bytes(&self, word: &[u8]) -> usize {
        code_points(word).map(|point| point.utf8().1).sum()
    }

    /// The tokens of a word.
    ///
    /// # Errors
    /// A signal came first.
    pub(super) fn encode_word(
        &self,
        vocab: &Vocab<'_>,
        word: &[u8],
        merger: &mut Merger<'_>,
        sink: &mut dyn FnMut(u32),
    ) -> Result<(), Cancelled> {
        if self.pretokenizer.whole_words
            && word.len() <= TOKEN_BYTES_MAX
            && let Some(id) = vocab.find_text(valid_bytes(word).flat_map(utf8_of_byte))
        {
            sink(id);
            return Ok(());
        }
        let symbols = valid_bytes(word).enumerate().map(|(start, byte)| Symbol {
            start,
            end: start + 1,
            id: self.byte_ids[usize::from(byte)],
        });
        merger.load(self.word_bytes(word), symbols);
        merger.run(self)?;
        for symbol in merger.symbols().filter(|symbol| symbol.id != NONE) {
            sink(symbol.id);
        }
        Ok(())
    }
}

impl Pairs for ByteBpe<'_> {
    fn merge(&self, left: Symbol, right: Symbol) -> Option<Merge> {
        let pair = pair(left.id, right.id);
        let is = |rank: u32| self.pairs[rank as usize] == pair;
        let rank = self.ranks.find(mix(pair), is)?;
        let id = self.merged[rank as usize];
        Some(Merge { rank, id })
    }
}

/// Which pre-tokenizer the file asks for. Without the key it is `default`, as in the reference.
pub(super) fn pretokenizer(gguf: &Gguf<'_>) -> Result<&'static Pretokenizer, TokenizerError> {
    let name = gguf.string(PRETOKENIZER)?.unwrap_or(b"default");
    Pretokenizer::from_name(name).ok_or(TokenizerError::UnknownPretokenizer {
        name: Name::from_bytes(name),
    })
}

/// Whether the file does not say how its texts are cut into words.
pub(super) fn lacks_pretokenizer(gguf: &Gguf<'_>) -> bool {
    gguf.get(PRETOKENIZER).is_none()
}

/// The character that stands for a byte (`bytes_to_unicode` of GPT-2): itself where it can be
/// seen, else the next one from U+0100 on.
fn char_of_byte(byte: u8) -> char {
    let code_point = match byte {
        0x00..=0x20 => 0x100 + u32::from(byte),
        0x7F..=0xA0 => 0x121 + u32::from(byte - 0x7F),
        0xAD => 0x143,
        _ => u32::from(byte),
    };
    char::from_u32(code_point).unwrap_or_default() // all are characters
}

/// The byte that a character stands for.
pub(super) fn byte_of_char(code_point: u32) -> Option<u8> {
    let byte = match code_point {
        0x100..=0x120 => code_point - 0x100,
        0x121..=0x142 => code_point - 0x121 + 0x7F,
        0x143 => 0xAD,
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code_point,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// The bytes of a text, those that cannot be decoded replaced.
fn valid_bytes(text: &[u8]) -> impl Iterator<Item = u8> + Clone {
    code_points(text).flat_map(|point| {
        let (utf8, len) = point.utf8();
        utf8.into_iter().take(len)
    })
}

fn utf8_of_byte(byte: u8) -> impl Iterator<Item = u8> + Clone {
    let mut utf8 = [0; 2];
    let len = char_of_byte(byte).encode_utf8(&mut utf8).len();
    utf8.into_iter().take(len)
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

fn merges<'m>(gguf: &Gguf<'m>) -> Result<Array<'m>, TokenizerError> {
    let merges = string_array(gguf, MERGES)?;
    match merges.len() {
        0..=MERGES_MAX => Ok(merges),
        found => Err(TokenizerError::TooManyMerges { found }),
    }
}

/// The two tokens of a merge and the one they make; `None` if text may not become one of them.
fn read_merge(
    vocab: &Vocab<'_>,
    rank: u32,
    text: &[u8],
) -> Result<Option<[u32; 3]>, TokenizerError> {
    let mut pieces = text.split(|&byte| byte == b' ');
    let (left, right) = match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(left), Some(right), None) if !left.is_empty() && !right.is_empty() => (left, right),
        _ => {
            return Err(TokenizerError::MalformedMerge {
                rank,
                text: Name::from_bytes(text),
            });
        }
    };
    let token = |one: &[u8], other: &[u8]| {
        let piece = one.iter().chain(other).copied();
        // Made only if it is needed: there are fifty thousand merges.
        let unknown = || TokenizerError::UnknownPiece {
            rank,
            text: Name::from_bytes(text),
        };
        vocab.find(piece).ok_or_else(unknown)
    };
    let ids = [token(left, &[])?, token(right, &[])?, token(left, right)?];
    Ok(ids.iter().all(|&id| vocab.is_textual(id)).then_some(ids))
}

#[cfg(test)]
mod tests {
    use super::{byte_of_char, char_of_byte};

    #[test]
    fn bytes_and_characters_are_one_to_one() {
        for byte in 0..=u8::MAX {
            assert_eq!(byte_of_char(char_of_byte(byte).into()), Some(byte));
        }
        let characters = (0..0x11_0000).filter_map(byte_of_char).count();
        assert_eq!(characters, 256);
    }
}
