//! The kernel's command line, as far as it speaks to Rushlight.
//!
//! ```text
//! console=ttyAMA0 rushlight.model=/dev/nvme0n1 rushlight.args="-c 2048 -sys 'Be brief.'"
//! ```
//!
//! Words are split and unquoted as the kernel does it (`next_arg` of its lib/cmdline.c): at white
//! space outside of double quotes; quotes around a whole word, or around the value after its first
//! `=`, are taken off. Within `rushlight.args`, words end at spaces outside of single quotes. Words
//! with a dot that are not Rushlight's belong to modules of the kernel, and are passed over.

use crate::sys::{self, Errno};
use core::ffi::CStr;
use core::fmt;
use heapless::Vec;

/// Where the file system with the model is mounted.
pub const MODEL_FOLDER: &CStr = c"/tmp/model";
/// Words of `rushlight.args` at most.
pub const WORDS_MAX: usize = 64;
/// The speed of a console for which none is given: what the boards' boot loaders set.
const BAUD_DEFAULT: &[u8] = b"115200";

/// What to do after an error that leaves nothing to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnError {
    /// Wait for somebody who types `poweroff` or `reboot`.
    #[default]
    Wait,
    /// Power off.
    PowerOff,
}

/// Where text goes and prompts come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Console {
    /// The device's path.
    pub device: &'static CStr,
    /// The same with its speed, as `--console` takes it.
    pub word: &'static CStr,
}

impl Console {
    /// Of a device that may be named without `/dev/`.
    fn new(device: &[u8], baud: &[u8], more: &[u8]) -> Result<Console, BootError> {
        let folder: &[u8] = match device.first() {
            Some(b'/') => b"",
            _ => b"/dev/",
        };
        Ok(Console {
            device: text(&[folder, device])?,
            word: text(&[folder, device, b":", baud, more])?,
        })
    }
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct BootLine {
    /// `rushlight.model`: a device or a file.
    pub model: Option<&'static CStr>,
    /// The path of the file system's file, where `rushlight.model` is `DEVICE:FILE`.
    pub file: Option<&'static CStr>,
    /// `rushlight.console`, or the last `console` of the kernel.
    pub console: Option<Console>,
    /// `rushlight.args`.
    pub words: Vec<&'static CStr, WORDS_MAX>,
    /// `rushlight.onerror`.
    pub on_error: OnError,
}

/// Why a system does not start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BootError {
    /// A word that starts like one of ours, and is none.
    UnknownWord(&'static CStr),
    /// A word without the value that it needs, or with another.
    BadValue(&'static CStr),
    /// More words in `rushlight.args` than there is room for.
    TooManyWords,
    /// The command line cannot be read.
    Unreadable(Errno),
    /// A file system of the kernel's own could not be mounted.
    Mount {
        /// Where.
        what: &'static CStr,
        /// What the kernel said.
        errno: Errno,
    },
    /// A device has no file system that the kernel can mount.
    NoFileSystem {
        /// Which.
        device: &'static CStr,
        /// What the kernel said.
        errno: Errno,
    },
    /// A device did not appear.
    NoDevice {
        /// Which.
        device: &'static CStr,
        /// How long it was waited for.
        seconds: u32,
    },
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BootError::UnknownWord(word) => {
                write!(f, "kernel command line: {} means nothing here", Shown(word))
            }
            BootError::BadValue(word) => {
                write!(f, "kernel command line: {}: wrong value", Shown(word))
            }
            BootError::TooManyWords => {
                write!(f, "rushlight.args: more than {WORDS_MAX} words")
            }
            BootError::Unreadable(errno) => write!(f, "/proc/cmdline: {errno}"),
            BootError::Mount { what, errno } => write!(f, "mount {}: {errno}", Shown(what)),
            BootError::NoFileSystem { device, errno } => {
                let device = Shown(device);
                write!(
                    f,
                    "{device}: no ext4 or vfat that this kernel mounts: {errno}"
                )
            }
            BootError::NoDevice { device, seconds } => {
                write!(f, "{} did not appear within {seconds} s", Shown(device))
            }
        }
    }
}

struct Shown(&'static CStr);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_bytes().escape_ascii())
    }
}

/// Makes a text that lasts, out of its parts.
fn text(parts: &[&[u8]]) -> Result<&'static CStr, BootError> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    // Zeroed: a NUL follows the last byte.
    let buffer = sys::reserve(len + 1).map_err(BootError::Unreadable)?;
    let mut rest = &mut *buffer;
    for part in parts {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = after;
    }
    // The kernel's command line holds no NUL; were it otherwise, the text would end there.
    CStr::from_bytes_until_nul(buffer).map_err(|_| BootError::Unreadable(Errno::NO_SPACE))
}

impl BootLine {
    /// Reads a command line to its end. What was read beside an error stays: how to end may be a
    /// part of it.
    ///
    /// # Errors
    /// The first word of ours that makes no sense.
    pub fn read(&mut self, line: &[u8]) -> Result<(), BootError> {
        let mut read = Ok(());
        let mut kernel_console = None;
        for (name, value) in Words(line) {
            let taken = match (name, value) {
                (b"console", Some(device)) => {
                    kernel_console = Some(device);
                    Ok(())
                }
                _ => match name.strip_prefix(b"rushlight.") {
                    Some(own) => self.take(own, name, value.unwrap_or_default()),
                    None => Ok(()),
                },
            };
            read = read.and(taken);
        }
        if let (None, Some(device)) = (self.console, kernel_console) {
            let (device, mode) = split_at(device, b',');
            let digits = mode.iter().take_while(|byte| byte.is_ascii_digit());
            let baud = match digits.count() {
                0 => BAUD_DEFAULT,
                count => &mode[..count],
            };
            self.console = Some(Console::new(device, baud, b"")?);
        }
        read
    }

    /// Takes a board's own console, unless the line names one or there is no such device.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn default_console(&mut self, value: &str) -> Result<(), BootError> {
        if self.console.is_some() {
            return Ok(());
        }
        self.take(b"console", b"console", value.as_bytes())?;
        self.console = self.console.filter(|console| sys::exists(console.device));
        Ok(())
    }

    fn take(&mut self, own: &[u8], name: &[u8], value: &[u8]) -> Result<(), BootError> {
        match own {
            b"model" if value.starts_with(b"/") => {
                let (device, file) = split_at(value, b':');
                self.model = Some(text(&[device])?);
                self.file = match file {
                    [] => None,
                    file => Some(text(&[MODEL_FOLDER.to_bytes(), b"/", file])?),
                };
            }
            b"console" if !value.is_empty() => {
                let (whole, more) = value.split_at(position(value, b','));
                let (device, baud) = split_at(whole, b':');
                let baud = if baud.is_empty() { BAUD_DEFAULT } else { baud };
                self.console = Some(Console::new(device, baud, more)?);
            }
            b"args" => {
                for word in Arguments(value) {
                    let word = text(&[word])?;
                    self.words.push(word).map_err(|_| BootError::TooManyWords)?;
                }
            }
            b"onerror" if value == b"wait" => self.on_error = OnError::Wait,
            b"onerror" if value == b"poweroff" => self.on_error = OnError::PowerOff,
            b"model" | b"console" | b"onerror" => {
                return Err(BootError::BadValue(text(&[name, b"=", value])?));
            }
            _ => return Err(BootError::UnknownWord(text(&[name])?)),
        }
        Ok(())
    }
}

/// Where the first such byte is, or the end.
fn position(text: &[u8], byte: u8) -> usize {
    let found = text.iter().position(|&other| other == byte);
    found.unwrap_or(text.len())
}

/// What is before the first such byte, and after it.
fn split_at(text: &[u8], byte: u8) -> (&[u8], &[u8]) {
    let (before, after) = text.split_at(position(text, byte));
    (before, after.get(1..).unwrap_or_default())
}

/// The words of a kernel's command line: each a name, and the value after its `=`, if it has one.
struct Words<'l>(&'l [u8]);

impl<'l> Iterator for Words<'l> {
    type Item = (&'l [u8], Option<&'l [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0 = self.0.trim_ascii_start();
        if self.0.is_empty() {
            return None;
        }
        let mut is_quoted = false;
        let end = self.0.iter().position(|&byte| {
            is_quoted ^= byte == b'"';
            byte.is_ascii_whitespace() && !is_quoted
        });
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        let whole = unquoted(word);
        Some(match whole.iter().position(|&byte| byte == b'=') {
            Some(equals) => (&whole[..equals], Some(unquoted(&whole[equals + 1..]))),
            None => (whole, None),
        })
    }
}

/// Without the double quote that it starts with, and the one at its end.
fn unquoted(text: &[u8]) -> &[u8] {
    match text.strip_prefix(b"\"") {
        Some(inner) => inner.strip_suffix(b"\"").unwrap_or(inner),
        None => text,
    }
}

/// The words of `rushlight.args`: split at spaces, but for those between single quotes around a
/// word.
struct Arguments<'l>(&'l [u8]);

impl<'l> Iterator for Arguments<'l> {
    type Item = &'l [u8];

    fn next(&mut self) -> Option<&'l [u8]> {
        self.0 = self.0.trim_ascii_start();
        let (&first, after) = self.0.split_first()?;
        let (word, rest) = match first {
            b'\'' => split_at(after, b'\''),
            _ => split_at(self.0, b' '),
        };
        self.0 = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (BootLine, Result<(), BootError>) {
        let mut boot = BootLine::default();
        let read = boot.read(line.as_bytes());
        (boot, read)
    }

    #[test]
    fn words_are_split_and_unquoted_as_the_kernel_does_it() {
        let line = b" quiet a=\"b c\" \"d=e f\"  g=h\"i j\"k=l \"m n\" o=\n";
        let expected: [(&[u8], Option<&[u8]>); 6] = [
            (b"quiet", None),
            (b"a", Some(b"b c")),
            (b"d", Some(b"e f")),
            (b"g", Some(b"h\"i j\"k=l")), // quotes inside of a value stay
            (b"m n", None),
            (b"o", Some(b"")),
        ];
        assert!(Words(line).eq(expected));
        assert!(Words(b"a=\"b c").eq([(b"a".as_slice(), Some(b"b c".as_slice()))]));
    }

    #[test]
    fn arguments_keep_what_single_quotes_hold_together() {
        let words = Arguments(b" -c 2048  -sys 'Be brief.' -p 'x");
        assert!(words.eq([&b"-c"[..], b"2048", b"-sys", b"Be brief.", b"-p", b"x"]));
    }

    #[test]
    fn whole_line_is_read() {
        let (boot, read) = read(
            "console=tty0 console=ttyAMA0,57600n8 nvme.poll=1 panic=-1 \
             rushlight.model=/dev/nvme0n1:models/a.gguf rushlight.onerror=poweroff \
             rushlight.args=\"-n 8 -sys 'Be brief.'\"",
        );
        assert_eq!(read, Ok(()));
        assert_eq!(boot.model, Some(c"/dev/nvme0n1"));
        assert_eq!(boot.file, Some(c"/tmp/model/models/a.gguf"));
        let console = boot.console.expect("a console");
        assert_eq!(
            (console.device, console.word),
            (c"/dev/ttyAMA0", c"/dev/ttyAMA0:57600")
        );
        assert_eq!(boot.words[..], [c"-n", c"8", c"-sys", c"Be brief."]);
        assert_eq!(boot.on_error, OnError::PowerOff);
    }

    #[test]
    fn own_console_counts_more_than_the_kernels() {
        for (line, console) in [
            (
                "rushlight.console=ttyS0 console=ttyAMA1",
                c"/dev/ttyS0:115200",
            ),
            (
                "console=ttyAMA1 rushlight.console=/dev/ttyS0:9600,crlf",
                c"/dev/ttyS0:9600,crlf",
            ),
            ("rushlight.console=ttyS0,echo", c"/dev/ttyS0:115200,echo"),
            ("console=ttyS0", c"/dev/ttyS0:115200"),
        ] {
            let found = read(line).0.console.map(|console| console.word);
            assert_eq!(found, Some(console), "{line}");
        }
        assert_eq!(read("quiet").0.console, None);
    }

    #[test]
    fn boards_console_counts_if_none_is_named_and_it_is_there() {
        for (line, board, console) in [
            ("quiet", "null:57600", Some(c"/dev/null:57600")),
            ("console=ttyS0", "null:57600", Some(c"/dev/ttyS0:115200")),
            ("quiet", "tty-of-another-kernel:57600", None),
        ] {
            let mut boot = read(line).0;
            assert_eq!(boot.default_console(board), Ok(()));
            assert_eq!(boot.console.map(|console| console.word), console, "{line}");
        }
    }

    #[test]
    fn wrong_words_of_ours_are_named_and_the_rest_is_read() {
        let (boot, wrong) = read("rushlight.modle=/dev/a rushlight.onerror=poweroff");
        assert_eq!(wrong, Err(BootError::UnknownWord(c"rushlight.modle")));
        assert_eq!(boot.on_error, OnError::PowerOff);
        for line in [
            "rushlight.model=nvme0n1",
            "rushlight.onerror=x",
            "rushlight.console=",
        ] {
            assert!(
                matches!(read(line).1, Err(BootError::BadValue(_))),
                "{line}"
            );
        }
        let mut line = [b' '; 16 + 2 * (WORDS_MAX + 1)];
        line[..16].copy_from_slice(b"rushlight.args=\"");
        for byte in line[16..].iter_mut().step_by(2) {
            *byte = b'x';
        }
        let mut boot = BootLine::default();
        assert_eq!(boot.read(&line), Err(BootError::TooManyWords));
        assert_eq!(boot.words.len(), WORDS_MAX);
    }
}
