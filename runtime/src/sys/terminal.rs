//! Terminals: a UART, or the end of a pty, as a line of raw bytes; and waiting with a bound. What is
//! changed of their settings is given back when they are closed, and at the end of the process.

use super::{Errno, Fd, check};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_short};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, Ordering};

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

/// A terminal whose settings were changed.
struct Changed {
    /// Its descriptor, -1 if there is none.
    fd: AtomicI32,
    /// How it was set before; filled while there is one.
    before: UnsafeCell<MaybeUninit<libc::termios>>,
}

// SAFETY: `before` is written by the main thread alone, and only while `fd` says that nobody may
// read it.
unsafe impl Sync for Changed {}

/// The log's terminal and the console's, in the order of the changes: it may be the same one.
static CHANGED: [Changed; 2] = [const { Changed::none() }; 2];

impl Changed {
    const fn none() -> Changed {
        Changed {
            fd: AtomicI32::new(-1),
            before: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Gives a terminal its settings back. One that is gone has none.
    fn restore(&self) {
        let fd = self.fd.load(Ordering::Acquire);
        if fd != -1 {
            // SAFETY: tcgetattr filled the settings before the descriptor was stored.
            unsafe { libc::tcsetattr(fd, libc::TCSANOW, (*self.before.get()).as_ptr()) };
        }
    }
}

/// Gives all terminals their settings back: the last change is undone first.
pub(super) fn restore_all() {
    CHANGED.iter().rev().for_each(Changed::restore);
}

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
    /// A BREAK is read as `FF 00 00`, and a byte `FF` as `FF FF`.
    pub fn make_raw(self, baud: Baud, xonxoff: bool) -> Result<(), Errno> {
        self.change(|raw| {
            raw.c_iflag = libc::PARMRK;
            if xonxoff {
                raw.c_iflag |= libc::IXON | libc::IXOFF;
            }
            raw.c_oflag = 0;
            raw.c_lflag = 0;
            raw.c_cflag = libc::CS8 | libc::CREAD | libc::CLOCAL;
            raw.c_cc[libc::VMIN] = 1;
            raw.c_cc[libc::VTIME] = 0;
            // SAFETY: `raw` is a filled structure; a speed that there is a constant for is taken.
            unsafe {
                libc::cfsetispeed(raw, baud.0);
                libc::cfsetospeed(raw, baud.0);
            }
        })
    }

    /// Has a terminal pass on what is written to it byte for byte.
    pub fn pass_output_on(self) -> Result<(), Errno> {
        self.change(|settings| settings.c_oflag &= !libc::OPOST)
    }

    /// Changes the settings of a terminal, and keeps those before. Only the main thread does.
    fn change(self, change: impl FnOnce(&mut libc::termios)) -> Result<(), Errno> {
        let mut free = CHANGED
            .iter()
            .filter(|one| one.fd.load(Ordering::Relaxed) == -1);
        let kept = free.next().ok_or(Errno::BUSY)?;
        let mut settings = MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: `settings` has room for the result, and all-zero is a valid value of it. Nobody
        // reads `before` until the descriptor is stored.
        let mut settings = unsafe {
            check(libc::tcgetattr(self.0, settings.as_mut_ptr()) as isize)?;
            *kept.before.get() = settings;
            settings.assume_init()
        };
        kept.fd.store(self.0, Ordering::Release);
        change(&mut settings);
        // SAFETY: the settings are a filled structure.
        check(unsafe { libc::tcsetattr(self.0, libc::TCSANOW, &raw const settings) } as isize)
            .map(|_| ())
    }

    /// Drops what was written to a terminal and has not left it.
    pub fn discard_output(self) {
        // SAFETY: no memory is passed.
        unsafe { libc::tcflush(self.0, libc::TCOFLUSH) };
    }

    /// Closes it; a terminal gets its settings back. The descriptor, of which this takes one copy,
    /// must not be used any more: the number may become another file's.
    pub fn close(self) {
        for changed in &CHANGED {
            if changed.fd.load(Ordering::Relaxed) == self.0 {
                changed.restore();
                changed.fd.store(-1, Ordering::Relaxed);
            }
        }
        // SAFETY: no memory is passed.
        unsafe { libc::close(self.0) };
    }
}

/// What a wait ended with. An end of input, a hang-up and an error count as ready, and so does what
/// cannot be waited for: the next read or write tells which.
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
    match check(count as isize) {
        Ok(_) => Ready {
            input: both[0].revents != 0,
            output: both[1].revents != 0,
        },
        Err(Errno::INTERRUPTED) => Ready::default(),
        Err(_) => Ready {
            input: true,
            output: true,
        },
    }
}
