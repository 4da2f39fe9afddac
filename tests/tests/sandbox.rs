//! What is left to a process in the sandbox, and that a run in it is the same run.

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::{HOST, mixed_model, run_host};

const EPERM: &str = "1";
const EACCES: &str = "13";

/// A file of the test's own.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sandbox-{name}"))
}

/// A small model of random weights.
fn random_model(name: &str) -> String {
    let path = scratch(name).with_extension("gguf");
    fs::write(&path, mixed_model::gguf(8)).expect("a scratch file");
    path.to_str().expect("UTF-8").to_owned()
}

/// What `sandboxed` may do: error numbers by what was tried.
fn tried(file: &Path, terminal: Option<&str>) -> HashMap<String, String> {
    let tried = Command::new(env!("CARGO_BIN_EXE_sandboxed"))
        .arg(file)
        .args(terminal)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = String::from_utf8(tried.stdout).expect("UTF-8");
    let error = String::from_utf8_lossy(&tried.stderr);
    assert!(tried.status.success(), "{text}{error}");
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(what, errno)| (what.into(), errno.into()))
        .collect()
}

#[test]
fn what_decoding_does_not_need_is_refused() {
    let file = scratch("file");
    fs::write(&file, "here").expect("a scratch file");
    let errno = tried(&file, None);
    for allowed in ["read_proc", "time"] {
        assert_eq!(errno[allowed], "0", "{allowed}");
    }
    for refused in [
        "write_file",
        "file_as_terminal",
        "terminal",
        "unnamed_file",
        "create_file",
        "remove_file",
        "socket",
        "socket_of_older_thread",
        "execute",
        "fork",
        "map_code",
        "signal",
        "type_into_terminal",
    ] {
        assert_eq!(errno[refused], EPERM, "{refused}");
    }
    assert_eq!(errno["read_file"], kept_out(&errno));
    assert_eq!(fs::read(&file).expect("still there"), b"here");
}

/// What comes of opening a file that only Landlock keeps out.
fn kept_out(errno: &HashMap<String, String>) -> &str {
    match &*errno["landlock"] {
        "0" => "0", // this kernel has none
        _ => EACCES,
    }
}

#[test]
fn a_terminal_can_be_opened_again_and_other_files_cannot() {
    let file = scratch("file-2");
    fs::write(&file, "here").expect("a scratch file");
    let pty = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    unlockpt(&pty).expect("it is ours");
    let terminal = ptsname(&pty, Vec::new()).expect("it has a name");
    let errno = tried(&file, Some(terminal.to_str().expect("UTF-8")));
    assert_eq!(errno["terminal"], "0");
    for refused in ["write_file", "unnamed_file", "create_file", "remove_file"] {
        assert_eq!(errno[refused], EPERM, "{refused}");
    }
    for opened in ["read_file", "file_as_terminal"] {
        assert_eq!(errno[opened], kept_out(&errno), "{opened}");
    }
    // The null device stays the same file when it is opened again: none beside it is needed.
    let errno = tried("/dev/zero".as_ref(), Some("/dev/null"));
    assert_eq!(errno["terminal"], "0");
    assert_eq!(errno["file_as_terminal"], kept_out(&errno));
}

#[test]
fn a_run_in_the_sandbox_is_the_same_run() {
    let model = random_model("run");
    let run = |flag: &str| {
        let logits = scratch(&format!("logits{flag}"));
        let trace = scratch(&format!("trace{flag}"));
        let (logits, trace) = (logits.to_str().unwrap(), trace.to_str().unwrap());
        let output = run_host(
            &[
                "-m",
                &model,
                "--raw",
                "-p",
                "Once upon",
                "-n",
                "24",
                "-t",
                "2",
                "--ignore-eos",
                "--temp",
                "1",
                "--seed",
                "5",
                "--profile",
                "--logits",
                logits,
                "--trace",
                trace,
                flag,
            ],
            b"",
        );
        assert_eq!(output.code, 0, "{flag}: {}", output.stderr);
        assert!(
            fs::read_to_string(trace).unwrap().trim_end().ends_with(']'),
            "{flag}"
        );
        (output, fs::read(logits).expect("logits"))
    };
    let (inside, logits_inside) = run("--sandbox");
    let (outside, logits_outside) = run("--no-sandbox");
    assert!(
        inside
            .stderr
            .contains("\nrushlight sandbox seccomp=yes landlock="),
        "{}",
        inside.stderr
    );
    assert!(!outside.stderr.contains("rushlight sandbox"));
    assert_eq!(inside.stdout, outside.stdout);
    assert!(logits_inside == logits_outside);
    // What a log line reads of the system, it still reads.
    let end = inside
        .stderr
        .lines()
        .rfind(|line| line.starts_with("rushlight end "));
    assert!(
        end.is_some_and(|end| !end.contains("rss_kb=0 ")),
        "{}",
        inside.stderr
    );
}

#[test]
fn kernel_without_a_part_of_the_sandbox_is_told_of() {
    let model = random_model("parts");
    for (call, part) in [
        ("landlock_create_ruleset", "Landlock"),
        ("seccomp", "seccomp"),
    ] {
        let output = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-e"])
            .arg(format!("inject={call}:error=ENOSYS"))
            .arg(HOST.linked())
            .args(["-m", &model, "--raw", "-p", "a", "-n", "2", "--sandbox"])
            .stdin(Stdio::null())
            .output()
            .expect("strace runs");
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{log}");
        let warning = format!("no {part} for the sandbox: ");
        assert!(log.contains(&warning), "{log}");
    }
}

/// How system calls are filtered, and whether rights can be gained, by the process's own folder.
fn restrictions(process: &Path) -> [String; 2] {
    let status = fs::read_to_string(process.join("status")).expect("it lives");
    ["Seccomp:", "NoNewPrivs:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.expect("proc(5) has it").trim().to_owned()
    })
}

#[test]
fn a_console_is_in_the_sandbox_unless_told_not_to() {
    let model = random_model("console");
    for flags in [&[][..], &["--no-sandbox"]] {
        let mut child = Command::new(HOST.linked())
            .args([
                "-m",
                &model,
                "--console",
                "-",
                "--raw",
                "-n",
                "4",
                "--ignore-eos",
                "-q",
                "-r",
                "a stop\\ntext",
            ])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = child.stdin.take().expect("piped");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut ready = [0; 2];
        std::io::Read::read_exact(&mut output, &mut ready).expect("it gets ready");
        assert_eq!(&ready, b"> ");

        for task in fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs") {
            let found = restrictions(&task.expect("a thread").path());
            match flags {
                [] => assert_eq!(found, ["2", "1"]),
                _ => assert_eq!(found, restrictions("/proc/self".as_ref())), // what the test has
            }
        }

        input.write_all(b"Once\n").expect("it reads");
        drop(input);
        let mut answer = Vec::new();
        output.read_until(b'>', &mut answer).expect("an answer");
        assert!(answer.len() > 2, "{answer:?}");
        std::io::copy(&mut output, &mut std::io::sink()).expect("the rest");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
}
