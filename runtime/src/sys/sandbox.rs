//! What the process gives up once it has all that it needs, so that whoever takes it over by a file
//! or a prompt gets little: no other program, no socket, no file to write, no new memory to run.
//!
//! - [`close_files`], before there are threads, which inherit it: Landlock leaves the file system
//!   only `/proc` and `/sys` to read, and a console's terminal.
//! - [`refuse_calls`], when all is loaded: seccomp leaves all threads the system calls that decoding
//!   needs. Any other one fails with `EPERM`, and has no effect.
//!
//! What is open stays open. Sources: `Documentation/userspace-api/seccomp_filter.rst` and
//! `landlock.rst` of Linux.

use super::terminal::TERMINAL_FLAGS;
use super::{Errno, Fd, check, has_taken_over};
use core::ffi::{CStr, c_int, c_long, c_ulong};
use heapless::Vec;

/// What is still to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opens<'p> {
    /// Files of `/proc` and `/sys`, to read.
    Nothing,
    /// And the terminal of that path, by [`Fd::open_terminal`], once it has hung up.
    Terminal(&'p CStr),
}

/// Every right over files that Landlock's first version knows: executing, writing, reading, reading
/// folders, removing and making. Later ones: linking across folders, and cutting off.
const FILES_V1: u64 = (1 << 13) - 1;
const REFER_V2: u64 = 1 << 13;
const TRUNCATE_V3: u64 = 1 << 14;
/// To bind and to connect TCP sockets.
const TCP_V4: u64 = 0b11;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_FOLDER: u64 = 1 << 3;

/// `landlock_ruleset_attr`, as far as the fourth version has it.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
}

/// `landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: c_int,
}

/// Takes the rest of the file system away from this thread and those that it starts. Returns the
/// version of the kernel's Landlock.
///
/// # Errors
/// The kernel has none, or refuses.
pub fn close_files(opens: Opens<'_>) -> Result<u32, Errno> {
    const ASK_VERSION: c_ulong = 1;
    // SAFETY: no memory is passed.
    let version = unsafe {
        let nothing = core::ptr::null::<Ruleset>();
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            nothing,
            0usize,
            ASK_VERSION,
        )
    };
    let version = check(version as isize)?;
    let mut rights = Ruleset {
        files: FILES_V1,
        network: 0,
    };
    if version >= 2 {
        rights.files |= REFER_V2;
    }
    if version >= 3 {
        rights.files |= TRUNCATE_V3;
    }
    let mut bytes = size_of_val(&rights.files);
    if version >= 4 {
        rights.network = TCP_V4;
        bytes = size_of::<Ruleset>();
    }
    // SAFETY: the kernel reads the given number of bytes of `rights`.
    let ruleset = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const rights,
            bytes,
            0u64,
        )
    } as isize)? as c_int;
    let read = READ_FILE | READ_FOLDER;
    allow(ruleset, c"/proc", read)?;
    allow(ruleset, c"/sys", read)?;
    if let Opens::Terminal(path) = opens {
        allow(ruleset, path, READ_FILE | WRITE_FILE)?;
        if let Some(folder) = folder_of_the_next(path) {
            allow(ruleset, folder, READ_FILE | WRITE_FILE)?;
        }
    }
    gain_nothing()?;
    // SAFETY: no memory is passed.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0u64) };
    check(done as isize)?;
    // SAFETY: the descriptor is ours and is used no more.
    unsafe { libc::close(ruleset) };
    Ok(version as u32)
}

/// Where the file appears that a terminal is after it was unplugged and plugged in again, or after a
/// pseudo-terminal's end; none for one that stays the same file. By the major number
/// (`Documentation/admin-guide/devices.txt` of Linux).
fn folder_of_the_next(terminal: &CStr) -> Option<&'static CStr> {
    const USB_MODEMS: u32 = 166;
    const USB_SERIAL: u32 = 188;
    const BLUETOOTH: u32 = 216;
    let device = Fd::open_with(terminal, libc::O_PATH).ok()?;
    let stat = device.stat();
    device.close();
    match libc::major(stat.ok()?.st_rdev) {
        136..=143 => Some(c"/dev/pts"),
        USB_MODEMS | USB_SERIAL | BLUETOOTH => Some(c"/dev"),
        _ => None,
    }
}

/// Leaves a file, or what lies beneath a folder, to the rights of `allowed`. Where there is none,
/// nothing can be opened.
fn allow(ruleset: c_int, path: &CStr, allowed: u64) -> Result<(), Errno> {
    const PATH_BENEATH: c_int = 1;
    let Ok(file) = Fd::open_with(path, libc::O_PATH) else {
        return Ok(());
    };
    let beneath = Beneath {
        allowed,
        parent: file.0,
    };
    // SAFETY: the kernel reads the structure.
    let added = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset,
            PATH_BENEATH,
            &raw const beneath,
            0u64,
        )
    } as isize);
    file.close();
    added.map(|_| ())
}

/// From now on no program that this thread starts has more rights than it. Both filters ask for it.
fn gain_nothing() -> Result<(), Errno> {
    const YES: c_ulong = 1;
    const UNUSED: c_ulong = 0;
    // SAFETY: no memory is passed.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, YES, UNUSED, UNUSED, UNUSED) };
    check(done as isize).map(|_| ())
}

/// The calls that decoding, logs, the console and the end make, whatever their arguments. What a C
/// library makes of a function differs: those of musl, on both architectures.
const CALLS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_faccessat,
    libc::SYS_fsync,
    libc::SYS_fadvise64,
    libc::SYS_madvise,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getpid,
    libc::SYS_sendto,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
];

/// Those of the first process, which ends the system.
const FIRST_PROCESS_CALLS: &[c_long] = &[libc::SYS_sync, libc::SYS_reboot];

/// What a terminal is asked for and told. Nothing types into one.
const TERMINAL_REQUESTS: &[u32] = &[
    libc::TCGETS as u32,
    libc::TCSETS as u32,
    libc::TCSETSW as u32,
    libc::TCSETSF as u32,
    libc::TCFLSH as u32,
    libc::TIOCOUTQ as u32,
    libc::TIOCGWINSZ as u32,
];

/// Flags of opening that are not for reading alone.
const NOT_READING: u32 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u32;

/// `O_LARGEFILE` of the kernel, which some C libraries call 0.
#[cfg(target_arch = "x86_64")]
const LARGE_FILE: c_int = 0o10_0000;
#[cfg(target_arch = "aarch64")]
const LARGE_FILE: c_int = 0o40_0000;

/// `AUDIT_ARCH_*`: the ELF machine, of 64 bits, little-endian. A call of another architecture has
/// other numbers.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 62 | 0xC000_0000;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 183 | 0xC000_0000;

/// Takes all other system calls away from all threads.
///
/// # Errors
/// The kernel has no seccomp, or refuses.
pub fn refuse_calls(opens: Opens<'_>) -> Result<(), Errno> {
    let mut filter = Filter::new();
    for &call in CALLS {
        filter.allow(call);
    }
    if has_taken_over() {
        for &call in FIRST_PROCESS_CALLS {
            filter.allow(call);
        }
    }
    filter.allow_if_equal(libc::SYS_ioctl, 1, TERMINAL_REQUESTS);
    let writing = match opens {
        Opens::Nothing => None,
        Opens::Terminal(_) => Some(TERMINAL_FLAGS as u32),
    };
    filter.allow_opening(libc::SYS_openat, 2, writing);
    #[cfg(target_arch = "x86_64")]
    filter.allow_opening(libc::SYS_open, 1, writing);
    let program = filter.end();

    gain_nothing()?;
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(), // it is only read
    };
    // SAFETY: the kernel copies `len` instructions and checks them. All other threads get the same
    // filter, or the call fails.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match check(done as isize) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Errno(libc::ESRCH)), // the number of a thread that cannot have it
        Err(errno) => Err(errno),
    }
}

/// Instructions at most: two for each call, and some.
const PROGRAM_MAX: usize = 128;

/// A program of classic BPF over `seccomp_data`: the number of the call at 0, the architecture at
/// 4, six arguments of 8 bytes from 16 on, of which the lower half comes first.
struct Filter(Vec<libc::sock_filter, PROGRAM_MAX>);

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_ANY_SET: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

impl Filter {
    fn new() -> Self {
        let mut filter = Filter(Vec::new());
        filter.push(LOAD, 4, 0, 0);
        filter.push(IF_EQUAL, ARCHITECTURE, 1, 0);
        filter.push(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0);
        filter.push(LOAD, 0, 0, 0);
        filter
    }

    /// An instruction; a jump skips so many of the next ones if what it asks is so, or is not so.
    fn push(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        let instruction = libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        assert!(self.0.push(instruction).is_ok(), "room for the filter");
    }

    fn allow(&mut self, call: c_long) {
        self.push(IF_EQUAL, call as u32, 0, 1);
        self.push(RETURN, ALLOW, 0, 0);
    }

    /// `call`, if its argument is one of `values`.
    fn allow_if_equal(&mut self, call: c_long, argument: u32, values: &[u32]) {
        self.push(IF_EQUAL, call as u32, 0, 2 + 2 * values.len() as u8);
        self.push(LOAD, 16 + 8 * argument, 0, 0);
        for &value in values {
            self.push(IF_EQUAL, value, 0, 1);
            self.push(RETURN, ALLOW, 0, 0);
        }
        self.push(RETURN, REFUSE, 0, 0);
    }

    /// `call`, which opens a file with the flags of that argument: to read, or with just the flags
    /// `writing`, to which a C library may add that files can be large.
    fn allow_opening(&mut self, call: c_long, argument: u32, writing: Option<u32>) {
        self.push(IF_EQUAL, call as u32, 0, 7);
        self.push(LOAD, 16 + 8 * argument, 0, 0);
        self.push(IF_ANY_SET, NOT_READING, 1, 0);
        self.push(RETURN, ALLOW, 0, 0);
        self.push(AND, !(LARGE_FILE as u32), 0, 0);
        self.push(IF_EQUAL, writing.unwrap_or(u32::MAX), 0, 1); // no flags are all ones
        self.push(RETURN, ALLOW, 0, 0);
        self.push(RETURN, REFUSE, 0, 0);
    }

    fn end(&mut self) -> &[libc::sock_filter] {
        self.push(RETURN, REFUSE, 0, 0);
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel makes of a call with these arguments: the few instructions that are used.
    fn judge(program: &[libc::sock_filter], call: u32, arguments: [u64; 6]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let instruction = &program[at];
            let k = instruction.k;
            let skip = |is_so: bool| match is_so {
                true => usize::from(instruction.jt),
                false => usize::from(instruction.jf),
            };
            at += 1;
            match u32::from(instruction.code) {
                LOAD => {
                    value = match k {
                        0 => call,
                        4 => ARCHITECTURE,
                        offset => arguments[(offset as usize - 16) / 8] as u32,
                    }
                }
                IF_EQUAL => at += skip(value == k),
                IF_ANY_SET => at += skip(value & k != 0),
                AND => value &= k,
                RETURN => return k,
                code => panic!("{code:#x} is not used"),
            }
        }
    }

    #[test]
    fn filter_looks_at_calls_and_arguments() {
        let mut filter = Filter::new();
        filter.allow(7);
        filter.allow_if_equal(9, 1, &[5, 6]);
        filter.allow_opening(11, 2, Some(TERMINAL_FLAGS as u32));
        filter.allow_opening(13, 2, None);
        filter.allow(12);
        let program = filter.end();
        let judged = |call, second, third| judge(program, call, [0, second, third, 0, 0, 0]);
        assert_eq!(judged(7, 0, 0), ALLOW);
        assert_eq!(judged(8, 0, 0), REFUSE);
        assert_eq!(
            [4, 5, 6, 7].map(|request| judged(9, request, 0) == ALLOW),
            [false, true, true, false]
        );
        let opened = |call, flags: c_int| judged(call, 0, flags as u64) == ALLOW;
        let terminal = TERMINAL_FLAGS | LARGE_FILE;
        for call in [11, 13] {
            assert!(opened(call, libc::O_RDONLY | libc::O_CLOEXEC));
            assert_eq!(opened(call, terminal), call == 11);
            for more in [libc::O_CREAT, libc::O_TRUNC, libc::O_TMPFILE] {
                assert!(!opened(call, terminal | more));
            }
            for other in [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_CREAT] {
                assert!(!opened(call, other));
            }
        }
        assert_eq!(judged(12, 0, 0), ALLOW);
        assert_eq!(judged(0x4000_0007, 0, 0), REFUSE); // another way to call on x86-64
    }
}
