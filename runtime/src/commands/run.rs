//! `run`: one prompt in, its answer out.

use crate::conversation::{Asked, Conversation};
use crate::error::Error;
use crate::generate::{Ended, Finish, LogitsFile, Manner, Reader};
use crate::ids;
use crate::log::{Log, event};
use crate::options::Options;
use crate::output::Output;
use crate::prompt;
use crate::prompt_cache::{self, Identity, PromptCache};
use crate::session::{self, Machine, Memory};
use crate::sys;
use crate::trace::{Phase, Trace};

/// Runs a prompt.
///
/// # Errors
/// Whatever ends the run before its text is complete. What can be known before the weights are
/// read is told before.
pub fn run(machine: &Machine<'_>, options: &Options, log: &Log) -> Result<Finish, Error> {
    let ended = session::traced(options, log, |trace| {
        run_traced(machine, options, log, trace)
    })?;
    ended.log(log);
    Ok(ended.finish)
}

fn run_traced(
    machine: &Machine<'_>,
    options: &Options,
    log: &Log,
    trace: Trace<'_>,
) -> Result<Ended, Error> {
    let prompt_cache = options
        .prompt_cache
        .map(|path| PromptCache::open(path, options.prompt_cache_ro))
        .transpose()?;
    let setup = session::set_up(machine, options, log, trace)?;
    let mut memory = Memory::reserve(&setup, options, trace)?;
    let kv = memory.kv.open();
    let mut talk = Conversation::new(&setup, &memory.model, &kv, memory.forward, log, trace)?;
    let prompt_len = trace.during(Phase::Encode, || match options.prompt_ids {
        Some(path) => match ids::read(path, talk.tokenizer.len(), talk.history)? {
            0 => Err(Error::EmptyPrompt),
            count => Ok(count),
        },
        None => {
            let system = prompt::system_text(options)?;
            talk.encode(&setup, system, setup.prompt)
        }
    })?;
    let stops = prompt::stop_texts(options)?;
    let manner = Manner::new(options.tokens_max, options.sampler, options.seed, &stops)?;
    let logits_file = options.logits.map(LogitsFile::create).transpose()?;
    let (model, forward) = (&memory.model, &mut talk.forward);
    let mut engine =
        session::start_engine(&setup, options, model, memory.stacks, forward, log, trace)?;
    memory.plan.check_used(&memory.model, &kv)?;
    setup.notify.ready("answering");
    let mut reader = Stdout {
        output: Output::default(),
        shows_ids: options.ids,
    };
    let identity = || {
        Ok::<_, Error>(Identity {
            model: prompt_cache::model_hash(&setup.model.gguf, &engine.weights)?,
            key_format: setup.request.key_format,
            value_format: setup.request.value_format,
        })
    };
    let kept = match &prompt_cache {
        Some(file) => Some((file, identity()?)),
        None => None,
    };
    let cached = match &kept {
        Some((file, identity)) => load(file, identity, &mut talk, prompt_len, log),
        None => 0,
    };
    let asked = Asked {
        prompt_len,
        cached,
        manner,
        logits_file,
        reader: &mut reader,
    };
    let ended = talk.answer(&setup, options, log, &mut engine, asked)?;
    match kept {
        Some((file, identity)) if file.is_outdated(cached, prompt_len) && !ended.is_cancelled() => {
            keep(file, &identity, &talk, prompt_len, log);
        }
        _ => {}
    }
    Ok(ended)
}

/// How many tokens of the prompt are in the cache now, from the file. One that is of no use is told
/// of, and the prompt is evaluated as if there were none.
fn load(
    file: &PromptCache,
    identity: &Identity,
    talk: &mut Conversation<'_, '_>,
    prompt_len: usize,
    log: &Log,
) -> usize {
    let began = sys::now();
    match file.load(identity, &talk.history[..prompt_len], &mut talk.cache) {
        Ok(tokens) => {
            event!(
                log,
                "prompt_cache",
                text did = "read",
                count tokens = tokens,
                time ms = sys::now() - began,
            );
            tokens
        }
        Err(unusable) => {
            log.warning(format_args!("the prompt cache is not used: {unusable}"));
            0
        }
    }
}

/// Writes the prompt's file for the next run. The answer is complete: that it cannot be written is
/// told, and no more.
fn keep(
    file: &PromptCache,
    identity: &Identity,
    talk: &Conversation<'_, '_>,
    prompt_len: usize,
    log: &Log,
) {
    let began = sys::now();
    match file.write(identity, &talk.history[..prompt_len], &talk.cache) {
        Ok(_) => drop(event!(
            log,
            "prompt_cache",
            text did = "written",
            count tokens = prompt_len,
            time ms = sys::now() - began,
        )),
        Err(errno) => log.warning(format_args!("the prompt cache is not written: {errno}")),
    }
}

/// stdout as the reader.
struct Stdout {
    output: Output,
    /// Ids, a line each, instead of text.
    shows_ids: bool,
}

impl Reader for Stdout {
    fn token(&mut self, id: u32) -> Result<(), Error> {
        match self.shows_ids {
            true => self.output.print(format_args!("{id}\n")),
            false => Ok(()),
        }
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.shows_ids {
            true => Ok(()),
            false => self.output.bytes(bytes),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.output.flush()
    }

    fn cancels(&mut self) -> Option<Finish> {
        sys::pending_signal().map(Finish::Cancel)
    }
}
