//! SentencePiece BPE (`tokenizer.ggml.model` = `llama`): characters, merged by the score of what
//! they make (Kudo and Richardson, "SentencePiece", 2018; `llm_tokenizer_spm` of the reference).
//!
//! Spaces are written U+2581 and, unless the file says otherwise, one is put before the text.
//! Two neighbours may be joined if a token has their text; the best score goes first. What is no
//! token in the end is spelled in byte tokens; a byte without one becomes the unknown token.
//!
//! The reference merges a whole text at once. But no merge crosses from a byte to a space if no token
//! has U+2581 after that byte, nor from a line end to another byte if no token has these two; so
//! texts are cut there ([`Cuts`]), and the words merged one by one with the same result and a word's
//! memory.

use super::error::{Cancelled, TokenizerError};
use super::merge::{Merge, Merger, NONE, Pairs, Symbol};
use super::unicode::len_by_lead;
use super::vocab::{ByteSet, TokenKind, Vocab, check_length, tokens};
use crate::arena::{Model, Open, rounded};
use crate::gguf::{Gguf, GgufError, Name};

/// U+2581, which stands for a space in a token.
pub(super) const SPACE: &[u8] = "\u{2581}".as_bytes();

const SCORES: &str = "tokenizer.ggml.scores";
const ADDS_SPACE: &str = "tokenizer.ggml.add_space_prefix";
const BYTES: usize = 256;

/// The scores of a vocabulary, and what depends on it as a whole.
#[derive(Clone, Copy)]
pub(super) struct SentencePiece<'m> {
    /// By id: an f32 as the file has it.
    scores: &'m [u8],
    /// By byte: its token, or the unknown token, or `NONE`.
    byte_ids: &'m [u32],
    /// Whether a space is put before a text.
    pub(super) adds_space: bool,
    /// Where a text is cut into words.
    cuts: Cuts,
}

/// Where no merge crosses.
#[derive(Clone, Copy)]
pub(super) struct Cuts {
    /// The bytes that some token has before a U+2581.
    before_space: ByteSet,
    /// Whether no token has a line end before something else.
    at_line_ends: bool,
}

impl Cuts {
    /// Those of the vocabulary in a file.
    pub(super) fn of(gguf: &Gguf<'_>) -> Result<Self, TokenizerError> {
        let mut cuts = Cuts {
            before_space: ByteSet::default(),
            at_line_ends: true,
        };
        let texts = tokens(gguf)?.strings();
        texts.into_iter().flatten().for_each(|text| cuts.add(text));
        Ok(cuts)
    }

    /// Takes note of what a token joins.
    fn add(&mut self, text: &[u8]) {
        let mut rest = text;
        // The byte before, unless it ends a U+2581.
        let mut before = None;
        while let [byte, after @ ..] = rest {
            if let Some(after) = rest.strip_prefix(SPACE) {
                if let Some(before) = before {
                    self.before_space.insert(before);
                }
                (rest, before) = (after, None);
                continue;
            }
            self.at_line_ends &= before != Some(b'\n') || *byte == b'\n';
            (rest, before) = (after, Some(*byte));
        }
    }
}

impl<'m> SentencePiece<'m> {
    /// Bytes of the Model scope that [`new`](Self::new) takes.
    pub(super) fn bytes() -> usize {
        rounded(BYTES * size_of::<u32>())
    }

    /// Checks the scores and finds the byte tokens.
    pub(super) fn new(
        gguf: &Gguf<'m>,
        vocab: &Vocab<'m>,
        unknown: Option<u32>,
        model: &Open<'m, Model>,
    ) -> Result<Self, TokenizerError> {
        let scores = gguf
            .array(SCORES)?
            .ok_or(TokenizerError::MissingKey { key: SCORES })?;
        let mut numbers = scores.floats().ok_or(GgufError::WrongType {
            key: Name::new(SCORES),
            wanted: "an array of 32-bit floats",
        })?;
        check_length(SCORES, scores.len(), vocab.len())?;
        if let Some(id) = numbers.position(f32::is_nan) {
            return Err(TokenizerError::BadScore { id: id as u32 });
        }
        let byte_ids = model.alloc::<u32>(BYTES)?;
        for (byte, id) in (0..=u8::MAX).zip(byte_ids.iter_mut()) {
            *id = byte_token(vocab, byte).or(unknown).unwrap_or(NONE);
        }
        Ok(SentencePiece {
            scores: scores.raw(),
            byte_ids,
            adds_space: gguf.bool(ADDS_SPACE)?.unwrap_or(true),
            cuts: Cuts::of(gguf)?,
        })
    }

    /// The words of a text.
    pub(super) fn words<'t>(&self, text: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
        sentence_words(self.cuts, text)
    }

    /// Bytes that a word has once its spaces are written out. `is_first`: it starts a text.
    pub(super) fn word_bytes(&self, word: &[u8], is_first: bool) -> usize {
        let added = usize::from(is_first && self.adds_space);
        let spaces = word.iter().filter(|&&byte| byte == b' ').count();
        word.len() + spaces * (SPACE.len() - 1) + added * SPACE.len()
    }

    /// The tokens of a word. `buffer` has room for its [`word_bytes`](Self::word_bytes).
    ///
    /// # Errors
    /// A signal came first.
    pub(super) fn encode_word(
        &self,
        vocab: &Vocab<'_>,
        (word, is_first): (&[u8], bool),
        merger: &mut Merger<'_>,
        buffer: &mut [u8],
        sink: &mut dyn FnMut(u32),
    ) -> Result<(), Cancelled> {
        let text = &mut buffer[..self.word_bytes(word, is_first)];
        let space = (is_first && self.adds_space).then_some(&b' ');
        let bytes = space.into_iter().chain(word).flat_map(|byte| match byte {
            b' ' => SPACE,
            byte => core::slice::from_ref(byte),
        });
        text.iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        let text = &*text;

        let symbols = characters(text).map(|(start, character)| Symbol {
            start,
            end: start + character.len(),
            id: vocab.find_text(character.iter().copied()).unwrap_or(NONE),
        });
        merger.load(text.len(), symbols);
        merger.run(&Pieces {
            model: self,
            vocab,
            text,
        })?;
        for symbol in merger.symbols() {
            if symbol.id != NONE {
                sink(symbol.id);
                continue;
            }
            let ids = text[symbol.start..symbol.end].iter();
            ids.map(|&byte| self.byte_ids[usize::from(byte)])
                .filter(|&id| id != NONE)
                .for_each(&mut *sink);
        }
        Ok(())
    }

    /// The rank of a token: lower for a higher score.
    fn rank(&self, id: u32) -> Option<u32> {
        let at = id as usize * size_of::<f32>();
        let bytes = self.scores.get(at..at + size_of::<f32>())?;
        Some(rank_of(f32::from_le_bytes(bytes.try_into().ok()?)))
    }
}

/// Which parts of a word may be joined.
struct Pieces<'a, 'm> {
    model: &'a SentencePiece<'m>,
    vocab: &'a Vocab<'m>,
    text: &'a [u8],
}

impl Pairs for Pieces<'_, '_> {
    fn merge(&self, left: Symbol, right: Symbol) -> Option<Merge> {
        let text = &self.text[left.start..right.end];
        if text.len() > self.vocab.longest {
            return None;
        }
        let id = self.vocab.find_text(text.iter().copied())?;
        let rank = self.model.rank(id)?;
        Some(Merge { rank, id })
    }
}

/// The order of the numbers, turned round: a number that is no NaN to an integer below `NONE`.
fn rank_of(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits(); // -0 + 0 is 0, which it is equal to
    let ascending = match bits >> 31 {
        0 => bits | 1 << 31,
        _ => !bits,
    };
    !ascending
}

/// The characters of a text, as far as their lead bytes tell, and where they start.
fn characters(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0;
    core::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let found = (start, &rest[..len_by_lead(rest[0]).min(rest.len())]);
        start += found.1.len();
        Some(found)
    })
}

/// Bytes of the space with which a text starts; 0 if it starts with something else.
fn space_len(text: &[u8]) -> usize {
    match text {
        [b' ', ..] => 1,
        _ if text.starts_with(SPACE) => SPACE.len(),
        _ => 0,
    }
}

/// A text, cut where no merge crosses.
pub(super) fn sentence_words(cuts: Cuts, text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let (word, after) = rest.split_at(word(cuts, rest));
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// Bytes of the first word: up to the next cut.
fn word(cuts: Cuts, text: &[u8]) -> usize {
    let mut at = 0;
    // The byte before, unless it ends a space.
    let mut before = None;
    while at < text.len() {
        let space = space_len(&text[at..]);
        let is_cut = before.is_some_and(|before| match space {
            0 => before == b'\n' && text[at] != b'\n' && cuts.at_line_ends,
            _ => !cuts.before_space.has(before),
        });
        if is_cut {
            return at;
        }
        if space > 0 {
            at += space;
            before = None;
            continue;
        }
        let len = len_by_lead(text[at]).min(text.len() - at);
        if text[at + 1..at + len].contains(&b' ') {
            // The lead byte of a character that is cut off takes in bytes of the U+2581 after it,
            // so that one is no space any more. Nothing is cut from here on.
            return text.len();
        }
        at += len;
        before = Some(text[at - 1]);
    }
    at
}

/// The token of a byte: `<0xHH>` or, as the reference has it, the byte itself.
fn byte_token(vocab: &Vocab<'_>, byte: u8) -> Option<u32> {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let digit = |value: u8| DIGITS[usize::from(value & 0xF)];
    let name = [b'<', b'0', b'x', digit(byte >> 4), digit(byte), b'>'];
    vocab
        .find(name.into_iter())
        .filter(|&id| vocab.kind(id) != TokenKind::Control)
        .or_else(|| vocab.find_text([byte].into_iter()))
}

#[cfg(test)]
mod tests {
    use super::{ByteSet, Cuts, NONE, rank_of, word};

    #[test]
    fn ranks_are_the_scores_turned_round() {
        let scores = [
            f32::INFINITY,
            3.5,
            1e-40,
            0.0,
            -1e-40,
            -2.0,
            f32::MIN,
            f32::NEG_INFINITY,
        ];
        assert!(scores.is_sorted_by(|one, other| rank_of(*one) < rank_of(*other)));
        assert_eq!(rank_of(-0.0), rank_of(0.0));
        assert!(rank_of(f32::NEG_INFINITY) < NONE);
    }

    fn cuts(tokens: &[&str]) -> Cuts {
        let mut cuts = Cuts {
            before_space: ByteSet::default(),
            at_line_ends: true,
        };
        tokens.iter().for_each(|text| cuts.add(text.as_bytes()));
        cuts
    }

    #[test]
    fn word_ends_where_no_token_reaches_across() {
        let apart = cuts(&["\u{2581}a", "\u{2581}\u{2581}", "\n\n", "ab"]);
        assert_eq!(word(apart, b"a b"), 1);
        assert_eq!(word(apart, b"  a b"), 3);
        assert_eq!(word(apart, "\u{2581} ab\u{2581}".as_bytes()), 6);
        assert_eq!(word(apart, b"   "), 3);
        assert_eq!(word(apart, "\u{e9}t\u{e9} b".as_bytes()), 5);
        assert_eq!(word(apart, b"a\n\nb"), 3);
        let joined = cuts(&[">\u{2581}<", "\nx"]);
        assert_eq!(word(joined, b"a> <b c"), 5);
        assert_eq!(word(joined, b"\nx"), 2);
    }

    #[test]
    fn word_with_a_cut_off_character_before_a_space_is_the_rest() {
        assert_eq!(word(cuts(&[]), b"a\xF0 b c"), 6);
        assert_eq!(word(cuts(&[]), b"\xC3"), 1);
    }
}
