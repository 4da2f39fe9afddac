//! What a file says, made fit for a terminal: shortened, and with control characters escaped.

use crate::gguf::{Array, Value};
use crate::log::escape;
use core::fmt::{self, Display, Formatter, Write};

/// Characters of a string that are shown.
const TEXT_CHARS: usize = 60;
/// Characters of a string in an array that are shown.
const ELEMENT_CHARS: usize = 16;
/// Elements of an array that are shown.
const ELEMENTS: usize = 6;

/// A value, shortened.
pub struct Shown<'a>(pub Value<'a>);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => write_text(f, text, TEXT_CHARS),
            Value::Array(array) => write_array(f, &array),
            value => write_element(f, value),
        }
    }
}

fn write_array(f: &mut Formatter<'_>, array: &Array<'_>) -> fmt::Result {
    f.write_char('[')?;
    for (index, value) in array.values().take(ELEMENTS).enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write_element(f, value)?;
    }
    f.write_str(if array.len() > ELEMENTS {
        ", ...]"
    } else {
        "]"
    })
}

fn write_element(f: &mut Formatter<'_>, value: Value<'_>) -> fmt::Result {
    match value {
        Value::Integer(number) => write!(f, "{number}"),
        Value::F32(number) => write!(f, "{number:?}"),
        Value::F64(number) => write!(f, "{number:?}"),
        Value::Bool(truth) => write!(f, "{truth}"),
        Value::String(text) => {
            f.write_char('\'')?;
            write_text(f, text, ELEMENT_CHARS)?;
            f.write_char('\'')
        }
        Value::Array(_) => Ok(()), // there are none in arrays
    }
}

/// The first characters of a text that need not be UTF-8; what is no character is U+FFFD.
fn write_text(f: &mut Formatter<'_>, text: &[u8], chars_max: usize) -> fmt::Result {
    let chars = text.utf8_chunks().flat_map(|chunk| {
        let invalid = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        chunk.valid().chars().chain(invalid)
    });
    for (index, character) in chars.enumerate() {
        if index == chars_max {
            return f.write_str("...");
        }
        f.write_char(character)?;
    }
    Ok(())
}

/// A text, shortened.
pub struct Text<'a>(pub &'a [u8]);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_text(f, self.0, TEXT_CHARS)
    }
}

/// With control characters escaped, for a terminal. JSON has escapes of its own.
pub struct Plain<T>(pub T);

impl<T: Display> Display for Plain<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'f, 'b>(&'f mut Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '"' => self.0.write_char('"'),
            _ => escape(self.0, character),
        })
    }
}
