//! What both sides have to be able to do, and the memory that both get.

use std::ops::Range;

/// One kernel, with a matrix packed for it and a vector quantised for it.
pub trait Contestant: Send + Sync {
    /// Side, kernel or format.
    fn name(&self) -> &str;

    /// The matrices, all the same, one after the other.
    fn packed(&self) -> &Packed;

    /// Quantises `x`, in place of the vector of before.
    fn quantise(&mut self, x: &[f32]);

    /// The product of some rows of a copy of the matrix with the vector; one of `out` for each
    /// row. The first row is a multiple of eight.
    fn multiply(&self, copy: usize, rows: Range<usize>, out: &mut [f32]);
}

/// A packed matrix a number of times over, so that together they exceed the caches: a token
/// comes back to a matrix only when it has been through all the others.
pub struct Packed {
    bytes: Vec<u8>,
    start: usize,
    stride: usize,
    len: usize,
    copies: usize,
}

/// A cache line: every copy starts with one, whatever the allocator does.
const ALIGNMENT: usize = 64;

impl Packed {
    /// Room for `copies` of `len` bytes, of which `fill` writes the first.
    pub fn new(len: usize, copies: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        let stride = len.next_multiple_of(ALIGNMENT);
        let mut bytes = vec![0; copies * stride + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        fill(&mut bytes[start..start + len]);
        for copy in 1..copies {
            bytes.copy_within(start..start + len, start + copy * stride);
        }
        Self {
            bytes,
            start,
            stride,
            len,
            copies,
        }
    }

    /// How many copies there are.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// The bytes of all copies, and of the gaps that align them.
    pub fn all(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.copies * self.stride]
    }

    /// The bytes of one copy.
    pub fn copy(&self, copy: usize) -> &[u8] {
        assert!(copy < self.copies, "one of the copies");
        let start = self.start + copy * self.stride;
        &self.bytes[start..start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_aligned_and_the_same() {
        let packed = Packed::new(100, 3, |bytes| bytes[99] = 7);
        for copy in 0..3 {
            let bytes = packed.copy(copy);
            assert_eq!((bytes.len(), bytes[99]), (100, 7));
            assert_eq!(bytes.as_ptr().align_offset(ALIGNMENT), 0);
        }
    }
}
