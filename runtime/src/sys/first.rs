//! What the first process of a system does, and hardly anybody else: mounts, waits for devices, and
//! ends everything.

use super::{Errno, Fd, STDERR, STDOUT, check, handle, now};
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the end of this process is the end of the system.
static IS_FIRST: AtomicBool = AtomicBool::new(false);

/// Whether the kernel started this process first, and nobody has set up anything yet. In a container
/// a program may be process 1 too, but finds `/proc` there.
pub fn is_first_process() -> bool {
    // SAFETY: no memory is passed.
    let is_first = unsafe { libc::getpid() } == 1;
    is_first && !exists(c"/proc/self")
}

/// From now on the end of the process powers the system off; a hung-up line is no reason to end, and
/// the kernel buries children that nobody waits for.
pub fn take_over() {
    IS_FIRST.store(true, Ordering::Relaxed);
    handle(libc::SIGHUP, libc::SIG_IGN);
    handle(libc::SIGCHLD, libc::SIG_IGN);
}

/// Whether [`take_over`] was called.
pub fn has_taken_over() -> bool {
    IS_FIRST.load(Ordering::Relaxed)
}

/// Mounts a file system that has its content from the kernel, or a device's, which nobody may
/// change, nor run programs from.
///
/// # Errors
/// What the kernel says; that something of the kind is there already is none.
pub fn mount(source: &CStr, folder: &CStr, kind: &CStr, is_read_only: bool) -> Result<(), Errno> {
    let mut flags = libc::MS_NOSUID | libc::MS_NOEXEC;
    if is_read_only {
        flags |= libc::MS_RDONLY | libc::MS_NODEV;
    }
    // SAFETY: all strings are NUL-terminated. A file system without options takes a null pointer.
    let mounted = unsafe {
        libc::mkdir(folder.as_ptr(), 0o755); // it may be there; if it cannot be, the mount fails
        let (source, folder, kind) = (source.as_ptr(), folder.as_ptr(), kind.as_ptr());
        libc::mount(source, folder, kind, flags, core::ptr::null())
    };
    match check(mounted as isize) {
        Ok(_) | Err(Errno(libc::EBUSY)) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Whether a path names something.
pub fn exists(path: &CStr) -> bool {
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 }
}

/// Waits so long. A signal ends it early.
pub fn sleep(ms: u32) {
    let time = libc::timespec {
        tv_sec: (ms / 1000).into(),
        tv_nsec: (ms % 1000 * 1_000_000).into(),
    };
    // SAFETY: the kernel reads `time`; what is left of it is not asked for.
    unsafe { libc::nanosleep(&time, core::ptr::null_mut()) };
}

impl Fd {
    /// Opens a terminal for reading and writing, in the place of stdin and stdout. Its signals are
    /// not for this process.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open_as_standard_streams(path: &CStr) -> Result<(), Errno> {
        let fd = Fd::open_with(path, libc::O_RDWR | libc::O_NOCTTY)?;
        for standard in [0, 1] {
            // SAFETY: no memory is passed.
            check(unsafe { libc::dup2(fd.0, standard) } as isize)?;
        }
        Ok(())
    }

    /// Waits until a terminal has sent what was written to it, a second at most: the line may be
    /// held up for ever.
    fn drain(self) {
        const NS_MAX: u64 = 1_000_000_000;
        let began = now();
        loop {
            let mut left: c_int = 0;
            // SAFETY: the kernel writes a number to `left`.
            let asked = unsafe { libc::ioctl(self.0, libc::TIOCOUTQ, &raw mut left) };
            if asked != 0 || left == 0 || now() - began > NS_MAX {
                return;
            }
            sleep(5);
        }
    }
}

/// How a system ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The power goes.
    PowerOff,
    /// It starts again.
    Restart,
}

/// Ends the system, once all that was written is where it should be.
pub fn end_system(ending: Ending) -> ! {
    STDOUT.drain();
    STDERR.drain();
    sleep(20); // what the UART itself still holds
    let command = match ending {
        Ending::PowerOff => libc::RB_POWER_OFF,
        Ending::Restart => libc::RB_AUTOBOOT,
    };
    // SAFETY: no memory is passed.
    unsafe {
        libc::sync();
        libc::reboot(command);
    }
    loop {
        sleep(60_000); // where the power cannot be switched off, nothing happens any more
    }
}

/// Ends the system if this process is its first; returns otherwise.
pub(super) fn end_if_first() {
    if has_taken_over() {
        end_system(Ending::PowerOff)
    }
}
