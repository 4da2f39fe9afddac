//! The line to the outside: bytes in and out of a terminal, or of stdin and stdout, with nothing
//! that waits for ever.
//!
//! Input is taken in while an answer is written, so that it can be cancelled; what is typed ahead
//! waits in a ring, and when that is full, at the sender. Output waits for its reader for as long
//! as [`Spec::patience_ms`] without a byte taken, and for a moment once a signal has come; then the
//! rest of the answer is dropped. A terminal that hangs up is opened again and again until it is
//! there.

use super::spec::Spec;
use crate::error::Error;
use crate::generate::Finish;
use crate::log::{Log, event};
use crate::notify::Notify;
use crate::sys::{self, Errno, Fd, MOMENT_MS, Ready};
use heapless::Deque;

/// Ctrl-C, and what a BREAK is turned into.
pub const INTERRUPT: u8 = 0x03;
/// Bytes that may be typed ahead.
const AHEAD_BYTES: usize = 4096;
/// Bytes that are written together: a pipe that is ready has room for them.
const OUT_BYTES: usize = 1024;
/// A wait is cut into parts, for a signal that comes just before one.
const PART_MS: u32 = 500;
/// First and longest pause before a terminal is opened again.
const PAUSES_MS: (u32, u32) = (100, 2000);

/// What comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A byte; [`INTERRUPT`] is one.
    Byte(u8),
    /// The terminal hung up and is there again: somebody else may be.
    Reopened,
    /// The end of stdin.
    End,
    /// A signal ends the program; with the exit code that it asks for.
    Signal(u8),
}

/// What is open.
#[derive(Clone, Copy)]
struct Wire {
    input: Fd,
    output: Fd,
    /// Else these are stdin and stdout.
    is_terminal: bool,
}

impl Wire {
    fn open(spec: &Spec) -> Result<Wire, Errno> {
        let Some((path, baud)) = &spec.terminal else {
            return Ok(Wire {
                input: sys::STDIN,
                output: sys::STDOUT,
                is_terminal: false,
            });
        };
        let fd = Fd::open_terminal(path)?;
        match fd.make_raw(*baud, spec.xonxoff) {
            Ok(()) => Ok(Wire {
                input: fd,
                output: fd,
                is_terminal: true,
            }),
            Err(errno) => {
                fd.close();
                Err(errno)
            }
        }
    }
}

/// The line.
pub struct Port<'p> {
    spec: &'p Spec,
    log: &'p Log,
    /// Who is told that a wait is none for ever.
    notify: &'p Notify,
    /// Whether an answer that is cancelled may end anywhere.
    cuts: bool,
    /// None while it is hung up.
    wire: Option<Wire>,
    pause_ms: u32,
    marks: Marks,
    ahead: Deque<u8, AHEAD_BYTES>,
    input_ended: bool,
    /// What ended it.
    input_failed: Result<(), Errno>,
    out: [u8; OUT_BYTES],
    out_len: usize,
    is_answering: bool,
    /// Why nothing more of this answer is wanted.
    is_interrupted: bool,
    is_stalled: bool,
    /// What was dropped may have begun.
    was_cut: bool,
}

impl<'p> Port<'p> {
    /// Opens it. `cuts` says whether a cancelled answer may end in the middle of what is written.
    ///
    /// # Errors
    /// There is no such terminal.
    pub fn open(
        spec: &'p Spec,
        cuts: bool,
        log: &'p Log,
        notify: &'p Notify,
    ) -> Result<Self, Error> {
        let path = spec.word;
        let wire = Wire::open(spec).map_err(|errno| Error::File { path, errno })?;
        Ok(Port {
            spec,
            log,
            notify,
            cuts,
            wire: Some(wire),
            pause_ms: PAUSES_MS.0,
            marks: Marks::None,
            ahead: Deque::new(),
            input_ended: false,
            input_failed: Ok(()),
            out: [0; OUT_BYTES],
            out_len: 0,
            is_answering: false,
            is_interrupted: false,
            is_stalled: false,
            was_cut: false,
        })
    }

    /// Waits for what comes in next; meanwhile writes what waits.
    ///
    /// # Errors
    /// stdout is closed, or stdin cannot be read.
    pub fn next(&mut self) -> Result<Input, Error> {
        loop {
            if let Some(code) = sys::pending_signal() {
                return Ok(Input::Signal(code));
            }
            if let Some(byte) = self.ahead.pop_front() {
                return Ok(Input::Byte(byte));
            }
            let Some(wire) = self.wire else {
                if self.reopen() {
                    return Ok(Input::Reopened);
                }
                continue;
            };
            if self.input_ended {
                let path = c"stdin";
                let ended = self.input_failed.map(|()| Input::End);
                return ended.map_err(|errno| Error::File { path, errno });
            }
            let output = (self.out_len > 0).then_some(wire.output);
            let ready = self.wait(Some(wire.input), output, PART_MS);
            if ready.output {
                self.send(wire)?;
            }
            if ready.input {
                self.take_in();
            }
        }
    }

    /// An answer begins: an interrupt cancels it from now on, and so does one that is here already.
    pub fn begin_answer(&mut self) {
        self.is_answering = true;
        self.is_stalled = false;
        self.is_interrupted = false;
        for _ in 0..self.ahead.len() {
            match self.ahead.pop_front() {
                Some(INTERRUPT) => self.is_interrupted = true,
                Some(byte) => {
                    let _ = self.ahead.push_back(byte); // there is room: one less
                }
                None => break,
            }
        }
    }

    /// Why the answer is to end, if it is.
    pub fn cancels(&mut self) -> Option<Finish> {
        if let Some(code) = sys::pending_signal() {
            return Some(Finish::Cancel(code));
        }
        if let Some(input) = self.input_with_room()
            && sys::wait(Some(input), None, 0).input
        {
            self.take_in();
        }
        let is_gone = self.is_interrupted || self.is_stalled || self.wire.is_none();
        is_gone.then_some(Finish::Interrupt)
    }

    /// Writes bytes of an answer, or keeps them for [`flush`](Self::flush).
    ///
    /// # Errors
    /// stdout is closed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for &byte in bytes {
            if self.out_len + 2 > OUT_BYTES {
                self.flush()?;
            }
            self.keep(byte);
        }
        Ok(())
    }

    /// Writes what was kept; waits for the reader, who is given a moment if a signal comes.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut last = sys::now();
        while self.out_len > 0 && !self.is_stalled {
            let Some(wire) = self.wire else { break };
            if self.is_interrupted && self.cuts {
                break;
            }
            if sys::pending_signal().is_some() {
                self.is_stalled = !sys::wait(None, Some(wire.output), MOMENT_MS).output;
                if !self.is_stalled {
                    self.send(wire)?;
                }
                continue;
            }
            let waited_ms = u32::try_from((sys::now() - last) / 1_000_000).unwrap_or(u32::MAX);
            let Some(left_ms @ 1..) = self.spec.patience_ms.checked_sub(waited_ms) else {
                self.is_stalled = true;
                self.log.warning(format_args!(
                    "console: nobody reads for {waited_ms} ms: answer dropped"
                ));
                break;
            };
            let input = self.input_with_room();
            let ready = self.wait(input, Some(wire.output), left_ms.min(PART_MS));
            if ready.output && self.send(wire)? > 0 {
                last = sys::now();
            }
            if ready.input {
                self.take_in();
            }
        }
        self.was_cut |= self.out_len > 0;
        self.out_len = 0;
        Ok(())
    }

    /// An answer is over. An interrupted one leaves nothing on its way.
    pub fn end_answer(&mut self) {
        if let Some(wire) = self.wire
            && self.is_interrupted
            && self.cuts
            && wire.is_terminal
        {
            wire.output.discard_output();
            self.out_len = 0;
        }
        self.is_answering = false;
    }

    /// Whether the answer was cut where the reader stopped.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Whether something was dropped since this was asked last.
    pub fn was_cut(&mut self) -> bool {
        core::mem::take(&mut self.was_cut)
    }

    /// Whether what is typed is shown.
    pub fn echoes(&self) -> bool {
        self.spec.echo && self.cuts
    }

    /// Keeps a few bytes that are written as soon as there is room, and waits for nothing; what is
    /// more than is kept is dropped.
    pub fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.out_len + 2 <= OUT_BYTES {
                self.keep(byte);
            }
        }
    }

    /// There is room for two bytes. While it is hung up nobody is there to get them.
    fn keep(&mut self, byte: u8) {
        if self.wire.is_none() {
            return;
        }
        let bytes: &[u8] = match byte {
            b'\n' if self.spec.crlf => b"\r\n",
            _ => &[byte],
        };
        self.out[self.out_len..][..bytes.len()].copy_from_slice(bytes);
        self.out_len += bytes.len();
    }

    /// Writes what there is room for, and returns how much that was.
    fn send(&mut self, wire: Wire) -> Result<usize, Error> {
        match wire.output.write(&self.out[..self.out_len]) {
            Ok(count) => {
                self.out.copy_within(count..self.out_len, 0);
                self.out_len -= count;
                Ok(count)
            }
            Err(Errno::INTERRUPTED | Errno::WOULD_BLOCK) => Ok(0),
            Err(errno) if !wire.is_terminal => Err(Error::Output(errno)),
            Err(_) => {
                self.hang_up();
                Ok(0)
            }
        }
    }

    /// Waits so long at most, or until the service manager is to hear of it again.
    fn wait(&self, input: Option<Fd>, output: Option<Fd>, ms: u32) -> Ready {
        self.notify.alive();
        sys::wait(input, output, ms.min(self.notify.wait_ms()))
    }

    fn input_with_room(&self) -> Option<Fd> {
        let takes = !self.input_ended && !self.ahead.is_full();
        self.wire.filter(|_| takes).map(|wire| wire.input)
    }

    /// Reads what has arrived, as far as there is room for it.
    fn take_in(&mut self) {
        let Some(wire) = self.wire else { return };
        let mut buffer = [0; 256];
        let room = buffer.len().min(AHEAD_BYTES - self.ahead.len());
        let count = match wire.input.read(&mut buffer[..room]) {
            Ok(count @ 1..) => count,
            Err(Errno::INTERRUPTED | Errno::WOULD_BLOCK) => return,
            Ok(0) | Err(_) if wire.is_terminal => return self.hang_up(),
            ended => {
                self.input_ended = true;
                self.input_failed = ended.map(|_| ());
                return;
            }
        };
        self.pause_ms = PAUSES_MS.0;
        for &byte in &buffer[..count] {
            let meant = match wire.is_terminal {
                true => self.marks.push(byte),
                false => Some(byte),
            };
            match meant {
                Some(INTERRUPT) if self.is_answering => self.is_interrupted = true,
                Some(byte) => {
                    let _ = self.ahead.push_back(byte); // there is room: see above
                }
                None => {}
            }
        }
    }

    fn hang_up(&mut self) {
        if let Some(wire) = self.wire.take() {
            wire.input.close(); // and the output with it: they are one
            self.ahead.clear();
            self.out_len = 0;
            self.was_cut = false;
            self.marks = Marks::None;
            self.log_state("hung_up");
        }
    }

    /// Tries once, after a pause, to open the terminal again.
    fn reopen(&mut self) -> bool {
        self.wait(None, None, self.pause_ms);
        self.pause_ms = (2 * self.pause_ms).min(PAUSES_MS.1);
        self.wire = Wire::open(self.spec).ok();
        if self.wire.is_some() {
            self.log_state("open");
        }
        self.wire.is_some()
    }

    /// The `console` line.
    pub fn log_state(&self, state: &str) {
        let device = self.spec.word.to_bytes().escape_ascii();
        event!(self.log, "console", text device = device, text state = state);
    }
}

impl Drop for Port<'_> {
    fn drop(&mut self) {
        if let Some(wire) = self.wire
            && wire.is_terminal
        {
            wire.input.close();
        }
    }
}

/// Undoes what [`Fd::make_raw`] asks the kernel to do: `FF 00 00` is a BREAK, `FF FF` a byte `FF`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    None,
    /// After `FF`.
    Marked,
    /// After `FF 00`.
    Zero,
}

impl Marks {
    /// The byte that is meant, when it is whole.
    fn push(&mut self, byte: u8) -> Option<u8> {
        let (next, meant) = match (*self, byte) {
            (Marks::None, 0xff) => (Marks::Marked, None),
            (Marks::Marked, 0) => (Marks::Zero, None),
            (Marks::Zero, 0) => (Marks::None, Some(INTERRUPT)),
            (Marks::Zero, _) => (Marks::None, None), // came with an error
            (Marks::None | Marks::Marked, byte) => (Marks::None, Some(byte)),
        };
        *self = next;
        meant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn break_is_an_interrupt_and_no_byte_is_lost() {
        for (bytes, expected) in [
            (&b"a\xff\x00\x00b"[..], &b"a\x03b"[..]),
            (b"\xff\xff", b"\xff"),
            (b"\xff\xff\x00\x00", b"\xff\x00\x00"),
            (b"\xff\x00\x00\xff\x00\x00", b"\x03\x03"),
            (b"\xff\x00\x41b", b"b"), // a byte that came wrong
            (b"\x00\x00", b"\x00\x00"),
        ] {
            let mut marks = Marks::None;
            let meant = bytes.iter().filter_map(|&byte| marks.push(byte));
            assert!(meant.eq(expected.iter().copied()), "{bytes:x?}");
        }
    }
}
