//! A cursor over the header. Every read is checked against the bytes left.

use super::{GgufError, Name};

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the front; reads at most `limit` bytes, which must fit a `u32`.
    pub(super) fn new(bytes: &'a [u8], limit: usize) -> Self {
        Reader {
            bytes: &bytes[..bytes.len().min(limit)],
            at: 0,
        }
    }

    /// Starts at a position that [`position`](Self::position) gave.
    pub(super) fn at(bytes: &'a [u8], at: u32) -> Self {
        Reader {
            bytes,
            at: at as usize,
        }
    }

    pub(super) fn position(&self) -> u32 {
        self.at as u32
    }

    /// A second cursor at the same place.
    pub(super) fn fork(&self) -> Self {
        Reader {
            bytes: self.bytes,
            at: self.at,
        }
    }

    /// What was read since `start`.
    pub(super) fn since(&self, start: u32) -> &'a [u8] {
        &self.bytes[start as usize..self.at]
    }

    /// The next `count` bytes.
    pub(super) fn bytes(&mut self, count: u64) -> Result<&'a [u8], GgufError> {
        let left = &self.bytes[self.at..];
        match usize::try_from(count) {
            Ok(count) if count <= left.len() => {
                self.at += count;
                Ok(&left[..count])
            }
            _ => Err(GgufError::TruncatedHeader),
        }
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N as u64)?);
        Ok(array)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A string value: a length, then so many bytes.
    pub(super) fn string(&mut self) -> Result<&'a [u8], GgufError> {
        let len = self.u64()?;
        self.bytes(len)
    }

    /// A key or a tensor's name: `what` says which, for the message.
    pub(super) fn text(&mut self, what: &'static str, max: u64) -> Result<&'a str, GgufError> {
        let len = self.u64()?;
        if len == 0 {
            return Err(GgufError::EmptyName { what });
        }
        if len > max {
            return Err(GgufError::LongName { what, len, max });
        }
        let bytes = self.bytes(len)?;
        core::str::from_utf8(bytes).map_err(|_| GgufError::NameNotUtf8 {
            what,
            name: Name::from_bytes(bytes),
        })
    }
}
