//! The libc shim: the only place that talks to Linux.
//!
//! Safe functions over the few calls that Rushlight makes. Each checks `errno` once and returns it
//! as [`Errno`]. Nothing here knows models, logs or options.

#![allow(unsafe_code)] // foreign calls

mod first;
pub mod sandbox;
mod socket;
mod team;
mod terminal;

pub use first::{
    Ending, end_system, exists, has_taken_over, is_first_process, mount, sleep, take_over,
};
pub use socket::{DatagramSocket, environment, process_id};
pub use team::{STACK_BYTES, THREADS_MAX, Team};
pub use terminal::{BAUD_RATES, Baud, Ready, TERMINAL_FLAGS, wait};

use core::ffi::{CStr, c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// The standard streams.
pub const STDIN: Fd = Fd(0);
/// Generated text, and nothing else.
pub const STDOUT: Fd = Fd(1);
/// Logs.
pub const STDERR: Fd = Fd(2);

/// Milliseconds that a reader who takes nothing is waited for after a signal. Waits without an end
/// are cut into such parts, for a signal that comes just before one.
pub const MOMENT_MS: u32 = 100;

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    /// A signal arrived first.
    pub const INTERRUPTED: Errno = Errno(libc::EINTR);
    /// There is no such file.
    pub const NOT_FOUND: Errno = Errno(libc::ENOENT);
    /// There is nothing of the kind.
    pub const NO_DEVICE: Errno = Errno(libc::ENODEV);
    /// It makes no sense.
    pub const INVALID: Errno = Errno(libc::EINVAL);
    /// There is no memory for it.
    pub const NO_MEMORY: Errno = Errno(libc::ENOMEM);
    /// There is one already.
    pub const EXISTS: Errno = Errno(libc::EEXIST);
    /// Somebody else has it.
    pub const BUSY: Errno = Errno(libc::EBUSY);
    /// There is no room for it.
    pub const NO_SPACE: Errno = Errno(libc::ENOSPC);
    /// A path is longer than there is room for.
    pub const NAME_TOO_LONG: Errno = Errno(libc::ENAMETOOLONG);
    /// Nothing to read, or no room to write, just now.
    pub const WOULD_BLOCK: Errno = Errno(libc::EAGAIN);
    /// Nobody reads.
    pub const BROKEN_PIPE: Errno = Errno(libc::EPIPE);
    /// A file ended before the bytes that were asked for.
    pub const UNEXPECTED_END: Errno = Errno(libc::ENODATA);

    fn last() -> Errno {
        // SAFETY: returns the address of this thread's errno, valid while the thread lives.
        Errno(unsafe { *libc::__errno_location() })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: strerror takes any number and returns a NUL-terminated constant.
        let text = unsafe { CStr::from_ptr(libc::strerror(self.0)) };
        write!(
            f,
            "{} (errno {})",
            text.to_str().unwrap_or("unknown error"),
            self.0
        )
    }
}

/// `-1` is an error, anything else a result.
fn check(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

/// An open file. It stays open: the program opens a handful and then ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fd(c_int);

/// What a descriptor refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A block device: a raw partition.
    Block,
    /// A pipe or a socket.
    Stream,
    /// A terminal, `/dev/null`, a directory, or something else.
    Other,
}

impl Fd {
    /// No file: every use is an error.
    pub const NONE: Fd = Fd(-1);

    /// Opens for reading. A pipe is waited for until somebody writes to it.
    pub fn open(path: &CStr) -> Result<Fd, Errno> {
        Fd::open_with(path, libc::O_RDONLY)
    }

    /// Opens for reading what should be a file, and waits for nothing if it is not.
    pub fn open_file(path: &CStr) -> Result<Fd, Errno> {
        Fd::open_with(path, libc::O_RDONLY | libc::O_NONBLOCK)
    }

    fn open_with(path: &CStr, flags: c_int) -> Result<Fd, Errno> {
        // SAFETY: `path` is NUL-terminated.
        let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
        check(fd as isize).map(|_| Fd(fd))
    }

    /// Creates or empties, and opens for writing.
    pub fn create(path: &CStr) -> Result<Fd, Errno> {
        Fd::create_with(path, libc::O_TRUNC)
    }

    /// Creates or empties, and opens for writing. Each write to a regular file goes to its end as
    /// a whole, whichever thread makes it.
    pub fn create_appending(path: &CStr) -> Result<Fd, Errno> {
        Fd::create_with(path, libc::O_TRUNC | libc::O_APPEND)
    }

    /// Creates, or opens for writing what is there as it is, but no link, and waits for nothing.
    pub fn create_or_keep(path: &CStr) -> Result<Fd, Errno> {
        Fd::create_with(path, libc::O_NOFOLLOW | libc::O_NONBLOCK)
    }

    fn create_with(path: &CStr, more: c_int) -> Result<Fd, Errno> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC | more;
        // SAFETY: `path` is NUL-terminated; the mode is passed as open(2) asks with O_CREAT.
        let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644 as c_int) };
        check(fd as isize).map(|_| Fd(fd))
    }

    /// Locks a file for writing until this program ends (`flock(2)`). Not every file system can.
    ///
    /// # Errors
    /// [`Errno::WOULD_BLOCK`]: somebody has it [locked](Self::lock) or
    /// [kept](Self::keep). Any other: it cannot be locked.
    pub fn lock(self) -> Result<(), Errno> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::flock(self.0, libc::LOCK_EX | libc::LOCK_NB) } as isize).map(|_| ())
    }

    /// Keeps a file from being [locked](Self::lock) until this program ends, where that can be.
    pub fn keep(self) {
        // SAFETY: no memory is passed.
        unsafe { libc::flock(self.0, libc::LOCK_SH | libc::LOCK_NB) };
    }

    /// Takes all bytes out of a file.
    pub fn empty(self) -> Result<(), Errno> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::ftruncate(self.0, 0) } as isize).map(|_| ())
    }

    /// Opens what exists for writing, empties nothing, and waits for nothing. A block device that
    /// is in use, as by a file system, is refused.
    pub fn open_for_writing(path: &CStr) -> Result<Fd, Errno> {
        Fd::open_with(path, libc::O_WRONLY | libc::O_NONBLOCK | libc::O_EXCL)
    }

    fn stat(self) -> Result<libc::stat, Errno> {
        let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `stat` has room for the result.
        check(unsafe { libc::fstat(self.0, stat.as_mut_ptr()) } as isize)?;
        // SAFETY: fstat succeeded, so it filled the structure.
        Ok(unsafe { stat.assume_init() })
    }

    /// Whether both are the same file, or the same device by whatever name.
    pub fn is_same(self, other: Fd) -> Result<bool, Errno> {
        let (one, other) = (self.stat()?, other.stat()?);
        let is_device = |stat: &libc::stat| stat.st_mode & libc::S_IFMT == libc::S_IFBLK;
        Ok(if is_device(&one) && is_device(&other) {
            one.st_rdev == other.st_rdev
        } else {
            (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
        })
    }

    /// Whether it is a file, and has no second name.
    pub fn is_sole_file(self) -> Result<bool, Errno> {
        let stat = self.stat()?;
        Ok(stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_nlink <= 1)
    }

    /// What it refers to.
    pub fn kind(self) -> Result<FileKind, Errno> {
        Ok(match self.stat()?.st_mode & libc::S_IFMT {
            libc::S_IFREG => FileKind::Regular,
            libc::S_IFBLK => FileKind::Block,
            libc::S_IFIFO | libc::S_IFSOCK => FileKind::Stream,
            _ => FileKind::Other,
        })
    }

    /// Bytes in a file or on a block device.
    pub fn size(self) -> Result<u64, Errno> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::lseek(self.0, 0, libc::SEEK_END) } as isize).map(|size| size as u64)
    }

    /// Whether it is a terminal.
    pub fn is_terminal(self) -> bool {
        // SAFETY: no memory is passed.
        unsafe { libc::isatty(self.0) == 1 }
    }

    /// Reads what there is, up to the buffer's length; 0 at the end of input. Returns early with
    /// what it has when a signal arrives.
    pub fn read(self, buffer: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the kernel writes at most `len` bytes to `buffer`.
        check(unsafe { libc::read(self.0, buffer.as_mut_ptr().cast(), buffer.len()) })
    }

    /// Fills the buffer from `offset`.
    pub fn read_exact_at(self, buffer: &mut [u8], offset: u64) -> Result<(), Errno> {
        let mut done = 0;
        while done < buffer.len() {
            let rest = &mut buffer[done..];
            let at = (offset + done as u64) as libc::off_t;
            // SAFETY: the kernel writes at most `len` bytes to `rest`.
            match check(unsafe { libc::pread(self.0, rest.as_mut_ptr().cast(), rest.len(), at) }) {
                Ok(0) => return Err(Errno::UNEXPECTED_END),
                Ok(count) => done += count,
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Writes what there is room for, and returns how much that was.
    pub fn write(self, bytes: &[u8]) -> Result<usize, Errno> {
        // SAFETY: the kernel reads at most `len` bytes of `bytes`.
        check(unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Waits a moment for something to read, where whoever shares a stream has set it to wait for
    /// nothing.
    pub fn wait_to_read(self) {
        wait(Some(self), None, MOMENT_MS);
    }

    /// Writes all of it, in parts for which there is room, so that no call waits for the reader: a
    /// signal may come just before it, or to another thread. Once one asks the program to end, a
    /// reader who takes nothing for [`MOMENT_MS`] is not waited for.
    ///
    /// # Errors
    /// [`Errno::INTERRUPTED`] if a signal ended the wait.
    pub fn write_all(self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let is_ending = pending_signal().is_some();
            let most = match wait(None, Some(self), MOMENT_MS).output {
                false if is_ending => return Err(Errno::INTERRUPTED),
                false => 0, // a stream that takes nothing at all says so
                // A terminal that is ready has room for a byte; a pipe, for this many.
                true if is_ending && self.is_terminal() => 1,
                true => libc::PIPE_BUF,
            };
            match self.write(&bytes[..bytes.len().min(most)]) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTERRUPTED | Errno::WOULD_BLOCK) if !is_ending => {}
                Err(Errno::WOULD_BLOCK) => return Err(Errno::INTERRUPTED),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Writes all of it from `offset` on.
    pub fn write_all_at(self, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let at = offset as libc::off_t;
            // SAFETY: the kernel reads at most `len` bytes of `bytes`.
            match check(unsafe { libc::pwrite(self.0, bytes.as_ptr().cast(), bytes.len(), at) }) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset += count as u64;
                }
                Err(Errno::INTERRUPTED) if pending_signal().is_none() => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Waits until what was written is on the storage.
    pub fn sync(self) -> Result<(), Errno> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::fsync(self.0) } as isize).map(|_| ())
    }

    /// Tells the kernel that a range will be read soon. It reads ahead and nobody waits.
    pub fn will_need(self, offset: u64, len: u64) {
        let (offset, len) = (offset as libc::off_t, len as libc::off_t);
        // SAFETY: no memory is passed. Advice that is not taken costs nothing.
        unsafe { libc::posix_fadvise(self.0, offset, len, libc::POSIX_FADV_WILLNEED) };
    }

    /// Tells the kernel that a range was read for the last time: its cache may go.
    pub fn drop_cache(self, offset: u64, len: u64) {
        let (offset, len) = (offset as libc::off_t, len as libc::off_t);
        // SAFETY: no memory is passed. Advice that is not taken costs nothing.
        unsafe { libc::posix_fadvise(self.0, offset, len, libc::POSIX_FADV_DONTNEED) };
    }

    /// Maps the file for reading. The mapping is never undone.
    pub fn map(self, len: usize) -> Result<&'static [u8], Errno> {
        map(len, libc::PROT_READ, libc::MAP_PRIVATE, self.0).map(|bytes| &*bytes)
    }
}

/// Reserves zeroed memory, page-aligned. Pages come into being when they are first written. The
/// reservation is never undone.
pub fn reserve(len: usize) -> Result<&'static mut [u8], Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map(len, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
}

/// Reserves memory of which little will be used, in pages of the usual size: where huge ones are
/// given unasked, the first byte would take 2 MiB, and 32 MiB on a kernel with pages of 16 KiB.
pub fn reserve_sparse(len: usize) -> Result<&'static mut [u8], Errno> {
    let memory = reserve(len)?;
    // SAFETY: the kernel changes how it will back a live mapping, and nothing in it. A kernel
    // without huge pages refuses, and is right.
    unsafe { libc::madvise(memory.as_mut_ptr().cast(), len, libc::MADV_NOHUGEPAGE) };
    Ok(memory)
}

/// Makes the pages of a part of a reservation resident, so that writing to them later takes no
/// memory. What is there stays.
pub fn populate(memory: &mut [u8]) {
    let start = memory.as_ptr().align_offset(page_bytes()).min(memory.len());
    let whole = &mut memory[start..];
    // One call for all pages is many times faster than a fault for each. It has to start with a
    // whole one. Linux before 5.14 refuses it, and emulators accept it and do nothing, so its result
    // says little.
    // SAFETY: the pages are those of a live mapping, borrowed for writing, and keep what they hold.
    unsafe {
        libc::madvise(
            whole.as_mut_ptr().cast(),
            whole.len(),
            libc::MADV_POPULATE_WRITE,
        )
    };
    for page in whole.chunks_mut(PAGE_BYTES) {
        touch(&mut page[0]);
    }
    if let Some(first) = memory.first_mut() {
        touch(first); // on a page of its own if the part starts inside one
    }
}

/// Writes a byte where it is: the compiler cannot leave it out.
fn touch(byte: &mut u8) {
    // SAFETY: a reference is valid for reads and writes.
    unsafe { core::ptr::write_volatile(byte, *byte) };
}

/// Makes the pages of a mapped file resident.
pub fn page_in(memory: &[u8]) {
    for page in memory.chunks(PAGE_BYTES) {
        // SAFETY: a chunk has a first byte; volatile, so that it is read though nobody asks.
        unsafe { page.as_ptr().read_volatile() };
    }
}

/// The smallest page that Linux has.
const PAGE_BYTES: usize = 4096;

/// This kernel's pages: of 4, 16 or 64 KiB.
fn page_bytes() -> usize {
    const AT_PAGESZ: u64 = 6;
    (auxiliary(AT_PAGESZ) as usize).max(PAGE_BYTES)
}

/// Gives a file another name, in the place of what had it.
pub fn rename(from: &CStr, to: &CStr) -> Result<(), Errno> {
    // SAFETY: both paths are NUL-terminated.
    check(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) } as isize).map(|_| ())
}

/// Removes a file.
pub fn remove(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path is NUL-terminated.
    check(unsafe { libc::unlink(path.as_ptr()) } as isize).map(|_| ())
}

fn map(len: usize, protection: c_int, flags: c_int, fd: c_int) -> Result<&'static mut [u8], Errno> {
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let address = unsafe { libc::mmap(core::ptr::null_mut(), len, protection, flags, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    // SAFETY: the mapping is `len` bytes, initialised by the kernel, and never unmapped. Nobody
    // else has it; `Fd::map` turns the slice into a shared one before anyone could write.
    Ok(unsafe { core::slice::from_raw_parts_mut(address.cast(), len) })
}

/// Keeps the pages of `memory` resident.
pub fn lock(memory: &[u8]) -> Result<(), Errno> {
    // SAFETY: the kernel only looks up the pages of this range, which is ours.
    check(unsafe { libc::mlock(memory.as_ptr().cast(), memory.len()) } as isize).map(|_| ())
}

/// Opens what can be neither read nor written in the place of each standard stream that is closed,
/// so that no file of ours is taken for one and using it stays an error.
///
/// # Errors
/// The kernel opens nothing more.
pub fn fill_standard_streams() -> Result<(), Errno> {
    for fd in [STDIN, STDOUT, STDERR] {
        // SAFETY: no memory is passed.
        if unsafe { libc::fcntl(fd.0, libc::F_GETFD) } == -1 {
            // The root folder is always there; the lowest free number is `fd`, since those below it
            // were filled before.
            Fd::open_with(c"/", libc::O_PATH)?;
        }
    }
    Ok(())
}

/// What [`on_bus_error`] writes, and where to.
static BUS_ERROR: AtomicPtr<&'static str> = AtomicPtr::new(core::ptr::null_mut());
static BUS_ERROR_LOG: AtomicI32 = AtomicI32::new(STDERR.0);
/// The file that it removes.
static HALF_FILE: AtomicPtr<core::ffi::c_char> = AtomicPtr::new(core::ptr::null_mut());

extern "C" fn on_bus_error(_signal: c_int) {
    let line = BUS_ERROR.load(Ordering::Relaxed);
    let half_file = HALF_FILE.load(Ordering::Relaxed);
    // SAFETY: `explain_bus_errors` stored a reference that lives as long as the process, and a
    // `HalfFile` its path as long as that lives; poll, write and unlink are safe in a signal handler,
    // and so is all that `exit` calls.
    unsafe {
        if let Some(line) = line.as_ref() {
            let log = Fd(BUS_ERROR_LOG.load(Ordering::Relaxed));
            let _ = log.write_all(line.as_bytes()); // it is the last word
        }
        if !half_file.is_null() {
            libc::unlink(half_file);
        }
    }
    exit(5)
}

/// From now on bus errors are explained in another place than stderr.
pub fn explain_bus_errors_in(log: Fd) {
    BUS_ERROR_LOG.store(log.0, Ordering::Relaxed);
}

/// A file that a bus error is to leave nothing of, while this lives.
pub struct HalfFile<'p>(core::marker::PhantomData<&'p CStr>);

impl<'p> HalfFile<'p> {
    /// The file at `path`. There is one at a time.
    pub fn new(path: &'p CStr) -> Self {
        HALF_FILE.store(path.as_ptr().cast_mut(), Ordering::Relaxed);
        HalfFile(core::marker::PhantomData)
    }
}

impl Drop for HalfFile<'_> {
    fn drop(&mut self) {
        HALF_FILE.store(core::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// From now on, touching a mapped file that has become shorter writes `line` to stderr and ends
/// the process with code 5.
pub fn explain_bus_errors(line: &'static &'static str) {
    BUS_ERROR.store(core::ptr::from_ref(line).cast_mut(), Ordering::Relaxed);
    handle(
        libc::SIGBUS,
        on_bus_error as *const () as libc::sighandler_t,
    );
}

fn handle(signal: c_int, handler: libc::sighandler_t) {
    // SAFETY: all-zero is a valid sigaction; the handlers of this file only do what is allowed in
    // one. Without SA_RESTART a blocked call returns.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        libc::sigaction(signal, &action, core::ptr::null_mut());
    }
}

/// Whether whoever started the program wants it to ignore a signal.
fn is_ignored(signal: c_int) -> bool {
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set; `action` has room for what is, and all-zero is a valid sigaction.
    unsafe {
        libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds that all threads of this process have been running.
pub fn cpu_time() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` has room for the result; the clocks above exist on every Linux.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Random bits from the kernel, or from the clock where it has none yet.
pub fn entropy() -> u64 {
    let mut bits = 0u64;
    // SAFETY: the kernel writes at most eight bytes to `bits`.
    let got = unsafe { libc::getrandom((&raw mut bits).cast(), 8, libc::GRND_NONBLOCK) };
    if got == 8 { bits } else { now() }
}

/// An entry of the auxiliary vector, 0 if absent.
pub fn auxiliary(key: u64) -> u64 {
    // SAFETY: no memory is passed.
    unsafe { libc::getauxval(key as libc::c_ulong) as u64 }
}

/// The program headers, which the kernel has left in memory.
fn program_headers() -> &'static [libc::Elf64_Phdr] {
    const AT_PHDR: u64 = 3;
    const AT_PHNUM: u64 = 5;
    let headers = auxiliary(AT_PHDR) as *const libc::Elf64_Phdr;
    if headers.is_null() {
        return &[];
    }
    // SAFETY: AT_PHDR is the address of AT_PHNUM program headers in the loaded program, which
    // stay there, aligned, and are not written.
    unsafe { core::slice::from_raw_parts(headers, auxiliary(AT_PHNUM) as usize) }
}

/// Bytes of the program's segments, code and data, by its ELF program headers. Without data that
/// starts as zeros: that is little, except for a trace's buffers.
pub fn program_bytes() -> usize {
    let loaded = program_headers()
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    let page = page_bytes();
    let pages = loaded.map(|header| {
        let start = header.p_vaddr as usize / page * page;
        let end = (header.p_vaddr + header.p_filesz) as usize;
        end.next_multiple_of(page) - start
    });
    pages.sum()
}

/// What the linker names this very program by, the first eight bytes of it: no other build has the
/// same. None if the linker was not asked for one.
pub fn build_id() -> Option<u64> {
    let headers = program_headers();
    let table = headers
        .iter()
        .find(|header| header.p_type == libc::PT_PHDR)?;
    // A program that may lie anywhere lies as far from its addresses as this table does.
    let base = (headers.as_ptr().addr() as u64).wrapping_sub(table.p_vaddr);
    let mut notes = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE);
    notes.find_map(|header| {
        let address = base.wrapping_add(header.p_vaddr) as *const u8;
        // SAFETY: the header says that so many bytes of the program are there; the kernel has
        // loaded them, since a linker puts notes that have an address into a loaded segment.
        build_id_in(unsafe { core::slice::from_raw_parts(address, header.p_filesz as usize) })
    })
}

/// The build id among notes: each has the lengths of its name and its contents, its kind, and then
/// both, padded to whole words.
fn build_id_in(mut notes: &[u8]) -> Option<u64> {
    const NT_GNU_BUILD_ID: u32 = 3;
    loop {
        let (header, rest) = notes.split_at_checked(12)?;
        let (words, _) = header.as_chunks::<4>();
        let [name_len, len, kind] = [0, 1, 2].map(|i| u32::from_ne_bytes(words[i]));
        let name_room = (name_len as usize).next_multiple_of(4);
        let (name, rest) = rest.split_at_checked(name_room)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(u64::from_be_bytes(
                *rest.get(..len as usize)?.first_chunk()?,
            ));
        }
        notes = rest.get((len as usize).next_multiple_of(4)..)?;
    }
}

/// Page faults of this process that waited for storage.
pub fn major_faults() -> u64 {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has room for the result.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: all-zero is a valid value of this structure of integers.
    unsafe { usage.assume_init() }.ru_majflt as u64
}

/// Reads a small file whole, as those of `/proc` and `/sys`; `None` if it cannot be read.
pub fn read_small<'b>(path: &CStr, buffer: &'b mut [u8]) -> Option<&'b str> {
    let file = Fd::open(path).ok()?;
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(_) => break,
        }
    }
    // SAFETY: the descriptor is ours and is used no more.
    unsafe { libc::close(file.0) };
    // A file that is longer may be cut inside a character.
    let chunk = buffer[..len].utf8_chunks().next()?;
    Some(chunk.valid())
}

/// The processors that this thread may run on, as a bit mask of the first 64.
pub fn allowed_cpus() -> u64 {
    let mut mask = [0u64; 16];
    // SAFETY: the kernel writes at most the given number of bytes to `mask`.
    let got = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if got == 0 && mask[0] != 0 { mask[0] } else { 1 }
}

/// Binds the calling thread, and those that it starts, to some of the first 64 processors. A kernel
/// that refuses is no error: it is slower.
fn bind_to(cpus: &[u32]) {
    let mut mask = [0u64; 16];
    for cpu in cpus {
        mask[0] |= 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads the given number of bytes of `mask`.
    unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
}

/// The signal that asked the program to end, 0 if none did.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(signal: c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and, unless it is ignored as under nohup, SIGHUP are only noted, for
/// [`pending_signal`]; a closed pipe and a file that may not grow are errors of the write.
pub fn catch_signals() {
    let noted = on_signal as *const () as libc::sighandler_t;
    handle(libc::SIGINT, noted);
    handle(libc::SIGTERM, noted);
    if !is_ignored(libc::SIGHUP) {
        handle(libc::SIGHUP, noted);
    }
    handle(libc::SIGPIPE, libc::SIG_IGN);
    handle(libc::SIGXFSZ, libc::SIG_IGN);
}

/// The exit code that a caught signal asks for: 129 for SIGHUP, 130 for SIGINT, 143 for SIGTERM.
pub fn pending_signal() -> Option<u8> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(128 + signal as u8),
    }
}

/// Ends the process, threads and all; and the system with it, if it is the first process. Otherwise
/// terminals get their settings back. All of it may be done in a signal handler.
pub fn exit(code: u8) -> ! {
    first::end_if_first();
    terminal::restore_all();
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(code.into()) }
}

/// Sleeps until `word` is no longer `seen`, or until somebody wakes it, or for no reason.
fn futex_wait(word: &AtomicU32, seen: u32) {
    // SAFETY: `word` lives across the call; the kernel only reads it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen,
            core::ptr::null::<c_void>(),
        )
    };
}

/// Wakes everybody who sleeps on `word`.
fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: the kernel only looks up sleepers by the address.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

/// The program's arguments.
#[derive(Clone)]
pub struct Arguments {
    next: *const *const core::ffi::c_char,
    left: usize,
}

impl Arguments {
    /// What `main` was given.
    ///
    /// # Safety
    /// `argv` holds `argc` pointers to NUL-terminated strings that live as long as the process.
    pub unsafe fn new(argc: c_int, argv: *const *const core::ffi::c_char) -> Self {
        Arguments {
            next: argv,
            left: usize::try_from(argc).unwrap_or(0),
        }
    }
}

impl Iterator for Arguments {
    type Item = &'static CStr;

    fn next(&mut self) -> Option<&'static CStr> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: `new`'s caller vouches for `argc` strings, and `left` counts them down.
        unsafe {
            let argument = CStr::from_ptr(*self.next);
            self.next = self.next.add(1);
            Some(argument)
        }
    }
}
