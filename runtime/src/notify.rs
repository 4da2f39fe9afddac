//! What a service manager is told: that the model is loaded, how far that is, that work goes on,
//! and that the program ends. The protocol is sd_notify(3)'s: datagrams of `NAME=value` lines to
//! the socket that `NOTIFY_SOCKET` names; without that variable nothing is sent.
//!
//! Nothing here waits, and nothing fails a run: what is wrong with the variables is one warning,
//! and a message that there is no room for is dropped, but for `READY=1`, which is sent again.
//!
//! There is no timer. A `WATCHDOG=1` goes out only where a loop gets on, so that a program that
//! hangs does not look alive: the loader with each piece, a step with each layer, the console with
//! each turn of its wait.

use crate::error::Error;
use crate::log::Log;
use crate::sys::{self, DatagramSocket, Errno};
use core::ffi::CStr;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use heapless::String;

/// Bytes of a message; a longer status is cut.
const MESSAGE_BYTES: usize = 512;
/// Pings in the time that the manager waits for one. Two are the least by sd_watchdog_enabled(3).
const PINGS: u64 = 3;

/// The service manager, if there is one.
#[derive(Default)]
pub struct Notify {
    socket: Option<DatagramSocket>,
    /// Time between two pings in nanoseconds; none if nobody waits for them.
    ping_ns: Option<u64>,
    /// When the next is due. Atomic, as the next one is, because a team's job borrows it: one
    /// member pings.
    next_ping: AtomicU64,
    /// There was no room for `READY=1`.
    owes_ready: AtomicBool,
}

/// What is wrong with the variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unusable {
    Socket(Errno),
    Watchdog,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Socket(errno) => write!(f, "NOTIFY_SOCKET: {errno}: nobody is notified"),
            Unusable::Watchdog => f.write_str("WATCHDOG_USEC or WATCHDOG_PID: no number: no pings"),
        }
    }
}

impl Notify {
    /// Reads the environment, and says that the program starts.
    pub fn begin(log: &Log) -> Notify {
        let mut notify = Notify::default();
        if let Some(name) = variable(c"NOTIFY_SOCKET")
            && let Err(unusable) = notify.open(name)
        {
            log.warning(unusable);
        }
        notify
    }

    fn open(&mut self, name: &CStr) -> Result<(), Unusable> {
        let socket = DatagramSocket::to(name).map_err(Unusable::Socket)?;
        match socket.send(b"STATUS=starting") {
            Ok(()) | Err(Errno::WOULD_BLOCK) => self.socket = Some(socket),
            Err(errno) => return Err(Unusable::Socket(errno)),
        }
        let (usec, pid) = (variable(c"WATCHDOG_USEC"), variable(c"WATCHDOG_PID"));
        self.ping_ns = ping_ns(usec, pid, sys::process_id())?;
        Ok(())
    }

    /// Says what is done just now.
    pub fn status(&self, status: fmt::Arguments<'_>) {
        let _ = self.send("", status); // the next one will say more
    }

    /// Says that from now on what was asked for is done.
    pub fn ready(&self, status: &str) {
        if self.send("READY=1\n", format_args!("{status}")) == Err(Errno::WOULD_BLOCK) {
            self.owes_ready.store(true, Ordering::Relaxed);
        }
    }

    /// Work goes on, or waits as it should: pings if that is due.
    pub fn alive(&self) {
        let Some(socket) = &self.socket else { return };
        if self.owes_ready.load(Ordering::Relaxed) && socket.send(b"READY=1").is_ok() {
            self.owes_ready.store(false, Ordering::Relaxed);
        }
        let Some(ping_ns) = self.ping_ns else { return };
        let now = sys::now();
        if now >= self.next_ping.load(Ordering::Relaxed) {
            self.next_ping.store(now + ping_ns, Ordering::Relaxed);
            let _ = socket.send(b"WATCHDOG=1"); // without room, the manager has some to read
        }
    }

    /// Milliseconds that may pass until [`alive`](Self::alive) is called again.
    pub fn wait_ms(&self) -> u32 {
        if self.ping_ns.is_none() {
            return u32::MAX;
        }
        let left = self.next_ping.load(Ordering::Relaxed);
        let left_ms = left.saturating_sub(sys::now()).div_ceil(1_000_000);
        u32::try_from(left_ms).unwrap_or(u32::MAX).max(1)
    }

    /// Says that the program ends, and why if that is no choice of anybody's.
    pub fn stopping(&self, error: Option<&Error>) {
        let _ = match (error, &self.socket) {
            (Some(error), _) => self.send("STOPPING=1\n", format_args!("error: {error}")),
            (None, Some(socket)) => socket.send(b"STOPPING=1"),
            (None, None) => Ok(()),
        }; // it ends all the same
    }

    fn send(&self, before: &str, status: fmt::Arguments<'_>) -> Result<(), Errno> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let mut message = String::<MESSAGE_BYTES>::new();
        // What does not fit is cut.
        let _ = write!(message, "{before}STATUS=");
        let _ = write!(OneLine(&mut message), "{status}");
        socket.send(message.as_bytes())
    }
}

/// A variable that is set, and not to nothing.
fn variable(name: &CStr) -> Option<&'static CStr> {
    sys::environment(name).filter(|value| !value.is_empty())
}

/// The time between two pings, by the microseconds that the manager waits for one and the process
/// that it waits for: `me`, if none is named.
fn ping_ns(usec: Option<&CStr>, pid: Option<&CStr>, me: u32) -> Result<Option<u64>, Unusable> {
    let number = |value: &CStr| value.to_str().ok()?.parse::<u64>().ok();
    let Some(usec) = usec else { return Ok(None) };
    let usec = number(usec)
        .filter(|&usec| usec > 0)
        .ok_or(Unusable::Watchdog)?;
    if let Some(pid) = pid
        && number(pid).ok_or(Unusable::Watchdog)? != u64::from(me)
    {
        return Ok(None);
    }
    Ok(Some(usec.saturating_mul(1000 / PINGS)))
}

/// Text in which no line ends: a path of an error may have anything in it.
struct OneLine<'m>(&'m mut String<MESSAGE_BYTES>);

impl fmt::Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let shown = if character.is_control() {
                ' '
            } else {
                character
            };
            self.0.push(shown).map_err(|_| fmt::Error)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_are_for_the_process_that_is_named() {
        let of = |usec, pid| ping_ns(usec, pid, 7);
        assert_eq!(of(None, Some(c"7")), Ok(None));
        assert_eq!(of(Some(c"3000000"), None), Ok(Some(999_000_000)));
        assert_eq!(of(Some(c"3000000"), Some(c"7")), Ok(Some(999_000_000)));
        assert_eq!(of(Some(c"3000000"), Some(c"8")), Ok(None));
        // "infinity" has this number; a clock that runs that long does not.
        assert!(of(Some(c"18446744073709551615"), None).is_ok());
        for wrong in [c"0", c"-1", c"1s", c"18446744073709551616"] {
            assert_eq!(of(Some(wrong), None), Err(Unusable::Watchdog), "{wrong:?}");
        }
        assert_eq!(of(Some(c"1"), Some(c"me")), Err(Unusable::Watchdog));
    }

    #[test]
    fn status_is_one_line_and_cut() {
        let mut message = String::new();
        let _ = write!(OneLine(&mut message), "a\nREADY=1\t{:x<600}", "");
        assert!(message.starts_with("a READY=1 xxx"));
        assert_eq!(message.len(), MESSAGE_BYTES);
    }
}
