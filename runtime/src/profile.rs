//! Where the time of a step goes, in named buckets.

use crate::sys::now;
use crate::trace::{Interval, Phase, Trace};

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

impl Bucket {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Bucket::Matmul => "matmul",
            Bucket::Attention => "attention",
            Bucket::Norm => "norm",
            Bucket::Rope => "rope",
            Bucket::Sample => "sample",
            Bucket::Other => "other",
        }
    }
}

/// Buckets there are.
const BUCKETS: usize = 6;

/// A running account.
#[derive(Clone, Copy, Default)]
pub struct Profile<'t> {
    ns: [u64; BUCKETS],
    last: u64,
    trace: Trace<'t>,
}

impl<'t> Profile<'t> {
    /// An account whose laps are phases of `trace`.
    pub fn new(trace: Trace<'t>) -> Self {
        Profile {
            trace,
            ..Profile::default()
        }
    }

    /// Sets the mark from which the next lap counts.
    pub fn start(&mut self) {
        self.last = now();
    }

    /// Books the time since the mark, and sets it again.
    pub fn lap(&mut self, bucket: Bucket) {
        let time = now();
        self.ns[bucket as usize] += time - self.last;
        // What is between two steps, and so begins before its step does, is no phase of it.
        if bucket != Bucket::Other {
            let (from, to) = (self.last, time);
            self.trace.timed(Phase::Work(bucket), Interval { from, to });
        }
        self.last = time;
    }

    /// Nanoseconds in a bucket.
    pub fn ns(&self, bucket: Bucket) -> u64 {
        self.ns[bucket as usize]
    }

    /// What was booked since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = *self;
        for (ns, before) in difference.ns.iter_mut().zip(earlier.ns) {
            *ns -= before;
        }
        difference
    }
}
