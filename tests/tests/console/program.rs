//! The program with a console, and what is said to it and by it.

use crate::pty::{Pty, wait};
use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tests::{HOST, Output, mixed_model, model, run_host};

/// Nothing takes longer, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A small model of random weights, as a file of the test's own.
pub fn random_model(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("console-{name}.gguf"));
    fs::write(&path, mixed_model::gguf(21)).expect("a scratch file");
    path.to_str().expect("UTF-8").to_owned()
}

/// A model that writes English.
pub fn smollm2() -> String {
    model("smollm2").to_str().expect("UTF-8").to_owned()
}

/// What a run of its own says to a prompt.
pub fn one_shot(settings: &[&str], prompt: &[u8]) -> Vec<u8> {
    let settings: Vec<&str> = settings
        .iter()
        .copied()
        .filter(|&f| f != "--framed")
        .collect();
    let output = run_host(&settings, prompt);
    assert_eq!(output.code, 0, "{}", output.stderr);
    output.stdout
}

/// The log lines of an event.
pub fn plain<'o>(output: &'o Output, event: &str) -> Vec<&'o str> {
    let prefix = format!("rushlight {event} ");
    let lines = output.stderr.lines();
    lines.filter(|line| line.starts_with(&prefix)).collect()
}

/// A running program.
pub struct Console {
    child: Child,
    pty: Option<Pty>,
    /// To the program.
    input: Option<OwnedFd>,
    /// From it.
    output: Option<OwnedFd>,
    log: PathBuf,
    /// Bytes that were read and not asked for.
    ahead: VecDeque<u8>,
}

impl Console {
    /// On a pty; `more` is appended to its name and speed.
    pub fn on_pty(name: &str, more: &str, arguments: &[&str]) -> Console {
        let pty = Pty::open(name);
        let device = format!("{}:115200{more}", pty.path());
        let end = pty.duplicate();
        let mut command = Command::new(HOST.linked());
        command.args(arguments).args(["--console", &device]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let (child, log) = start(&mut command, name);
        Console {
            child,
            input: Some(end.try_clone().expect("a descriptor")),
            output: Some(end),
            pty: Some(pty),
            log,
            ahead: VecDeque::new(),
        }
    }

    /// On stdin and stdout.
    pub fn on_pipes(name: &str, arguments: &[&str]) -> Console {
        let mut command = Command::new(HOST.linked());
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (mut child, log) = start(&mut command, name);
        Console {
            input: child.stdin.take().map(OwnedFd::from),
            output: child.stdout.take().map(OwnedFd::from),
            child,
            pty: None,
            log,
            ahead: VecDeque::new(),
        }
    }

    fn input(&self) -> &OwnedFd {
        self.input.as_ref().expect("the input is open")
    }

    fn output(&self) -> &OwnedFd {
        self.output.as_ref().expect("the output is open")
    }

    /// Sends bytes, and reads nothing meanwhile.
    pub fn send(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            assert!(
                wait(self.input(), PollFlags::OUT, PATIENCE),
                "it takes nothing"
            );
            match rustix::io::write(self.input(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => panic!("{error}: {}", self.log()),
            }
        }
    }

    /// Sends bytes, and throws away what comes back meanwhile.
    pub fn send_while_reading(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(1024) {
            let began = Instant::now();
            while !wait(self.input(), PollFlags::OUT, Duration::ZERO) {
                self.take(Duration::from_millis(5));
                self.ahead.clear();
                assert!(began.elapsed() < PATIENCE, "it takes nothing");
            }
            self.send(part);
            self.take(Duration::ZERO);
            self.ahead.clear();
        }
    }

    /// Reads what comes in a time; whether anything came.
    fn take(&mut self, time: Duration) -> bool {
        let mut buffer = [0; 4096];
        if !wait(self.output(), PollFlags::IN, time) {
            return false;
        }
        match rustix::io::read(self.output(), &mut buffer) {
            Ok(count) => {
                self.ahead.extend(&buffer[..count]);
                count > 0
            }
            // Of a pty: the program has not opened its end yet.
            Err(rustix::io::Errno::IO) => {
                std::thread::sleep(Duration::from_millis(5));
                false
            }
            Err(rustix::io::Errno::AGAIN) => false,
            Err(error) => panic!("{error}: {}", self.log()),
        }
    }

    /// Waits until `done` says how many bytes were meant, and takes these.
    fn read_until(&mut self, done: impl Fn(&VecDeque<u8>) -> Option<usize>) -> Vec<u8> {
        let began = Instant::now();
        loop {
            if let Some(count) = done(&self.ahead) {
                return self.ahead.drain(..count).collect();
            }
            self.take(Duration::from_millis(100));
            assert!(
                began.elapsed() < PATIENCE,
                "only {:?}\n{}",
                self.ahead,
                self.log()
            );
        }
    }

    /// The next bytes.
    pub fn read(&mut self, count: usize) -> Vec<u8> {
        self.read_until(|ahead| (ahead.len() >= count).then_some(count))
    }

    /// Everything until a ready prompt after which nothing comes for a while.
    pub fn read_to_ready(&mut self) -> Vec<u8> {
        let mut said = self.read_to_silence();
        while !said.ends_with(b"\n> ") {
            said.extend(self.read(1));
            said.extend(self.read_to_silence());
        }
        said
    }

    /// Everything until nothing comes for a while.
    pub fn read_to_silence(&mut self) -> Vec<u8> {
        while self.take(Duration::from_millis(700)) {}
        self.ahead.drain(..).collect()
    }

    /// The next line, without its end.
    pub fn read_line(&mut self) -> Vec<u8> {
        let end = |ahead: &VecDeque<u8>| ahead.iter().position(|&byte| byte == b'\n');
        let mut line = self.read_until(|ahead| end(ahead).map(|at| at + 1));
        line.pop();
        line
    }

    /// The next line, which is an object.
    pub fn read_object(&mut self) -> Value {
        let line = self.read_line();
        serde_json::from_slice(&line)
            .unwrap_or_else(|error| panic!("{error}: {}", line.escape_ascii()))
    }

    /// The text of an answer, and its last object.
    pub fn read_answer(&mut self) -> (String, Value) {
        let mut text = String::new();
        loop {
            let object = self.read_object();
            match object["text"].as_str() {
                Some(piece) => text += piece,
                None => return (text, object),
            }
        }
    }

    /// Waits until a text is in the log so often.
    pub fn wait_for_log(&self, text: &str, count: usize) {
        let began = Instant::now();
        while self.log().matches(text).count() < count {
            std::thread::sleep(Duration::from_millis(20));
            assert!(began.elapsed() < PATIENCE, "no {text} in {}", self.log());
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log")
    }

    /// The other end goes away.
    pub fn hang_up(&mut self) {
        (self.input, self.output) = (None, None);
        self.pty.as_mut().expect("a pty").hang_up();
        self.ahead.clear();
    }

    /// Another one is there.
    pub fn reconnect(&mut self) {
        let pty = self.pty.as_mut().expect("a pty");
        pty.reconnect();
        (self.input, self.output) = (Some(pty.duplicate()), Some(pty.duplicate()));
    }

    /// Makes the pipe from the program hold a page.
    pub fn narrow_output(&self) {
        rustix::pipe::fcntl_setpipe_size(self.output(), 4096).expect("a pipe");
    }

    /// Ends the input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Reads no more.
    pub fn close_output(&mut self) {
        self.output = None;
    }

    /// Whether the kernel edits the lines of the pty.
    pub fn terminal_is_canonical(&self) -> bool {
        self.pty.as_ref().expect("a pty").is_canonical()
    }

    /// Sends a signal, and waits for the end.
    pub fn terminate(mut self, signal: Signal) -> Output {
        self.terminate_and_keep(signal)
    }

    /// The same, with the pty still there.
    pub fn terminate_and_keep(&mut self, signal: Signal) -> Output {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the program runs");
        self.wait()
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> Output {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            std::thread::sleep(Duration::from_millis(5));
            assert!(
                began.elapsed() < PATIENCE,
                "it does not end: {}",
                self.log()
            );
        };
        let signal = status.signal().map(|signal| 128 + signal);
        Output {
            stdout: Vec::new(),
            stderr: self.log(),
            code: status.code().or(signal).unwrap_or(-1),
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill(); // where it has not ended
        let _ = self.child.wait();
    }
}

fn start(command: &mut Command, name: &str) -> (Child, PathBuf) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("console-{name}.log"));
    let log = File::create(&path).expect("a log");
    let child = command.stderr(log).spawn().expect("the program starts");
    (child, path)
}
