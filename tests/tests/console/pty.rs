//! A pseudo-terminal under a name that stays when it is replaced by another.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// The end that is not the program's.
pub struct Pty {
    /// None while it is hung up.
    end: Option<OwnedFd>,
    link: PathBuf,
}

impl Pty {
    /// Opens one.
    pub fn open(name: &str) -> Pty {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let mut pty = Pty {
            end: None,
            link: folder.join(format!("console-{name}.tty")),
        };
        pty.reconnect();
        pty
    }

    /// The name for the program.
    pub fn path(&self) -> &str {
        self.link.to_str().expect("UTF-8")
    }

    /// Whoever has it open sees a hang-up.
    pub fn hang_up(&mut self) {
        self.end = None;
        fs::remove_file(&self.link).expect("the link");
    }

    /// Another one, under the same name.
    pub fn reconnect(&mut self) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let end = openpt(flags).expect("a pty");
        grantpt(&end).expect("a pty");
        unlockpt(&end).expect("a pty");
        let path = ptsname(&end, Vec::new()).expect("its name");
        let _ = fs::remove_file(&self.link); // of a test before
        let path = path.to_str().expect("UTF-8");
        std::os::unix::fs::symlink(path, &self.link).expect("a link");
        rustix::fs::fcntl_setfl(&end, OFlags::NONBLOCK).expect("a pty");
        self.end = Some(end);
    }

    /// Another descriptor of this end.
    pub fn duplicate(&self) -> OwnedFd {
        let end = self.end.as_ref().expect("it is open");
        end.try_clone().expect("a descriptor")
    }

    /// Whether its lines are edited by the kernel, as they are unless somebody asked for else.
    pub fn is_canonical(&self) -> bool {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK;
        let tty = rustix::fs::open(&self.link, flags, Mode::empty()).expect("the terminal");
        let settings = rustix::termios::tcgetattr(&tty).expect("its settings");
        settings
            .local_modes
            .contains(rustix::termios::LocalModes::ICANON)
    }
}

/// Waits until a descriptor can be read, or written; whether it can.
pub fn wait(fd: impl AsFd, flags: PollFlags, time: Duration) -> bool {
    let time = Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    let mut fds = [PollFd::new(&fd, flags)];
    poll(&mut fds, Some(&time)).expect("poll") > 0
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// A number below another.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}
