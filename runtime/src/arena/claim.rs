//! Disjoint parts of a buffer, claimed by whoever comes next.
//!
//! A queue hands out each part of a buffer exactly once, so the parts that the members of a team
//! hold never overlap, and work is spread by who is free. The order in which parts are claimed
//! changes nothing in their contents.

#![allow(unsafe_code)] // each part of a slice is handed out once

use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};
use kernels_asm::registry::OutBlock;

/// Hands out successive chunks of a slice.
pub struct Chunks<'a, T> {
    base: *mut T,
    len: usize,
    chunk: usize,
    next: AtomicUsize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: a chunk is a `&mut [T]` that moves to the thread that claims it; `next` is atomic, so no
// chunk is claimed twice.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    /// Chunks of `chunk` elements; the last may be shorter.
    pub fn new(slice: &'a mut [T], chunk: usize) -> Self {
        assert!(chunk > 0, "a chunk has elements");
        Chunks {
            base: slice.as_mut_ptr(),
            len: slice.len(),
            chunk,
            next: AtomicUsize::new(0),
            slice: PhantomData,
        }
    }

    /// The next chunk and its number.
    pub fn claim(&self) -> Option<(usize, &'a mut [T])> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `index` was given to this call alone.
        let part = unsafe { self.part(index) }?;
        Some((index, part))
    }

    /// Chunk `index`, if there is one.
    ///
    /// # Safety
    /// It is asked for once.
    unsafe fn part(&self, index: usize) -> Option<&'a mut [T]> {
        let start = index
            .checked_mul(self.chunk)
            .filter(|&start| start < self.len)?;
        let len = self.chunk.min(self.len - start);
        // SAFETY: `start..start + len` is inside the slice (checked above), and no other chunk
        // overlaps it; the caller asks once.
        Some(unsafe { core::slice::from_raw_parts_mut(self.base.add(start), len) })
    }
}

/// Hands out the chunks of several slices that belong together.
pub struct Companions<'a, A, B, const N: usize> {
    first: Chunks<'a, A>,
    others: [Chunks<'a, B>; N],
}

/// A chunk's number, the chunk, and those that belong to it.
type Set<'a, A, B, const N: usize> = (usize, &'a mut [A], [&'a mut [B]; N]);

impl<'a, A, B, const N: usize> Companions<'a, A, B, N> {
    /// A set for each chunk of the first; the others may have fewer, or none.
    pub fn new(first: Chunks<'a, A>, others: [Chunks<'a, B>; N]) -> Self {
        Companions { first, others }
    }

    /// The next set and its number; an empty chunk where a slice has none left.
    pub fn claim(&self) -> Option<Set<'a, A, B, N>> {
        let (index, first) = self.first.claim()?;
        let others = self.others.each_ref().map(|other| {
            // SAFETY: `index` was given to this call alone, and nobody else has the others: they
            // are claimed from in no other way than this.
            unsafe { other.part(index) }.unwrap_or_default()
        });
        Some((index, first, others))
    }
}

/// Hands out successive column ranges of a row-major matrix, of all its rows or of bands of them.
pub struct Columns<'a> {
    base: *mut f32,
    rows: usize,
    width: usize,
    step: usize,
    /// Rows of a band.
    band: usize,
    next: AtomicUsize,
    matrix: PhantomData<&'a mut [f32]>,
}

// SAFETY: a column range moves to the thread that claims it; `next` is atomic, so none is claimed
// twice.
unsafe impl Sync for Columns<'_> {}

/// A claimed range of columns, in every row of a band.
pub struct ColumnRange<'a> {
    base: *mut f32,
    width: usize,
    /// First row.
    pub row: usize,
    /// Rows of the band.
    pub rows: usize,
    /// First column.
    pub start: usize,
    /// Columns in the range.
    pub len: usize,
    matrix: PhantomData<&'a mut [f32]>,
}

impl<'a> Columns<'a> {
    /// Ranges of `step` columns of a matrix of `width` columns; the last may be shorter.
    pub fn new(matrix: &'a mut [f32], width: usize, step: usize) -> Self {
        Self::in_bands(matrix, width, step, usize::MAX)
    }

    /// The same in each band of `band` rows, the last of which may have fewer; first all bands of
    /// one range of columns, then those of the next.
    pub fn in_bands(matrix: &'a mut [f32], width: usize, step: usize, band: usize) -> Self {
        assert!(
            step > 0 && band > 0 && width > 0 && matrix.len().is_multiple_of(width),
            "whole rows"
        );
        Columns {
            base: matrix.as_mut_ptr(),
            rows: matrix.len() / width,
            width,
            step,
            band,
            next: AtomicUsize::new(0),
            matrix: PhantomData,
        }
    }

    /// The next range.
    pub fn claim(&self) -> Option<ColumnRange<'a>> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let bands = self.rows.div_ceil(self.band).max(1);
        let row = index % bands * self.band;
        let start = (index / bands)
            .checked_mul(self.step)
            .filter(|&start| start < self.width)?;
        Some(ColumnRange {
            base: self.base,
            width: self.width,
            row,
            rows: self.band.min(self.rows - row),
            start,
            len: self.step.min(self.width - start),
            matrix: PhantomData,
        })
    }
}

impl ColumnRange<'_> {
    /// The range's part of the first `rows` rows of the band.
    pub fn block(&mut self, rows: usize) -> OutBlock<'_> {
        assert!(rows <= self.rows, "rows of the band");
        // SAFETY: the rows are inside the band (checked above), which is inside the matrix, and so
        // is the range (`claim`); this range of this band was claimed once, and `&mut self` keeps
        // it from being borrowed twice.
        unsafe {
            let base = self.base.add(self.row * self.width + self.start);
            OutBlock::new(base, self.width, rows, self.len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Chunks, Columns, Companions};

    #[test]
    fn companions_of_different_lengths_end_with_the_first() {
        let (mut first, mut second) = ([1, 2, 3, 4], [b'a', b'b', b'c']);
        let others = [Chunks::new(&mut second, 3), Chunks::new(&mut [], 1)];
        let sets = Companions::new(Chunks::new(&mut first, 2), others);
        let (index, one, [two, three]) = sets.claim().unwrap();
        assert_eq!((index, &*one, &*two), (0, &[1, 2][..], &b"abc"[..]));
        assert!(three.is_empty());
        let (index, one, [two, three]) = sets.claim().unwrap();
        assert_eq!((index, &*one), (1, &[3, 4][..]));
        assert!(two.is_empty() && three.is_empty());
        assert!(sets.claim().is_none());
    }

    #[test]
    fn columns_in_bands_are_each_claimed_once() {
        // Five rows in bands of two, seven columns in ranges of three.
        let mut matrix = [0.0; 5 * 7];
        let parts = Columns::in_bands(&mut matrix, 7, 3, 2);
        let mut claims = 0;
        while let Some(mut part) = parts.claim() {
            claims += 1;
            let (band, range) = ((claims - 1) % 3, (claims - 1) / 3);
            assert_eq!((part.row, part.start), (2 * band, 3 * range));
            let rows = part.rows;
            for row in 0..rows {
                for number in part.block(rows).row(row) {
                    *number += claims as f32;
                }
            }
        }
        // Each element names its claim.
        for (i, &claim) in matrix.iter().enumerate() {
            let (row, column) = (i / 7, i % 7);
            assert_eq!(claim as usize, 1 + row / 2 + column / 3 * 3);
        }
    }
}
