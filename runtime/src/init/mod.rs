//! The first process: what Rushlight does where the kernel starts nothing else.
//!
//! It mounts what the other rooms look into, reads the kernel's command line, and makes of it the
//! same options that a command line is: from there on a run is a run. stdin and stdout are the
//! console of `rushlight.console`. stderr is what the kernel gave it, `/dev/console`: where the
//! kernel's own messages go, log lines go.
//!
//! It never ends: the end of a process 1 is a kernel panic. What would end a program powers the
//! system off, or, after an error, waits for somebody who types `poweroff` or `reboot`.
//! docs/virt.md is the whole of what a person needs to know.

mod boot_line;

pub use boot_line::BootError;

use crate::board::Board;
use crate::console::Spec;
use crate::error::Error;
use crate::log::{Log, event};
use crate::options::{Command, Options};
use crate::sys::{self, Ending, Errno, Fd, STDIN, STDOUT};
use boot_line::{BootLine, Console, MODEL_FOLDER, OnError};
use core::ffi::CStr;

/// How long a device is waited for: cards and USB disks take seconds to be found.
const DEVICE_SECONDS: u32 = 30;
/// How long a console is: it is there from the start, or its name is wrong.
const CONSOLE_SECONDS: u32 = 5;
/// File systems that a model may lie on.
const FILE_SYSTEMS: [&CStr; 2] = [c"ext4", c"vfat"];
/// The line that ends the system.
const POWER_OFF: &str = "poweroff";

/// The first process in its course.
pub struct Init {
    line: BootLine,
}

impl Init {
    /// Takes over, if this process is the first of a system that nobody has set up.
    pub fn begin() -> Option<Init> {
        sys::is_first_process().then(|| {
            sys::take_over();
            let line = BootLine::default();
            Init { line }
        })
    }

    /// Sets the system up, and returns what it is to do.
    ///
    /// # Errors
    /// Something is missing, or the kernel's command line makes no sense.
    pub fn options(&mut self, board: &Board, log: &Log) -> Result<Options, Error> {
        for (kind, folder) in [
            (c"devtmpfs", c"/dev"),
            (c"proc", c"/proc"),
            (c"sysfs", c"/sys"),
            (c"tmpfs", c"/tmp"),
        ] {
            let mounted = sys::mount(kind, folder, kind, false);
            mounted.map_err(|errno| BootError::Mount {
                what: folder,
                errno,
            })?;
        }
        let mut buffer = [0; 8192]; // no architecture takes as many
        let text = sys::read_small(c"/proc/cmdline", &mut buffer);
        let text = text.ok_or(BootError::Unreadable(Errno::NOT_FOUND))?;
        let read = self.line.read(text.as_bytes());
        if let Some(console) = board.console {
            self.line.default_console(console)?;
        }
        // Even if the line is wrong: whoever is to say how the system ends sits there.
        let console = self.line.console;
        let opened = console.map_or(Ok(()), |console| open_streams(console, log));
        read?;
        opened?;
        let options = Options::parse(&mut self.line.words.iter().copied())?;
        self.complete(options, log)
    }

    /// Finds the devices, and puts them where the flags would.
    fn complete(&mut self, mut options: Options, log: &Log) -> Result<Options, Error> {
        if let Some(console) = self.line.console {
            use_console(console, &mut options)?;
        }
        if let Some(device) = self.line.model {
            appear(device, DEVICE_SECONDS, log)?;
            options.model = Some(match self.line.file {
                None => device,
                Some(file) => {
                    mount_model(device)?;
                    file
                }
            });
        }
        Ok(options)
    }

    /// Ends the system.
    pub fn end(self, code: u8, log: &Log) -> ! {
        let waits = code != 0 && self.line.on_error == OnError::Wait;
        let does = if waits { "wait" } else { POWER_OFF };
        // Not held back by -q: whoever listens learns the code from this line alone.
        event!(log.always(), "init", count code = code, text does = does);
        sys::end_system(if waits { wait(log) } else { Ending::PowerOff })
    }
}

/// Makes the console stdin and stdout.
fn open_streams(console: Console, log: &Log) -> Result<(), Error> {
    let path = console.device;
    appear(path, CONSOLE_SECONDS, log)?;
    Fd::open_as_standard_streams(path).map_err(|errno| Error::File { path, errno })
}

/// Has prompts come from the console unless the options have one.
fn use_console(console: Console, options: &mut Options) -> Result<(), Error> {
    let spec = Spec::parse(console.word).map_err(|_| BootError::BadValue(console.word))?;
    let has_prompt =
        options.prompt.is_some() || options.prompt_file.is_some() || options.prompt_ids.is_some();
    if options.command == Command::Run && !has_prompt {
        options.console = Some(spec);
        options.poweroff_word = Some(POWER_OFF);
    } else if let Some((_, baud)) = spec.terminal {
        // Text goes out byte for byte here too.
        let (path, raw) = (console.device, STDOUT.make_raw(baud, spec.xonxoff));
        raw.map_err(|errno| Error::File { path, errno })?;
    }
    Ok(())
}

/// Waits for a device, and says so if it takes longer than a moment.
fn appear(device: &'static CStr, seconds: u32, log: &Log) -> Result<(), BootError> {
    const STEP_MS: u32 = 20;
    for step in 0..seconds * 1000 / STEP_MS {
        if sys::exists(device) {
            return Ok(());
        }
        if step == 25 {
            let shown = device.to_bytes().escape_ascii();
            event!(log, "init", text waits_for = shown, count seconds_max = seconds);
        }
        sys::sleep(STEP_MS);
    }
    Err(BootError::NoDevice { device, seconds })
}

/// Mounts the file system of a device, of whichever kind it is.
fn mount_model(device: &'static CStr) -> Result<(), BootError> {
    let mut why = Errno::NO_DEVICE;
    for kind in FILE_SYSTEMS {
        match sys::mount(device, MODEL_FOLDER, kind, true) {
            Ok(()) => return Ok(()),
            // That a kernel lacks one kind says nothing of what is on the device.
            Err(Errno::NO_DEVICE) => {}
            Err(errno) => why = errno,
        }
    }
    Err(BootError::NoFileSystem { device, errno: why })
}

/// Waits until somebody types how the system is to end. Anything else is passed over.
fn wait(log: &Log) -> Ending {
    let message = "type poweroff or reboot";
    let mut word = heapless::Vec::<u8, 16>::new();
    event!(log.always(), "init", text message = message);
    loop {
        let mut byte = [0];
        match STDIN.read(&mut byte) {
            Ok(1) => {}
            _ => {
                sys::sleep(1000); // no console, or it has hung up
                continue;
            }
        }
        match byte[0] {
            b'\r' | b'\n' if word == POWER_OFF.as_bytes() => return Ending::PowerOff,
            b'\r' | b'\n' if word == b"reboot" => return Ending::Restart,
            b'\r' | b'\n' => word.clear(),
            byte => {
                if word.push(byte).is_err() {
                    word.clear(); // a line that is longer than any word is none
                }
            }
        }
    }
}
