//! A log line in the making.

use super::{Interned, Log, LogFormat, interned, words};
use crate::sys::{Errno, Fd};
use core::fmt::{self, Display, Write};
use defmt::Encoder;
use heapless::String;

/// Room for the longest line.
const LINE_BYTES: usize = 2048;
/// Room that is kept for a line's end.
const END_BYTES: usize = 2;
/// Room for one text of a line, so that a long one leaves the others theirs.
const TEXT_BYTES: usize = 512;
/// Room of a frame that no text takes, so that all numbers have theirs.
const NUMBERS_BYTES: usize = 640;
/// A word that is shorter is not worth beginning a second run of letters behind it.
const WORD_BYTES: usize = 8;

/// A part of a text, letter by letter.
const LETTERS: Interned = interned!("write", "{=str}");
/// A number with two decimals.
const HUNDREDTHS: Interned = interned!("write", "{=u32}.{=u8:02}");

/// The name of a field.
#[derive(Clone, Copy)]
pub struct Name {
    text: &'static str,
    /// What stands before the value in a frame, unless the event's own format has the name.
    piece: Option<Interned>,
}

impl Name {
    /// A name that may be in a `more`.
    pub(crate) const fn new(text: &'static str, piece: Interned) -> Name {
        Name {
            text,
            piece: Some(piece),
        }
    }

    /// The name itself.
    pub const fn text(self) -> &'static str {
        self.text
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Name {
        Name { text, piece: None }
    }
}

/// A number and how many decimals of it are shown: two, unless it says otherwise.
#[derive(Clone, Copy)]
pub struct Decimal {
    value: f64,
    places: usize,
}

impl From<f64> for Decimal {
    fn from(value: f64) -> Self {
        Decimal { value, places: 2 }
    }
}

impl From<(f64, usize)> for Decimal {
    fn from((value, places): (f64, usize)) -> Self {
        Decimal { value, places }
    }
}

/// A line in the making.
pub struct Line {
    fd: Option<Fd>,
    format: LogFormat,
    buffer: Buffer,
    encoder: Encoder,
}

impl Line {
    /// The line of an event, whose numbers and texts `interned` announces. [`event!`] sees to it
    /// that the fields to come are those.
    pub(crate) fn new(log: &Log, event: &'static str, interned: Interned) -> Line {
        let mut line = Line::empty(log);
        match line.format {
            LogFormat::Text => line.put(format_args!("rushlight {event}")),
            LogFormat::Json => line.put(format_args!("{{\"event\":\"{event}\"")),
            LogFormat::Defmt => line.start_frame(interned, false),
        }
        line
    }

    /// An object that is no event of the log: a row of what a command prints, and never a frame.
    pub(crate) fn row(fd: Fd, event: &'static str) -> Line {
        let mut line = Line::empty(&Log::new(fd, LogFormat::Json));
        line.put(format_args!("{{\"event\":\"{event}\""));
        line
    }

    /// The frame that comes before all others.
    pub(super) fn opening(log: &Log, interned: Interned) -> Line {
        let mut line = Line::empty(log);
        line.start_frame(interned, true);
        line
    }

    fn empty(log: &Log) -> Line {
        Line {
            fd: (!log.quiet).then_some(log.fd),
            format: log.format,
            buffer: Buffer {
                bytes: [0; LINE_BYTES],
                len: 0,
                is_cut: false,
            },
            encoder: Encoder::new(),
        }
    }

    /// A whole number.
    pub fn number(mut self, name: impl Into<Name>, value: u64) -> Self {
        self.put_number(name.into(), value);
        self
    }

    /// A whole number that has room in 32 bits; the greatest if it has not.
    pub fn count(mut self, name: impl Into<Name>, value: impl TryInto<u32>) -> Self {
        self.put_count(name.into(), value.try_into().unwrap_or(u32::MAX));
        self
    }

    /// A whole number, if there is one. Only in a `more`.
    pub fn maybe(self, name: impl Into<Name>, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }

    /// A whole number that may be less than zero, if there is one. Only in a `more`.
    pub fn signed(mut self, name: impl Into<Name>, value: Option<impl Into<i64>>) -> Self {
        let Some(value) = value.map(Into::into) else {
            return self;
        };
        self.name(name.into());
        match self.format {
            LogFormat::Text | LogFormat::Json => self.put(format_args!("{value}")),
            LogFormat::Defmt => self.send(&value.to_le_bytes()),
        }
        self
    }

    /// Nanoseconds, as milliseconds with two decimals.
    pub fn time(mut self, name: impl Into<Name>, ns: u64) -> Self {
        self.put_time(name.into(), ns);
        self
    }

    /// A number with decimals; no number at all if it is not finite.
    pub fn decimal(mut self, name: impl Into<Name>, value: impl Into<Decimal>) -> Self {
        self.put_decimal(name.into(), value.into());
        self
    }

    /// Text. It is quoted in JSON, and elsewhere if it would not read as one word.
    pub fn text(mut self, name: impl Into<Name>, value: impl Display) -> Self {
        self.put_text(name.into(), &value);
        self
    }

    /// Fields that not every line of the event has, as `fields` adds them. The name is for whoever
    /// reads the event's definition.
    pub(crate) fn more(self, _name: impl Into<Name>, fields: impl FnOnce(Self) -> Self) -> Self {
        let mut line = fields(self);
        if line.format == LogFormat::Defmt {
            line.send_end();
        }
        line
    }

    /// Ends the line and writes it, for those who must know whether that went well.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write(mut self) -> Result<(), Errno> {
        self.end()
    }

    /// Writes the line once. A frame that was cut would be read as something else: it is not sent.
    fn end(&mut self) -> Result<(), Errno> {
        let Some(fd) = self.fd.take() else {
            return Ok(());
        };
        let mut end = heapless::Vec::<u8, END_BYTES>::new();
        let mut put = |bytes: &[u8]| end.extend_from_slice(bytes).unwrap_or(()); // it has room
        match self.format {
            LogFormat::Text => put(b"\n"),
            LogFormat::Json => put(b"}\n"),
            LogFormat::Defmt if self.buffer.is_cut => return Ok(()),
            LogFormat::Defmt => self.encoder.end_frame(put),
        }
        let Buffer { bytes, len, .. } = &mut self.buffer;
        bytes[*len..][..end.len()].copy_from_slice(&end);
        fd.write_all(&bytes[..*len + end.len()])
    }
}

/// The kinds of fields, each in all formats.
impl Line {
    fn put_number(&mut self, name: Name, value: u64) {
        self.name(name);
        match self.format {
            LogFormat::Text | LogFormat::Json => self.put(format_args!("{value}")),
            LogFormat::Defmt => self.send(&value.to_le_bytes()),
        }
    }

    fn put_count(&mut self, name: Name, value: u32) {
        self.name(name);
        match self.format {
            LogFormat::Text | LogFormat::Json => self.put(format_args!("{value}")),
            LogFormat::Defmt => self.send(&value.to_le_bytes()),
        }
    }

    fn put_time(&mut self, name: Name, ns: u64) {
        self.name(name);
        let ms = digits((ns as f64 / 1e6).into(), "");
        match self.format {
            LogFormat::Text | LogFormat::Json => self.put(format_args!("{ms}")),
            // No step takes seven weeks.
            LogFormat::Defmt => self.send_hundredths(hundredths(&ms).unwrap_or((u32::MAX, 99))),
        }
    }

    fn put_decimal(&mut self, name: Name, value: Decimal) {
        self.name(name);
        let none = match self.format {
            LogFormat::Text | LogFormat::Defmt => "-",
            LogFormat::Json => "null",
        };
        let digits = digits(value, none);
        match (self.format, hundredths(&digits)) {
            (LogFormat::Text | LogFormat::Json, _) => self.put(format_args!("{digits}")),
            (LogFormat::Defmt, Some(parts)) => {
                self.send_interned(HUNDREDTHS);
                self.send_hundredths(parts);
            }
            (LogFormat::Defmt, None) => self.send_letters(&digits),
        }
    }

    fn put_text(&mut self, name: Name, value: &dyn Display) {
        self.name(name);
        let mut word = IsWord(true);
        let _ = write!(word, "{value}");
        let quote = if self.format == LogFormat::Json || !word.0 {
            "\""
        } else {
            ""
        };
        match self.format {
            LogFormat::Text | LogFormat::Json => quoted(&mut self.buffer, value, quote),
            LogFormat::Defmt => {
                let mut text = String::<{ TEXT_BYTES + 2 }>::new();
                quoted(&mut text, value, quote);
                self.send_text(&text);
                self.send_end();
            }
        }
    }
}

/// What all formats are made of.
impl Line {
    fn put(&mut self, args: fmt::Arguments<'_>) {
        // Writing to the buffer cuts, it does not fail.
        let _ = self.buffer.write_fmt(args);
    }

    fn name(&mut self, Name { text, piece }: Name) {
        match (self.format, piece) {
            (LogFormat::Text, _) => self.put(format_args!(" {text}=")),
            (LogFormat::Json, _) => self.put(format_args!(",\"{text}\":")),
            (LogFormat::Defmt, Some(piece)) => self.send_interned(piece),
            (LogFormat::Defmt, None) => {}
        }
    }
}

/// What frames are made of.
impl Line {
    /// Begins a frame, `after_noise` with a mark that ends whatever came before.
    fn start_frame(&mut self, interned: Interned, after_noise: bool) {
        self.encoder.start_frame(|mark| {
            if after_noise {
                self.buffer.append(mark);
            }
        });
        self.send_interned(interned);
    }

    fn send(&mut self, bytes: &[u8]) {
        self.encoder.write(bytes, |bytes| self.buffer.append(bytes));
    }

    fn send_interned(&mut self, interned: Interned) {
        self.send(&interned.number().to_le_bytes());
    }

    /// Ends a sequence of pieces.
    fn send_end(&mut self) {
        self.send(&[0; 2]);
    }

    fn send_hundredths(&mut self, (whole, hundredths): (u32, u8)) {
        self.send(&whole.to_le_bytes());
        self.send(&[hundredths]);
    }

    fn send_letters(&mut self, text: &str) {
        self.send_interned(LETTERS);
        self.send(&(text.len() as u32).to_le_bytes());
        self.send(text.as_bytes());
    }

    /// Sends a text as words and runs of letters.
    fn send_text(&mut self, text: &str) {
        let (mut from, mut at) = (0, 0);
        while at < text.len() {
            let word = words::at_start(&text[at..]);
            match word.filter(|word| from == at || word.1 >= WORD_BYTES) {
                None => at += text[at..].chars().next().map_or(1, char::len_utf8),
                Some((word, len)) => {
                    self.send_run(&text[from..at]);
                    if self.text_room() >= 2 {
                        self.send_interned(word);
                    }
                    at += len;
                    from = at;
                }
            }
        }
        self.send_run(&text[from..]);
    }

    /// Sends letters, as far as there is room.
    fn send_run(&mut self, run: &str) {
        let mut len = run.len().min(self.text_room().saturating_sub(6));
        while !run.is_char_boundary(len) {
            len -= 1;
        }
        if len > 0 {
            self.send_letters(&run[..len]);
        }
    }

    /// Bytes of text that there is room for: every seven of them may take eight.
    fn text_room(&self) -> usize {
        self.buffer.room().saturating_sub(NUMBERS_BYTES) / 8 * 7
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A log that cannot be written has nowhere to say so; the text goes on.
        let _ = self.end();
    }
}

/// Room for the longest number of two decimals: `f64::MAX` has 309 digits before them.
type Digits = String<328>;

/// A number's digits; `none` if it is not finite.
fn digits(Decimal { value, places }: Decimal, none: &str) -> Digits {
    let mut digits = Digits::new();
    // Either has room.
    let _ = match value.is_finite() {
        true => write!(digits, "{value:.places$}"),
        false => digits.write_str(none),
    };
    digits
}

/// The whole and the hundredths of a number with two decimals, unless it is too great.
fn hundredths(digits: &str) -> Option<(u32, u8)> {
    let (whole, rest) = digits.split_once('.')?;
    (rest.len() == 2).then_some((whole.parse().ok()?, rest.parse().ok()?))
}

/// The line as it is so far.
struct Buffer {
    bytes: [u8; LINE_BYTES],
    len: usize,
    is_cut: bool,
}

impl Buffer {
    /// Appends what there is room for.
    fn append(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(self.room());
        self.bytes[self.len..][..len].copy_from_slice(&bytes[..len]);
        self.len += len;
        self.is_cut |= len < bytes.len();
    }

    fn room(&self) -> usize {
        LINE_BYTES - END_BYTES - self.len
    }
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append(text.as_bytes());
        Ok(())
    }
}

/// Writes a text between quotes, escaped, and cut after [`TEXT_BYTES`].
fn quoted(out: &mut dyn Write, value: &dyn Display, quote: &str) {
    let _ = out.write_str(quote);
    let room = TEXT_BYTES;
    let _ = write!(Escaped { out, room }, "{value}"); // cutting is no failure
    let _ = out.write_str(quote);
}

/// Text as a JSON string has it between its quotes: for a terminal this is safe too.
struct Escaped<'o> {
    out: &'o mut dyn Write,
    room: usize,
}

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            // The longest escape takes six bytes.
            self.room = self.room.checked_sub(6).ok_or(fmt::Error)?;
            let mut escaped = String::<6>::new();
            escape(&mut escaped, character)?;
            self.out.write_str(&escaped)?;
            self.room += 6 - escaped.len();
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

#[cfg(test)]
mod tests {
    use super::{digits, hundredths};

    /// What a frame shows of a number with two decimals is what the text shows.
    #[test]
    fn hundredths_keep_the_digits_or_are_none() {
        for (value, parts) in [
            (0.0, Some((0, 0))),
            (0.005, Some((0, 1))), // as a float, a little more than a half
            (0.015, Some((0, 1))), // a little less
            (9.999, Some((10, 0))),
            (163.8, Some((163, 80))),
            (4_294_967_295.25, Some((u32::MAX, 25))),
            (4_294_967_296.0, None),
            (f64::MAX, None),
            (-0.001, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            let digits = digits(value.into(), "-");
            assert_eq!(hundredths(&digits), parts, "{digits}");
            if let Some((whole, hundredths)) = parts {
                let mut shown = super::Digits::new();
                core::fmt::write(&mut shown, format_args!("{whole}.{hundredths:02}")).unwrap();
                assert_eq!(shown, digits);
            }
        }
        assert_eq!(hundredths(&digits((12.3456, 4).into(), "-")), None);
    }
}
