//! The families of chat templates, each a row: how a dialog is written, and how its template is
//! told from others. A new family is a new row.
//!
//! A row's marks are chosen so that a template that does something else for plain dialogs is not
//! taken for the family: of the 104 templates that llama.cpp 0c1e57098 carries with its tests, those
//! that are taken write what the row writes, but for the system prompt that Phi-3 mini's drops.

use Part::{Bos, Eos, Mark, Said, Text, Token};

use super::{Bytes, ChatError, Piece};
use crate::gguf::Name;
use crate::tokenizer::Tokenizer;

/// What a template has that writes the date, which is not known here.
const DATES: [&str; 2] = ["strftime_now", "date_string"];

/// A part of a turn.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// A marker, without which the family cannot be told from text.
    Token(&'static str),
    /// A marker that some vocabularies of the family have no token for: text there.
    Mark(&'static str),
    /// The marker that starts a text, unless it has just started.
    Bos,
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
    /// Likewise, but nowhere if it is empty.
    TurnUnlessEmpty(&'static [Part]),
    /// Before what the user says first, with these before and between them.
    BeforeFirst(&'static str, &'static str),
    /// Before what the user says last, with this between them.
    BeforeLast(&'static str),
}

/// Where white space around what is said is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trims {
    Nowhere,
    Everywhere,
    /// But for the system prompt.
    Dialog,
    /// Likewise, but what is put before the user's words counts as theirs.
    Joined,
    /// What the assistant says.
    Answers,
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
    pub(super) trims: Trims,
    /// What may stand before a default system prompt in a template, and what then stands after it.
    default_system: (&'static [&'static str], &'static str),
    pub(super) system: System,
    pub(super) user: &'static [Part],
    pub(super) assistant: &'static [Part],
    /// What opens the answer.
    pub(super) answer: &'static [Part],
}

/// No default system prompt, whatever a template has.
const NO_DEFAULT: (&[&str], &str) = (&[], "");

/// The families that are known. The first whose marks fit counts.
#[rustfmt::skip]
static FAMILIES: [Family; 20] = [
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
        trims: Trims::Nowhere,
        default_system: (&["<|im_start|>system\\n", "<|im_start|>system\n"], "<|im_end|>"),
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
        trims: Trims::Everywhere,
        default_system: NO_DEFAULT,
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
        // Zephyr, TinyLlama.
        name: "zephyr",
        marks: &["<|user|>", "message['content'] + eos_token }}", "'<|assistant|>' }}"],
        not_marks: &[],
        writes_bos: false,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[Mark("<|system|>"), Text("\n"), Said, Eos, Text("\n")]),
        user: &[Mark("<|user|>"), Text("\n"), Said, Eos, Text("\n")],
        assistant: &[Mark("<|assistant|>"), Text("\n"), Said, Eos, Text("\n")],
        answer: &[Mark("<|assistant|>"), Text("\n")],
    },
    Family {
        // Gemma 2 and 3: no system turn.
        name: "gemma",
        marks: &["<start_of_turn>", "<end_of_turn>"],
        not_marks: &[],
        writes_bos: true,
        trims: Trims::Dialog,
        default_system: NO_DEFAULT,
        system: System::BeforeFirst("", "\n\n"),
        user: &[
            Token("<start_of_turn>"), Text("user\n"), Said, Token("<end_of_turn>"), Text("\n")],
        assistant: &[
            Token("<start_of_turn>"), Text("model\n"), Said, Token("<end_of_turn>"), Text("\n")],
        answer: &[Token("<start_of_turn>"), Text("model\n")],
    },
    Family {
        // Phi-4.
        name: "phi4",
        marks: &["<|im_start|>", "<|im_sep|>", "<|im_end|>"],
        not_marks: &["<think>"],
        writes_bos: false,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[
            Token("<|im_start|>"), Text("system"), Mark("<|im_sep|>"), Said, Token("<|im_end|>")]),
        user: &[
            Token("<|im_start|>"), Text("user"), Mark("<|im_sep|>"), Said, Token("<|im_end|>")],
        assistant: &[
            Token("<|im_start|>"), Text("assistant"), Mark("<|im_sep|>"), Said,
            Token("<|im_end|>")],
        answer: &[Token("<|im_start|>"), Text("assistant"), Mark("<|im_sep|>")],
    },
    Family {
        // Phi-3 and 3.5.
        name: "phi3",
        marks: &["<|user|>", "<|end|>", "<|assistant|>"],
        not_marks: &["tools", "<think>"],
        writes_bos: false,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::TurnUnlessEmpty(&[
            Mark("<|system|>"), Text("\n"), Said, Token("<|end|>"), Text("\n")]),
        user: &[Mark("<|user|>"), Text("\n"), Said, Token("<|end|>"), Text("\n")],
        assistant: &[Mark("<|assistant|>"), Text("\n"), Said, Token("<|end|>"), Text("\n")],
        answer: &[Mark("<|assistant|>"), Text("\n")],
    },
    Family {
        // Llama 2.
        name: "llama2",
        marks: &["bos_token + '[INST] '", "<<SYS>>", "content.strip() + ' [/INST]'",
                 "' '  + content.strip() + ' ' + eos_token"],
        not_marks: &["true == true"], // a default system prompt of which parts are left out
        writes_bos: true,
        trims: Trims::Joined,
        default_system: NO_DEFAULT,
        system: System::BeforeFirst("<<SYS>>\n", "\n<</SYS>>\n\n"),
        user: &[Bos, Text("[INST] "), Said, Text(" [/INST]")],
        assistant: &[Text(" "), Said, Text(" "), Eos],
        answer: &[],
    },
    Family {
        // Mistral 7B 0.1 and 0.2, as first published.
        name: "mistral",
        marks: &["'[INST] ' + message['content'] + ' [/INST]'", "message['content'] + eos_token"],
        not_marks: &["<<SYS>>", "system_message", "eos_token + ' '", "' ' + message['content']"],
        writes_bos: true,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::BeforeFirst("", "\n\n"),
        user: &[Text("[INST] "), Said, Text(" [/INST]")],
        assistant: &[Said, Eos],
        answer: &[],
    },
    Family {
        // Mistral 7B 0.2, Mixtral.
        name: "mistral-v1",
        marks: &["' [INST] ' + system_message", "' [INST] ' + message['content'] + ' [/INST]'",
                 "' ' + message['content'] + eos_token"],
        not_marks: &[],
        writes_bos: true,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::BeforeFirst("", "\n\n"),
        user: &[Text(" [INST] "), Said, Text(" [/INST]")],
        assistant: &[Text(" "), Said, Eos],
        answer: &[],
    },
    Family {
        // Mistral 7B 0.3, Mistral Large 2407.
        name: "mistral-v3",
        marks: &["loop.last and system_message is defined", "\"[INST] \" + system_message",
                 "\" \" + message[\"content\"]|trim + eos_token"],
        not_marks: &[],
        writes_bos: true,
        trims: Trims::Answers,
        default_system: NO_DEFAULT,
        system: System::BeforeLast("\n\n"),
        user: &[Mark("[INST]"), Text(" "), Said, Mark("[/INST]")],
        assistant: &[Text(" "), Said, Eos],
        answer: &[],
    },
    Family {
        // Mistral Nemo.
        name: "mistral-v3-tekken",
        marks: &["loop.last and system_message is defined", "\"[INST]\" + system_message",
                 "message[\"content\"] + eos_token"],
        not_marks: &[],
        writes_bos: true,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::BeforeLast("\n\n"),
        user: &[Mark("[INST]"), Said, Mark("[/INST]")],
        assistant: &[Said, Eos],
        answer: &[],
    },
    Family {
        // Mistral Large 2411.
        name: "mistral-v7",
        marks: &["'[SYSTEM_PROMPT] ' + ", "'[INST] ' + ", "'[/INST]'"],
        not_marks: &[],
        writes_bos: true,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[Mark("[SYSTEM_PROMPT]"), Text(" "), Said, Mark("[/SYSTEM_PROMPT]")]),
        user: &[Mark("[INST]"), Text(" "), Said, Mark("[/INST]")],
        assistant: &[Text(" "), Said, Eos],
        answer: &[],
    },
    Family {
        // Mistral Small 2501 and later; their own templates write the date.
        name: "mistral-v7-tekken",
        marks: &["'[SYSTEM_PROMPT]' + ", "'[INST]' + ", "'[/INST]'"],
        not_marks: &["tools"],
        writes_bos: true,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[Mark("[SYSTEM_PROMPT]"), Said, Mark("[/SYSTEM_PROMPT]")]),
        user: &[Mark("[INST]"), Said, Mark("[/INST]")],
        assistant: &[Said, Eos],
        answer: &[],
    },
    Family {
        // Command R.
        name: "command-r",
        marks: &["<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>",
                 "content.strip() + '<|END_OF_TURN_TOKEN|>'"],
        not_marks: &["tools", "documents", "<|START_RESPONSE|>"],
        writes_bos: true,
        trims: Trims::Dialog,
        default_system: NO_DEFAULT,
        system: System::Turn(&[
            Token("<|START_OF_TURN_TOKEN|>"), Token("<|SYSTEM_TOKEN|>"), Said,
            Token("<|END_OF_TURN_TOKEN|>")]),
        user: &[
            Token("<|START_OF_TURN_TOKEN|>"), Token("<|USER_TOKEN|>"), Said,
            Token("<|END_OF_TURN_TOKEN|>")],
        assistant: &[
            Token("<|START_OF_TURN_TOKEN|>"), Token("<|CHATBOT_TOKEN|>"), Said,
            Token("<|END_OF_TURN_TOKEN|>")],
        answer: &[Token("<|START_OF_TURN_TOKEN|>"), Token("<|CHATBOT_TOKEN|>")],
    },
    Family {
        // DeepSeek Coder.
        name: "deepseek",
        marks: &["### Instruction:\\n", "### Response:", "<|EOT|>"],
        not_marks: &[],
        writes_bos: true,
        trims: Trims::Nowhere,
        default_system: (&["not ns.found -%}\n{{'"], "'}}"),
        system: System::Turn(&[Said]),
        user: &[Text("### Instruction:\n"), Said, Text("\n")],
        assistant: &[Text("### Response:\n"), Said, Text("\n"), Mark("<|EOT|>"), Text("\n")],
        answer: &[Text("### Response:\n")],
    },
    Family {
        // DeepSeek LLM and V2.
        name: "deepseek2",
        marks: &["'User: ' + message['content'] + ", "'Assistant: ' + message['content'] + eos_token",
                 "{{ 'Assistant:' }}"],
        not_marks: &["### "],
        writes_bos: true,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[Said, Text("\n\n")]),
        user: &[Text("User: "), Said, Text("\n\n")],
        assistant: &[Text("Assistant: "), Said, Eos],
        answer: &[Text("Assistant:")],
    },
    Family {
        // Granite 3.
        name: "granite",
        marks: &["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"],
        not_marks: &["Granite", "documents"],
        writes_bos: false,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[
            Mark("<|start_of_role|>"), Text("system"), Mark("<|end_of_role|>"), Said,
            Mark("<|end_of_text|>"), Text("\n")]),
        user: &[
            Mark("<|start_of_role|>"), Text("user"), Mark("<|end_of_role|>"), Said,
            Mark("<|end_of_text|>"), Text("\n")],
        assistant: &[
            Mark("<|start_of_role|>"), Text("assistant"), Mark("<|end_of_role|>"), Said,
            Mark("<|end_of_text|>"), Text("\n")],
        answer: &[Mark("<|start_of_role|>"), Text("assistant"), Mark("<|end_of_role|>")],
    },
    Family {
        // Falcon 3, OLMo 2.
        name: "falcon3",
        marks: &["'<|system|>\\n' + message['content'] + '\\n'",
                 "'<|user|>\\n' + message['content'] + '\\n'", "+ message['content'] + eos_token",
                 "'<|assistant|>\\n' }}"],
        not_marks: &["tools"],
        writes_bos: false,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[Mark("<|system|>"), Text("\n"), Said, Text("\n")]),
        user: &[Mark("<|user|>"), Text("\n"), Said, Text("\n")],
        assistant: &[Mark("<|assistant|>"), Text("\n"), Said, Eos, Text("\n")],
        answer: &[Mark("<|assistant|>"), Text("\n")],
    },
    Family {
        // GLM-Edge.
        name: "glmedge",
        marks: &["<|system|>\n{{ item['content'] }}", "<|user|>\n{{ item['content'] }}",
                 "{% endfor %}<|assistant|>"],
        not_marks: &[],
        writes_bos: false,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[Mark("<|system|>"), Text("\n"), Said]),
        user: &[Mark("<|user|>"), Text("\n"), Said],
        assistant: &[Mark("<|assistant|>"), Text("\n"), Said],
        answer: &[Mark("<|assistant|>")],
    },
    Family {
        // Vicuna.
        name: "vicuna",
        marks: &["'USER: ' + message['content'] + '\n'",
                 "'ASSISTANT: ' + message['content'] + '</s>\n'"],
        not_marks: &["SYSTEM: "],
        writes_bos: false,
        trims: Trims::Nowhere,
        default_system: NO_DEFAULT,
        system: System::Turn(&[Said, Text("\n\n")]),
        user: &[Text("USER: "), Said, Text("\n")],
        assistant: &[Text("ASSISTANT: "), Said, Mark("</s>"), Text("\n")],
        answer: &[Text("ASSISTANT:")],
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

    /// The family of a template. One of more than [`TEMPLATE_BYTES_MAX`] is of none.
    pub(super) fn of(template: &[u8]) -> Option<&'static Family> {
        if template.len() > TEMPLATE_BYTES_MAX {
            return None;
        }
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
        let (befores, after) = self.default_system;
        let mut found = befores
            .iter()
            .map(|before| default_system(template, before, after));
        found.find_map(|text| text)
    }

    /// The most markers and parts that a turn has, and the most bytes of the template's own text.
    pub(super) fn turn_max(&self) -> (usize, usize) {
        let system = match self.system {
            System::Turn(parts) | System::TurnUnlessEmpty(parts) => {
                (parts.len(), text_bytes(parts))
            }
            System::BeforeFirst(before, after) => (0, before.len() + after.len()),
            System::BeforeLast(after) => (0, after.len()),
        };
        let turns = [self.user, self.assistant, self.answer];
        turns.iter().fold(system, |(parts, bytes), turn| {
            (parts.max(turn.len()), bytes.max(text_bytes(turn)))
        })
    }

    /// Calls `write` with the pieces of a turn. `is_start`: nothing but BOS is before it.
    pub(super) fn turn<'t>(
        &self,
        tokenizer: &Tokenizer<'_>,
        parts: &'static [Part],
        said: &[Bytes<'t>],
        is_start: bool,
        write: &mut dyn FnMut(Piece<'t>),
    ) -> Result<(), ChatError> {
        let family = self.name;
        let missing = |token| ChatError::MissingToken { family, token };
        for part in parts {
            match *part {
                Token(text) => {
                    let id = tokenizer.special(text.as_bytes());
                    write(Piece::Token(id.ok_or(missing(text))?));
                }
                Mark(text) => write(match tokenizer.special(text.as_bytes()) {
                    Some(id) => Piece::Token(id),
                    None => Piece::Text(Bytes::plain(text.as_bytes())),
                }),
                Bos if is_start => {}
                Bos => write(Piece::Token(tokenizer.bos().ok_or(missing("BOS"))?)),
                Eos => write(Piece::Token(tokenizer.eos().ok_or(missing("EOS"))?)),
                Text(text) => write(Piece::Text(Bytes::plain(text.as_bytes()))),
                Said => said.iter().copied().map(Piece::Text).for_each(&mut *write),
            }
        }
        Ok(())
    }
}

/// Bytes of a template that are searched, some fifty times, and may be a system prompt: more than
/// twice as many as the longest in use have, which are below 50 KB.
const TEMPLATE_BYTES_MAX: usize = 128 << 10;

/// Bytes of a turn's own text.
fn text_bytes(parts: &[Part]) -> usize {
    parts
        .iter()
        .map(|part| match part {
            Text(text) | Mark(text) => text.len(),
            Token(_) | Bos | Eos | Said => 0,
        })
        .sum()
}

/// The system prompt that a template has for dialogs without one: text that stands whole in a string
/// between `before` and `after`.
fn default_system<'m>(template: &'m [u8], before: &str, after: &str) -> Option<&'m [u8]> {
    let mut rest = template;
    while let Some(at) = find(rest, before.as_bytes()) {
        rest = &rest[at + before.len()..];
        let mut end = 0;
        while end < rest.len() {
            let left = &rest[end..];
            if left.starts_with(after.as_bytes()) {
                return Some(&rest[..end]);
            }
            let escape = usize::from(left[0] == b'\\');
            // A quote or a brace ends the string: what follows is put together from parts. And
            // stopping at the next opening, be it behind a backslash, keeps the time linear.
            if b"'\"{}".contains(&left[0]) || left[escape..].starts_with(before.as_bytes()) {
                break;
            }
            end += 1 + escape;
        }
    }
    None
}

/// Where `part` first stands in `text`.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
