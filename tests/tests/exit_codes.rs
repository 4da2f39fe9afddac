//! Every exit code that `--help` lists, each by a run of the whole program that ends with it, and
//! what that run says.

use rustix::process::{Pid, Signal, kill_process};
use std::env::{self, consts::ARCH};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tests::targets::seal;
use tests::{HOST, Output, host_that_hears_hangups, mixed_model, run_host};

/// A code, what is done to get it, and what stderr must say then.
struct Row {
    code: i32,
    done: &'static str,
    run: fn() -> Output,
    /// The event of the last line, of which there is one.
    event: &'static str,
    /// Words of that line.
    words: &'static [&'static str],
    /// How it ends.
    finish: &'static str,
}

/// A row whose run ends with an error.
const fn error(
    code: i32,
    done: &'static str,
    run: fn() -> Output,
    words: &'static [&'static str],
) -> Row {
    Row {
        code,
        done,
        run,
        event: "error",
        words,
        finish: "error",
    }
}

/// A row whose run is ended in the midst of its answer.
const fn signal(code: i32, done: &'static str, run: fn() -> Output) -> Row {
    Row {
        code,
        done,
        run,
        event: "end",
        words: &["generated="],
        finish: "cancel",
    }
}

#[rustfmt::skip] // a table
const ROWS: [Row; 14] = [
    Row { code: 0, done: "an answer of two tokens", run: answer, event: "end", words: &["generated=2"], finish: "length" },
    error(1, "a thread is refused", refused_thread, &["threads: ", "-t takes fewer"]),
    error(2, "an unknown flag", || run_host(&["--no-such-flag"], b""), &["unknown flag --no-such-flag", "--help"]),
    error(3, "--isa of another architecture", foreign_isa, &["this CPU lacks"]),
    error(4, "no such file", || run_host(&["-m", "/no/such/file", "-p", "x"], b""), &["/no/such/file: No such file"]),
    error(5, "a text file as a model", text_as_model, &["not a GGUF file"]),
    error(6, "a budget of 64 KiB", || with_model("budget", &["--budget", "64K"]), &["MiB planned", "0.1 MiB budget (flag)", "saves", "--force"]),
    error(7, "a prompt of more tokens than its context", || with_model("context", &["-p", "no fewer than it", "-c", "4"]), &["context of 4 (-c)"]),
    error(8, "nobody reads stdout", closed_stdout, &["output: Broken pipe"]),
    error(9, "a scale that is NaN", scale_of_nan, &["tensor output.weight", "no number"]),
    error(10, "another golden checksum in an image", other_golden, &["golden logits: ", "000000000000feed in the image"]),
    signal(129, "SIGHUP", || signalled("hangup", Signal::HUP)),
    signal(130, "SIGINT", || signalled("interrupt", Signal::INT)),
    signal(143, "SIGTERM", || signalled("termination", Signal::TERM)),
];

#[test]
fn every_code_is_what_it_says_in_one_line() {
    for row in &ROWS {
        let Row { code, done, .. } = *row;
        let output = (row.run)();
        let log = &output.stderr;
        assert_eq!(output.code, code, "{done}: {log}");
        let last = log.lines().last().unwrap_or_default();
        let event = format!("rushlight {} ", row.event);
        assert!(last.starts_with(&event), "{done}: {log}");
        let told = |event: &str| log.lines().filter(|line| line.starts_with(event)).count();
        let errors = usize::from(row.event == "error");
        assert_eq!(told("rushlight error "), errors, "{done}: {log}");
        for words in row.words {
            assert!(last.contains(words), "{done}: no {words:?} in {last}");
        }
        let end = match errors {
            0 => format!(" finish={}", row.finish),
            _ => format!(" code={code} finish={}", row.finish),
        };
        assert!(last.ends_with(&end), "{done}: {last}");
    }
}

#[test]
fn codes_are_those_that_help_lists() {
    let help = run_host(&["--help"], b"");
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let (_, list) = help.split_once("exit codes: ").expect("a list");
    let listed = list.split(',').map(|entry| {
        let (code, meaning) = entry.trim().split_once(' ').expect("a meaning");
        assert!(meaning.starts_with(|first: char| first.is_alphabetic()));
        code.parse::<i32>().unwrap_or_else(|_| panic!("{entry:?}"))
    });
    assert_eq!(listed.collect::<Vec<_>>(), ROWS.map(|row| row.code));
}

fn scratch(name: &str, contents: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("exit-codes-{name}"));
    fs::write(&path, contents).expect("a scratch file");
    path.to_str().expect("UTF-8").to_owned()
}

/// A run of the small model.
fn with_model(name: &str, more: &[&str]) -> Output {
    let model = scratch(&format!("{name}.gguf"), &mixed_model::gguf(14));
    let run = ["-m", &model, "--raw", "-p", "x", "-n", "2", "--ignore-eos"];
    run_host(&[&run, more].concat(), b"")
}

fn answer() -> Output {
    with_model("answer", &[])
}

fn foreign_isa() -> Output {
    let isa = if ARCH == "aarch64" { "avx2" } else { "neon" };
    run_host(&["kernels", "--isa", isa], b"")
}

fn text_as_model() -> Output {
    run_host(
        &["-m", &scratch("text.gguf", b"Once upon a time"), "-p", "x"],
        b"",
    )
}

fn scale_of_nan() -> Output {
    let mut bytes = mixed_model::gguf(14);
    // That of the last block of the output matrix; 14 bytes of padding follow.
    let scale = bytes.len() - 16;
    bytes[scale..scale + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    run_host(
        &["-m", &scratch("nan.gguf", &bytes), "--raw", "-p", "x"],
        b"",
    )
}

fn other_golden() -> Output {
    let gguf = scratch("golden.gguf", &mixed_model::gguf(14));
    let image = scratch("golden.rush", b"");
    let packed = run_host(&["pack", &gguf, &image], b"");
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    let mut bytes = fs::read(&image).expect("an image");
    bytes[48..56].copy_from_slice(&0xfeed_u64.to_le_bytes());
    seal(&mut bytes);
    fs::write(&image, bytes).expect("a scratch file");
    run_host(&["selftest", "-m", &image], b"")
}

/// A run in the background of the small model, which goes on for seconds.
fn start(command: &mut Command, model: &str) -> Child {
    command
        .args([
            "-m",
            model,
            "--raw",
            "-p",
            "x",
            "-t",
            "2",
            "--ids",
            "--ignore-eos",
        ])
        .args(["-n", "30000", "-c", "31000"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().expect("it ends");
    Output {
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        code: output.status.code().unwrap_or(-1),
    }
}

fn closed_stdout() -> Output {
    let model = scratch("closed.gguf", &mixed_model::gguf(14));
    let mut child = start(&mut Command::new(HOST.linked()), &model);
    drop(child.stdout.take());
    end(child)
}

fn signalled(name: &str, signal: Signal) -> Output {
    let model = scratch(&format!("{name}.gguf"), &mixed_model::gguf(14));
    let mut child = start(&mut host_that_hears_hangups(), &model);
    // It is in the midst of its answer once the first byte is there.
    let stdout = child.stdout.as_mut().expect("stdout is piped");
    stdout.read_exact(&mut [0]).expect("a first byte");
    kill_process(Pid::from_child(&child), signal).expect("it runs");
    end(child)
}

/// A user who may have one process, and so no second thread. Root may have any number, so it is
/// another one then, for whom everything lies where everybody may read.
fn refused_thread() -> Output {
    let folder = env::temp_dir().join(format!("rushlight-exit-codes-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let open = |path: &PathBuf, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    let (program, model) = (folder.join("rushlight"), folder.join("model.gguf"));
    fs::copy(HOST.linked(), &program).expect("a copy");
    fs::write(&model, mixed_model::gguf(14)).expect("a file");
    for (path, mode) in [(&folder, 0o755), (&program, 0o755), (&model, 0o644)] {
        open(path, mode);
    }
    let mut limited = Command::new("prlimit");
    limited.arg("--nproc=1").arg(&program).current_dir(&folder);
    if rustix::process::geteuid().is_root() {
        limited.uid(54_321).gid(54_321);
    }
    let output = end(start(&mut limited, model.to_str().expect("UTF-8")));
    fs::remove_dir_all(&folder).expect("it is there");
    output
}
