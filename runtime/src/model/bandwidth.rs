//! How fast this machine reads the weights, which is what decoding cannot be faster than.

use super::Engine;
use crate::sys;
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that a member claims at a time.
const PIECE: usize = 256 * 1024;
/// Bytes that are added up side by side: enough vectors to hide the latency of an addition.
const LINE: usize = 128;

impl Engine<'_> {
    /// Bytes a second at which the team reads every matrix of a step and does nothing else with it;
    /// the better of two times.
    pub fn read_speed(&mut self) -> f64 {
        (0..2).map(|_| self.read_all()).fold(0.0, f64::max)
    }

    fn read_all(&mut self) -> f64 {
        let began = sys::now();
        for matrix in self.weights.matrices() {
            let next = AtomicUsize::new(0);
            self.team.run(&|_| {
                while let Some(rest @ [_, ..]) = matrix
                    .packed
                    .get(next.fetch_add(PIECE, Ordering::Relaxed)..)
                {
                    black_box(sum(&rest[..rest.len().min(PIECE)]));
                }
            });
        }
        self.weights.step_bytes() as f64 * 1e9 / (sys::now() - began) as f64
    }
}

/// Whole lines, as words, added up: something that cannot be had without reading them.
fn sum(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; LINE / 8];
    for line in bytes.as_chunks::<LINE>().0 {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::{LINE, sum};

    #[test]
    fn every_word_counts() {
        let mut bytes = [0; 3 * LINE];
        for (at, byte) in bytes.iter_mut().enumerate().step_by(8) {
            *byte = at as u8;
        }
        let words = bytes.as_chunks().0.iter();
        let expected = words.fold(0u64, |all, word| {
            all.wrapping_add(u64::from_ne_bytes(*word))
        });
        assert_eq!(sum(&bytes), expected);
        assert_ne!(expected, 0);
    }
}
