//! Where the time of a step goes, in named buckets.

use crate::sys::now;

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bucket {
    /// Matrices times activations.
    Matmul,
    /// Scores, softmax, weighted values.
    Attention,
    /// Norms, activation functions and the quantisation that follows them.
    Norm,
    /// Rotary embedding, and storing keys and values.
    Rope,
    /// Choosing a token.
    Sample,
    /// Embedding, residual additions, text and logs.
    Other,
}

/// Buckets there are.
const BUCKETS: usize = 6;

/// A running account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profile {
    ns: [u64; BUCKETS],
    last: u64,
}

impl Profile {
    /// Sets the mark from which the next lap counts.
    pub fn start(&mut self) {
        self.last = now();
    }

    /// Books the time since the mark, and sets it again.
    pub fn lap(&mut self, bucket: Bucket) {
        let time = now();
        self.ns[bucket as usize] += time - self.last;
        self.last = time;
    }

    /// Nanoseconds in a bucket.
    pub fn ns(&self, bucket: Bucket) -> u64 {
        self.ns[bucket as usize]
    }

    /// What was booked since `earlier`.
    pub fn since(&self, earlier: &Profile) -> Profile {
        let mut difference = *self;
        for (ns, before) in difference.ns.iter_mut().zip(earlier.ns) {
            *ns -= before;
        }
        difference
    }
}
