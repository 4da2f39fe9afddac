//! Bytes to lines: what somebody types, or a program sends.

/// Room for a line: 16 KiB.
pub const LINE_BYTES: usize = 16 << 10;

const BACKSPACE: u8 = 0x08;
const DELETE: u8 = 0x7f;
const ESCAPE: u8 = 0x1b;

/// What a byte did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Typed {
    /// Nothing that shows.
    Nothing,
    /// It is the line's next byte.
    Byte,
    /// The last character is gone.
    Erased,
    /// The line is whole.
    Line,
    /// The line has ended, and is longer than there is room for.
    TooLong,
}

/// How far a key's escape sequence is (ECMA-48, 5.4: `ESC [`, parameters, a final byte).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sequence {
    None,
    Started,
    Parameters,
}

/// A line in the making.
///
/// CR, LF and CR LF end it. Where a person types, backspace erases a character, and other control
/// bytes and keys that send a sequence do nothing, but for the tab, which is text. Where a program
/// sends, every other byte is the line's.
pub struct Line<'b> {
    buffer: &'b mut [u8],
    is_typed: bool,
    len: usize,
    is_too_long: bool,
    after_return: bool,
    sequence: Sequence,
}

impl<'b> Line<'b> {
    /// An empty line; the buffer is as long as a line may be.
    pub fn new(buffer: &'b mut [u8], is_typed: bool) -> Self {
        Line {
            buffer,
            is_typed,
            len: 0,
            is_too_long: false,
            after_return: false,
            sequence: Sequence::None,
        }
    }

    /// Its bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.len = 0;
        self.is_too_long = false;
        self.sequence = Sequence::None;
    }

    /// Takes a byte.
    pub fn push(&mut self, byte: u8) -> Typed {
        let after_return = core::mem::replace(&mut self.after_return, byte == b'\r');
        match byte {
            b'\n' if after_return => Typed::Nothing,
            b'\r' | b'\n' if self.is_too_long => Typed::TooLong,
            b'\r' | b'\n' => Typed::Line,
            _ if self.is_typed => self.typed(byte),
            _ => self.append(byte),
        }
    }

    fn typed(&mut self, byte: u8) -> Typed {
        let next = match (self.sequence, byte) {
            (_, ESCAPE) => Sequence::Started,
            (Sequence::Started, b'[' | b'O') => Sequence::Parameters,
            (Sequence::Parameters, b' '..=b'?') => Sequence::Parameters,
            _ => Sequence::None,
        };
        let before = core::mem::replace(&mut self.sequence, next);
        let is_final = before == Sequence::Parameters && matches!(byte, b'@'..=b'~');
        match byte {
            _ if next != Sequence::None || is_final => Typed::Nothing,
            BACKSPACE | DELETE => self.erase(),
            b'\t' | b' '.. => self.append(byte),
            _ => Typed::Nothing,
        }
    }

    fn append(&mut self, byte: u8) -> Typed {
        match self.buffer.get_mut(self.len) {
            Some(slot) if !self.is_too_long => {
                *slot = byte;
                self.len += 1;
                Typed::Byte
            }
            _ => {
                self.is_too_long = true;
                Typed::Nothing
            }
        }
    }

    /// Removes a character: its continuation bytes, three at most, and what they follow.
    fn erase(&mut self) -> Typed {
        if self.len == 0 || self.is_too_long {
            return Typed::Nothing;
        }
        let is_continuation = |byte: &&u8| matches!(byte, 0x80..=0xbf);
        let end = self.bytes().iter().rev().take(3);
        let continuations = end.take_while(is_continuation).count();
        self.len = self.len.saturating_sub(continuations + 1);
        Typed::Erased
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line that some bytes and a line end make, and what the end did.
    fn typed(bytes: &[u8]) -> ([u8; 8], usize, Typed) {
        let mut buffer = [0; 8];
        let mut line = Line::new(&mut buffer, true);
        for &byte in bytes {
            line.push(byte);
        }
        let (end, len) = (line.push(b'\r'), line.bytes().len());
        (buffer, len, end)
    }

    #[test]
    fn typing_is_edited() {
        for (bytes, expected) in [
            (&b"abc"[..], &b"abc"[..]),
            (b"abx\x08c", b"abc"),
            (b"abx\x7fc", b"abc"),
            (b"\x08\x08a", b"a"),
            (b"a\xc3\xa9\x08b", b"ab"),
            (b"a\xf0\x9f\x98\x80\x7fb", b"ab"),
            (b"a\xffb", b"a\xffb"), // no UTF-8, and passed on
            (b"a\0\x01b\tc", b"ab\tc"),
            (b"a\x1b[Ab\x1b[1;5Cc\x1bOPd", b"abcd"), // arrows and a function key
            (b"a\x1b\x1b[Db", b"ab"),
            (b"\x1b[\xc3\xa9", b"\xc3\xa9"), // no sequence after all
            (b"12345678", b"12345678"),
        ] {
            let (buffer, len, end) = typed(bytes);
            assert_eq!((&buffer[..len], end), (expected, Typed::Line), "{bytes:x?}");
        }
    }

    #[test]
    fn long_line_is_swallowed_to_its_end() {
        let mut buffer = [0; 8];
        let mut line = Line::new(&mut buffer, true);
        for byte in *b"123456789\x08\x08" {
            line.push(byte);
        }
        assert_eq!(line.push(b'\n'), Typed::TooLong);
        line.clear();
        assert_eq!(line.push(b'a'), Typed::Byte);
        assert_eq!(line.push(b'\n'), Typed::Line);
        assert_eq!(line.bytes(), b"a");
    }

    #[test]
    fn every_line_end_ends_one_line() {
        let mut buffer = [0; 8];
        let mut line = Line::new(&mut buffer, true);
        let ends = |line: &mut Line<'_>, bytes: &[u8]| {
            let typed = bytes.iter().map(|&byte| line.push(byte));
            typed.filter(|&typed| typed == Typed::Line).count()
        };
        assert_eq!(ends(&mut line, b"a\rb\nc\r\nd\r\r\ne\n\n"), 7);
    }

    #[test]
    fn bytes_of_a_program_are_not_edited() {
        let mut buffer = [0; 8];
        let mut line = Line::new(&mut buffer, false);
        for byte in *b"a\x08\x1b[\0" {
            line.push(byte);
        }
        assert_eq!(line.bytes(), b"a\x08\x1b[\0");
    }
}
