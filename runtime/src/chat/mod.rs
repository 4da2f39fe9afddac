//! Chat templates: dialogs to tokens.
//!
//! A model's file has its template as a program in Jinja (`tokenizer.chat_template`). That program
//! is not run. The families in use are rows of a table (`family`); the template in the file chooses
//! one by what it contains, and gives the default system prompt where it has one. A template of no
//! known family is an error, never a guess, as is one that writes the date.
//!
//! A rendered dialog is markers and text. A marker is a token, by its text; what is between two
//! markers is tokenised as one text, in which nothing is ever taken for a marker. For dialogs
//! without such look-alikes the tokens are those of the reference (llama.cpp: the template is
//! rendered, then tokenised with special tokens parsed). BOS stands once, at the start.

mod error;
mod family;

pub use error::ChatError;

use crate::arena::{Forward, Open, rounded};
use crate::gguf::Gguf;
use crate::tokenizer::{Extent, Segment, TEXT_BYTES_MAX, Tokenizer, TokenizerError};
use family::{Family, System, Trims};

const TEMPLATE: &str = "tokenizer.chat_template";

/// Who says something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Says how to answer.
    System,
    /// Asks.
    User,
    /// Answers: the model.
    Assistant,
}

/// What somebody says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'t> {
    /// Who.
    pub role: Role,
    /// What; any bytes.
    pub text: &'t [u8],
}

/// Which template is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChatChoice<'n> {
    /// The one in the file; none if it has none.
    Auto,
    /// None: the text is the prompt.
    Raw,
    /// That of a family.
    Named(&'n [u8]),
}

impl<'n> ChatChoice<'n> {
    /// What `--chat NAME` means.
    pub fn from_name(name: &'n [u8]) -> Self {
        match name {
            b"auto" => ChatChoice::Auto,
            b"none" => ChatChoice::Raw,
            _ => ChatChoice::Named(name),
        }
    }
}

/// How a dialog becomes a prompt.
#[derive(Clone, Copy)]
pub struct Chat<'m> {
    /// None: the text is the prompt.
    family: Option<&'static Family>,
    /// Whether a prompt starts with BOS even if the vocabulary does not ask for it.
    writes_bos: bool,
    /// The system prompt where none is given, with escapes, as a string in the template has it.
    default_system: Option<&'m [u8]>,
}

/// A piece of a rendered dialog. Pieces of text that follow one another are one text.
enum Piece<'t> {
    Token(u32),
    Text(Bytes<'t>),
}

/// The bytes of a text.
#[derive(Clone, Copy)]
struct Bytes<'t> {
    rest: &'t [u8],
    /// Whether it stands as in a string of the template: a backslash and a character stand for
    /// another one.
    is_escaped: bool,
}

impl<'t> Bytes<'t> {
    fn plain(text: &'t [u8]) -> Self {
        Bytes {
            rest: text,
            is_escaped: false,
        }
    }

    fn escaped(text: &'t [u8]) -> Self {
        Bytes {
            rest: text,
            is_escaped: true,
        }
    }
}

impl Iterator for Bytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = match self.rest {
            [b'\\', b'n', rest @ ..] if self.is_escaped => (b'\n', rest),
            [b'\\', b't', rest @ ..] if self.is_escaped => (b'\t', rest),
            [b'\\', byte, rest @ ..] if self.is_escaped => (*byte, rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        self.rest = rest;
        Some(byte)
    }
}

impl<'m> Chat<'m> {
    /// Chooses the template.
    ///
    /// # Errors
    /// The file's template or the name asked for is not known.
    pub fn choose(gguf: &Gguf<'m>, choice: ChatChoice<'_>) -> Result<Self, ChatError> {
        let template = gguf.string(TEMPLATE)?;
        let family = match (choice, template) {
            (ChatChoice::Raw, _) | (ChatChoice::Auto, None) => None,
            (ChatChoice::Auto, Some(template)) => {
                Some(Family::of(template).ok_or(ChatError::UnknownTemplate)?)
            }
            (ChatChoice::Named(name), _) => Some(Family::named(name)?),
        };
        // What a template says holds for its own family.
        let own = family.zip(template).filter(|(family, template)| {
            Family::of(template).is_some_and(|other| core::ptr::eq(*family, other))
        });
        Ok(Chat {
            family,
            writes_bos: match own {
                Some((_, template)) => Family::template_writes_bos(template),
                None => family.is_some_and(|family| family.writes_bos),
            },
            default_system: own.and_then(|(family, template)| family.default_system(template)),
        })
    }

    /// Checks that the vocabulary has whatever a dialog may need.
    ///
    /// # Errors
    /// It lacks a marker.
    pub fn check(&self, tokenizer: &Tokenizer<'_>) -> Result<(), ChatError> {
        let all =
            [Role::System, Role::User, Role::Assistant].map(|role| Message { role, text: b"" });
        match self.family {
            Some(_) => self.render(tokenizer, &all, &mut |_| {}),
            None => Ok(()),
        }
    }

    /// The family's name; `none` if the text is the prompt.
    pub fn name(&self) -> &'static str {
        self.family.map_or("none", |family| family.name)
    }

    /// Whether there is a template at all.
    pub fn is_template(&self) -> bool {
        self.family.is_some()
    }

    /// Bytes of the Forward scope that [`encode_dialog`](Self::encode_dialog) takes at most for a
    /// dialog of so many messages. `texts`: that of what they say, one after another.
    pub fn encode_bytes(&self, messages: usize, texts: Extent) -> usize {
        let (parts, turn_bytes) = self.family.map_or((0, 0), Family::turn_max);
        // The system prompt and the opening of the answer count as turns too; BOS is a token.
        let turns = messages.saturating_add(2);
        let tokens = turns.saturating_mul(parts).saturating_add(1);
        let default_system = self.default_system.map_or(0, <[u8]>::len);
        let own = turns
            .saturating_mul(turn_bytes)
            .saturating_add(default_system);
        let texts = texts + Extent::whole(own);
        rounded(texts.text_bytes()) // end to end
            + 2 * rounded(tokens.saturating_mul(size_of::<u32>())) // markers and their places
            + texts.encode_bytes()
    }

    /// The tokens of the prompt for one question, with the system prompt given or else the template's
    /// own: a call of `sink` for each.
    ///
    /// # Errors
    /// As for [`encode_dialog`](Self::encode_dialog).
    pub fn encode(
        &self,
        tokenizer: &Tokenizer<'_>,
        system: Option<&[u8]>,
        user: &[u8],
        scratch: &Open<'_, Forward>,
        sink: &mut dyn FnMut(u32),
    ) -> Result<(), ChatError> {
        let user = Message {
            role: Role::User,
            text: user,
        };
        match system {
            None => self.encode_dialog(tokenizer, &[user], scratch, sink),
            Some(text) => {
                let role = Role::System;
                self.encode_dialog(tokenizer, &[Message { role, text }, user], scratch, sink)
            }
        }
    }

    /// The tokens of the prompt for a dialog: its turns, then what opens the answer. `sink` is called
    /// for each.
    ///
    /// # Errors
    /// Without a template the dialog is more than one text; a text is too long; the scope is too
    /// small.
    pub fn encode_dialog(
        &self,
        tokenizer: &Tokenizer<'_>,
        messages: &[Message<'_>],
        scratch: &Open<'_, Forward>,
        sink: &mut dyn FnMut(u32),
    ) -> Result<(), ChatError> {
        let (mut bytes, mut tokens) = (0, 0);
        self.render(tokenizer, messages, &mut |piece| match piece {
            Piece::Token(_) => tokens += 1,
            Piece::Text(text) => bytes += text.count(),
        })?;
        if bytes > TEXT_BYTES_MAX {
            return Err(TokenizerError::TextTooLong { bytes }.into());
        }
        let texts = scratch.alloc::<u8>(bytes)?;
        let markers = scratch.alloc::<u32>(tokens)?;
        // By marker: where the text before it ends.
        let ends = scratch.alloc::<u32>(tokens)?;
        (bytes, tokens) = (0, 0);
        self.render(tokenizer, messages, &mut |piece| match piece {
            Piece::Token(id) => {
                markers[tokens] = id;
                ends[tokens] = bytes as u32;
                tokens += 1;
            }
            Piece::Text(text) => text.for_each(|byte| {
                texts[bytes] = byte;
                bytes += 1;
            }),
        })?;

        let (texts, markers, ends) = (&*texts, &*markers, &*ends);
        let mut start = 0;
        let before = markers.iter().zip(ends).flat_map(move |(&id, &end)| {
            let text = &texts[start..end as usize];
            start = end as usize;
            [Segment::Text(text), Segment::Token(id)]
        });
        let last = ends.last().map_or(0, |&end| end as usize);
        let segments = before.chain([Segment::Text(&texts[last..])]);
        Ok(tokenizer.encode_each(segments, scratch, sink)?)
    }

    /// Calls `write` with the pieces of the prompt, in order.
    fn render<'t>(
        &'t self,
        tokenizer: &Tokenizer<'_>,
        messages: &'t [Message<'t>],
        write: &mut dyn FnMut(Piece<'t>),
    ) -> Result<(), ChatError> {
        let starts = tokenizer.adds_bos() || self.writes_bos;
        if let Some(bos) = tokenizer.bos().filter(|_| starts) {
            write(Piece::Token(bos));
        }
        let Some(family) = self.family else {
            let [message] = messages else {
                return Err(ChatError::NeedsTemplate);
            };
            write(Piece::Text(Bytes::plain(message.text)));
            return Ok(());
        };
        let mut is_start = true;
        let mut turn = |parts, said: &[Bytes<'t>]| {
            let is_start = core::mem::take(&mut is_start);
            family.turn(tokenizer, parts, said, is_start, write)
        };
        let own = self.default_system.filter(|_| {
            let is_system = |first: &Message<'_>| first.role == Role::System;
            !messages.first().is_some_and(is_system)
        });
        if let (Some(text), System::Turn(parts)) = (own, &family.system) {
            turn(parts, &[Bytes::escaped(text)])?;
        }
        let last_user = messages
            .iter()
            .rposition(|message| message.role == Role::User);
        // The system prompt that waits for what the user says.
        let mut waiting: Option<&[u8]> = None;
        for (at, message) in messages.iter().enumerate() {
            let text = match (family.trims, message.role) {
                (Trims::Everywhere, _)
                | (Trims::Dialog | Trims::Joined, Role::User | Role::Assistant)
                | (Trims::Answers, Role::Assistant) => trimmed(message.text),
                _ => message.text,
            };
            match (message.role, &family.system) {
                (Role::System, System::Turn(parts)) => turn(parts, &[Bytes::plain(text)])?,
                (Role::System, System::TurnUnlessEmpty(_)) if text.is_empty() => {}
                (Role::System, System::TurnUnlessEmpty(parts)) => {
                    turn(parts, &[Bytes::plain(text)])?;
                }
                (Role::System, _) => waiting = Some(text),
                (Role::User, System::BeforeFirst(before, after)) if waiting.is_some() => {
                    let system = waiting.take().unwrap_or_default();
                    let said = match family.trims {
                        Trims::Joined => message.text.trim_ascii_end(),
                        _ => text,
                    };
                    let after = match (family.trims, said) {
                        (Trims::Joined, b"") => after.trim_end(),
                        _ => after,
                    };
                    let said = [before.as_bytes(), system, after.as_bytes(), said];
                    turn(family.user, &said.map(Bytes::plain))?;
                }
                (Role::User, System::BeforeLast(after)) if Some(at) == last_user => {
                    let system = waiting.take().map(|system| [system, after.as_bytes()]);
                    let [system, after] = system.unwrap_or_default();
                    turn(family.user, &[system, after, text].map(Bytes::plain))?;
                }
                (Role::User, _) => turn(family.user, &[Bytes::plain(text)])?,
                (Role::Assistant, _) => turn(family.assistant, &[Bytes::plain(text)])?,
            }
        }
        turn(family.answer, &[])
    }
}

/// A text without the ASCII white space around it.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_said = |byte: &u8| !matches!(byte, 9..=13 | b' ');
    let start = text.iter().position(is_said).unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(is_said)
        .map_or(start, |last| last + 1);
    &text[start..end]
}
