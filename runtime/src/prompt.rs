//! The prompt's text, from the command line, a file and stdin.
//!
//! `-p` comes first; the text of `-f`, or else of a piped stdin, follows after a blank line. The
//! text is read before memory is planned, so its size is part of the plan.

use crate::error::Error;
use crate::load;
use crate::options::{Options, UsageError};
use crate::sys::{self, Errno, Fd, FileKind};
use crate::tokenizer::STOPS_MAX;
use core::ffi::CStr;
use heapless::Vec;

/// Bytes of a prompt at most.
pub const PROMPT_BYTES_MAX: usize = 64 << 20;

/// Text in the making, at the front of a reservation whose pages come into being as it grows.
struct Text {
    buffer: &'static mut [u8],
    len: usize,
}

impl Text {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let room = self.buffer.get_mut(self.len..self.len + bytes.len());
        room.ok_or(Error::PromptTooLarge {
            bytes_max: PROMPT_BYTES_MAX,
        })?
        .copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Appends a text flag's value, escapes resolved if they are wanted.
    fn push_flag(&mut self, text: &CStr, escape: bool) -> Result<(), Error> {
        let start = self.len;
        self.push(text.to_bytes())?;
        if escape {
            self.len = start + unescape(&mut self.buffer[start..self.len]);
        }
        Ok(())
    }

    /// Appends a file to its end. The buffer has a byte more than a prompt may have, which tells
    /// one that ends there from one that goes on.
    fn push_file(&mut self, file: Fd, path: &'static CStr) -> Result<(), Error> {
        loop {
            let count = read_some(file, path, &mut self.buffer[self.len..])?;
            self.len += count;
            if self.len > PROMPT_BYTES_MAX {
                return Err(Error::PromptTooLarge {
                    bytes_max: PROMPT_BYTES_MAX,
                });
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    fn finish(self) -> &'static [u8] {
        &self.buffer[..self.len]
    }
}

/// Reads what there is of a file, and waits until there is something; 0 at its end.
///
/// # Errors
/// It cannot be read, or a signal came.
pub fn read_some(file: Fd, path: &'static CStr, buffer: &mut [u8]) -> Result<usize, Error> {
    load::check_signal()?; // a read that begins now would not be interrupted
    loop {
        let read = file.read(buffer);
        load::check_signal()?;
        match read {
            Ok(count) => return Ok(count),
            Err(Errno::INTERRUPTED) => {}
            Err(Errno::WOULD_BLOCK) => file.wait_to_read(),
            Err(errno) => return Err(Error::File { path, errno }),
        }
    }
}

/// Opens a file to read it; a pipe is waited for.
///
/// # Errors
/// It cannot be opened, or a signal came.
pub fn open(path: &'static CStr) -> Result<Fd, Error> {
    Fd::open(path).map_err(|errno| Error::of_file(path, errno))
}

/// Reads the prompt.
///
/// # Errors
/// There is none, it cannot be read, or it is too large.
pub fn read(options: &Options) -> Result<&'static [u8], Error> {
    let buffer = sys::reserve_sparse(PROMPT_BYTES_MAX + 1).map_err(Error::System)?;
    let mut text = Text { buffer, len: 0 };
    if let Some(prompt) = options.prompt {
        text.push_flag(prompt, options.escape)?;
    }
    if let Some((file, path)) = source(options)? {
        let joint = text.len;
        if joint > 0 {
            text.push(b"\n\n")?;
        }
        let start = text.len;
        text.push_file(file, path)?;
        if text.len == start {
            text.len = joint; // nothing was joined
        }
    }
    Ok(text.finish())
}

/// A text flag's value, escapes resolved if they are wanted.
///
/// # Errors
/// The kernel gives no memory.
fn flag_text(text: &CStr, escape: bool) -> Result<&'static [u8], Error> {
    let buffer = sys::reserve(text.count_bytes()).map_err(Error::System)?;
    let mut copy = Text { buffer, len: 0 };
    copy.push_flag(text, escape)?;
    Ok(copy.finish())
}

/// The system prompt of `-sys`, escapes resolved.
///
/// # Errors
/// The kernel gives no memory.
pub fn system_text(options: &Options) -> Result<Option<&'static [u8]>, Error> {
    let text = options.system;
    text.map(|text| flag_text(text, options.escape)).transpose()
}

/// The texts of `-r`, escapes resolved.
///
/// # Errors
/// The kernel gives no memory.
pub fn stop_texts(options: &Options) -> Result<Vec<&'static [u8], STOPS_MAX>, Error> {
    let texts = options.stops.iter();
    texts.map(|text| flag_text(text, options.escape)).collect()
}

/// The file that the prompt continues with, if any. A piped stdin is read unless `-f` names
/// another source; a terminal or `/dev/null` is not waited for when `-p` is there.
fn source(options: &Options) -> Result<Option<(Fd, &'static CStr)>, Error> {
    const STDIN_NAME: &CStr = c"stdin";
    match options.prompt_file {
        Some(path) if path == c"-" => Ok(Some((sys::STDIN, STDIN_NAME))),
        Some(path) => Ok(Some((open(path)?, path))),
        None if options.prompt.is_some() => {
            let piped = matches!(sys::STDIN.kind(), Ok(FileKind::Regular | FileKind::Stream));
            Ok(piped.then_some((sys::STDIN, STDIN_NAME)))
        }
        None if sys::STDIN.is_terminal() => Err(UsageError::MissingPrompt.into()),
        None => Ok(Some((sys::STDIN, STDIN_NAME))),
    }
}

/// Resolves escapes in place, and returns the new length. An unknown escape stands as it is.
pub fn unescape(text: &mut [u8]) -> usize {
    let (mut from, mut to) = (0, 0);
    while from < text.len() {
        let meant = match (text[from], text.get(from + 1)) {
            (b'\\', Some(b'n')) => Some(b'\n'),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(&byte @ (b'\\' | b'"' | b'\''))) => Some(byte),
            _ => None,
        };
        text[to] = meant.unwrap_or(text[from]);
        from += if meant.is_some() { 2 } else { 1 };
        to += 1;
    }
    to
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_are_resolved_once() {
        let mut text = *br#"a\nb\\n\q\"\"#;
        let len = unescape(&mut text);
        assert_eq!(&text[..len], b"a\nb\\n\\q\"\\");
    }
}
