//! The console: prompts by a serial line, or by stdin, each answered on the way back, by a model
//! that is loaded once.
//!
//! A line is a prompt, which stands for itself: with the system prompt and the chat template, and
//! without what was said before. Its answer is that of a run with the same settings. `> ` says that
//! a line is waited for. In the framed mode lines are JSON objects, both ways. `docs/console.md` is
//! the whole of what a reader sees.
//!
//! `line` makes lines of bytes, `framed` requests of lines, and `port` is the line to the outside:
//! all that waits, waits there. Nothing that comes in ends the program, but the end of stdin does.

mod framed;
mod line;
mod port;
mod spec;

pub use framed::{FrameError, Id, Request};
pub use line::{LINE_BYTES, Line, Typed};
pub use spec::{BaudRates, Spec, SpecError};

use crate::arena::rounded;
use crate::conversation::{Asked, Conversation};
use crate::error::Error;
use crate::generate::{Ended, Finish, Manner, Reader};
use crate::log::{Log, event};
use crate::model::Engine;
use crate::options::{Options, UsageError};
use crate::prompt;
use crate::session::{self, Machine, Memory, Setup};
use crate::tokenizer::STOPS_MAX;
use crate::trace::{Phase, Trace};
use core::fmt::{self, Write};
use heapless::{String, Vec};
use port::{INTERRUPT, Input, Port};

/// Bytes of a message that are shown.
const MESSAGE_BYTES: usize = 512;
/// What a service manager is told while a line is waited for.
const WAITING: &str = "ready";
/// A line is waited for.
const READY: &[u8] = b"> ";
/// An answer is over, and a line is waited for.
const OVER: &[u8] = b"\n> ";

/// Bytes of the Kv scope that the console takes: a line, and in the framed mode its texts.
pub fn buffer_bytes(framed: bool) -> usize {
    rounded(LINE_BYTES) * if framed { 2 } else { 1 }
}

/// Answers prompts of the console of the options until stdin ends, a line is
/// [`Options::poweroff_word`], or a signal ends the program. A terminal that hangs up is waited for.
///
/// # Errors
/// The model cannot be run, there is no such terminal, or stdout is closed.
pub fn serve(machine: &Machine<'_>, options: &Options, log: &Log) -> Result<Finish, Error> {
    session::traced(options, log, |trace| {
        serve_traced(machine, options, log, trace)
    })
}

fn serve_traced(
    machine: &Machine<'_>,
    options: &Options,
    log: &Log,
    trace: Trace<'_>,
) -> Result<Finish, Error> {
    let spec = options.console.as_ref();
    let spec = spec.ok_or(UsageError::MissingConsole)?;
    let setup = session::set_up(machine, options, log, trace)?;
    let port = Port::open(spec, !options.framed, log, setup.notify)?;
    let mut memory = Memory::reserve(&setup, options, trace)?;
    let kv = memory.kv.open();
    let mut talk = Conversation::new(&setup, &memory.model, &kv, memory.forward, log, trace)?;
    let mut line = Line::new(kv.alloc(LINE_BYTES)?, !options.framed);
    let texts = match options.framed {
        true => kv.alloc(LINE_BYTES)?,
        false => &mut [],
    };
    // These take memory, of which there is no more in the sandbox.
    let (system, stops) = (prompt::system_text(options)?, prompt::stop_texts(options)?);
    // Whatever is wrong with the settings is told now.
    Manner::new(options.tokens_max, options.sampler, options.seed, &stops)?;
    let (model, forward) = (&memory.model, &mut talk.forward);
    let engine = session::start_engine(&setup, options, model, memory.stacks, forward, log, trace)?;
    memory.plan.check_used(&memory.model, &kv)?;
    let mut server = Server {
        setup: &setup,
        options,
        log,
        trace,
        talk,
        engine,
        port,
        system,
        stops,
        lines: 0,
    };
    let finish = server.serve(&mut line, texts)?;
    server.log_closed(finish);
    Ok(finish)
}

/// A loaded model, and the line to those who ask.
struct Server<'s, 'm, 'k> {
    setup: &'s Setup<'m>,
    options: &'s Options,
    log: &'s Log,
    trace: Trace<'m>,
    talk: Conversation<'m, 'k>,
    engine: Engine<'m>,
    port: Port<'s>,
    system: Option<&'static [u8]>,
    stops: Vec<&'static [u8], STOPS_MAX>,
    /// Lines that were taken.
    lines: u64,
}

impl Server<'_, '_, '_> {
    fn serve(&mut self, line: &mut Line<'_>, texts: &mut [u8]) -> Result<Finish, Error> {
        self.say_ready()?;
        self.setup.notify.ready(WAITING);
        loop {
            let finish = match self.port.next()? {
                Input::Byte(INTERRUPT) => {
                    line.clear();
                    self.put(OVER);
                    None
                }
                Input::Byte(byte) => self.take(line, texts, byte)?,
                Input::Reopened => {
                    line.clear();
                    self.say_ready()?;
                    None
                }
                Input::Signal(code) => Some(Finish::Cancel(code)),
                Input::End if line.bytes().is_empty() => Some(Finish::Stop),
                // As if it had ended its last line.
                Input::End => self.take(line, texts, b'\n')?,
            };
            if let Some(finish) = finish {
                self.put(b"\n");
                self.port.flush()?;
                return Ok(finish);
            }
        }
    }

    /// Takes a byte; why it ends the console, if it does. `texts` are those of a request.
    fn take(
        &mut self,
        line: &mut Line<'_>,
        texts: &mut [u8],
        byte: u8,
    ) -> Result<Option<Finish>, Error> {
        let typed = line.push(byte);
        if self.port.echoes() {
            match typed {
                Typed::Byte => self.put(&[byte]),
                Typed::Erased => self.put(b"\x08 \x08"),
                Typed::Line | Typed::TooLong => self.put(b"\n"),
                Typed::Nothing => {}
            }
        }
        match typed {
            Typed::Nothing | Typed::Byte | Typed::Erased => return Ok(None),
            Typed::TooLong => {
                let message = format_args!("line of more than {LINE_BYTES} bytes: not taken");
                self.refuse(None, &message, 2)?;
            }
            Typed::Line => {
                let ends = self.options.poweroff_word.map(str::as_bytes);
                if ends == Some(line.bytes()) {
                    return Ok(Some(Finish::Stop));
                }
                self.lines += u64::from(!line.bytes().is_empty());
                match line.bytes() {
                    [] => self.put(READY),
                    text if self.options.framed => self.answer_request(text, texts)?,
                    text => self.answer_line(text)?,
                }
            }
        }
        line.clear();
        Ok(None)
    }

    /// Answers a prompt with the settings of the command line.
    fn answer_line(&mut self, text: &[u8]) -> Result<(), Error> {
        let options = self.options;
        let stops = self.stops.clone();
        let manner = Manner::new(options.tokens_max, options.sampler, options.seed, &stops)?;
        match self.answer(self.system, text, manner, None) {
            Ok(_) => {
                self.put(OVER);
                Ok(())
            }
            Err(error) => self.report(None, &error),
        }
    }

    /// Answers a request, with the settings of the command line where it has none.
    fn answer_request(&mut self, text: &[u8], texts: &mut [u8]) -> Result<(), Error> {
        let mut request = Request::default();
        let read = {
            let scratch = self.talk.forward.open();
            request.read(text, texts, scratch.alloc(LINE_BYTES)?)
        };
        match read {
            Err(error) => self.refuse(request.id, &error, 2),
            Ok(()) => self.answer_read(&request),
        }
    }

    fn answer_read(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let Options {
            tokens_max,
            mut sampler,
            seed,
            ..
        } = *self.options;
        sampler.temperature = request.temperature.unwrap_or(sampler.temperature);
        let own_stops = self.stops.clone();
        let stops = request.stops.as_deref().unwrap_or(&own_stops);
        let tokens_max = request.tokens_max.unwrap_or(tokens_max);
        let manner = Manner::new(tokens_max, sampler, request.seed.or(seed), stops);
        let system = request.system.map(str::as_bytes).or(self.system);
        let prompt = request.prompt.as_bytes();
        let answered = manner.and_then(|manner| self.answer(system, prompt, manner, request.id));
        match answered {
            Ok(ended) => {
                framed::write_end(&mut self.port, request.id, &ended)?;
                match self.port.is_stalled() {
                    true => Ok(()), // it waits with what is kept
                    false => self.port.flush(),
                }
            }
            Err(error) => self.report(request.id, &error),
        }
    }

    /// Answers a prompt, and logs how it went.
    fn answer(
        &mut self,
        system: Option<&[u8]>,
        prompt: &[u8],
        manner: Manner<'_>,
        id: Option<Id<'_>>,
    ) -> Result<Ended, Error> {
        let encoding = self.trace.phase(Phase::Encode);
        let prompt_len = self.talk.encode(self.setup, system, prompt)?;
        drop(encoding);
        self.setup.notify.status(format_args!("answering"));
        self.port.begin_answer();
        let mut reader = ConsoleReader {
            port: &mut self.port,
            is_framed: self.options.framed,
            id,
        };
        let asked = Asked {
            prompt_len,
            cached: 0,
            manner,
            logits_file: None,
            reader: &mut reader,
        };
        let (setup, options, log) = (self.setup, self.options, self.log);
        let ended = self
            .talk
            .answer(setup, options, log, &mut self.engine, asked);
        self.port.end_answer();
        self.setup.notify.status(format_args!("{WAITING}"));
        if let Ok(ended) = &ended {
            ended.log(log);
        }
        ended
    }

    /// Tells an error of one prompt; one that is no prompt's ends the console.
    fn report(&mut self, id: Option<Id<'_>>, error: &Error) -> Result<(), Error> {
        match error {
            Error::Output(_) => Err(*error),
            _ => self.refuse(id, error, error.exit_code()),
        }
    }

    /// Says that there is no answer, and why.
    fn refuse(
        &mut self,
        id: Option<Id<'_>>,
        message: &dyn fmt::Display,
        code: u8,
    ) -> Result<(), Error> {
        self.log.error(message, code, "error");
        let mut shown = String::<MESSAGE_BYTES>::new();
        let _ = write!(shown, "{message}"); // cut where there is no more room
        self.port.begin_answer();
        if self.options.framed {
            framed::write_error(&mut self.port, id, &shown, code)?;
        } else {
            self.port.write(b"error: ")?;
            self.port.write(shown.as_bytes())?;
        }
        self.port.flush()?;
        self.port.end_answer();
        self.put(OVER);
        Ok(())
    }

    fn say_ready(&mut self) -> Result<(), Error> {
        self.port.log_state("ready");
        match self.options.framed {
            true => {
                framed::write_ready(&mut self.port)?;
                self.port.flush()
            }
            false => {
                self.put(READY);
                Ok(())
            }
        }
    }

    /// Bytes for a person, which are not waited for. A program gets objects only.
    fn put(&mut self, bytes: &[u8]) {
        if !self.options.framed {
            self.port.put(bytes);
        }
    }

    /// The last line.
    fn log_closed(&self, finish: Finish) {
        event!(
            self.log,
            "console",
            text state = "closed",
            number lines = self.lines,
            text finish = finish.name(),
        );
    }
}

/// Whoever is at the other end.
struct ConsoleReader<'r, 'p, 't> {
    port: &'r mut Port<'p>,
    is_framed: bool,
    id: Option<Id<'t>>,
}

impl Reader for ConsoleReader<'_, '_, '_> {
    fn token(&mut self, _id: u32) -> Result<(), Error> {
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.is_framed {
            true => framed::write_text(self.port, self.id, bytes),
            false => self.port.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.port.flush()
    }

    fn cancels(&mut self) -> Option<Finish> {
        self.port.cancels()
    }
}
