//! The loop: prompt ids through the model in chunks, then one token after the other.

use crate::arena::{Forward, Open, Region};
use crate::chat::Chat;
use crate::cpu;
use crate::error::Error;
use crate::kv::KvCache;
use crate::log::Log;
use crate::model::Engine;
use crate::options::Options;
use crate::profile::{Bucket, Profile};
use crate::sampler::Sampler;
use crate::session::Setup;
use crate::sys::{self, Fd};
use crate::tokenizer::{TextStream, Tokenizer};
use core::fmt::Write;

/// Why generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// A stop string.
    Stop,
    /// As many tokens as were asked for.
    Length,
    /// An end token of the model.
    Eos,
    /// The context is full.
    Context,
    /// A signal; with the exit code that it asks for.
    Cancel(u8),
}

impl Finish {
    /// In the words of the log.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Eos => "eos",
            Finish::Context => "context",
            Finish::Cancel(_) => "cancel",
        }
    }

    /// The process's exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Finish::Cancel(code) => code,
            _ => 0,
        }
    }
}

/// When what happened, and how much of it.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    began: u64,
    /// The first token was chosen.
    first: u64,
    /// The last token was chosen.
    last: u64,
    /// Tokens chosen.
    generated: usize,
    mhz: Option<u64>,
}

/// One conversation in progress.
pub struct Generator<'g, 'm> {
    options: &'g Options,
    log: &'g Log,
    tokenizer: &'g Tokenizer<'m>,
    chat: &'g Chat,
    engine: &'g mut Engine<'m>,
    cache: &'g mut KvCache<'g>,
    /// Ids so far; the first `position` of them are in the cache.
    history: &'g mut [u32],
    position: usize,
    sampler: Sampler,
    stream: TextStream,
    logits_file: Option<Fd>,
    times: Times,
}

impl<'g, 'm> Generator<'g, 'm> {
    /// Runs the prompt, whose ids are the first `prompt_len` of `history`, and generates.
    ///
    /// # Errors
    /// The output is closed, or a logit is no number.
    pub fn run(
        &mut self,
        prompt_len: usize,
        forward: &mut Region<'_, Forward>,
    ) -> Result<Finish, Error> {
        self.times = Times { began: sys::now(), mhz: cpu::frequency_mhz(0), ..Times::default() };
        let before = self.engine.profile;
        let finish = match self.prefill(prompt_len, forward)? {
            Progress::Token(id) => self.decode(id, forward)?,
            Progress::Finished(finish) => finish,
        };
        self.write_rest()?;
        self.log_end(prompt_len, &before, finish);
        Ok(finish)
    }

    /// The prompt, a chunk at a time. The first token comes from the last chunk's logits.
    fn prefill(
        &mut self,
        prompt_len: usize,
        forward: &mut Region<'_, Forward>,
    ) -> Result<Progress, Error> {
        let batch = self.engine.plan.batch;
        while self.position < prompt_len {
            if let Some(code) = sys::pending_signal() {
                return Ok(Progress::Finished(Finish::Cancel(code)));
            }
            let len = batch.min(prompt_len - self.position);
            let wanted = self.options.tokens_max > 0 && self.position + len == prompt_len;
            let id = self.step(len, wanted, &forward.open())?;
            if let Some(id) = id {
                self.times.first = sys::now();
                return Ok(Progress::Token(id));
            }
        }
        Ok(Progress::Finished(Finish::Length))
    }

    /// One token after the other, from the first chosen one.
    fn decode(
        &mut self,
        mut id: u32,
        forward: &mut Region<'_, Forward>,
    ) -> Result<Finish, Error> {
        loop {
            self.times.generated += 1;
            self.times.last = sys::now();
            if !self.options.ignore_eos && self.is_end(id) {
                return Ok(Finish::Eos);
            }
            if self.write(id)? {
                return Ok(Finish::Stop);
            }
            if self.times.generated == self.options.tokens_max {
                return Ok(Finish::Length);
            }
            if let Some(code) = sys::pending_signal() {
                return Ok(Finish::Cancel(code));
            }
            let Some(slot) = self.history.get_mut(self.position) else {
                return Ok(Finish::Context);
            };
            *slot = id;
            let before = (self.engine.profile, sys::now());
            let next = self.step(1, true, &forward.open())?;
            self.log_token(id, &before);
            id = next.expect("a token was asked for");
        }
    }

    /// Runs the next `len` ids of the history, and chooses a token after them if one is `wanted`.
    fn step(
        &mut self,
        len: usize,
        wanted: bool,
        scratch: &Open<'_, Forward>,
    ) -> Result<Option<u32>, Error> {
        let ids = &self.history[self.position..][..len];
        let mut step = self.engine.forward(self.cache, scratch, ids, self.position)?;
        self.position += len;
        if let Some(file) = self.logits_file {
            for token in 0..len {
                let logits = self.engine.logits(&mut step, token);
                write_floats(file, logits).map_err(Error::Output)?;
            }
        }
        if !wanted {
            return Ok(None);
        }
        let logits = self.engine.logits(&mut step, len - 1);
        let (history, kernels) = (&self.history[..self.position], &self.engine.kernels);
        let softmax = |x: &mut [f32]| kernels.softmax(x);
        let id = self.sampler.sample(logits, history, &softmax, scratch)?;
        self.engine.profile.lap(Bucket::Sample);
        Ok(Some(id))
    }
}

/// What a prompt led to.
enum Progress {
    /// A first token.
    Token(u32),
    /// Nothing more to do.
    Finished(Finish),
}

/// Writes floats little-endian, through a small buffer.
fn write_floats(file: Fd, floats: &[f32]) -> Result<(), sys::Errno> {
    let mut buffer = [0; 4096];
    for part in floats.chunks(buffer.len() / 4) {
        let bytes = &mut buffer[..4 * part.len()];
        for (bytes, float) in bytes.chunks_exact_mut(4).zip(part) {
            bytes.copy_from_slice(&float.to_le_bytes());
        }
        file.write_all(bytes)?;
    }
    Ok(())
}
