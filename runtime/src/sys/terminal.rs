//! Terminals: a UART, or the end of a pty, as a line of raw bytes; and waiting with a bound.

use super::{Errno, Fd, check};
use core::ffi::{CStr, c_int, c_short};
use core::mem::MaybeUninit;

/// A speed that the kernel has a constant for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Baud(libc::speed_t);

impl Baud {
    /// The constant of so many bits a second.
    pub fn new(bits_per_second: u32) -> Option<Baud> {
        let rate = BAUD_RATES.iter().find(|rate| rate.0 == bits_per_second)?;
        Some(rate.1)
    }
}

/// Bits a second that there are constants for.
pub const BAUD_RATES: [(u32, Baud); 21] = [
    (1200, Baud(libc::B1200)),
    (2400, Baud(libc::B2400)),
    (4800, Baud(libc::B4800)),
    (9600, Baud(libc::B9600)),
    (19200, Baud(libc::B19200)),
    (38400, Baud(libc::B38400)),
    (57600, Baud(libc::B57600)),
    (115_200, Baud(libc::B115200)),
    (230_400, Baud(libc::B230400)),
    (460_800, Baud(libc::B460800)),
    (500_000, Baud(libc::B500000)),
    (576_000, Baud(libc::B576000)),
    (921_600, Baud(libc::B921600)),
    (1_000_000, Baud(libc::B1000000)),
    (1_152_000, Baud(libc::B1152000)),
    (1_500_000, Baud(libc::B1500000)),
    (2_000_000, Baud(libc::B2000000)),
    (2_500_000, Baud(libc::B2500000)),
    (3_000_000, Baud(libc::B3000000)),
    (3_500_000, Baud(libc::B3500000)),
    (4_000_000, Baud(libc::B4000000)),
];

/// How a terminal was set before.
#[derive(Clone, Copy)]
pub struct TerminalSettings(libc::termios);

/// How [`Fd::open_terminal`] opens.
pub const TERMINAL_FLAGS: c_int =
    libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;

impl Fd {
    /// Opens a terminal, to read and to write. It does not become the one that controls the
    /// process, and nothing waits: neither the opening nor what is done with it.
    pub fn open_terminal(path: &CStr) -> Result<Fd, Errno> {
        Fd::open_with(path, TERMINAL_FLAGS)
    }

    /// Makes a terminal a line of eight-bit bytes that nobody interprets, at a speed, without
    /// parity and modem lines; with `xonxoff`, both sides may stop the other by Ctrl-S and Ctrl-Q.
    /// A BREAK is read as `FF 00 00`, and a byte `FF` as `FF FF`. Returns the settings before.
    pub fn make_raw(self, baud: Baud, xonxoff: bool) -> Result<TerminalSettings, Errno> {
        let before = self.settings()?;
        let mut raw = before.0;
        raw.c_iflag = libc::PARMRK;
        if xonxoff {
            raw.c_iflag |= libc::IXON | libc::IXOFF;
        }
        raw.c_oflag = 0;
        raw.c_lflag = 0;
        raw.c_cflag = libc::CS8 | libc::CREAD | libc::CLOCAL;
        raw.c_cc[libc::VMIN] = 1;
        raw.c_cc[libc::VTIME] = 0;
        // SAFETY: `raw` is a filled structure, which both calls only change or read.
        unsafe {
            check(libc::cfsetispeed(&raw mut raw, baud.0) as isize)?;
            check(libc::cfsetospeed(&raw mut raw, baud.0) as isize)?;
            check(libc::tcsetattr(self.0, libc::TCSANOW, &raw const raw) as isize)?;
        }
        Ok(before)
    }

    /// Has a terminal pass on what is written to it byte for byte. Returns the settings before.
    pub fn pass_output_on(self) -> Result<TerminalSettings, Errno> {
        let before = self.settings()?;
        let mut changed = before;
        changed.0.c_oflag &= !libc::OPOST;
        self.restore(&changed);
        Ok(before)
    }

    fn settings(self) -> Result<TerminalSettings, Errno> {
        let mut settings = MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: `settings` has room for the result.
        check(unsafe { libc::tcgetattr(self.0, settings.as_mut_ptr()) } as isize)?;
        // SAFETY: tcgetattr succeeded, so it filled the structure.
        Ok(TerminalSettings(unsafe { settings.assume_init() }))
    }

    /// Gives a terminal its settings back. One that is gone has none.
    pub fn restore(self, settings: &TerminalSettings) {
        // SAFETY: the settings were filled by tcgetattr.
        unsafe { libc::tcsetattr(self.0, libc::TCSANOW, &raw const settings.0) };
    }

    /// Drops what was written to a terminal and has not left it.
    pub fn discard_output(self) {
        // SAFETY: no memory is passed.
        unsafe { libc::tcflush(self.0, libc::TCOFLUSH) };
    }

    /// Closes it. The descriptor, of which this takes one copy, must not be used any more: the
    /// number may become another file's.
    pub fn close(self) {
        // SAFETY: no memory is passed.
        unsafe { libc::close(self.0) };
    }
}

/// What a wait ended with. An end of input, a hang-up and an error count as ready: the next read
/// or write tells which.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// There is something to read.
    pub input: bool,
    /// There is room to write.
    pub output: bool,
}

/// Waits until `input` can be read or `output` be written, for so many milliseconds at most, or
/// until a signal comes. Without either it sleeps.
pub fn wait(input: Option<Fd>, output: Option<Fd>, milliseconds: u32) -> Ready {
    // A negative descriptor is passed over.
    let poll = |fd: Option<Fd>, events: c_short| libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.0),
        events,
        revents: 0,
    };
    let mut both = [poll(input, libc::POLLIN), poll(output, libc::POLLOUT)];
    let milliseconds = c_int::try_from(milliseconds).unwrap_or(c_int::MAX);
    // SAFETY: `both` holds the two structures that are told.
    let count = unsafe { libc::poll(both.as_mut_ptr(), 2, milliseconds) };
    match count {
        ..=0 => Ready::default(),
        _ => Ready {
            input: both[0].revents != 0,
            output: both[1].revents != 0,
        },
    }
}
