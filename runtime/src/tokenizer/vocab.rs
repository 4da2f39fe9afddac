//! The tokens of a file: their texts, their kinds, and which token has a given text.
//!
//! Texts stay in the file; the index has where each starts. After [`Vocab::new`] every id below
//! [`Vocab::len`] has a text and a kind, every text but the empty one belongs to one token, and no
//! text is longer than [`TOKEN_BYTES_MAX`]. Which token ends an answer is decided in `special`.

use super::error::TokenizerError;
use super::markers::Markers;
use super::slots::{INDEX_MAX, Slots, SlotsBuilder, TextHash, slots_for};
use crate::arena::{Model, Open, rounded};
use crate::gguf::{Array, Gguf, GgufError, Name};

/// Tokens that a vocabulary may have.
pub const TOKENS_MAX: usize = INDEX_MAX;
/// Bytes that the text of a token may have. The longest that is known has 1024 (MPT, a run of
/// spaces).
pub const TOKEN_BYTES_MAX: usize = 1024;

const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";
/// Bytes of the length before each string of an array (GGUF specification).
const LENGTH_BYTES: usize = 8;

/// What a token is for (`llama_token_type` of the reference).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// Any number that the reference does not know. Never produced, shows nothing.
    Undefined,
    /// Text.
    Normal,
    /// Stands for text that has no token. Shows nothing.
    Unknown,
    /// Structure: starts, ends, roles. Never produced from text, shows nothing.
    Control,
    /// Found in the text before anything else, and shown as it is.
    UserDefined,
    /// Reserved. Shows nothing.
    Unused,
    /// One byte.
    Byte,
}

impl TokenKind {
    fn from_number(number: i128) -> TokenKind {
        match number {
            1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Undefined,
        }
    }

    /// Whether such a token is cut out of a text before anything else: a user-defined one always,
    /// one that shows nothing if that is asked for.
    pub(super) fn is_marker(self, with_specials: bool) -> bool {
        match self {
            TokenKind::UserDefined => true,
            TokenKind::Control | TokenKind::Unknown => with_specials,
            _ => false,
        }
    }
}

/// A set of small numbers, a bit each.
#[derive(Clone, Copy, Default)]
pub(super) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(super) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub(super) fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

/// The tokens of a file.
#[derive(Clone, Copy)]
pub(super) struct Vocab<'m> {
    /// Lengths and texts, as the file has them.
    strings: &'m [u8],
    /// By id: where its text starts in `strings`.
    starts: &'m [u32],
    /// By id: its [`TokenKind`] as a number.
    kinds: &'m [u8],
    /// Ids by text.
    texts: Slots<'m>,
    /// The user-defined tokens.
    user: Markers,
    /// The control tokens and the unknown one too.
    special: Markers,
    /// Bytes of the longest text.
    pub(super) longest: usize,
}

/// A vocabulary whose kinds may still change.
pub(super) struct VocabBuilder<'m> {
    strings: &'m [u8],
    starts: &'m [u32],
    kinds: &'m mut [u8],
    texts: Slots<'m>,
    longest: usize,
}

impl<'m> VocabBuilder<'m> {
    /// Reads tokens and kinds.
    pub(super) fn new(gguf: &Gguf<'m>, model: &Open<'m, Model>) -> Result<Self, TokenizerError> {
        let tokens = tokens(gguf)?;
        let starts = model.alloc::<u32>(tokens.len())?;
        let kinds = model.alloc::<u8>(tokens.len())?;
        let slots = model.alloc::<u32>(slots_for(tokens.len()))?;
        read_kinds(gguf, kinds)?;

        let strings = tokens.raw();
        let mut texts = SlotsBuilder::new(slots);
        let mut longest = 0;
        let mut end = 0;
        for (id, text) in tokens.strings().into_iter().flatten().enumerate() {
            longest = longest.max(checked_len(id, text)?);
            let start = end + LENGTH_BYTES;
            end = start + text.len();
            starts[id] = start as u32; // the header is shorter than 4 GiB
            if text.is_empty() {
                continue; // has an id, but is never found
            }
            let hash = TextHash::of(text.iter().copied()).mixed();
            let is = |other: u32| text_at(strings, starts[other as usize]) == text;
            match texts.insert(hash, id as u32, is) {
                Ok(None) => {}
                Ok(Some(first)) => {
                    return Err(TokenizerError::DuplicateToken {
                        id: id as u32,
                        first,
                    });
                }
                Err(_) => return Err(TokenizerError::HashCollisions),
            }
        }
        Ok(VocabBuilder {
            strings,
            starts,
            kinds,
            texts: texts.finish(),
            longest,
        })
    }

    /// The token with that text.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        let text = text.iter().copied();
        let hash = TextHash::of(text.clone());
        find(self.strings, self.starts, self.texts, hash, text)
    }

    /// Makes a token structure, whatever the file says it is.
    pub(super) fn make_control(&mut self, id: u32) {
        if let Some(kind) = self.kinds.get_mut(id as usize) {
            *kind = TokenKind::Control as u8;
        }
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The vocabulary, its kinds settled.
    pub(super) fn finish(self) -> Result<Vocab<'m>, TokenizerError> {
        let mut vocab = Vocab {
            strings: self.strings,
            starts: self.starts,
            kinds: self.kinds,
            texts: self.texts,
            user: Markers::default(),
            special: Markers::default(),
            longest: self.longest,
        };
        vocab.user = Markers::of(&vocab, false)?;
        vocab.special = Markers::of(&vocab, true)?;
        let is_bad =
            |&id: &u32| vocab.kind(id) == TokenKind::Byte && byte_of_name(vocab.text(id)).is_none();
        match (0..vocab.len() as u32).find(is_bad) {
            Some(id) => Err(TokenizerError::BadByteToken { id }),
            None => Ok(vocab),
        }
    }
}

impl<'m> Vocab<'m> {
    /// Bytes of the Model scope that the index takes.
    pub(super) fn bytes(gguf: &Gguf<'_>) -> Result<usize, TokenizerError> {
        let tokens = tokens(gguf)?.len();
        Ok(rounded(tokens * size_of::<u32>())
            + rounded(tokens)
            + rounded(slots_for(tokens) * size_of::<u32>()))
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The text of a token as the file has it; empty for an id that is none.
    pub(super) fn text(&self, id: u32) -> &'m [u8] {
        match self.starts.get(id as usize) {
            Some(&start) => text_at(self.strings, start),
            None => &[],
        }
    }

    /// What a token is for.
    pub(super) fn kind(&self, id: u32) -> TokenKind {
        match self.kinds.get(id as usize) {
            Some(&kind) => TokenKind::from_number(kind.into()),
            None => TokenKind::Undefined,
        }
    }

    /// The token with that text, whatever its kind.
    pub(super) fn find(&self, text: impl Iterator<Item = u8> + Clone) -> Option<u32> {
        self.find_hashed(TextHash::of(text.clone()), text)
    }

    fn find_hashed(&self, hash: TextHash, text: impl Iterator<Item = u8> + Clone) -> Option<u32> {
        find(self.strings, self.starts, self.texts, hash, text)
    }

    /// Whether text may become the token: structure comes from templates alone.
    pub(super) fn is_textual(&self, id: u32) -> bool {
        use TokenKind::{Byte, Control, Unknown};
        !matches!(self.kind(id), Control | Unknown | Byte)
    }

    /// The token with that text, if text may become it.
    pub(super) fn find_text(&self, text: impl Iterator<Item = u8> + Clone) -> Option<u32> {
        self.find(text).filter(|&id| self.is_textual(id))
    }

    /// What the tokens look like that [`find_marker`](Self::find_marker) finds.
    pub(super) fn markers(&self, with_specials: bool) -> &Markers {
        match with_specials {
            true => &self.special,
            false => &self.user,
        }
    }

    /// The token with that text, whose hash is given, if it is cut out of a text before anything
    /// else.
    pub(super) fn find_marker(
        &self,
        hash: TextHash,
        text: &[u8],
        with_specials: bool,
    ) -> Option<u32> {
        self.find_hashed(hash, text.iter().copied())
            .filter(|&id| self.kind(id).is_marker(with_specials))
    }
}

fn find(
    strings: &[u8],
    starts: &[u32],
    texts: Slots<'_>,
    hash: TextHash,
    text: impl Iterator<Item = u8> + Clone,
) -> Option<u32> {
    texts.find(hash.mixed(), |id| {
        let other = text_at(strings, starts[id as usize]);
        other.iter().copied().eq(text.clone())
    })
}

/// The string that starts at `start`, its length in the eight bytes before it.
fn text_at(strings: &[u8], start: u32) -> &[u8] {
    let start = start as usize;
    strings
        .get(start - LENGTH_BYTES..start)
        .and_then(|length| length.try_into().ok())
        .map(|length| u64::from_le_bytes(length) as usize)
        .and_then(|length| strings.get(start..start.checked_add(length)?))
        .unwrap_or_default() // cannot be: the array was checked whole
}

/// The texts of the tokens.
pub(super) fn tokens<'m>(gguf: &Gguf<'m>) -> Result<Array<'m>, TokenizerError> {
    let tokens = string_array(gguf, TOKENS)?;
    match tokens.len() {
        1..=TOKENS_MAX => Ok(tokens),
        found => Err(TokenizerError::TokenCount { found }),
    }
}

/// An array of strings, which the file must have.
pub(super) fn string_array<'m>(
    gguf: &Gguf<'m>,
    key: &'static str,
) -> Result<Array<'m>, TokenizerError> {
    let array = gguf.array(key)?.ok_or(TokenizerError::MissingKey { key })?;
    if array.strings().is_none() {
        return Err(TokenizerError::Gguf(GgufError::WrongType {
            key: Name::new(key),
            wanted: "an array of strings",
        }));
    }
    Ok(array)
}

fn checked_len(id: usize, text: &[u8]) -> Result<usize, TokenizerError> {
    match text.len() {
        0..=TOKEN_BYTES_MAX => Ok(text.len()),
        bytes => Err(TokenizerError::TokenTooLong {
            id: id as u32,
            bytes,
            limit: TOKEN_BYTES_MAX,
        }),
    }
}

/// The byte that a token of kind byte stands for: 0x41 for `<0x41>`.
pub(super) fn byte_of_name(text: &[u8]) -> Option<u8> {
    let [b'<', b'0', b'x', high, low, b'>'] = *text else {
        return None;
    };
    let digit = |byte| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Fills in the kinds; without the key all tokens are text.
fn read_kinds(gguf: &Gguf<'_>, kinds: &mut [u8]) -> Result<(), TokenizerError> {
    let Some(array) = gguf.array(KINDS)? else {
        kinds.fill(TokenKind::Normal as u8);
        return Ok(());
    };
    let numbers = array.integers().ok_or(GgufError::WrongType {
        key: Name::new(KINDS),
        wanted: "an array of integers",
    })?;
    check_length(KINDS, array.len(), kinds.len())?;
    kinds.fill(TokenKind::Undefined as u8);
    for (kind, number) in kinds.iter_mut().zip(numbers) {
        *kind = TokenKind::from_number(number) as u8;
    }
    Ok(())
}

/// Refuses an array that has not one element for each token.
pub(super) fn check_length(
    key: &'static str,
    found: usize,
    tokens: usize,
) -> Result<(), TokenizerError> {
    if found != tokens {
        return Err(TokenizerError::LengthMismatch { key, found, tokens });
    }
    Ok(())
}
