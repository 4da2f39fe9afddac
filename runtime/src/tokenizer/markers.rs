//! Markers: tokens that are cut out of a text before it is tokenised. In any text these are the
//! user-defined ones; control tokens and the unknown one count only where that is asked for.
//!
//! As in the reference (`tokenizer_st_partition`), longer ones are cut out first, wherever they
//! are, and each from left to right. Where two of one length overlap in a text, the reference takes
//! the one its sort happened to put first; here it is the leftmost.
//!
//! Time is the length of the text times the number of different lengths, at most 255, times the steps
//! of a search: one or two, and in a vocabulary that is made for it up to [`PROBES_MAX`]. No file can
//! push the factor further, and a signal ends the search. Nothing is done for a text without any byte
//! that a marker starts with, and little where few of its bytes are one.
//!
//! [`PROBES_MAX`]: super::slots::PROBES_MAX

use super::Segment;
use super::error::{Cancelled, TokenizerError};
use super::slots::TextHash;
use super::vocab::{ByteSet, TokenKind, Vocab};
use crate::arena::{ArenaError, Forward, Open, rounded};

/// Bytes that the text of a user-defined token may have. A longer control token is found nowhere.
const USER_TOKEN_BYTES_MAX: usize = 255;

/// What some markers look like.
#[derive(Clone, Copy, Default)]
pub(super) struct Markers {
    /// Their lengths in bytes.
    lengths: ByteSet,
    /// Their first bytes.
    firsts: ByteSet,
}

impl Markers {
    /// Those of a vocabulary: user-defined ones and, if `with_specials`, the others.
    pub(super) fn of(vocab: &Vocab<'_>, with_specials: bool) -> Result<Self, TokenizerError> {
        let mut markers = Markers::default();
        for id in 0..vocab.len() as u32 {
            let (kind, text) = (vocab.kind(id), vocab.text(id));
            let (true, Some(&first)) = (kind.is_marker(with_specials), text.first()) else {
                continue; // an empty text is found nowhere
            };
            match u8::try_from(text.len()) {
                Ok(length) => {
                    markers.lengths.insert(length);
                    markers.firsts.insert(first);
                }
                Err(_) if kind == TokenKind::UserDefined => {
                    return Err(TokenizerError::TokenTooLong {
                        id,
                        bytes: text.len(),
                        limit: USER_TOKEN_BYTES_MAX,
                    });
                }
                Err(_) => {}
            }
        }
        Ok(markers)
    }

    /// Whether a text may hold one.
    pub(super) fn may_be_in(&self, text: &[u8]) -> bool {
        text.iter().any(|&byte| self.firsts.has(byte))
    }

    /// The lengths, longest first.
    fn lengths(&self) -> impl Iterator<Item = usize> {
        (1..=u8::MAX)
            .rev()
            .filter(|&length| self.lengths.has(length))
            .map(usize::from)
    }
}

/// Where the markers of a text are: a bit for each of its bytes, twice.
pub(super) struct Marks<'f> {
    /// Bytes that belong to a token.
    taken: &'f mut [u64],
    /// Bytes that start one.
    starts: &'f mut [u64],
}

impl<'f> Marks<'f> {
    /// Bytes of the Forward scope that [`new`](Self::new) takes.
    pub(super) const fn bytes(longest: usize) -> usize {
        2 * rounded(longest.div_ceil(64) * size_of::<u64>())
    }

    /// Scratch for texts of up to `longest` bytes.
    pub(super) fn new(longest: usize, scratch: &Open<'f, Forward>) -> Result<Self, ArenaError> {
        let words = longest.div_ceil(64);
        Ok(Marks {
            taken: scratch.alloc(words)?,
            starts: scratch.alloc(words)?,
        })
    }

    /// Cuts `text` up: calls `visit` with what is between the markers and with these, in order.
    ///
    /// # Errors
    /// That of `visit`, or a signal came first.
    pub(super) fn partition<'t>(
        &mut self,
        vocab: &Vocab<'_>,
        text: &'t [u8],
        with_specials: bool,
        visit: &mut dyn FnMut(Segment<'t>) -> Result<(), Cancelled>,
    ) -> Result<(), Cancelled> {
        if !vocab.markers(with_specials).may_be_in(text) {
            return visit(Segment::Text(text));
        }
        self.find(vocab, text, with_specials)?;
        let mut from = 0;
        while from < text.len() {
            let to = self.end_of_part(text.len(), from);
            let part = &text[from..to];
            // A part that is taken was found in the vocabulary a moment ago.
            let marker = || {
                let hash = TextHash::of(part.iter().copied());
                vocab.find_marker(hash, part, with_specials)
            };
            match bit(self.taken, from).then(marker).flatten() {
                Some(id) => visit(Segment::Token(id))?,
                None => visit(Segment::Text(part))?,
            }
            from = to;
        }
        Ok(())
    }

    /// Marks every marker.
    fn find(
        &mut self,
        vocab: &Vocab<'_>,
        text: &[u8],
        with_specials: bool,
    ) -> Result<(), Cancelled> {
        let markers = vocab.markers(with_specials);
        self.taken.fill(0);
        self.starts.fill(0);
        for length in markers.lengths() {
            Cancelled::check()?;
            let Some(first) = text.get(..length) else {
                continue;
            };
            let weight = TextHash::weight(length);
            let mut hash = TextHash::of(first.iter().copied());
            for (from, part) in text.windows(length).enumerate() {
                if from > 0 {
                    hash = hash.slide(weight, text[from - 1], part[length - 1]);
                }
                // What is taken is at least as long, so it cannot lie inside without an end.
                let may_be = markers.firsts.has(part[0])
                    && !bit(self.taken, from)
                    && !bit(self.taken, from + length - 1);
                if !may_be {
                    continue;
                }
                Cancelled::check()?; // a search may take long
                if vocab.find_marker(hash, part, with_specials).is_some() {
                    set_bit(self.starts, from);
                    (from..from + length).for_each(|at| set_bit(self.taken, at));
                }
            }
        }
        Ok(())
    }

    /// Where the part that starts at `from` ends: at the next start or, after a token, at the next
    /// byte that is not taken.
    fn end_of_part(&self, len: usize, from: usize) -> usize {
        let taken = bit(self.taken, from);
        (from + 1..len)
            .find(|&at| bit(self.starts, at) || bit(self.taken, at) != taken)
            .unwrap_or(len)
    }
}

fn bit(bits: &[u64], at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 == 1
}

fn set_bit(bits: &mut [u64], at: usize) {
    bits[at / 64] |= 1 << (at % 64);
}
