//! A hash table of indices, for the two questions of a tokenizer: which token has this text, and
//! what does this pair merge to.
//!
//! Open addressing with double hashing (Knuth, "The Art of Computer Programming", volume 3, 6.4,
//! algorithm D): the slots of a key are so many apart as other bits of its hash say. With neighbours
//! for the next ones, keys that nobody made to collide, one for each slot of a stretch, would make a
//! search from anywhere in it as long as it is. The keys live elsewhere; a slot has an index to them
//! and some bits of the hash, so that most wrong slots are passed without a look at the key. No
//! search takes more than [`PROBES_MAX`] steps, found or not: a file whose keys would need more is
//! refused, so that no file makes the time quadratic.

/// Largest index that a slot can hold, and so the most entries of a table.
pub(super) const INDEX_MAX: usize = (1 << INDEX_BITS) - 2;
/// Bits of a slot that are the index; the others are a tag of the hash.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
/// A slot that holds nothing; no index reaches it.
const EMPTY: u32 = u32::MAX;
/// Slots that a search looks at. Where a table is full to a share `a`, a search for a place passes
/// `k` full slots in about `a^k` of all cases; over the filling of a table of `s` slots up to two
/// thirds, `s (2/3)^(k+1) / (k+1)` entries are to pass as many. In the largest table that is ever as
/// full, of 2^20 slots, that is one entry for `k` = 25, one in 600 tables for 40, and one in 6e18 for
/// 128.
pub(super) const PROBES_MAX: usize = 128;

/// Too many keys in a row.
#[derive(Debug)]
pub(super) struct Collisions;

/// Slots that a table of so many entries takes: at most two thirds of them are full.
pub(super) fn slots_for(entries: usize) -> usize {
    (entries + entries / 2 + 1).next_power_of_two()
}

/// The table.
#[derive(Clone, Copy)]
pub(super) struct Slots<'m> {
    slots: &'m [u32],
}

/// A table that is being filled.
pub(super) struct SlotsBuilder<'m> {
    slots: &'m mut [u32],
}

impl<'m> SlotsBuilder<'m> {
    /// An empty table in `slots`, as many as [`slots_for`] says.
    pub(super) fn new(slots: &'m mut [u32]) -> Self {
        slots.fill(EMPTY);
        SlotsBuilder { slots }
    }

    /// Adds `index`, unless an index is there already that `is` the same key: then gives that one.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        index: u32,
        is: impl FnMut(u32) -> bool,
    ) -> Result<Option<u32>, Collisions> {
        match search(self.slots, hash, is)? {
            Found::Index(other) => Ok(Some(other)),
            Found::Empty(at) => {
                self.slots[at] = tag(hash) | index;
                Ok(None)
            }
        }
    }

    /// The table, full enough.
    pub(super) fn finish(self) -> Slots<'m> {
        Slots { slots: self.slots }
    }
}

impl Slots<'_> {
    /// The index whose key `is` the one with that hash.
    pub(super) fn find(&self, hash: u64, is: impl FnMut(u32) -> bool) -> Option<u32> {
        match search(self.slots, hash, is) {
            Ok(Found::Index(index)) => Some(index),
            _ => None,
        }
    }
}

enum Found {
    Index(u32),
    Empty(usize),
}

fn search(slots: &[u32], hash: u64, mut is: impl FnMut(u32) -> bool) -> Result<Found, Collisions> {
    let mask = slots.len() - 1; // a power of two
    let mut at = hash as usize & mask;
    let step = step(hash);
    for _ in 0..PROBES_MAX {
        let slot = slots[at];
        if slot == EMPTY {
            return Ok(Found::Empty(at));
        }
        let index = slot & INDEX_MASK;
        if slot & !INDEX_MASK == tag(hash) && is(index) {
            return Ok(Found::Index(index));
        }
        at = at.wrapping_add(step) & mask;
    }
    Err(Collisions)
}

/// How far the slots of a key are apart: bits of its hash between those of the place and the tag.
/// Odd, so that a table, a power of two, is gone through whole before a slot comes again.
fn step(hash: u64) -> usize {
    (hash >> (INDEX_BITS + 1)) as usize | 1
}

/// The bits of the hash that stand in a slot: its highest, since the lowest are place and step.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 & !INDEX_MASK
}

/// Spreads every bit of a key over the whole hash (Steele and others, "Fast splittable
/// pseudorandom number generators", 2014: the finaliser of SplitMix64).
pub(super) fn mix(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let key = (key ^ key >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    key ^ key >> 31
}

/// Of a random number generator (Knuth, "The Art of Computer Programming", volume 2, 3.3.4: MMIX):
/// its powers spread bytes over 64 bits.
const TEXT_BASE: u64 = 0x5851_F42D_4C95_7F2D;

/// The hash of a text, which can be had from that of the text one byte before in a few steps (Karp
/// and Rabin, "Efficient randomized pattern-matching algorithms", 1987): its bytes, each plus one,
/// are the digits of a number modulo 2^64.
#[derive(Clone, Copy, Default)]
pub(super) struct TextHash(u64);

impl TextHash {
    /// That of a text.
    pub(super) fn of(text: impl IntoIterator<Item = u8>) -> Self {
        let push =
            |TextHash(hash), byte| TextHash(hash.wrapping_mul(TEXT_BASE).wrapping_add(digit(byte)));
        text.into_iter().fold(TextHash(0), push)
    }

    /// That of the text of the same length one byte on: without `first`, and with `next` behind it.
    /// `weight` is the [`weight`](Self::weight) of the length.
    pub(super) fn slide(self, weight: u64, first: u8, next: u8) -> Self {
        let rest = self.0.wrapping_mul(TEXT_BASE);
        let gone = digit(first).wrapping_mul(weight);
        TextHash(rest.wrapping_sub(gone).wrapping_add(digit(next)))
    }

    /// What the first byte of a text of that length weighs once another is behind it.
    pub(super) fn weight(length: usize) -> u64 {
        (0..length).fold(1, |weight: u64, _| weight.wrapping_mul(TEXT_BASE))
    }

    /// To look for it: the low bits of the number alone depend on the last bytes alone.
    pub(super) fn mixed(self) -> u64 {
        mix(self.0)
    }
}

fn digit(byte: u8) -> u64 {
    u64::from(byte) + 1
}

#[cfg(test)]
mod tests {
    use super::TextHash;

    #[test]
    fn hash_that_slid_is_that_of_the_text() {
        let text: [u8; 64] = core::array::from_fn(|at| (at * at * 37) as u8);
        for length in [1, 2, 7, 63] {
            let weight = TextHash::weight(length);
            let mut hash = TextHash::of(text[..length].iter().copied());
            for from in 1..=text.len() - length {
                hash = hash.slide(weight, text[from - 1], text[from + length - 1]);
                let afresh = TextHash::of(text[from..from + length].iter().copied());
                assert_eq!(hash.mixed(), afresh.mixed(), "{from}, {length}");
            }
        }
    }
}
