//! The families of chat templates, each a row: how a dialog is written, and how its template is
//! told from others. A new family is a new row.
//!
//! A row's marks are chosen so that a template that does something else for plain dialogs is not
//! taken for the family: of the 70 templates that llama.cpp 0c1e57098 carries, those that are taken
//! write what the row writes.

use Part::{Eos, Said, Text, Token};

use super::{Bytes, ChatError, Piece};
use crate::gguf::Name;
use crate::tokenizer::Tokenizer;

/// What a template has that writes the date, which is not known here.
const DATES: [&str; 2] = ["strftime_now", "date_string"];

/// A part of a turn.
#[derive(Clone, Copy)]
pub(super) enum Part {
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
pub(super) enum System {
    /// In a turn of its own.
    Turn(&'static [Part]),
    /// Before what the user says first, with this between them.
    BeforeUser(&'static str),
}

/// How a family writes a dialog.
pub(super) struct Family {
    pub(super) name: &'static str,
    /// All are in a template of the family.
    marks: &'static [&'static str],
    /// None is in a template of the family.
    not_marks: &'static [&'static str],
    /// Whether templates of the family write BOS themselves, as a rule.
    pub(super) writes_bos: bool,
    /// Whether white space around what is said is left out.
    pub(super) trims: bool,
    /// What stands before and after a default system prompt in a template, on a line of its own.
    default_system: Option<(&'static str, &'static str)>,
    pub(super) system: System,
    pub(super) user: &'static [Part],
    pub(super) assistant: &'static [Part],
    /// What opens the answer.
    pub(super) answer: &'static [Part],
}

/// The families that are known. The first whose marks fit counts.
#[rustfmt::skip]
static FAMILIES: [Family; 4] = [
    Family {
        // SmolLM2, Qwen2.5, Qwen3 and many others.
        name: "chatml",
        marks: &["<|im_start|>", "<|im_end|>"],
        not_marks: &[
            // Phi-4 has a third marker; SmolLM3 writes a system turn of its own making; Hermes needs
            // tools; others open the answer with a thought.
            "<|im_sep|>", "## Metadata", "function calling AI model", "<think></think>",
            "<think>\\n' }}", "<think>\\n\" }}", "<think>\n' }}", "<think>\n\" }}"],
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
        // Llama 3. Those of 3.1 and later write the date, others need functions.
        name: "llama3",
        marks: &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        not_marks: &["Cutting Knowledge Date", "function"],
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

/// The names of all families.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.name)
}

impl Family {
    pub(super) fn named(name: &[u8]) -> Result<&'static Family, ChatError> {
        FAMILIES
            .iter()
            .find(|family| family.name.as_bytes() == name)
            .ok_or(ChatError::UnknownName {
                name: Name::from_bytes(name),
            })
    }

    /// The family of a template.
    pub(super) fn of(template: &[u8]) -> Option<&'static Family> {
        let has = |mark: &&str| find(template, mark.as_bytes()).is_some();
        FAMILIES
            .iter()
            .find(|family| family.marks.iter().all(has) && !family.not_marks.iter().any(has))
            .filter(|_| !DATES.iter().any(has))
    }

    /// Whether a template writes BOS.
    pub(super) fn template_writes_bos(template: &[u8]) -> bool {
        find(template, b"bos_token").is_some()
    }

    /// The system prompt that a template of this family has for dialogs without one, as a string in
    /// the template has it: escaped.
    pub(super) fn default_system<'m>(&self, template: &'m [u8]) -> Option<&'m [u8]> {
        let (before, after) = self.default_system?;
        default_system(template, before, after)
    }

    /// The most markers and parts that a turn has, and the most bytes of the template's own text.
    pub(super) fn turn_max(&self) -> (usize, usize) {
        let system = match self.system {
            System::Turn(parts) => (parts.len(), text_bytes(parts)),
            System::BeforeUser(between) => (0, between.len()),
        };
        let turns = [self.user, self.assistant, self.answer];
        turns.iter().fold(system, |(parts, bytes), turn| {
            (parts.max(turn.len()), bytes.max(text_bytes(turn)))
        })
    }

    /// Calls `write` with the pieces of a turn.
    pub(super) fn turn<'t, const N: usize>(
        &self,
        tokenizer: &Tokenizer<'_>,
        parts: &'static [Part],
        said: [Bytes<'t>; N],
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
                Text(text) => write(Piece::Text(Bytes::plain(text.as_bytes()))),
                Said => {
                    let said = said.take().into_iter().flatten();
                    said.map(Piece::Text).for_each(&mut *write);
                }
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

/// Where `part` first stands in `text`.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
