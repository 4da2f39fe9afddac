//! The matrices of a decode step, and how threads share one.

use std::fmt;
use std::ops::Range;

/// A matrix, by its rows and columns: rows are outputs, columns are inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Outputs; a multiple of eight.
    pub rows: usize,
    /// Inputs; a multiple of 256.
    pub columns: usize,
    /// What it is in the model.
    pub what: &'static str,
}

/// Every matrix that TinyLlama-1.1B multiplies with for a token.
pub const DECODE: [Shape; 5] = [
    Shape::new(2048, 2048, "queries, attention output"),
    Shape::new(256, 2048, "keys, values"),
    Shape::new(5632, 2048, "gate, up"),
    Shape::new(2048, 5632, "down"),
    Shape::new(32000, 2048, "logits"),
];

/// Matrices as wide, and a few rows high: an emulator is through with them in seconds.
pub fn small() -> Vec<Shape> {
    vec![Shape::new(56, 2048, "quick"), Shape::new(32, 5632, "quick")]
}

impl Shape {
    const fn new(rows: usize, columns: usize, what: &'static str) -> Self {
        Self {
            rows,
            columns,
            what,
        }
    }

    /// How many weights it has.
    pub const fn weights(self) -> usize {
        self.rows * self.columns
    }

    /// The rows of thread `thread` of `threads`: whole groups of eight, which both sides can
    /// start at.
    pub fn share(self, thread: usize, threads: usize) -> Range<usize> {
        let start = |thread| self.rows / 8 * thread / threads * 8;
        start(thread)..start(thread + 1)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}x{}", self.rows, self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_groups_and_cover_all_rows_once() {
        for shape in DECODE.into_iter().chain(small()) {
            for threads in [1, 2, 3, 8, 64] {
                let mut next = 0;
                for thread in 0..threads {
                    let share = shape.share(thread, threads);
                    assert_eq!(share.start, next);
                    assert!(share.start.is_multiple_of(8));
                    next = share.end;
                }
                assert_eq!(next, shape.rows);
            }
        }
    }
}
