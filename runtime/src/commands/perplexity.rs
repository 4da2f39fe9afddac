//! `perplexity`: how well a model predicts a text; defined and cut up as `llama-perplexity` does
//! it, so that figures compare.
//!
//! The text's tokens, with BOS in front where the model adds it, are cut into chunks of a context;
//! the rest is left out. Each chunk is evaluated for itself, with BOS in the place of its first
//! token where the model adds it. Scored are the tokens of its second half but the first of these:
//! each has half a context before it. The perplexity is e to the mean of `-ln p(token)`.
//!
//! The logits are those that a run would choose from, bit for bit, and what is made of them here
//! has one order too (`docs/numerics.md`), so the figures are the same on every machine.

use crate::arena::{ArenaError, Forward, Region};
use crate::chat::ChatChoice;
use crate::conversation::Conversation;
use crate::error::Error;
use crate::generate::memory_fields;
use crate::kv::KvCache;
use crate::log::{Log, event};
use crate::model::Engine;
use crate::options::{Options, UsageError};
use crate::output::Rows;
use crate::sampler::check_finite;
use crate::session::{self, Machine, Memory, Setup};
use crate::sys;
use crate::tokenizer::Segment;
use crate::trace::{Phase, Trace};

/// Tokens of a chunk unless `-c` says otherwise: what published figures have.
const CONTEXT_DEFAULT: usize = 512;
/// With fewer there would be no two tokens to score, and no standard error.
const CONTEXT_LEAST: usize = 8;

/// Scores the text of `-f`, `-p` or stdin: a line a chunk with the perplexity so far, then the
/// estimate with its standard error.
///
/// # Errors
/// The model cannot be run, the text is shorter than two contexts, or stdout is closed.
pub fn run(machine: &Machine<'_>, options: &Options, log: &Log) -> Result<(), Error> {
    let context = options.context.unwrap_or(CONTEXT_DEFAULT);
    if context < CONTEXT_LEAST {
        return Err(UsageError::ContextTooSmall {
            found: context,
            least: CONTEXT_LEAST,
        }
        .into());
    }
    let options = &Options {
        context: Some(context),
        chat: ChatChoice::Raw,
        system: None,
        prompt_ids: None,
        ..options.clone()
    };
    session::traced(options, log, |trace| {
        score_text(machine, options, log, trace)
    })
}

fn score_text(
    machine: &Machine<'_>,
    options: &Options,
    log: &Log,
    trace: Trace<'_>,
) -> Result<(), Error> {
    let setup = session::set_up(machine, options, log, trace)?;
    let mut memory = Memory::reserve(&setup, options, trace)?;
    let kv = memory.kv.open();
    let mut talk = Conversation::new(&setup, &memory.model, &kv, memory.forward, log, trace)?;
    let count = trace.during(Phase::Encode, || encode(&setup, &mut talk))?;
    let (model, forward) = (&memory.model, &mut talk.forward);
    let mut engine =
        session::start_engine(&setup, options, model, memory.stacks, forward, log, trace)?;
    memory.plan.check_used(&memory.model, &kv)?;
    setup.notify.ready("scoring");

    let began = sys::now();
    let mut rows = Rows::new(options.json);
    let mut score = Score::default();
    let context = setup.request.context;
    let Conversation {
        tokenizer,
        cache,
        history,
        forward,
    } = &mut talk;
    let chunks = history[..count].chunks_exact_mut(context);
    let chunks = chunks.take(options.chunks.unwrap_or(usize::MAX));
    let mut tokens = 0;
    for (index, chunk) in chunks.enumerate() {
        if let Some(bos) = tokenizer.bos().filter(|_| tokenizer.adds_bos()) {
            chunk[0] = bos;
        }
        score_chunk(&mut engine, cache, forward, chunk, &mut score)?;
        print_chunk(&mut rows, index + 1, &score)?;
        tokens += context;
    }
    print_estimate(&mut rows, &score)?;
    let ms = (sys::now() - began) as f64 / 1e6;
    event!(
        log,
        "end",
        number tokens = tokens as u64,
        number scored = score.count,
        decimal perplexity = (score.perplexity(), 4),
        decimal standard_error = (score.standard_error(), 5),
        decimal ms = ms,
        decimal tok_s = tokens as f64 * 1e3 / ms,
        more memory = memory_fields(memory.plan.total()),
        text finish = "length",
    );
    Ok(())
}

/// Turns the text into ids at the front of the history, with BOS before them where the model adds
/// it; returns how many.
fn encode(setup: &Setup<'_>, talk: &mut Conversation<'_, '_>) -> Result<usize, Error> {
    let Conversation {
        tokenizer,
        history,
        forward,
        ..
    } = talk;
    let mut count = 0;
    let mut push = |id| {
        if let Some(place) = history.get_mut(count) {
            *place = id;
        }
        count += 1;
    };
    if let Some(bos) = tokenizer.bos().filter(|_| tokenizer.adds_bos()) {
        push(bos);
    }
    let text = [Segment::Text(setup.prompt)];
    tokenizer.encode_each(text.into_iter(), &forward.open(), &mut push)?;
    if count > history.len() {
        // Cannot be: there is room for as many as the plan says.
        let [wanted, left] = [count, history.len()].map(|tokens| tokens * size_of::<u32>());
        return Err(Error::Arena(ArenaError { wanted, left }));
    }
    let (tokens, context) = (count, setup.request.context);
    match tokens < 2 * context {
        true => Err(Error::TextTooShort { tokens, context }),
        false => Ok(tokens),
    }
}

/// Evaluates a chunk, a step at a time, and scores its second half.
fn score_chunk(
    engine: &mut Engine<'_>,
    cache: &mut KvCache<'_>,
    forward: &mut Region<'_, Forward>,
    chunk: &[u32],
    score: &mut Score,
) -> Result<(), Error> {
    let first = chunk.len() / 2;
    let batch = engine.plan.batch;
    for (at, part) in chunk.chunks(batch).enumerate() {
        if let Some(code) = sys::pending_signal() {
            return Err(Error::Cancelled(code));
        }
        let (position, len) = (at * batch, part.len());
        let _phase = engine.trace.phase(Phase::Prefill { position, len });
        let scratch = forward.open();
        let mut step = engine.forward(cache, &scratch, part, position)?;
        for token in first.saturating_sub(position)..len {
            let Some(&next) = chunk.get(position + token + 1) else {
                break; // what follows the last token is not known
            };
            let logits = engine.logits(&mut step, token);
            check_finite(logits)?;
            score.add(surprise(logits, next));
        }
    }
    Ok(())
}

/// `-ln p(id)` for finite logits: the sum of `e^(logit - greatest)` in f64, in the order of the
/// vocabulary.
fn surprise(logits: &[f32], id: u32) -> f64 {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let below = |logit: f32| f64::from(logit) - f64::from(greatest);
    let sum = logits.iter().map(|&logit| libm::exp(below(logit)));
    libm::log(sum.fold(0.0, |sum, term| sum + term)) - below(logits[id as usize])
}

/// The surprises so far.
#[derive(Clone, Copy, Default)]
struct Score {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Score {
    fn add(&mut self, surprise: f64) {
        self.count += 1;
        self.sum += surprise;
        self.squares += surprise * surprise;
    }

    fn perplexity(&self) -> f64 {
        libm::exp(self.sum / self.count as f64)
    }

    /// That of the mean surprise, carried over to the perplexity: to first order it is
    /// multiplied with it.
    fn standard_error(&self) -> f64 {
        let count = self.count as f64;
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        libm::sqrt(variance / (count - 1.0)) * self.perplexity()
    }
}

/// The line of a chunk, flushed: a text may take hours.
fn print_chunk(rows: &mut Rows, number: usize, score: &Score) -> Result<(), Error> {
    let perplexity = score.perplexity();
    rows.row(
        format_args!("[{number}] {perplexity:.4}"),
        "chunk",
        |line| {
            line.number("chunk", number as u64)
                .decimal("perplexity", (perplexity, 4))
        },
    )?;
    rows.flush()
}

/// The last line.
fn print_estimate(rows: &mut Rows, score: &Score) -> Result<(), Error> {
    let (perplexity, error) = (score.perplexity(), score.standard_error());
    rows.row(
        format_args!("Final estimate: PPL = {perplexity:.4} +/- {error:.5}"),
        "perplexity",
        |line| {
            line.number("scored", score.count)
                .decimal("perplexity", (perplexity, 4))
                .decimal("standard_error", (error, 5))
        },
    )?;
    rows.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surprise_is_minus_log_softmax() {
        // ln(e^0 + e^-1 + e^-2) = 0.40760596444438
        let logits = [1002.0, 1001.0, 1000.0];
        for (id, expected) in [(0, 0.407_605_964), (1, 1.407_605_964), (2, 2.407_605_964)] {
            assert!((surprise(&logits, id) - expected).abs() < 1e-9);
        }
        // Where a probability is too small for any float, its logarithm is not.
        assert_eq!(surprise(&[0.0, -2000.0], 1), 2000.0);
    }

    #[test]
    fn perplexity_of_equal_choices_is_their_number() {
        let mut score = Score::default();
        for _ in 0..10 {
            score.add(surprise(&[0.5; 64], 7));
        }
        assert!((score.perplexity() - 64.0).abs() < 1e-9);
        assert!(score.standard_error() < 1e-5);
    }

    #[test]
    fn standard_error_is_that_of_the_mean() {
        let mut score = Score::default();
        for surprise in [1.0, 2.0, 3.0] {
            score.add(surprise);
        }
        // Variance 2/3 of three numbers; the mean's is a (3 - 1)th of it.
        let expected = libm::sqrt(2.0 / 3.0 / 2.0) * libm::exp(2.0);
        assert!((score.standard_error() - expected).abs() < 1e-12);
    }
}
