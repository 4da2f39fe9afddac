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
        Some((index, unsafe { self.part(index) }?))
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

/// Hands out the chunks of three slices that belong together.
pub struct Trios<'a, A, B> {
    first: Chunks<'a, A>,
    second: Chunks<'a, B>,
    third: Chunks<'a, B>,
}

impl<'a, A, B> Trios<'a, A, B> {
    /// A trio for each chunk of the first; the other two may have fewer, or none.
    pub fn new(first: Chunks<'a, A>, second: Chunks<'a, B>, third: Chunks<'a, B>) -> Self {
        Trios {
            first,
            second,
            third,
        }
    }

    /// The next trio and its number; an empty chunk where a slice has none left.
    pub fn claim(&self) -> Option<(usize, &'a mut [A], [&'a mut [B]; 2])> {
        let (index, first) = self.first.claim()?;
        // SAFETY: `index` was given to this call alone, and nobody else has the other two: they
        // are claimed from in no other way than this.
        let others = unsafe { [self.second.part(index), self.third.part(index)] };
        Some((index, first, others.map(Option::unwrap_or_default)))
    }
}

/// Hands out successive column ranges of a row-major matrix.
pub struct Columns<'a> {
    base: *mut f32,
    rows: usize,
    width: usize,
    step: usize,
    next: AtomicUsize,
    matrix: PhantomData<&'a mut [f32]>,
}

// SAFETY: a column range moves to the thread that claims it; `next` is atomic, so none is claimed
// twice.
unsafe impl Sync for Columns<'_> {}

/// A claimed range of columns, in every row.
pub struct ColumnRange<'a> {
    base: *mut f32,
    rows: usize,
    width: usize,
    /// First column.
    pub start: usize,
    /// Columns in the range.
    pub len: usize,
    matrix: PhantomData<&'a mut [f32]>,
}

impl<'a> Columns<'a> {
    /// Ranges of `step` columns of a matrix of `width` columns; the last may be shorter.
    pub fn new(matrix: &'a mut [f32], width: usize, step: usize) -> Self {
        assert!(
            step > 0 && width > 0 && matrix.len().is_multiple_of(width),
            "whole rows"
        );
        Columns {
            base: matrix.as_mut_ptr(),
            rows: matrix.len() / width,
            width,
            step,
            next: AtomicUsize::new(0),
            matrix: PhantomData,
        }
    }

    /// The next range.
    pub fn claim(&self) -> Option<ColumnRange<'a>> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let start = index
            .checked_mul(self.step)
            .filter(|&start| start < self.width)?;
        Some(ColumnRange {
            base: self.base,
            rows: self.rows,
            width: self.width,
            start,
            len: self.step.min(self.width - start),
            matrix: PhantomData,
        })
    }
}

impl ColumnRange<'_> {
    /// The range's part of the first `rows` rows.
    pub fn block(&mut self, rows: usize) -> OutBlock<'_> {
        assert!(rows <= self.rows, "rows of the matrix");
        // SAFETY: the rows are inside the matrix (checked above) and so is the range (`claim`);
        // this range was claimed once, and `&mut self` keeps it from being borrowed twice.
        unsafe { OutBlock::new(self.base.add(self.start), self.width, rows, self.len) }
    }
}
