//! Log lines on stderr or in a file: one event a line, as text, as JSON or as defmt's frames, with
//! the same names. docs/logs.md lists them.
//!
//! [`event!`] is the one definition of an event: from it come the text, the JSON object, and the
//! format string that stays in the program's file while its number and the bare values go over the
//! wire. A line is put together in a fixed buffer and written by one call, so lines of two processes
//! on one terminal do not mix. Strings are escaped: they may come from a file. What does not fit is
//! cut, and the line still ends as it should.
//!
//! Of defmt it takes the encoding and the names of symbols, not the global logger: that is one
//! place for all threads, which would need a lock, and which could not say that a write failed.

mod interned;
mod line;
mod words;

pub use line::{Decimal, Line, Name};

pub(crate) use interned::interned;
pub(crate) use line::escape;

use crate::sys::{self, Fd, STDERR};
use core::fmt::Display;
pub(crate) use interned::Interned;

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// `rushlight load bytes=98362432 ms=51.20`
    Text,
    /// `{"event":"load","bytes":98362432,"ms":51.20}`
    Json,
    /// A frame of defmt 1, rzCOBS, for `defmt-print` and `cargo xtask log`.
    Defmt,
}

impl LogFormat {
    /// The format of this name.
    pub fn named(name: &[u8]) -> Option<LogFormat> {
        match name {
            b"text" => Some(LogFormat::Text),
            b"json" => Some(LogFormat::Json),
            b"defmt" => Some(LogFormat::Defmt),
            _ => None,
        }
    }
}

/// Where lines go.
#[derive(Clone, Copy)]
pub struct Log {
    /// The descriptor.
    pub fd: Fd,
    /// The format.
    pub format: LogFormat,
    /// Only what [`Log::always`] writes.
    pub quiet: bool,
    is_open: bool,
}

impl Log {
    /// A log that no flag has changed.
    pub const fn new(fd: Fd, format: LogFormat) -> Log {
        Log {
            fd,
            format,
            quiet: false,
            is_open: false,
        }
    }

    /// Says first, and once, which program's symbols read the frames to come, and sees to it that
    /// a terminal changes none of their bytes. Other formats need nothing.
    pub fn open(&mut self) {
        if self.format != LogFormat::Defmt || self.quiet || self.is_open {
            return;
        }
        self.is_open = true;
        if self.fd.is_terminal() {
            let _ = self.fd.pass_output_on(); // frames suffer, and say so to the reader
        }
        drop(Line::opening(self, OPENING).number("build", sys::build_id().unwrap_or(0)));
    }

    /// The log without `-q`: for what nobody may miss.
    pub fn always(&self) -> Log {
        Log {
            quiet: false,
            ..*self
        }
    }

    /// The `warning` line: what may be wrong.
    pub fn warning(&self, message: impl Display) {
        event!(self.always(), "warning", text message = message);
    }

    /// The `error` line: what went wrong, the exit code that stands for it, and how it ended.
    pub fn error(&self, message: impl Display, code: u8, finish: &str) {
        event!(
            self.always(),
            "error",
            text message = message,
            count code = code,
            text finish = finish,
        );
    }
}

impl Default for Log {
    fn default() -> Self {
        Log::new(STDERR, LogFormat::Text)
    }
}

/// What is first in the section, so number 1 in every build: one can tell another build's log.
const OPENING: Interned = interned!(
    section = ".defmt.opening",
    "println",
    "rushlight log build={=u64:016x}"
);

/// A [`Line`] of an event, which is written when it is dropped: the log, the event's name, and the
/// fields, each as `KIND NAME = VALUE`. A kind is a method of [`Line`].
macro_rules! event {
    ($log:expr, $event:literal $(, $kind:ident $name:ident = $value:expr)* $(,)?) => {{
        let format = $crate::log::interned!(
            "println", "rushlight ", $event, $($crate::log::format_of!($kind $name)),*
        );
        let line = $crate::log::Line::new(&$log, $event, format);
        $(let line = line.$kind(stringify!($name), $value);)*
        line
    }};
}

/// Adds fields to a line in a `more` of its [`event!`]: those that not every such line has.
macro_rules! fields {
    ($line:expr $(, $kind:ident $name:ident = $value:expr)* $(,)?) => {{
        let line = $line;
        $(let line = line.$kind($crate::log::name!($kind $name), $value);)*
        line
    }};
}

/// The name of a field that may be in a `more`, with the kind that it has there.
macro_rules! name {
    ($kind:ident $name:ident) => {
        $crate::log::Name::new(
            stringify!($name),
            $crate::log::interned!("write", $crate::log::format_of!($kind $name)),
        )
    };
}

/// A field in defmt's format strings: what the method of that name sends.
macro_rules! format_of {
    (number $name:ident) => {
        concat!(" ", stringify!($name), "={=u64}")
    };
    (count $name:ident) => {
        concat!(" ", stringify!($name), "={=u32}")
    };
    (maybe $name:ident) => {
        concat!(" ", stringify!($name), "={=u64}")
    };
    (signed $name:ident) => {
        concat!(" ", stringify!($name), "={=i64}")
    };
    (time $name:ident) => {
        concat!(" ", stringify!($name), "={=u32}.{=u8:02}")
    };
    (decimal $name:ident) => {
        concat!(" ", stringify!($name), "={=?}")
    };
    (text $name:ident) => {
        concat!(" ", stringify!($name), "={=__internal_FormatSequence}")
    };
    (more $name:ident) => {
        "{=__internal_FormatSequence}"
    };
}

pub(crate) use {event, fields, format_of, name};
