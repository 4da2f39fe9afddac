//! The sink behind `--trace`: a file that <https://ui.perfetto.dev> and `chrome://tracing` open.
//!
//! The format is the JSON array of the Trace Event Format. Two processes group the tracks: the
//! team, with a track for each member (the caller's has the phases too), and the arena, with a
//! track and a counter of live bytes for each scope.
//!
//! Each member collects its events in a buffer of its own and appends it to the file when it is
//! full, by one write, which the kernel keeps apart from those of other threads: members need no
//! lock. A write that fails ends the trace, not the run.

use super::{Interval, KernelWork, Phase, ScopeName, Subject, TraceSink};
use crate::error::Error;
use crate::log::{Log, escape};
use crate::sys::{Errno, Fd, THREADS_MAX, now};
use core::ffi::CStr;
use core::fmt::{self, Display, Write};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize};

/// Groups of tracks: "processes" of the format.
const TEAM: usize = 1;
const ARENA: usize = 2;

/// Room for one event. A tensor's name has 64 bytes, six times that if all are escaped; the rest
/// is short.
const EVENT_BYTES: usize = 1024;

/// Room for what a member writes at once: some thirty events.
const BUFFER_BYTES: usize = 4096;

/// What a member has reported and not written. Nobody else uses it while the team works, and the
/// end of a job orders the rest, so no order is asked of the atomics; they spare an unsafe cell.
#[repr(align(64))]
struct Buffer {
    len: AtomicUsize,
    bytes: [AtomicU8; BUFFER_BYTES],
}

/// A buffer for each member. Pages of those that are not used never come into being.
static BUFFERS: [Buffer; THREADS_MAX] = [const { Buffer::new() }; THREADS_MAX];

impl Buffer {
    const fn new() -> Self {
        Buffer {
            len: AtomicUsize::new(0),
            bytes: [const { AtomicU8::new(0) }; BUFFER_BYTES],
        }
    }

    /// Appends `text`; whether there was room.
    fn push(&self, text: &[u8]) -> bool {
        let len = self.len.load(Relaxed);
        let Some(room) = self.bytes.get(len..len + text.len()) else {
            return false;
        };
        for (to, &byte) in room.iter().zip(text) {
            to.store(byte, Relaxed);
        }
        self.len.store(len + text.len(), Relaxed);
        true
    }

    /// Empties it into `copy`; what was in it.
    fn take<'c>(&self, copy: &'c mut [u8; BUFFER_BYTES]) -> &'c [u8] {
        let len = self.len.swap(0, Relaxed);
        for (to, byte) in copy.iter_mut().zip(&self.bytes[..len]) {
            *to = byte.load(Relaxed);
        }
        &copy[..len]
    }
}

/// A trace in the making: one at a time in a process.
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
        let file = Fd::create_appending(path);
        let file = file.map_err(|errno| Error::of_file(path, errno))?;
        let trace = ChromeTrace {
            path,
            file,
            began: now(),
            failed: AtomicI32::new(0),
        };
        // The first event has no comma in front of it, all others have.
        let first = Meta("process_name", TEAM, 0, format_args!("team"));
        trace.report(0, format_args!("[\n{first}"));
        trace.append(0, Meta("process_name", ARENA, 0, format_args!("arena")));
        for scope in ScopeName::ALL {
            let name = format_args!("{}", scope.name());
            trace.append(0, Meta("thread_name", ARENA, scope as usize, name));
        }
        trace.append(
            0,
            Meta("thread_name", TEAM, 0, format_args!("worker 0 (main)")),
        );
        trace.flush(&BUFFERS[0]); // before anybody else writes
        Ok(trace)
    }

    /// Ends the array. Says in the log if the file lacks something.
    pub fn close(&self, log: &Log) {
        for buffer in &BUFFERS {
            self.flush(buffer);
        }
        self.write(b"\n]\n");
        let errno = Errno(self.failed.load(Relaxed));
        if errno != Errno(0) {
            let path = self.path.to_bytes().escape_ascii();
            log.warning(format_args!("{path}: {errno}; the trace is not complete"));
        }
    }

    fn append(&self, member: usize, event: impl Display) {
        self.report(member, format_args!(",\n{event}"));
    }

    /// Leaves all of `text` with a member, or nothing: half an event would spoil the file.
    fn report(&self, member: usize, text: fmt::Arguments<'_>) {
        let (buffer, mut event) = (&BUFFERS[member], heapless::String::<EVENT_BYTES>::new());
        if event.write_fmt(text).is_ok() && !buffer.push(event.as_bytes()) {
            self.flush(buffer);
            buffer.push(event.as_bytes());
        }
    }

    /// Writes what is in a buffer, if anything.
    fn flush(&self, buffer: &Buffer) {
        self.write(buffer.take(&mut [0; BUFFER_BYTES]));
    }

    fn write(&self, bytes: &[u8]) {
        if self.failed.load(Relaxed) == 0
            && let Err(errno) = self.file.write_all(bytes)
        {
            self.failed.store(errno.0, Relaxed);
        }
    }

    fn micros(&self, at: u64) -> Micros {
        Micros(at.saturating_sub(self.began))
    }

    /// An event with a length, on the track of a member.
    fn span(&self, member: usize, name: impl Display, time: Interval, args: fmt::Arguments<'_>) {
        let (at, length) = (self.micros(time.from), Micros(time.to - time.from));
        self.append(
            member,
            format_args!(
                "{{\"ph\":\"X\",\"pid\":{TEAM},\"tid\":{member},\"ts\":{at},\"dur\":{length},\
             \"name\":\"{name}\",\"args\":{{{args}}}}}"
            ),
        );
    }

    /// An event on the track of a scope, and the new value of its counter.
    fn live(&self, scope: ScopeName, what: &str, bytes: usize, live: usize, at: u64) {
        let (at, tid, name) = (self.micros(at), scope as usize, scope.name());
        let common = format_args!("\"pid\":{ARENA},\"tid\":{tid},\"ts\":{at}");
        self.append(
            0,
            format_args!(
                "{{\"ph\":\"i\",{common},\"s\":\"t\",\"name\":\"{what}\",\
             \"args\":{{\"bytes\":{bytes},\"live\":{live}}}}},\n\
             {{\"ph\":\"C\",{common},\"name\":\"{name} live bytes\",\"args\":{{\"bytes\":{live}}}}}"
            ),
        );
    }
}

impl TraceSink for ChromeTrace {
    fn team(&self, members: usize) {
        for member in 1..members {
            let name = format_args!("worker {member}");
            self.append(0, Meta("thread_name", TEAM, member, name));
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
