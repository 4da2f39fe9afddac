//! Arena blocks for tests.

use runtime::arena;

/// A block of so many bytes from a multiple of the arena's alignment on.
pub struct Block {
    bytes: Vec<u8>,
    len: usize,
}

impl Block {
    /// A block of zeros.
    pub fn new(len: usize) -> Self {
        Block {
            bytes: vec![0; len + arena::ALIGNMENT],
            len,
        }
    }

    /// The block.
    pub fn bytes(&mut self) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(arena::ALIGNMENT);
        &mut self.bytes[start..start + self.len]
    }
}
