//! One signal ends the program, whatever it waits for: a reader who takes nothing, or somebody who
//! never opens the other end.

use rustix::io::write;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tests::{HOST, mixed_model};

const PIPE_BYTES: usize = 8192;
/// Nothing takes longer, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn scratch(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("signals-{name}"));
    path.to_str().expect("UTF-8").to_owned()
}

/// A small model of random weights, as a file of the test's own.
fn random_model(name: &str) -> String {
    let path = scratch(&format!("{name}.gguf"));
    fs::write(&path, mixed_model::gguf(9)).expect("a scratch file");
    path
}

/// A pipe with so many bytes in its two pages: the end that nobody reads, and the one to write to.
fn pipe_with_bytes(count: usize) -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    fcntl_setpipe_size(&writer, PIPE_BYTES).expect("a small one");
    assert_eq!(write(&writer, &vec![b'x'; count]), Ok(count));
    (reader, writer)
}

/// A FIFO that nobody has opened.
fn fifo(name: &str) -> String {
    let path = scratch(name);
    let _ = fs::remove_file(&path); // of a run before
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    path
}

/// The program, whose log goes to a file.
fn program(name: &str, arguments: &[&str]) -> (Command, String) {
    let log = scratch(&format!("{name}.log"));
    let mut program = Command::new(HOST.linked());
    program.args(arguments).stdin(Stdio::null());
    program.stdout(Stdio::null());
    program.stderr(File::create(&log).expect("a log"));
    (program, log)
}

/// A run of the small model that writes more than a pipe holds.
fn long_run<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = [
        "-m", model, "--raw", "-p", "x", "-t", "2", "-n", "30000", "-c", "31000",
    ];
    [&run[..], &["--ignore-eos"], more].concat()
}

/// Its state, and how many hundredths of a second it has run.
fn state(child: &Child) -> (String, u64) {
    let status = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let (_, fields) = status.rsplit_once(')').expect("a name in parentheses");
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let time = |at: usize| fields[at].parse::<u64>().expect("a number");
    (fields[0].to_owned(), time(11) + time(12))
}

/// Waits until it does nothing for a while: then it waits for somebody.
fn wait_until_it_sleeps(child: &Child) {
    let began = Instant::now();
    let (mut idle, mut before) = (0, state(child));
    while idle < 10 {
        sleep(Duration::from_millis(30));
        let now = state(child);
        idle = if now == before && now.0 == "S" {
            idle + 1
        } else {
            0
        };
        before = now;
        assert!(began.elapsed() < PATIENCE, "it never waits");
    }
}

/// Sends one signal, and expects the code that says so, and that the last line does.
fn end_by_one_signal(mut child: Child, log: Option<&str>, what: &str) {
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        sleep(Duration::from_millis(5));
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{what}: it goes on");
        }
    };
    let log = log.map(|path| fs::read_to_string(path).expect("a log"));
    assert_eq!(status.code(), Some(143), "{what}: {log:?}");
    if let Some(log) = log {
        assert!(log.ends_with(" finish=cancel\n"), "{what}: {log}");
    }
}

#[test]
fn reader_who_takes_nothing_is_not_waited_for() {
    let model = random_model("readers");
    let start = |what: &str, arguments: &[&str], stdout: OwnedFd| {
        let (mut program, log) = program(what, arguments);
        let child = program.stdout(stdout).spawn().expect("it starts");
        (child, log)
    };
    for (what, filled, arguments) in [
        // It says n on and on, and line ends: while one cannot be written, the next is held back.
        ("answer", 0, long_run(&model, &["-r", "nX", "-r", "\\nX"])),
        ("ids", PIPE_BYTES, long_run(&model, &["--ids"])),
        ("kernels", PIPE_BYTES, vec!["kernels"]),
        ("plan", PIPE_BYTES, vec!["plan", "-m", &model]),
        ("help", PIPE_BYTES, vec!["--help"]),
    ] {
        let (_reader, writer) = pipe_with_bytes(filled);
        let (child, log) = start(what, &arguments, writer);
        wait_until_it_sleeps(&child);
        end_by_one_signal(child, Some(&log), what);
    }
}

#[test]
fn signal_that_comes_before_the_write_counts_too() {
    let model = random_model("before");
    // A prompt that takes a second, in one step.
    let text = "x".repeat(6000);
    let run = [
        "-m", &model, "--raw", "-p", &text, "-t", "1", "-n", "9", "-c", "7000", "-b", "6100",
    ];
    let (_reader, writer) = pipe_with_bytes(PIPE_BYTES);
    let (mut program, log) = program("before", &run);
    let child = program.stdout(writer).spawn().expect("it starts");
    let is_loaded = || {
        let log = fs::read_to_string(&log).expect("a log");
        log.contains("rushlight load ")
    };
    while !is_loaded() {
        sleep(Duration::from_millis(1));
    }
    let (_, loaded) = state(&child);
    while state(&child).1 < loaded + 10 {
        sleep(Duration::from_millis(1));
    }
    end_by_one_signal(child, Some(&log), "before");
}

#[test]
fn log_and_trace_that_nobody_reads_are_not_waited_for() {
    let model = random_model("logs");
    let (_reader, writer) = pipe_with_bytes(PIPE_BYTES);
    let (mut run, _) = program("stderr", &long_run(&model, &["--profile"]));
    let child = run.stderr(writer).spawn().expect("it starts");
    wait_until_it_sleeps(&child);
    end_by_one_signal(child, None, "stderr");

    for flag in ["--trace", "--logits"] {
        let path = fifo(&flag[2..]);
        let end = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .expect("a FIFO");
        let (mut run, log) = program("file", &long_run(&model, &[flag, &path]));
        let child = run.spawn().expect("it starts");
        wait_until_it_sleeps(&child);
        end_by_one_signal(child, Some(&log), flag);
        drop(end);
    }
}

#[test]
fn fifo_that_nobody_opens_is_not_waited_for() {
    let model = random_model("fifo");
    for flag in ["--log-file", "--trace", "--logits"] {
        let path = fifo(&format!("closed{flag}"));
        let (mut run, log) = program("fifo", &long_run(&model, &[flag, &path]));
        let child = run.spawn().expect("it starts");
        wait_until_it_sleeps(&child);
        end_by_one_signal(child, Some(&log), flag);
    }
}

#[test]
fn reader_who_reads_gets_all_that_was_made() {
    let model = random_model("reads");
    let (mut program, log) = program("reads", &long_run(&model, &["--ids"]));
    let mut child = program.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("piped");
    wait_until_it_sleeps(&child); // the pipe is full, and read from now on
    let mut text = vec![0; 4096];
    stdout.read_exact(&mut text).expect("the first bytes");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    stdout.read_to_end(&mut text).expect("the rest");
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
    let log = fs::read_to_string(log).expect("a log");
    let generated = log.rsplit_once(" generated=").map(|(_, rest)| rest);
    let generated = generated
        .and_then(|rest| rest.split(' ').next())
        .expect("an end line");
    let lines = text.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(lines.to_string(), generated, "{log}");
}
