//! The tree that the kernel tells of the machine in.

use crate::sys;
use core::ffi::CStr;
use core::fmt::{Arguments, Write};
use heapless::String;

/// Linux takes no longer paths, the NUL at their end included (`PATH_MAX`).
const PATH_BYTES: usize = 4096;

/// The folder that `proc` and `sys` are in.
#[derive(Clone, Copy, Debug)]
pub struct Root<'p> {
    prefix: &'p str,
}

impl Root<'static> {
    /// That of this system.
    pub const SYSTEM: Root<'static> = Root { prefix: "" };
}

impl<'p> Root<'p> {
    /// A folder that holds `proc` and `sys`.
    pub const fn at(folder: &'p str) -> Root<'p> {
        Root { prefix: folder }
    }

    /// What a file says, as far as it is text and has room in `buffer`; `path` starts with a slash.
    pub fn text<'b>(self, path: Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b str> {
        let mut whole = String::<PATH_BYTES>::new();
        write!(whole, "{}{path}\0", self.prefix).ok()?;
        sys::read_small(CStr::from_bytes_until_nul(whole.as_bytes()).ok()?, buffer)
    }

    /// The number in a file of one line.
    pub fn number(self, path: Arguments<'_>) -> Option<u64> {
        self.text(path, &mut [0; 32])?.trim().parse().ok()
    }

    /// The number in a file of one line, which may be below zero.
    pub fn signed(self, path: Arguments<'_>) -> Option<i64> {
        self.text(path, &mut [0; 32])?.trim().parse().ok()
    }
}
