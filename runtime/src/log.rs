//! Log lines on stderr or in a file: one event a line, as text or as JSON, with the same names.
//!
//! A line is put together in a fixed buffer and written by one call, so lines of two processes on
//! one terminal do not mix. Strings are escaped: they may come from a file. What does not fit is
//! cut, and the line still ends as it should.

use crate::sys::{Errno, Fd, STDERR};
use core::fmt::{self, Write};

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// `rushlight load bytes=98362432 ms=51.20`
    Text,
    /// `{"event":"load","bytes":98362432,"ms":51.20}`
    Json,
}

/// Where lines go.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// The descriptor.
    pub fd: Fd,
    /// The format.
    pub format: LogFormat,
    /// Only errors.
    pub quiet: bool,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            fd: STDERR,
            format: LogFormat::Text,
            quiet: false,
        }
    }
}

impl Log {
    /// Starts a line. It is written when the returned value is dropped.
    pub fn event(&self, name: &'static str) -> Line {
        Line::new((!self.quiet).then_some(self.fd), self.format, name)
    }

    /// Starts a line that `-q` does not hold back.
    pub fn error(&self, name: &'static str) -> Line {
        Line::new(Some(self.fd), self.format, name)
    }
}

/// Room for the longest line; two bytes are kept for its end.
const LINE_BYTES: usize = 2048;
/// Room for one text of a line, so that a long one leaves the others theirs.
const TEXT_BYTES: usize = 512;

/// A line in the making.
pub struct Line {
    fd: Option<Fd>,
    format: LogFormat,
    buffer: [u8; LINE_BYTES],
    len: usize,
}

impl Line {
    fn new(fd: Option<Fd>, format: LogFormat, name: &'static str) -> Line {
        let mut line = Line {
            fd,
            format,
            buffer: [0; LINE_BYTES],
            len: 0,
        };
        match format {
            LogFormat::Text => line.put(format_args!("rushlight {name}")),
            LogFormat::Json => line.put(format_args!("{{\"event\":\"{name}\"")),
        }
        line
    }

    fn put(&mut self, args: fmt::Arguments<'_>) {
        // Writing to the buffer cuts, it does not fail.
        let _ = Cut(self).write_fmt(args);
    }

    fn name(&mut self, name: &str) {
        match self.format {
            LogFormat::Text => self.put(format_args!(" {name}=")),
            LogFormat::Json => self.put(format_args!(",\"{name}\":")),
        }
    }

    /// A whole number.
    #[must_use]
    pub fn number(mut self, name: &str, value: u64) -> Self {
        self.name(name);
        self.put(format_args!("{value}"));
        self
    }

    /// A number with two decimals; no number at all if it is not finite.
    #[must_use]
    pub fn decimal(self, name: &str, value: f64) -> Self {
        self.decimals(name, value, 2)
    }

    /// A number with so many decimals; no number at all if it is not finite.
    #[must_use]
    pub fn decimals(mut self, name: &str, value: f64, decimals: usize) -> Self {
        self.name(name);
        match (value.is_finite(), self.format) {
            (true, _) => self.put(format_args!("{value:.decimals$}")),
            (false, LogFormat::Text) => self.put(format_args!("-")),
            (false, LogFormat::Json) => self.put(format_args!("null")),
        }
        self
    }

    /// Text. It is quoted in JSON, and elsewhere if it would not read as one word.
    #[must_use]
    pub fn text(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.name(name);
        let mut word = IsWord(true);
        let _ = write!(word, "{value}");
        let quote = if self.format == LogFormat::Json || !word.0 {
            "\""
        } else {
            ""
        };
        self.put(format_args!("{quote}"));
        // Cutting is no failure.
        let room = TEXT_BYTES;
        let _ = write!(
            Escaped {
                line: &mut self,
                room
            },
            "{value}"
        );
        self.put(format_args!("{quote}"));
        self
    }

    /// A number, if there is one.
    #[must_use]
    pub fn maybe(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }
}

impl Line {
    /// Ends the line and writes it, for those who must know whether that went well.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write(mut self) -> Result<(), Errno> {
        self.end()
    }

    /// Writes the line once.
    fn end(&mut self) -> Result<(), Errno> {
        let end: &[u8] = match self.format {
            LogFormat::Text => b"\n",
            LogFormat::Json => b"}\n",
        };
        self.buffer[self.len..self.len + end.len()].copy_from_slice(end);
        match self.fd.take() {
            Some(fd) => fd.write_all(&self.buffer[..self.len + end.len()]),
            None => Ok(()),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A log that cannot be written has nowhere to say so; the text goes on.
        let _ = self.end();
    }
}

struct Cut<'l>(&'l mut Line);

impl fmt::Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let line = &mut *self.0;
        let room = LINE_BYTES - 2 - line.len;
        let len = text.len().min(room);
        line.buffer[line.len..line.len + len].copy_from_slice(&text.as_bytes()[..len]);
        line.len += len;
        Ok(())
    }
}

/// Text as a JSON string has it between its quotes: for a terminal this is safe too.
struct Escaped<'l> {
    line: &'l mut Line,
    room: usize,
}

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            // The longest escape takes six bytes.
            self.room = self.room.checked_sub(6).ok_or(fmt::Error)?;
            let before = self.line.len;
            escape(&mut Cut(self.line), character)?;
            self.room += 6 - (self.line.len - before);
        }
        Ok(())
    }
}

/// Writes a character as a JSON string has it between its quotes.
pub(crate) fn escape(out: &mut dyn Write, character: char) -> fmt::Result {
    match character {
        '"' | '\\' => write!(out, "\\{character}"),
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => write!(out, "\\u{:04x}", character as u32),
        _ => out.write_char(character),
    }
}

/// Whether a text has nothing that would end a word, or look like the start of another.
struct IsWord(bool);

impl fmt::Write for IsWord {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 &= !text.contains([' ', '"', '\\', '=']);
        Ok(())
    }
}
