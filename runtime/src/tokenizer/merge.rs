//! Byte-pair merging: joins neighbours, best rank first, leftmost first among equals, until no
//! pair is left that may be joined (Sennrich and others, "Neural machine translation of rare words
//! with subword units", 2016).
//!
//! Both kinds of vocabulary merge alike; only what a pair is worth differs ([`Pairs`]). Symbols are
//! linked at both of their ends, and the best pair is found by a tournament: a tree whose every
//! node names the better of its two children. A word of `n` bytes takes `n log n` steps and
//! [`Merger::bytes`], whatever is in it; there is no recursion and no stale entry.

use super::error::Cancelled;
use crate::arena::{ArenaError, Forward, Open, rounded};

/// What stands for "no token", "no symbol" and, as a rank, "may not be joined".
pub(super) const NONE: u32 = u32::MAX;

/// A part of the word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// Where it starts in the word, in bytes.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// The token it is; [`NONE`] if it is none.
    pub(super) id: u32,
}

/// What two neighbours become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    /// Lower is sooner; less than [`NONE`].
    pub(super) rank: u32,
    /// The token.
    pub(super) id: u32,
}

/// Which neighbours may be joined.
pub(super) trait Pairs {
    /// What the two become, if they may be joined.
    fn merge(&self, left: Symbol, right: Symbol) -> Option<Merge>;
}

/// Scratch for words up to a length; used for one word after another.
pub(super) struct Merger<'f> {
    /// Bytes of the word.
    len: usize,
    /// At the first byte of a symbol: where it ends. At its last byte, unless that is its first:
    /// where it starts.
    link: &'f mut [u32],
    /// At the first byte of a symbol: the token it is.
    id: &'f mut [u32],
    /// By place: the rank of the pair that starts here; `NONE` where none does.
    rank: &'f mut [u32],
    /// Nodes 1 to `len - 1` of the tournament, each with the place that wins below it. The children
    /// of node `i` are `2i` and `2i + 1`; node `len + p` is place `p` itself.
    winner: &'f mut [u32],
}

impl<'f> Merger<'f> {
    /// Bytes of the Forward scope that [`new`](Self::new) takes.
    pub(super) const fn bytes(longest: usize) -> usize {
        4 * rounded(longest * size_of::<u32>())
    }

    /// Scratch for words of up to `longest` bytes.
    pub(super) fn new(longest: usize, scratch: &Open<'f, Forward>) -> Result<Self, ArenaError> {
        Ok(Merger {
            len: 0,
            link: scratch.alloc(longest)?,
            id: scratch.alloc(longest)?,
            rank: scratch.alloc(longest)?,
            winner: scratch.alloc(longest)?,
        })
    }

    /// Takes a word of `len` bytes, given as the symbols that it starts as, end to end.
    pub(super) fn load(&mut self, len: usize, symbols: impl Iterator<Item = Symbol>) {
        self.len = len;
        self.rank[..len].fill(NONE);
        symbols.for_each(|symbol| self.put(symbol));
    }

    /// Joins until nothing can be joined.
    ///
    /// # Errors
    /// A signal came first: a word may be as long as a text.
    pub(super) fn run(&mut self, pairs: &impl Pairs) -> Result<(), Cancelled> {
        let mut start = 0;
        while start < self.len {
            Cancelled::check()?;
            self.rank[start] = self.pair(start, pairs).map_or(NONE, |merge| merge.rank);
            start = self.link[start] as usize;
        }
        for node in (1..self.len).rev() {
            self.winner[node] = self.better_child(node);
        }
        while let Some(left) = self.best() {
            Cancelled::check()?;
            let Some(merge) = self.pair(left, pairs) else {
                break; // cannot be: the place has a rank
            };
            self.join(left, merge.id, pairs);
        }
        Ok(())
    }

    /// What the word has become, from left to right.
    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbol> {
        let mut start = 0;
        core::iter::from_fn(move || {
            let symbol = self.symbol(start)?;
            start = symbol.end;
            Some(symbol)
        })
    }

    /// Makes the symbol at `left` and the one after it one symbol.
    fn join(&mut self, left: usize, id: u32, pairs: &impl Pairs) {
        let right = self.link[left] as usize;
        let end = self.link[right] as usize;
        self.put(Symbol {
            start: left,
            end,
            id,
        });
        self.set_rank(right, None);
        self.set_rank(left, self.pair(left, pairs));
        if let Some(before) = self.before(left) {
            self.set_rank(before, self.pair(before, pairs));
        }
    }

    fn put(&mut self, symbol: Symbol) {
        // In this order: the last byte may be the first.
        self.link[symbol.end - 1] = symbol.start as u32;
        self.link[symbol.start] = symbol.end as u32;
        self.id[symbol.start] = symbol.id;
    }

    fn symbol(&self, start: usize) -> Option<Symbol> {
        (start < self.len).then(|| Symbol {
            start,
            end: self.link[start] as usize,
            id: self.id[start],
        })
    }

    /// The start of the symbol before the one at `start`.
    fn before(&self, start: usize) -> Option<usize> {
        let last = start.checked_sub(1)?;
        // A symbol of one byte has its end here, which is after it.
        Some(last.min(self.link[last] as usize))
    }

    /// What the symbol at `left` and the one after it become.
    fn pair(&self, left: usize, pairs: &impl Pairs) -> Option<Merge> {
        let left = self.symbol(left)?;
        let right = self.symbol(left.end)?;
        pairs.merge(left, right)
    }

    /// The start of the best pair.
    fn best(&self) -> Option<usize> {
        let place = match self.len {
            0 => return None,
            1 => 0,
            _ => self.winner[1] as usize,
        };
        (self.rank[place] != NONE).then_some(place)
    }

    fn set_rank(&mut self, place: usize, merge: Option<Merge>) {
        self.rank[place] = merge.map_or(NONE, |merge| merge.rank);
        let mut node = (self.len + place) / 2;
        while node > 0 {
            let winner = self.better_child(node);
            // Where another place wins as before, nothing above can change.
            if winner == self.winner[node] && winner as usize != place {
                return;
            }
            self.winner[node] = winner;
            node /= 2;
        }
    }

    fn better_child(&self, node: usize) -> u32 {
        let place = |child: usize| match child.checked_sub(self.len) {
            Some(place) => place as u32,
            None => self.winner[child],
        };
        let key = |place: u32| (self.rank[place as usize], place);
        let (one, other) = (place(2 * node), place(2 * node + 1));
        if key(one) < key(other) { one } else { other }
    }
}
