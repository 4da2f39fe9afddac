//! `bench`: how fast this machine runs a model, in the tests, names and flags of `llama-bench`.
//!
//! `pp512` is a prompt of 512 tokens, from its first token to the logits after its last. `tg128`
//! is 128 tokens, one after the other: each is evaluated and the next one chosen, greedily, as in a
//! run; text and logs are left out. `tg128 @ d1984` is the same behind 1,984 tokens of context,
//! whose own time does not count. Loading is never part of a figure. A row is the mean of the
//! repetitions, with their sample standard deviation as the spread.
//!
//! Prompts are spread over the vocabulary, since only their number counts; they are the same each
//! time, and so is the work.

mod report;
pub mod workload;

use self::report::{Report, Samples};
use self::workload::{Kind, Test, Workload};
use crate::arena::{Forward, Region};
use crate::chat::ChatChoice;
use crate::conversation::Conversation;
use crate::cpu;
use crate::error::Error;
use crate::generate::memory_fields;
use crate::ids;
use crate::kv::KvCache;
use crate::log::{Log, event};
use crate::model::Engine;
use crate::options::{Options, UsageError};
use crate::sampler::{Sampler, Settings};
use crate::session::{self, Machine, Memory};
use crate::sys;
use crate::trace::{Phase, Trace};
use core::ffi::CStr;
use kernels_asm::features::Isa;

/// Measures what the command line asks for; a row each on stdout. The context is the longest test's
/// unless `-c` asks for more.
///
/// # Errors
/// There is nothing to measure or it exceeds the context, the model cannot be run, or stdout is
/// closed.
pub fn run(machine: &Machine<'_>, options: &Options, log: &Log) -> Result<(), Error> {
    let needed = options.bench.context();
    let context = options.context.unwrap_or(needed);
    if needed == 0 {
        return Err(UsageError::NothingToMeasure.into());
    }
    if context < needed {
        return Err(UsageError::ContextBelowTest { context, needed }.into());
    }
    let options = &Options {
        context: Some(context),
        chat: ChatChoice::Raw,
        system: None,
        console: None,
        ..options.clone()
    };
    session::traced(options, log, |trace| measure(machine, options, log, trace))
}

fn measure(
    machine: &Machine<'_>,
    options: &Options,
    log: &Log,
    trace: Trace<'_>,
) -> Result<(), Error> {
    let setup = session::set_up(machine, options, log, trace)?;
    let mut memory = Memory::reserve(&setup, options, trace)?;
    let kv = memory.kv.open();
    let mut talk = Conversation::new(&setup, &memory.model, &kv, memory.forward, log, trace)?;
    let (model, forward) = (&memory.model, &mut talk.forward);
    let mut engine =
        session::start_engine(&setup, options, model, memory.stacks, forward, log, trace)?;
    memory.plan.check_used(&memory.model, &kv)?;

    setup.notify.ready("measuring");

    ids::spread_over(setup.config.vocabulary, talk.history);
    let mut bench = Bench {
        engine: &mut engine,
        cache: &mut talk.cache,
        forward: &mut talk.forward,
        ids: talk.history,
        sampler: Sampler::new(Settings::default(), 0)?,
    };
    let workload = &options.bench;
    let model = base_name(options.model.unwrap_or_default());
    let mut report = Report::new(&setup, model, isa(options), workload.format);
    let (mut depth, mut rows) = (0, 0);
    for test in workload.tests() {
        if test.depth != depth {
            bench.prompt(0, test.depth)?;
            depth = test.depth;
        }
        report.row(test, &bench.samples(test, workload)?)?;
        rows += 1;
    }
    event!(
        log,
        "end",
        number rows = rows,
        more memory = memory_fields(memory.plan.total()),
        text finish = "length",
    );
    Ok(())
}

/// The strongest instruction set that kernels were chosen from.
fn isa(options: &Options) -> Isa {
    let detected = cpu::features();
    let mut strongest = Isa::ALL.into_iter().rev();
    let strongest = strongest.find(|isa| detected.has(isa.needs()));
    options.isa.or(strongest).unwrap_or(Isa::Reference)
}

/// A file's name without its folders; nothing if it is not UTF-8.
fn base_name(path: &'static CStr) -> &'static str {
    let path = path.to_str().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// What tests run with.
struct Bench<'b, 'm, 'k> {
    engine: &'b mut Engine<'m>,
    cache: &'b mut KvCache<'k>,
    forward: &'b mut Region<'m, Forward>,
    /// A token for each position of the context.
    ids: &'b [u32],
    sampler: Sampler,
}

impl Bench<'_, '_, '_> {
    /// Measures a test as often as it is asked for, in tokens per second.
    fn samples(&mut self, test: Test, workload: &Workload) -> Result<Samples, Error> {
        if workload.warms_up {
            // As llama-bench: all of a prompt, for its buffers, but one token of the others.
            match test.kind {
                Kind::Prompt => self.prompt(test.depth, test.tokens)?,
                Kind::Decode => self.decode(test.depth, 1)?,
            }
        }
        let mut samples = Samples::default();
        for _ in 0..workload.repeats {
            let began = sys::now();
            match test.kind {
                Kind::Prompt => self.prompt(test.depth, test.tokens)?,
                Kind::Decode => self.decode(test.depth, test.tokens)?,
            }
            let seconds = (sys::now() - began) as f64 / 1e9;
            samples.add(test.tokens as f64 / seconds);
        }
        Ok(samples)
    }

    /// Evaluates a prompt of `count` tokens behind `position` others, a batch at a time, up to the
    /// token that follows it.
    fn prompt(&mut self, position: usize, count: usize) -> Result<(), Error> {
        let end = position + count;
        for from in (position..end).step_by(self.engine.plan.batch) {
            let len = self.engine.plan.batch.min(end - from);
            let phase = Phase::Prefill {
                position: from,
                len,
            };
            let _phase = self.engine.trace.phase(phase);
            let ids = &self.ids[from..][..len];
            self.step(from, ids, from + len == end)?;
        }
        Ok(())
    }

    /// Evaluates `count` tokens behind `position` others, one at a time: each but the first is what
    /// was chosen after the one before it.
    fn decode(&mut self, position: usize, count: usize) -> Result<(), Error> {
        let mut id = self.ids[position];
        for (index, position) in (position..).take(count).enumerate() {
            let token = index + 1;
            let _phase = self.engine.trace.phase(Phase::Decode { token, position });
            id = self.step(position, &[id], true)?;
        }
        Ok(())
    }

    /// Evaluates tokens, and chooses the one after them if that is wanted; 0 if not.
    fn step(&mut self, position: usize, ids: &[u32], wanted: bool) -> Result<u32, Error> {
        if let Some(code) = sys::pending_signal() {
            return Err(Error::Cancelled(code));
        }
        let scratch = self.forward.open();
        let mut step = self.engine.forward(self.cache, &scratch, ids, position)?;
        if !wanted {
            return Ok(0);
        }
        let logits = self.engine.logits(&mut step, ids.len() - 1);
        let kernels = &self.engine.kernels;
        let softmax = |x: &mut [f32]| kernels.softmax(x);
        Ok(self.sampler.sample(logits, &[], &softmax, &scratch)?)
    }
}
