//! Chat templates: dialogs to tokens.
//!
//! A model's file has its template as a program in Jinja (`tokenizer.chat_template`). That program
//! is not run. The families in use are rows of a table ([`FAMILIES`]); the template in the file
//! chooses one by what it contains, and gives the default system prompt where it has one. A template
//! of no known family is an error, never a guess, as is one that writes the date.
//!
//! A rendered dialog is markers and text. A marker is a token, by its text; what is between two
//! markers is tokenised as one text, in which nothing is ever taken for a marker. For dialogs
//! without such look-alikes the tokens are those of the reference (llama.cpp: the template rendered,
//! then tokenised with special tokens parsed). BOS stands once, at the start.

use core::fmt;

use crate::arena::{ArenaError, Forward, Open, rounded};
use crate::gguf::{Gguf, GgufError, Name};
use crate::tokenizer::{Segment, Tokenizer, TokenizerError};

const TEMPLATE: &str = "tokenizer.chat_template";
/// What a template has that writes the date, which is not known here.
const DATES: [&str; 2] = ["strftime_now", "date_string"];

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

/// A part of a turn.
#[derive(Clone, Copy)]
enum Part {
    /// A marker.
    Token(&'static str),
    /// The marker that ends a text, whatever it is called.
    Eos,
    /// Text of the template.
    Text(&'static str),
    /// What is said.
    Said,
}

/// Where a family puts the system prompt.
enum System {
    /// In a turn of its own.
    Turn(&'static [Part]),
    /// Before what the user says first, with this between them.
    BeforeUser(&'static str),
}

/// How a family writes a dialog.
struct Family {
    name: &'static str,
    /// All are in a template of the family.
    marks: &'static [&'static str],
    /// None is in a template of the family.
    not_marks: &'static [&'static str],
    /// Whether the template writes BOS itself.
    writes_bos: bool,
    /// Whether white space around what is said is left out.
    trims: bool,
    /// What stands before and after a default system prompt in a template, on a line of its own.
    default_system: Option<(&'static str, &'static str)>,
    system: System,
    user: &'static [Part],
    assistant: &'static [Part],
    /// What opens the answer.
    answer: &'static [Part],
}

use Part::{Eos, Said, Text, Token};

/// The families that are known. The first whose marks fit counts.
#[rustfmt::skip]
static FAMILIES: [Family; 4] = [
    Family {
        // SmolLM2, Qwen2.5, Qwen3 and many others.
        name: "chatml",
        marks: &["<|im_start|>", "<|im_end|>"],
        not_marks: &["<|im_sep|>"],
        writes_bos: false,
        trims: false,
        default_system: Some(("<|im_start|>system", "<|im_end|>")),
        system: System::Turn(&[
            Token("<|im_start|>"), Text("system\n"), Said, Token("<|im_end|>"), Text("\n")]),
        user: &[Token("<|im_start|>"), Text("user\n"), Said, Token("<|im_end|>"), Text("\n")],
        assistant: &[
            Token("<|im_start|>"), Text("assistant\n"), Said, Token("<|im_end|>"), Text("\n")],
        answer: &[Token("<|im_start|>"), Text("assistant\n")],
    },
    Family {
        // Llama 3. Those of 3.1 and later write the date.
        name: "llama3",
        marks: &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        not_marks: &[],
        writes_bos: true,
        trims: true,
        default_system: None,
        system: System::Turn(&[
            Token("<|start_header_id|>"), Text("system"), Token("<|end_header_id|>"),
            Text("\n\n"), Said, Token("<|eot_id|>")]),
        user: &[
            Token("<|start_header_id|>"), Text("user"), Token("<|end_header_id|>"),
            Text("\n\n"), Said, Token("<|eot_id|>")],
        assistant: &[
            Token("<|start_header_id|>"), Text("assistant"), Token("<|end_header_id|>"),
            Text("\n\n"), Said, Token("<|eot_id|>")],
        answer: &[
            Token("<|start_header_id|>"), Text("assistant"), Token("<|end_header_id|>"),
            Text("\n\n")],
    },
    Family {
        // Zephyr, TinyLlama: the roles are text, only the end of a turn is a token.
        name: "zephyr",
        marks: &["<|user|>", "message['content'] + eos_token }}", "'<|assistant|>' }}"],
        not_marks: &[],
        writes_bos: false,
        trims: false,
        default_system: None,
        system: System::Turn(&[Text("<|system|>\n"), Said, Eos, Text("\n")]),
        user: &[Text("<|user|>\n"), Said, Eos, Text("\n")],
        assistant: &[Text("<|assistant|>\n"), Said, Eos, Text("\n")],
        answer: &[Text("<|assistant|>\n")],
    },
    Family {
        // Gemma 2 and 3: no system turn.
        name: "gemma",
        marks: &["<start_of_turn>", "<end_of_turn>"],
        not_marks: &[],
        writes_bos: true,
        trims: true,
        default_system: None,
        system: System::BeforeUser("\n\n"),
        user: &[
            Token("<start_of_turn>"), Text("user\n"), Said, Token("<end_of_turn>"), Text("\n")],
        assistant: &[
            Token("<start_of_turn>"), Text("model\n"), Said, Token("<end_of_turn>"), Text("\n")],
        answer: &[Token("<start_of_turn>"), Text("model\n")],
    },
];

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
                names(f)
            }
            ChatError::UnknownName { name } => {
                write!(f, "no chat template is called {name}; there are auto none")?;
                names(f)
            }
            ChatError::MissingToken { family, token } => write!(
                f,
                "chat template {family}: the vocabulary has no {token}; --raw takes the text as it is"
            ),
            ChatError::NeedsTemplate => f.write_str(
                "a system prompt or a dialog needs a chat template: give one with --chat NAME",
            ),
            ChatError::Gguf(error) => error.fmt(f),
            ChatError::Tokenizer(error) => error.fmt(f),
        }
    }
}

fn names(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    FAMILIES
        .iter()
        .try_for_each(|family| write!(f, " {}", family.name))
}

/// How a dialog becomes a prompt.
#[derive(Clone, Copy)]
pub struct Chat<'m> {
    /// None: the text is the prompt.
    family: Option<&'static Family>,
    /// The system prompt where none is given, with escapes, as a string in the template has it.
    default_system: Option<&'m [u8]>,
}

/// A piece of a rendered dialog. Pieces of text that follow one another are one text.
enum Piece<'t> {
    Token(u32),
    Text(&'t [u8]),
    /// Text as a string in the template has it.
    Escaped(&'t [u8]),
}

impl<'m> Chat<'m> {
    /// Chooses the template.
    ///
    /// # Errors
    /// The file's template or the name asked for is not known, or the vocabulary lacks a marker.
    pub fn choose(
        gguf: &Gguf<'m>,
        tokenizer: &Tokenizer<'_>,
        choice: ChatChoice<'_>,
    ) -> Result<Self, ChatError> {
        let template = gguf.string(TEMPLATE)?;
        let family = match (choice, template) {
            (ChatChoice::Raw, _) | (ChatChoice::Auto, None) => None,
            (ChatChoice::Auto, Some(template)) => {
                Some(Family::of(template).ok_or(ChatError::UnknownTemplate)?)
            }
            (ChatChoice::Named(name), _) => Some(Family::named(name)?),
        };
        let default_system = family.zip(template).and_then(|(family, template)| {
            let (before, after) = family.default_system?;
            default_system(template, before, after)
        });
        let chat = Chat {
            family,
            default_system,
        };
        // Whatever a dialog may need is there, or this is the time to say so.
        let all =
            [Role::System, Role::User, Role::Assistant].map(|role| Message { role, text: b"" });
        if family.is_some() {
            chat.render(tokenizer, &all, &mut |_| {})?;
        }
        Ok(chat)
    }

    /// The family's name; `none` if the text is the prompt.
    pub fn name(&self) -> &'static str {
        self.family.map_or("none", |family| family.name)
    }

    /// Bytes of the Forward scope that [`encode`](Self::encode) takes at most for a dialog of so
    /// many messages and bytes, whatever the template.
    ///
    /// # Errors
    /// The template's key has another type.
    pub fn encode_bytes(
        gguf: &Gguf<'_>,
        messages: usize,
        bytes: usize,
    ) -> Result<usize, ChatError> {
        let sizes = FAMILIES.iter().flat_map(|family| {
            let system = match family.system {
                System::Turn(parts) => (parts.len(), text_bytes(parts)),
                System::BeforeUser(between) => (0, between.len()),
            };
            let turns = [family.user, family.assistant, family.answer];
            let turns = turns.map(|turn| (turn.len(), text_bytes(turn)));
            turns.into_iter().chain([system])
        });
        let (parts, text) = sizes.fold((0, 0), |most, size| {
            (most.0.max(size.0), most.1.max(size.1))
        });
        // The system prompt and the opening of the answer count as turns too; BOS is a token.
        let turns = messages.saturating_add(2);
        let tokens = turns.saturating_mul(parts).saturating_add(1);
        // A default system prompt is a part of the template.
        let template = gguf.string(TEMPLATE)?.map_or(0, <[u8]>::len);
        let text = turns
            .saturating_mul(text)
            .saturating_add(bytes)
            .saturating_add(template);
        // Every text may have a space before it, and every marker is a token.
        let encoded = text.saturating_add(tokens.saturating_mul(2));
        Ok(rounded(text) // the texts, end to end
            + 2 * rounded(tokens.saturating_mul(size_of::<u32>())) // markers, and where they are
            + Tokenizer::encode_bytes(encoded))
    }

    /// The prompt for one question, with the system prompt given or else the template's own.
    ///
    /// # Errors
    /// As for [`encode_dialog`](Self::encode_dialog).
    pub fn encode<'f>(
        &self,
        tokenizer: &Tokenizer<'_>,
        system: Option<&[u8]>,
        user: &[u8],
        scratch: &Open<'f, Forward>,
    ) -> Result<&'f mut [u32], ChatError> {
        let user = Message {
            role: Role::User,
            text: user,
        };
        match system {
            None => self.encode_dialog(tokenizer, &[user], scratch),
            Some(text) => {
                let role = Role::System;
                self.encode_dialog(tokenizer, &[Message { role, text }, user], scratch)
            }
        }
    }

    /// The prompt for a dialog: its turns, then what opens the answer.
    ///
    /// # Errors
    /// Without a template the dialog is more than one text; a text is too long; the scope is too
    /// small.
    pub fn encode_dialog<'f>(
        &self,
        tokenizer: &Tokenizer<'_>,
        messages: &[Message<'_>],
        scratch: &Open<'f, Forward>,
    ) -> Result<&'f mut [u32], ChatError> {
        let (mut bytes, mut tokens) = (0, 0);
        self.render(tokenizer, messages, &mut |piece| match piece {
            Piece::Token(_) => tokens += 1,
            Piece::Text(text) => bytes += text.len(),
            Piece::Escaped(text) => bytes += unescaped(text).count(),
        })?;
        let texts = scratch.alloc::<u8>(bytes)?;
        let markers = scratch.alloc::<u32>(tokens)?;
        // By marker: where the text before it ends.
        let ends = scratch.alloc::<u32>(tokens)?;
        (bytes, tokens) = (0, 0);
        let mut write = |byte| {
            texts[bytes] = byte;
            bytes += 1;
            bytes
        };
        let mut end = 0;
        self.render(tokenizer, messages, &mut |piece| match piece {
            Piece::Token(id) => {
                markers[tokens] = id;
                ends[tokens] = end as u32;
                tokens += 1;
            }
            Piece::Text(text) => text.iter().for_each(|&byte| end = write(byte)),
            Piece::Escaped(text) => unescaped(text).for_each(|byte| end = write(byte)),
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
        Ok(tokenizer.encode_all(segments, scratch)?)
    }

    /// Calls `write` with the pieces of the prompt, in order.
    fn render<'t>(
        &'t self,
        tokenizer: &Tokenizer<'_>,
        messages: &'t [Message<'t>],
        write: &mut dyn FnMut(Piece<'t>),
    ) -> Result<(), ChatError> {
        let writes_bos = self.family.is_some_and(|family| family.writes_bos);
        if let Some(bos) = tokenizer
            .bos()
            .filter(|_| tokenizer.adds_bos() || writes_bos)
        {
            write(Piece::Token(bos));
        }
        let Some(family) = self.family else {
            let [message] = messages else {
                return Err(ChatError::NeedsTemplate);
            };
            write(Piece::Text(message.text));
            return Ok(());
        };
        let has_system = messages
            .first()
            .is_some_and(|first| first.role == Role::System);
        if let (Some(text), System::Turn(parts), false) =
            (self.default_system, &family.system, has_system)
        {
            family.turn(tokenizer, parts, [Piece::Escaped(text)], write)?;
        }
        // The system prompt that waits for what the user says.
        let mut waiting: Option<&[u8]> = None;
        for message in messages {
            let text = match family.trims {
                true => trimmed(message.text),
                false => message.text,
            };
            let parts = match (message.role, &family.system) {
                (Role::System, System::BeforeUser(_)) => {
                    waiting = Some(text);
                    continue;
                }
                (Role::System, System::Turn(parts)) => parts,
                (Role::User, System::BeforeUser(between)) if waiting.is_some() => {
                    let said = [waiting.take().unwrap_or_default(), between.as_bytes(), text];
                    family.turn(tokenizer, family.user, said.map(Piece::Text), write)?;
                    continue;
                }
                (Role::User, _) => family.user,
                (Role::Assistant, _) => family.assistant,
            };
            family.turn(tokenizer, parts, [Piece::Text(text)], write)?;
        }
        family.turn(tokenizer, family.answer, [], write)
    }
}

impl Family {
    fn named(name: &[u8]) -> Result<&'static Family, ChatError> {
        FAMILIES
            .iter()
            .find(|family| family.name.as_bytes() == name)
            .ok_or(ChatError::UnknownName {
                name: Name::from_bytes(name),
            })
    }

    /// The family of a template.
    fn of(template: &[u8]) -> Option<&'static Family> {
        let has = |mark: &&str| find(template, mark.as_bytes()).is_some();
        FAMILIES
            .iter()
            .find(|family| family.marks.iter().all(has) && !family.not_marks.iter().any(has))
            .filter(|_| !DATES.iter().any(has))
    }

    /// Calls `write` with the pieces of a turn.
    fn turn<'t, const N: usize>(
        &self,
        tokenizer: &Tokenizer<'_>,
        parts: &'static [Part],
        said: [Piece<'t>; N],
        write: &mut dyn FnMut(Piece<'t>),
    ) -> Result<(), ChatError> {
        let family = self.name;
        let missing = |token| ChatError::MissingToken { family, token };
        let mut said = Some(said);
        for part in parts {
            match *part {
                Token(text) => {
                    let id = tokenizer.special(text.as_bytes());
                    write(Piece::Token(id.ok_or(missing(text))?));
                }
                Eos => write(Piece::Token(tokenizer.eos().ok_or(missing("EOS"))?)),
                Text(text) => write(Piece::Text(text.as_bytes())),
                Said => said.take().into_iter().flatten().for_each(&mut *write),
            }
        }
        Ok(())
    }
}

/// Bytes of a turn's own text.
fn text_bytes(parts: &[Part]) -> usize {
    parts
        .iter()
        .map(|part| match part {
            Text(text) => text.len(),
            Token(_) | Eos | Said => 0,
        })
        .sum()
}

/// The system prompt that a template has for dialogs without one: text that stands whole in a
/// string between `before` and a line end, and `after`.
fn default_system<'m>(template: &'m [u8], before: &str, after: &str) -> Option<&'m [u8]> {
    let mut rest = template;
    while let Some(at) = find(rest, before.as_bytes()) {
        rest = &rest[at + before.len()..];
        let Some(text) = rest.strip_prefix(b"\n").or(rest.strip_prefix(b"\\n")) else {
            continue;
        };
        let mut end = 0;
        while end < text.len() {
            let left = &text[end..];
            if left.starts_with(after.as_bytes()) {
                return Some(&text[..end]);
            }
            // A quote or a brace ends the string: what follows is put together from parts. And
            // stopping at the next opening keeps the time linear.
            if b"'\"{}".contains(&left[0]) || left.starts_with(before.as_bytes()) {
                break;
            }
            end += if left[0] == b'\\' { 2 } else { 1 };
        }
    }
    None
}

/// What a string in a template says: a backslash and a character stand for another one.
fn unescaped(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut bytes = text.iter().copied();
    core::iter::from_fn(move || match bytes.next()? {
        b'\\' => Some(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            other => other,
        }),
        byte => Some(byte),
    })
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

/// Where `part` first stands in `text`.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
