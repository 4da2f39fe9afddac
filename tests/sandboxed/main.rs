//! A process that enters the sandbox and then tries what it may and what it may not: a line each
//! with the error number that it got, 0 for none. `tests/sandbox.rs` knows what they should be.
//!
//! usage: sandboxed FILE [TERMINAL], that exist; a terminal is still to be opened
#![allow(unsafe_code)] // calls of the C library, to see them refused

use runtime::sys::TERMINAL_FLAGS;
use runtime::sys::sandbox::{self, Opens};
use std::ffi::CString;
use std::sync::Barrier;
use std::{env, io, ptr, thread};

/// The error number of a call that returned this.
fn errno(result: i64) -> i32 {
    match result {
        -1 => io::Error::last_os_error().raw_os_error().unwrap_or(-1),
        _ => 0,
    }
}

fn socket() -> i32 {
    // SAFETY: no memory is passed.
    errno(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) }.into())
}

fn main() {
    let path = |argument: String| CString::new(argument).expect("a path has no NUL");
    let mut arguments = env::args().skip(1).map(path);
    let path = arguments.next().expect("usage: sandboxed FILE [TERMINAL]");
    let terminal = arguments.next();
    let opens = terminal.as_deref().map_or(Opens::Nothing, Opens::Terminal);
    let landlock = sandbox::close_files(opens).unwrap_or(0);
    println!("landlock {landlock}"); // what printing allocates, it has now

    let barrier = Barrier::new(2);
    let of_a_thread = thread::scope(|scope| {
        let older = scope.spawn(|| {
            barrier.wait(); // the C library has made it a thread
            barrier.wait();
            socket()
        });
        barrier.wait();
        sandbox::refuse_calls(opens).expect("seccomp");
        barrier.wait();
        older.join().expect("it ends")
    });

    let open = |path: &std::ffi::CStr, flags| {
        // SAFETY: the path is NUL-terminated.
        errno(unsafe { libc::open(path.as_ptr(), flags, 0o600) }.into())
    };
    // SAFETY: paths are NUL-terminated; other memory is not passed, or is not used by a call that
    // is refused. What should not be refused changes nothing but this process.
    let tried = unsafe {
        let nothing = ptr::null_mut();
        let executable = libc::PROT_READ | libc::PROT_EXEC;
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapped = libc::mmap(nothing, 4096, executable, anonymous, -1, 0);
        [
            ("read_proc", open(c"/proc/self/statm", libc::O_RDONLY)),
            ("read_file", open(&path, libc::O_RDONLY)),
            ("write_file", open(&path, libc::O_WRONLY)),
            (
                "create_file",
                open(c"/proc/new", libc::O_RDONLY | libc::O_CREAT),
            ),
            ("file_as_terminal", open(&path, TERMINAL_FLAGS)),
            (
                "terminal",
                open(terminal.as_deref().unwrap_or(c"/dev/null"), TERMINAL_FLAGS),
            ),
            (
                "unnamed_file",
                open(c"/dev/pts", libc::O_TMPFILE | libc::O_RDWR),
            ),
            ("remove_file", errno(libc::unlink(path.as_ptr()).into())),
            ("socket", socket()),
            ("socket_of_older_thread", of_a_thread),
            (
                "execute",
                errno(libc::execve(c"/bin/true".as_ptr(), &ptr::null(), &ptr::null()).into()),
            ),
            ("fork", errno(libc::fork().into())),
            (
                "map_code",
                if mapped == libc::MAP_FAILED {
                    errno(-1)
                } else {
                    0
                },
            ),
            ("signal", errno(libc::kill(libc::getppid(), 0).into())),
            (
                "type_into_terminal",
                errno(libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()).into()),
            ),
            ("time", errno(libc::usleep(1).into())),
        ]
    };
    for (what, errno) in tried {
        println!("{what} {errno}");
    }
}
