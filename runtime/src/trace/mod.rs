//! What happens when: events for whoever wants to look at a run.
//!
//! The rooms report four kinds of event to a [`TraceSink`]: phases of the run, work of the team's
//! members, allocations, and scopes that are emptied. They hold a [`Trace`], which is off by
//! default: then an event is one branch on a constant, and no clock is read. [`ChromeTrace`] is
//! the sink behind `--trace`.

mod chrome;

pub use chrome::ChromeTrace;

use crate::profile::Bucket;
use crate::sys::now;
use core::fmt;

/// A scope of the arena, as events name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScopeName {
    /// As long as the program.
    Model,
    /// As long as a conversation.
    Kv,
    /// As long as a step.
    Forward,
}

impl ScopeName {
    /// Every scope.
    pub const ALL: [ScopeName; 3] = [ScopeName::Model, ScopeName::Kv, ScopeName::Forward];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            ScopeName::Model => "Model",
            ScopeName::Kv => "Kv",
            ScopeName::Forward => "Forward",
        }
    }
}

/// A part of the run, as its caller sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The model's file is opened and its header checked.
    Header,
    /// The prompt's text is read; a person or a pipe may take long.
    Prompt,
    /// Kernels, threads and the memory plan are settled.
    Setup,
    /// The vocabulary is indexed.
    Tokenizer,
    /// The prompt becomes ids.
    Encode,
    /// The weights are read and packed.
    Load,
    /// A chunk of the prompt goes through the model.
    Prefill {
        /// Of its first token.
        position: usize,
        /// How many there are.
        len: usize,
    },
    /// A token is made.
    Decode {
        /// Its number, from 1, as the log counts.
        token: usize,
        /// Where the token before it stands.
        position: usize,
    },
    /// Rows of the embedding are fetched, maybe from storage.
    Embed,
    /// A token's text is written; a reader may take long.
    Write,
    /// The leading logits are refined.
    Refine,
    /// A stretch of a step.
    Work(Bucket),
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Phase::Header => "header",
            Phase::Prompt => "prompt",
            Phase::Setup => "setup",
            Phase::Tokenizer => "tokenizer",
            Phase::Encode => "encode",
            Phase::Load => "load",
            Phase::Prefill { .. } => "prefill",
            Phase::Decode { token, .. } => return write!(f, "decode token {token}"),
            Phase::Embed => "embed",
            Phase::Write => "write",
            Phase::Refine => "refine",
            Phase::Work(bucket) => bucket.name(),
        })
    }
}

/// What a kernel worked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject<'e> {
    /// The matrix of that tensor.
    Tensor(&'e str),
    /// The attention of that layer.
    Attention(usize),
}

/// The share of one member in one piece of the team's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelWork<'e> {
    /// Who: 0 is the caller.
    pub member: usize,
    /// On what.
    pub subject: Subject<'e>,
    /// By which kernel.
    pub kernel: &'static str,
    /// What the member claimed: rows of a matrix, each for all tokens, or pairs of a token and a
    /// KV head.
    pub claimed: usize,
    /// Tokens of the step.
    pub tokens: usize,
}

/// From when to when, in nanoseconds of [`sys::now`](now).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The beginning.
    pub from: u64,
    /// The end.
    pub to: u64,
}

/// Who is told. Each method does nothing unless it is written.
///
/// Members of the team call [`kernel`](Self::kernel) at the same time; all else comes from the
/// caller's thread. An event comes when it is over, so an inner one before the outer.
pub trait TraceSink: Sync {
    /// The team has so many members, the caller included.
    fn team(&self, _members: usize) {}
    /// A phase is over.
    fn phase(&self, _phase: Phase, _time: Interval) {}
    /// A member has done its share.
    fn kernel(&self, _work: KernelWork<'_>, _time: Interval) {}
    /// A scope handed out `bytes`, and now has `live` in use.
    fn alloc(&self, _scope: ScopeName, _bytes: usize, _live: usize, _at: u64) {}
    /// A scope is empty again.
    fn reset(&self, _scope: ScopeName, _at: u64) {}
}

/// What the rooms hold: a sink, or nothing.
#[derive(Clone, Copy, Default)]
pub struct Trace<'t> {
    sink: Option<&'t dyn TraceSink>,
}

impl<'t> Trace<'t> {
    /// Nobody is told.
    pub const OFF: Trace<'static> = Trace { sink: None };

    /// `sink` is told, if there is one.
    pub fn new(sink: Option<&'t dyn TraceSink>) -> Self {
        Trace { sink }
    }

    /// The time, for [`kernel`](Self::kernel); 0 if nobody is told.
    pub fn begin(self) -> u64 {
        if self.sink.is_some() { now() } else { 0 }
    }

    /// The team has so many members.
    pub fn team(self, members: usize) {
        if let Some(sink) = self.sink {
            sink.team(members);
        }
    }

    /// A phase that ends when the returned value is dropped, whatever ended it.
    pub fn phase(self, phase: Phase) -> OpenPhase<'t> {
        OpenPhase {
            trace: self,
            phase,
            from: self.begin(),
        }
    }

    /// Does `work` as a phase.
    #[inline]
    pub fn during<T>(self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let _phase = self.phase(phase);
        work()
    }

    /// A phase that was timed by others.
    pub fn timed(self, phase: Phase, time: Interval) {
        if let Some(sink) = self.sink {
            tell_phase(sink, phase, time);
        }
    }

    /// A member has done its share since `from`. One who came too late to claim any did nothing.
    pub fn kernel<'e>(self, from: u64, work: impl FnOnce() -> KernelWork<'e>) {
        if let Some(sink) = self.sink {
            let (work, to) = (work(), now());
            if work.claimed > 0 {
                sink.kernel(work, Interval { from, to });
            }
        }
    }

    /// A scope handed out `bytes`, and now has `live` in use.
    pub fn alloc(self, scope: ScopeName, bytes: usize, live: usize) {
        if let Some(sink) = self.sink {
            tell_alloc(sink, scope, bytes, live);
        }
    }

    /// A scope is empty again.
    pub fn reset(self, scope: ScopeName) {
        if let Some(sink) = self.sink {
            tell_reset(sink, scope);
        }
    }
}

/// A phase that has begun.
#[must_use = "it ends when this is dropped"]
pub struct OpenPhase<'t> {
    trace: Trace<'t>,
    phase: Phase,
    from: u64,
}

impl Drop for OpenPhase<'_> {
    fn drop(&mut self) {
        if let Some(sink) = self.trace.sink {
            let (from, to) = (self.from, now());
            tell_phase(sink, self.phase, Interval { from, to });
        }
    }
}

// Out of line, so that the many places that report stay small.

#[cold]
fn tell_phase(sink: &dyn TraceSink, phase: Phase, time: Interval) {
    sink.phase(phase, time);
}

#[cold]
fn tell_alloc(sink: &dyn TraceSink, scope: ScopeName, bytes: usize, live: usize) {
    sink.alloc(scope, bytes, live, now());
}

#[cold]
fn tell_reset(sink: &dyn TraceSink, scope: ScopeName) {
    sink.reset(scope, now());
}
