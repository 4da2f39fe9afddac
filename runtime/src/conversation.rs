//! What a prompt needs beside the weights: the vocabulary, the cache, the ids, and scratch. A run
//! has one of these, for one prompt or for one prompt after the other.

use crate::arena::{Forward, Kv, Model, Open, Region};
use crate::error::Error;
use crate::generate::{Ended, Generator, LogitsFile, Manner, Mark, Reader, Times};
use crate::kv::KvCache;
use crate::log::Log;
use crate::model::Engine;
use crate::options::Options;
use crate::sampler::SamplerError;
use crate::session::{self, Setup};
use crate::tokenizer::Tokenizer;
use crate::trace::{Phase, Trace};

/// What is asked, how, and by whom.
pub struct Asked<'a> {
    /// The prompt's ids are so many, the first of the history.
    pub prompt_len: usize,
    /// So many of them are in the cache.
    pub cached: usize,
    /// How to answer.
    pub manner: Manner<'a>,
    /// `--logits`.
    pub logits_file: Option<LogitsFile>,
    /// Who gets the answer.
    pub reader: &'a mut dyn Reader,
}

/// The vocabulary, and the memory of one prompt and its answer.
pub struct Conversation<'m, 'k> {
    /// The vocabulary.
    pub tokenizer: Tokenizer<'m>,
    /// Keys and values.
    pub cache: KvCache<'k>,
    /// Token ids.
    pub history: &'k mut [u32],
    /// Scratch.
    pub forward: Region<'m, Forward>,
}

impl<'m, 'k> Conversation<'m, 'k> {
    /// Indexes the vocabulary, and takes the rest from the Kv scope.
    ///
    /// # Errors
    /// The vocabulary cannot be used, or does not fit the model or the template.
    pub fn new(
        setup: &Setup<'_>,
        model: &Open<'m, Model>,
        kv: &Open<'k, Kv>,
        forward: Region<'m, Forward>,
        log: &Log,
        trace: Trace<'_>,
    ) -> Result<Self, Error> {
        let index = || Tokenizer::new(&setup.model.gguf, model);
        let tokenizer = trace.during(Phase::Tokenizer, index)?;
        setup.check_vocabulary(&tokenizer, log)?;
        Ok(Conversation {
            tokenizer,
            cache: setup.cache(kv)?,
            history: kv.alloc(setup.history_tokens())?,
            forward,
        })
    }

    /// Turns a prompt into ids at the front of the history; returns how many.
    ///
    /// # Errors
    /// It has no tokens, or more than the context, or a signal came first.
    pub fn encode(
        &mut self,
        setup: &Setup<'_>,
        system: Option<&[u8]>,
        prompt: &[u8],
    ) -> Result<usize, Error> {
        let (mut tokens, context) = (0, setup.request.context);
        let history = &mut *self.history;
        let mut keep = |id| {
            if let Some(place) = history.get_mut(tokens) {
                *place = id;
            }
            tokens += 1;
        };
        let scratch = self.forward.open();
        setup
            .chat
            .encode(&self.tokenizer, system, prompt, &scratch, &mut keep)?;
        if tokens > context {
            return Err(Error::PromptTooLong { tokens, context });
        }
        match (tokens, prompt) {
            (0, []) => Err(Error::EmptyPrompt),
            (0, _) => Err(Error::NoTokens),
            _ => Ok(tokens),
        }
    }

    /// Answers what is asked.
    ///
    /// # Errors
    /// The reader is gone, or a logit is no number; then the tensor that is to blame is looked for.
    pub fn answer(
        &mut self,
        setup: &Setup<'m>,
        options: &Options,
        log: &Log,
        engine: &mut Engine<'m>,
        asked: Asked<'_>,
    ) -> Result<Ended, Error> {
        let Asked {
            prompt_len,
            cached,
            mut manner,
            logits_file,
            reader,
        } = asked;
        if self.tokenizer.adds_space() && setup.chat.is_template() {
            manner.stream = manner.stream.skip_first_space();
        }
        let mut generator = Generator {
            options,
            log,
            tokenizer: &self.tokenizer,
            engine: &mut *engine,
            cache: &mut self.cache,
            history: self.history,
            position: cached,
            manner,
            reader,
            logits_file,
            plan_bytes: setup.plan().total(),
            cpus: setup.cpus(),
            times: Times::default(),
            mark: Mark::default(),
        };
        let ended = generator.run(prompt_len, &mut self.forward);
        drop(generator);
        if let Err(Error::Sampler(SamplerError::NotFinite { .. })) = ended {
            session::check_finite(&mut engine.weights, setup)?;
        }
        ended
    }
}
