//! The sink behind `--trace`: a file that <https://ui.perfetto.dev> and `chrome://tracing` open.
//!
//! The format is the JSON array of the Trace Event Format. Two processes group the tracks: the
//! team, with a track for each member (the caller's has the phases too), and the arena, with a
//! track and a counter of live bytes for each scope.
//!
//! Each event is put together on the stack and appended by one write, which the kernel keeps apart
//! from those of other threads; so members need no lock and nothing is held in memory. That costs
//! a system call an event: the spans show the work without it, the gaps between them do not. A
//! write that fails ends the trace, not the run.

use super::{Interval, KernelWork, Phase, ScopeName, Subject, TraceSink};
use crate::error::Error;
use crate::log::{Log, escape};
use crate::sys::{Errno, Fd, now};
use core::ffi::CStr;
use core::fmt::{self, Display, Write};
use core::sync::atomic::{AtomicI32, Ordering};

/// Groups of tracks: "processes" of the format.
const TEAM: usize = 1;
const ARENA: usize = 2;

/// Room for what is written at once. A tensor's name has 64 bytes, six times that if all are
/// escaped; the rest is short.
const EVENT_BYTES: usize = 1024;

/// A trace in the making.
pub struct ChromeTrace {
    path: &'static CStr,
    file: Fd,
    /// When time 0 of the trace was.
    began: u64,
    /// What the kernel said when a write failed, 0 before that.
    failed: AtomicI32,
}

impl ChromeTrace {
    /// Creates or empties the file, and names the tracks that every run has.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &'static CStr) -> Result<Self, Error> {
        let file = Fd::create_appending(path).map_err(|errno| Error::File { path, errno })?;
        let trace = ChromeTrace {
            path,
            file,
            began: now(),
            failed: AtomicI32::new(0),
        };
        // The first event has no comma in front of it, all others have.
        let first = Meta("process_name", TEAM, 0, format_args!("team"));
        trace.write(format_args!("[\n{first}"));
        trace.append(Meta("process_name", ARENA, 0, format_args!("arena")));
        for scope in ScopeName::ALL {
            let name = format_args!("{}", scope.name());
            trace.append(Meta("thread_name", ARENA, scope as usize, name));
        }
        trace.append(Meta(
            "thread_name",
            TEAM,
            0,
            format_args!("worker 0 (main)"),
        ));
        Ok(trace)
    }

    /// Ends the array. Says in the log if the file lacks something.
    pub fn close(&self, log: &Log) {
        self.write(format_args!("\n]\n"));
        let errno = Errno(self.failed.load(Ordering::Relaxed));
        if errno != Errno(0) {
            let path = self.path.to_bytes().escape_ascii();
            let message = format_args!("{path}: {errno}; the trace is not complete");
            drop(log.error("warning").text("message", message));
        }
    }

    fn append(&self, event: impl Display) {
        self.write(format_args!(",\n{event}"));
    }

    /// Writes all of it at once, or nothing: half an event would spoil the file.
    fn write(&self, text: fmt::Arguments<'_>) {
        if self.failed.load(Ordering::Relaxed) != 0 {
            return;
        }
        let mut buffer = heapless::String::<EVENT_BYTES>::new();
        if buffer.write_fmt(text).is_err() {
            return;
        }
        if let Err(errno) = self.file.write_all(buffer.as_bytes()) {
            self.failed.store(errno.0, Ordering::Relaxed);
        }
    }

    fn micros(&self, at: u64) -> Micros {
        Micros(at.saturating_sub(self.began))
    }

    /// An event with a length, on the track of a member.
    fn span(&self, member: usize, name: impl Display, time: Interval, args: fmt::Arguments<'_>) {
        let (at, length) = (self.micros(time.from), Micros(time.to - time.from));
        self.append(format_args!(
            "{{\"ph\":\"X\",\"pid\":{TEAM},\"tid\":{member},\"ts\":{at},\"dur\":{length},\
             \"name\":\"{name}\",\"args\":{{{args}}}}}"
        ));
    }

    /// An event on the track of a scope, and the new value of its counter.
    fn live(&self, scope: ScopeName, what: &str, bytes: usize, live: usize, at: u64) {
        let (at, tid, name) = (self.micros(at), scope as usize, scope.name());
        let common = format_args!("\"pid\":{ARENA},\"tid\":{tid},\"ts\":{at}");
        self.append(format_args!(
            "{{\"ph\":\"i\",{common},\"s\":\"t\",\"name\":\"{what}\",\
             \"args\":{{\"bytes\":{bytes},\"live\":{live}}}}},\n\
             {{\"ph\":\"C\",{common},\"name\":\"{name} live bytes\",\"args\":{{\"bytes\":{live}}}}}"
        ));
    }
}

impl TraceSink for ChromeTrace {
    fn team(&self, members: usize) {
        for member in 1..members {
            let name = format_args!("worker {member}");
            self.append(Meta("thread_name", TEAM, member, name));
        }
    }

    fn phase(&self, phase: Phase, time: Interval) {
        match phase {
            Phase::Prefill { position, len } => {
                let args = format_args!("\"position\":{position},\"tokens\":{len}");
                self.span(0, phase, time, args);
            }
            Phase::Decode { position, .. } => {
                self.span(0, phase, time, format_args!("\"position\":{position}"));
            }
            _ => self.span(0, phase, time, format_args!("")),
        }
    }

    fn kernel(&self, work: KernelWork<'_>, time: Interval) {
        let claims = match work.subject {
            Subject::Tensor(_) => "rows",
            Subject::Attention(_) => "pairs",
        };
        let KernelWork {
            member,
            subject,
            kernel,
            claimed,
            tokens,
        } = work;
        let args =
            format_args!("\"kernel\":\"{kernel}\",\"{claims}\":{claimed},\"tokens\":{tokens}");
        self.span(member, Named(subject), time, args);
    }

    fn alloc(&self, scope: ScopeName, bytes: usize, live: usize, at: u64) {
        self.live(scope, "alloc", bytes, live, at);
    }

    fn reset(&self, scope: ScopeName, at: u64) {
        self.live(scope, "reset", 0, 0, at);
    }
}

/// An event that names something: what, whose group, whose track, and the name.
struct Meta<'e>(&'e str, usize, usize, fmt::Arguments<'e>);

impl Display for Meta<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Meta(what, pid, tid, name) = self;
        write!(
            f,
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}\",\
             \"args\":{{\"name\":\"{name}\"}}}}"
        )
    }
}

/// A subject in a JSON string; a tensor's name is the file's.
struct Named<'e>(Subject<'e>);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Subject::Tensor(name) => name.chars().try_for_each(|c| escape(f, c)),
            Subject::Attention(layer) => write!(f, "blk.{layer}.attention"),
        }
    }
}

/// Nanoseconds as the format has them: microseconds, to three decimals.
struct Micros(u64);

impl Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
