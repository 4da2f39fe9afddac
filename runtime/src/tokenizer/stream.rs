//! What a reader sees of a text that is still being made.
//!
//! Two things are held back: a character until it is whole, and whatever may turn out to be the
//! start of a stop text. A stop text is matched on bytes, wherever tokens end, and is never shown;
//! the text before it is. When the text ends, what is held is shown as it is: no byte is ever lost
//! or replaced, so a character that the model did not finish comes out cut off.
//!
//! Memory is [`HELD_MAX`] bytes, and each byte takes a step for each stop text (Knuth, Morris and
//! Pratt, "Fast pattern matching in strings", 1977).

use core::fmt;

use heapless::Vec;

/// Stop texts that there may be.
pub const STOPS_MAX: usize = 8;
/// Bytes that a stop text may have.
pub const STOP_BYTES_MAX: usize = 128;
/// Bytes of text that wait to be shown.
const HELD_MAX: usize = 512;
/// Bytes of a character that can be there before it is whole.
const CUT_BYTES_MAX: usize = 3;

// There is always something to show before there is no room left.
const _: () = assert!(STOP_BYTES_MAX + CUT_BYTES_MAX < HELD_MAX);

/// Why stop texts were refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopError {
    /// More than [`STOPS_MAX`].
    TooMany {
        /// How many.
        found: usize,
    },
    /// An empty one, or one longer than [`STOP_BYTES_MAX`].
    BadLength {
        /// Which, from 0.
        index: usize,
        /// Its bytes.
        bytes: usize,
    },
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StopError::TooMany { found } => {
                write!(f, "{found} stop texts, at most {STOPS_MAX}")
            }
            StopError::BadLength { index, bytes } => write!(
                f,
                "stop text {index} has {bytes} bytes, 1 to {STOP_BYTES_MAX} are allowed"
            ),
        }
    }
}

/// Whether a text goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// No stop text yet.
    Continue,
    /// A stop text was found. Nothing more is taken or shown.
    Stopped {
        /// Which stop text, from 0.
        stop: usize,
    },
}

/// A stop text, and how much of it the text ends with.
struct Stop<'s> {
    text: &'s [u8],
    /// By bytes matched, less one: the longest shorter match that they end with.
    shorter: [u8; STOP_BYTES_MAX],
    matched: usize,
}

impl<'s> Stop<'s> {
    /// `text` has from 1 to [`STOP_BYTES_MAX`] bytes.
    fn new(text: &'s [u8]) -> Self {
        let mut stop = Stop {
            text,
            shorter: [0; STOP_BYTES_MAX],
            matched: 0,
        };
        for (at, &byte) in text.iter().enumerate().skip(1) {
            stop.push(byte);
            stop.shorter[at] = stop.matched as u8;
        }
        stop.matched = 0;
        stop
    }

    /// Takes the next byte of the text.
    fn push(&mut self, byte: u8) {
        while self.matched > 0 && self.text.get(self.matched) != Some(&byte) {
            self.matched = self.shorter[self.matched - 1].into();
        }
        self.matched += usize::from(self.text[self.matched] == byte);
    }

    fn is_whole(&self) -> bool {
        self.matched == self.text.len()
    }
}

/// A text that is still being made.
pub struct TextStream<'s> {
    stops: Vec<Stop<'s>, STOPS_MAX>,
    held: Vec<u8, HELD_MAX>,
    skips_space: bool,
    flow: Flow,
}

impl<'s> TextStream<'s> {
    /// A text that ends where one of `stops` starts.
    ///
    /// # Errors
    /// Too many stop texts, or one that is empty or too long.
    pub fn new(stops: &[&'s [u8]]) -> Result<Self, StopError> {
        if stops.len() > STOPS_MAX {
            return Err(StopError::TooMany { found: stops.len() });
        }
        let mut stream = TextStream {
            stops: Vec::new(),
            held: Vec::new(),
            skips_space: false,
            flow: Flow::Continue,
        };
        for (index, stop) in stops.iter().enumerate() {
            let bytes = stop.len();
            if !(1..=STOP_BYTES_MAX).contains(&bytes) {
                return Err(StopError::BadLength { index, bytes });
            }
            let _ = stream.stops.push(Stop::new(stop)); // counted above
        }
        Ok(stream)
    }

    /// Leaves out one space if the text starts with it.
    ///
    /// For an answer of a vocabulary that puts a space before every text
    /// ([`Tokenizer::adds_space`](super::Tokenizer::adds_space)): the space is an artefact there.
    /// Not for a continuation of the prompt, whose words it keeps apart.
    pub fn skip_first_space(mut self) -> Self {
        self.skips_space = true;
        self
    }

    /// Takes the bytes of a token and shows what may be shown.
    pub fn push(
        &mut self,
        bytes: impl IntoIterator<Item = u8>,
        show: &mut impl FnMut(&[u8]),
    ) -> Flow {
        for byte in bytes {
            if self.flow != Flow::Continue {
                return self.flow;
            }
            self.take(byte, show);
        }
        if self.flow == Flow::Continue {
            self.show(self.ready(), show);
        }
        self.flow
    }

    /// Ends the text and shows what was held back.
    pub fn finish(&mut self, show: &mut impl FnMut(&[u8])) {
        self.show(self.held.len(), show);
    }

    fn take(&mut self, byte: u8, show: &mut impl FnMut(&[u8])) {
        if core::mem::take(&mut self.skips_space) && byte == b' ' {
            return;
        }
        if self.held.is_full() {
            self.show(self.ready(), show);
        }
        let _ = self.held.push(byte); // something is always ready before there is no room
        let mut found = None;
        for (index, stop) in self.stops.iter_mut().enumerate() {
            stop.push(byte);
            // Of stop texts that end together the longest counts: it shows least.
            if stop.is_whole() && found.is_none_or(|(_, bytes)| stop.text.len() > bytes) {
                found = Some((index, stop.text.len()));
            }
        }
        if let Some((stop, bytes)) = found {
            self.show(self.held.len() - bytes, show);
            self.held.clear();
            self.flow = Flow::Stopped { stop };
        }
    }

    /// Bytes that may be shown: all but the longest start of a stop text and a cut-off character.
    fn ready(&self) -> usize {
        let matched = self.stops.iter().map(|stop| stop.matched).max();
        let before_stop = self.held.len() - matched.unwrap_or(0);
        before_stop - cut_off(&self.held[..before_stop])
    }

    fn show(&mut self, bytes: usize, show: &mut impl FnMut(&[u8])) {
        if bytes == 0 {
            return;
        }
        show(&self.held[..bytes]);
        let left = self.held.len() - bytes;
        self.held.copy_within(bytes.., 0);
        self.held.truncate(left);
    }
}

/// Bytes at the end that can become a character when more come; 0 if none can.
fn cut_off(text: &[u8]) -> usize {
    (1..=CUT_BYTES_MAX.min(text.len()))
        .find(|&bytes| {
            let end = &text[text.len() - bytes..];
            // A lead byte, and an end that is not wrong but too short.
            end[0] >= 0xC0 && core::str::from_utf8(end).is_err_and(|e| e.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::cut_off;

    #[test]
    fn cut_off_is_what_more_bytes_can_make_whole() {
        for (text, bytes) in [
            (&b""[..], 0),
            (b"a", 0),
            (b"a\xC3", 1),
            (b"\xC3\xA9", 0),
            (b"\xE2\x82", 2),
            (b"\xE2\x82\xAC", 0),
            (b"\xF0\x9F\x98", 3),
            (b"\xF0\x9F\x98\x80", 0),
            // Wrong, not cut off: a lone continuation, a byte that leads nothing, a surrogate.
            (b"\x80", 0),
            (b"a\xFF", 0),
            (b"\xED\xA0", 0),
            (b"\xF0\x9F\xC3", 1),
        ] {
            assert_eq!(cut_off(text), bytes, "{text:x?}");
        }
    }
}
