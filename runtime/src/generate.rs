//! The loop: prompt ids through the model in chunks, then one token after the other.

use crate::arena::{Forward, Open, Region};
use crate::cpu::{self, Root, State, Throttled};
use crate::error::Error;
use crate::kv::KvCache;
use crate::log::{Line, Log, event, fields};
use crate::model::Engine;
use crate::options::Options;
use crate::profile::{Bucket, Profile};
use crate::sampler::{Sampler, Settings, check_finite};
use crate::sys::{self, Fd, THREADS_MAX};
use crate::tokenizer::{Flow, TextStream, Tokenizer};
use crate::trace::Phase;
use core::ffi::CStr;
use heapless::Vec;

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
    /// Its reader wants no more, or is gone.
    Interrupt,
}

impl Finish {
    /// In the words of the log.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Eos => "eos",
            Finish::Context => "context",
            Finish::Cancel(_) | Finish::Interrupt => "cancel",
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
pub struct Times {
    began: u64,
    /// The first token was chosen.
    first: u64,
    /// The last token was chosen.
    last: u64,
    /// Tokens chosen.
    generated: usize,
}

/// The state of the accounts at a token's line.
#[derive(Clone, Copy, Default)]
pub struct Mark<'m> {
    profile: Profile<'m>,
    time: u64,
    faults: u64,
}

/// Who an answer is for.
pub trait Reader {
    /// Takes a token that was chosen. The text that can be shown since is told after it.
    ///
    /// # Errors
    /// There is no reader any more.
    fn token(&mut self, id: u32) -> Result<(), Error>;

    /// Takes a piece of text.
    ///
    /// # Errors
    /// There is no reader any more.
    fn text(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Nothing follows for a while: what was taken is shown.
    ///
    /// # Errors
    /// There is no reader any more.
    fn flush(&mut self) -> Result<(), Error>;

    /// Why no more is wanted, if so; asked between two steps.
    fn cancels(&mut self) -> Option<Finish>;
}

/// How an answer is made.
pub struct Manner<'a> {
    /// Tokens at most.
    pub tokens_max: usize,
    /// Chooses tokens.
    pub sampler: Sampler,
    /// The sampler's seed, for the log.
    pub seed: u64,
    /// Holds back incomplete characters and possible stop texts.
    pub stream: TextStream<'a>,
}

impl<'a> Manner<'a> {
    /// With a seed of the kernel's if none is given.
    ///
    /// # Errors
    /// A setting or a stop text cannot be used.
    pub fn new(
        tokens_max: usize,
        settings: Settings,
        seed: Option<u64>,
        stops: &[&'a [u8]],
    ) -> Result<Self, Error> {
        let seed = seed.unwrap_or_else(|| u64::from(sys::entropy() as u32));
        Ok(Manner {
            tokens_max,
            sampler: Sampler::new(settings, seed)?,
            seed,
            stream: TextStream::new(stops)?,
        })
    }
}

/// An answer in progress.
pub struct Generator<'g, 'm, 'k> {
    /// The command line.
    pub options: &'g Options,
    /// Where events go.
    pub log: &'g Log,
    /// The vocabulary.
    pub tokenizer: &'g Tokenizer<'m>,
    /// The model.
    pub engine: &'g mut Engine<'m>,
    /// Keys and values so far.
    pub cache: &'g mut KvCache<'k>,
    /// Ids so far; the first `position` of them are in the cache.
    pub history: &'g mut [u32],
    /// Tokens evaluated.
    pub position: usize,
    /// How tokens are chosen, and how many.
    pub manner: Manner<'g>,
    /// Who gets them.
    pub reader: &'g mut dyn Reader,
    /// `--logits`.
    pub logits_file: Option<LogitsFile>,
    /// What was planned, for the log.
    pub plan_bytes: usize,
    /// The processors of the threads, for the log.
    pub cpus: Vec<u32, THREADS_MAX>,
    /// When what happened.
    pub times: Times,
    /// What was spent until the last token's line, and when that was.
    pub mark: Mark<'m>,
}

impl Generator<'_, '_, '_> {
    /// Runs the prompt, whose ids are the first `prompt_len` of `history`, from `position` on, and
    /// generates.
    ///
    /// # Errors
    /// The output is closed, or a logit is no number.
    pub fn run(
        &mut self,
        prompt_len: usize,
        forward: &mut Region<'_, Forward>,
    ) -> Result<Ended, Error> {
        let cached = self.position;
        let before = State::read(Root::SYSTEM, &self.cpus);
        self.times = Times {
            began: sys::now(),
            ..Times::default()
        };
        self.engine.profile.start();
        self.mark = Mark {
            profile: self.engine.profile,
            time: self.times.began,
            faults: sys::major_faults(),
        };
        let finish = self.generate(prompt_len, forward);
        // Before anything else is done: an idle processor lowers its clock.
        let state = State::read(Root::SYSTEM, &self.cpus);
        // Whatever ended it: text that was made is not lost.
        self.write_rest()?;
        let read_speed = self.options.profile.then(|| self.engine.read_speed());
        Ok(Ended {
            finish: finish?,
            prefilled: prompt_len - cached,
            times: self.times,
            step_bytes: self.engine.weights.step_bytes(),
            read_speed,
            seed: self.manner.seed,
            plan_bytes: self.plan_bytes,
            throttled: state.throttled_since(&before),
            state,
        })
    }

    fn generate(
        &mut self,
        prompt_len: usize,
        forward: &mut Region<'_, Forward>,
    ) -> Result<Finish, Error> {
        match self.prefill(prompt_len, forward)? {
            Progress::Token(id) => self.decode(id, forward),
            Progress::Finished(finish) => Ok(finish),
        }
    }

    /// The prompt, a chunk at a time. The first token comes from the last chunk's logits.
    fn prefill(
        &mut self,
        prompt_len: usize,
        forward: &mut Region<'_, Forward>,
    ) -> Result<Progress, Error> {
        let batch = self.engine.plan.batch;
        while self.position < prompt_len {
            if let Some(finish) = self.reader.cancels() {
                return Ok(Progress::Finished(finish));
            }
            let (position, len) = (self.position, batch.min(prompt_len - self.position));
            let phase = Phase::Prefill { position, len };
            let _phase = self.engine.trace.phase(phase);
            let wanted = self.manner.tokens_max > 0 && self.position + len == prompt_len;
            let id = self.step(len, wanted, &forward.open())?;
            if let Some(id) = id {
                self.times.first = sys::now();
                self.log_token(id);
                return Ok(Progress::Token(id));
            }
        }
        Ok(Progress::Finished(Finish::Length))
    }

    /// One token after the other, from the first chosen one.
    fn decode(&mut self, mut id: u32, forward: &mut Region<'_, Forward>) -> Result<Finish, Error> {
        loop {
            self.times.generated += 1;
            self.times.last = sys::now();
            if !self.options.ignore_eos && self.is_end(id) {
                return Ok(Finish::Eos);
            }
            let trace = self.engine.trace;
            if trace.during(Phase::Write, || self.write(id))? {
                return Ok(Finish::Stop);
            }
            if self.times.generated == self.manner.tokens_max {
                return Ok(Finish::Length);
            }
            if let Some(finish) = self.reader.cancels() {
                return Ok(finish);
            }
            let Some(slot) = self.history.get_mut(self.position) else {
                return Ok(Finish::Context);
            };
            *slot = id;
            let (token, position) = (self.times.generated + 1, self.position);
            let _phase = trace.phase(Phase::Decode { token, position });
            id = self
                .step(1, true, &forward.open())?
                .expect("a token was asked for");
            self.log_token(id);
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
        let mut step = self
            .engine
            .forward(self.cache, scratch, ids, self.position)?;
        self.position += len;
        if let Some(file) = self.logits_file {
            for token in 0..len {
                let logits = self.engine.logits(&mut step, token);
                check_finite(logits)?;
                file.write(logits)?;
            }
        }
        if self.options.verbose && len > 1 {
            event!(self.log, "prefill", count tokens = self.position);
        }
        if !wanted {
            return Ok(None);
        }
        let logits = self.engine.logits(&mut step, len - 1);
        let (history, kernels) = (&self.history[..self.position], &self.engine.kernels);
        let softmax = |x: &mut [f32]| kernels.softmax(x);
        let id = self
            .manner
            .sampler
            .sample(logits, history, &softmax, scratch)?;
        self.engine.profile.lap(Bucket::Sample);
        Ok(Some(id))
    }
}

impl Generator<'_, '_, '_> {
    fn is_end(&self, id: u32) -> bool {
        self.tokenizer.end_tokens().contains(&id)
    }

    /// Gives a token to the reader; whether a stop string ends the text.
    fn write(&mut self, id: u32) -> Result<bool, Error> {
        let reader = &mut *self.reader;
        let mut written = reader.token(id);
        let bytes = self.tokenizer.token_bytes(id);
        let flow = self.manner.stream.push(bytes, &mut |text| {
            written = written.and_then(|()| reader.text(text));
        });
        written?;
        reader.flush()?;
        Ok(flow != Flow::Continue)
    }

    /// Gives the reader what the stream held back.
    fn write_rest(&mut self) -> Result<(), Error> {
        let reader = &mut *self.reader;
        let mut written = Ok(());
        self.manner.stream.finish(&mut |text| {
            written = written.and_then(|()| reader.text(text));
        });
        written?;
        reader.flush()
    }

    /// The line of a token under `--profile`: what was spent since the line before it. The first
    /// token's is the prefill.
    fn log_token(&mut self, id: u32) {
        if !self.options.profile {
            return;
        }
        let mark = Mark {
            profile: self.engine.profile,
            time: sys::now(),
            faults: sys::major_faults(),
        };
        let before = core::mem::replace(&mut self.mark, mark);
        let resident = cpu::resident();
        let spent = mark.profile.since(&before.profile);
        event!(
            self.log,
            "token",
            count i = self.times.generated + 1,
            count id = id,
            time ms = mark.time - before.time,
            time matmul = spent.ns(Bucket::Matmul),
            time attn = spent.ns(Bucket::Attention),
            time norm = spent.ns(Bucket::Norm),
            time rope = spent.ns(Bucket::Rope),
            time sample = spent.ns(Bucket::Sample),
            time other = spent.ns(Bucket::Other),
            count rss_kb = resident.total_kb,
            count anon_kb = resident.anonymous_kb,
            count file_kb = resident.file_kb,
            count majflt = mark.faults - before.faults,
        );
    }
}

/// A run that is over, as its last log line tells it.
pub struct Ended {
    /// Why.
    pub finish: Finish,
    /// Tokens of the prompt that were evaluated.
    pub prefilled: usize,
    /// The sampler's seed.
    pub seed: u64,
    times: Times,
    /// Bytes of weights that a token reads.
    step_bytes: usize,
    /// Bytes a second at which the same threads read them and do nothing else.
    read_speed: Option<f64>,
    plan_bytes: usize,
    /// The processors when it ended.
    state: State,
    throttled: Throttled,
}

impl Ended {
    /// Whether a signal ended it.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.finish, Finish::Cancel(_))
    }

    /// Tokens that were chosen.
    pub fn generated(&self) -> usize {
        self.times.generated
    }

    /// Milliseconds until the first token, and from then until the last.
    pub fn spans_ms(&self) -> (f64, f64) {
        let Times {
            began, first, last, ..
        } = self.times;
        let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
        let prefilled = if first == 0 { sys::now() } else { first };
        (ms(began, prefilled), ms(first, last))
    }

    /// The `end` line. Speeds are tokens per second of their own phase: prefill counts the
    /// prompt's tokens, decode the tokens after the first, which came from the prefill.
    pub fn log(&self, log: &Log) {
        let prefilled = self.prefilled;
        let generated = self.times.generated;
        let (prefill_ms, decode_ms) = self.spans_ms();
        let decoded = generated.saturating_sub(1);
        let speed = |tokens: usize, ms: f64| {
            if tokens == 0 {
                0.0
            } else {
                tokens as f64 * 1e3 / ms
            }
        };
        let bytes_s = speed(decoded, decode_ms) * self.step_bytes as f64;
        event!(
            log,
            "end",
            count prefill_tokens = prefilled,
            decimal prefill_ms = prefill_ms,
            decimal prefill_tok_s = speed(prefilled, prefill_ms),
            count generated = generated,
            count decode_tokens = decoded,
            decimal decode_ms = decode_ms,
            decimal decode_tok_s = speed(decoded, decode_ms),
            decimal ttft_ms = prefill_ms,
            decimal gb_s = bytes_s / 1e9,
            more bandwidth = |line| match self.read_speed {
                Some(read) => fields!(
                    line,
                    decimal read_gb_s = read / 1e9,
                    decimal read_share_pct = bytes_s * 100.0 / read,
                ),
                None => line,
            },
            number seed = self.seed,
            more memory = memory_fields(self.plan_bytes),
            count majflt = sys::major_faults(),
            more state = state_fields(self.state),
            text throttled = self.throttled.name(),
            more throttled_by = |line| match self.throttled {
                Throttled::Yes(source) => fields!(line, text throttled_by = source),
                _ => line,
            },
            text finish = self.finish.name(),
        );
    }
}

/// Clocks and heat at a moment.
pub fn state_fields(state: State) -> impl FnOnce(Line) -> Line {
    move |line| {
        fields!(
            line,
            maybe mhz = state.mhz,
            maybe mhz_max = state.mhz_max,
            signed celsius = state.celsius, // below zero too
        )
    }
}

/// What the process took at its peak, beside the plan.
pub fn memory_fields(plan_bytes: usize) -> impl FnOnce(Line) -> Line {
    move |line| {
        let resident = cpu::resident();
        let taken = (resident.peak_kb + resident.page_tables_kb) * 1024;
        fields!(
            line,
            count peak_rss_kb = resident.peak_kb,
            count anon_kb = resident.anonymous_kb,
            count file_kb = resident.file_kb,
            count page_tables_kb = resident.page_tables_kb,
            count plan_kb = plan_bytes.div_ceil(1024),
            decimal actual_to_plan_pct = taken as f64 * 100.0 / plan_bytes as f64,
        )
    }
}

/// What a prompt led to.
enum Progress {
    /// A first token.
    Token(u32),
    /// Nothing more to do.
    Finished(Finish),
}

/// The file of `--logits`: a row of little-endian floats for every token that was evaluated.
#[derive(Clone, Copy)]
pub struct LogitsFile {
    path: &'static CStr,
    file: Fd,
}

impl LogitsFile {
    /// Creates or empties it.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &'static CStr) -> Result<Self, Error> {
        let file = Fd::create(path).map_err(|errno| Error::of_file(path, errno))?;
        Ok(LogitsFile { path, file })
    }

    /// Appends a row, through a small buffer.
    fn write(&self, floats: &[f32]) -> Result<(), Error> {
        let mut buffer = [0; 4096];
        for part in floats.chunks(buffer.len() / 4) {
            let bytes = &mut buffer[..4 * part.len()];
            for (bytes, float) in bytes.chunks_exact_mut(4).zip(part) {
                bytes.copy_from_slice(&float.to_le_bytes());
            }
            let written = self.file.write_all(bytes);
            written.map_err(|errno| Error::of_file(self.path, errno))?;
        }
        Ok(())
    }
}
