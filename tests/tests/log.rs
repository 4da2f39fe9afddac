//! `--log-format defmt`: the events of the text log in a fraction of the bytes, read by `logs` with
//! the program as linked.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use logs::{Program, Summary, decode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OutputModes, tcgetattr};
use tests::{ARM64, HOST, model, run_arm64, run_host};

/// Fields of what was measured: two runs differ in them, but not in how they look.
const MEASURED: [&str; 30] = [
    "actual_to_plan_pct",
    "anon_kb",
    "attn",
    "celsius",
    "cpu_ms",
    "decode_ms",
    "decode_tok_s",
    "file_kb",
    "gb_s",
    "majflt",
    "matmul",
    "mb_s",
    "mhz",
    "ms",
    "norm",
    "other",
    "page_tables_kb",
    "peak_rss_kb",
    "prefill_ms",
    "prefill_tok_s",
    "read_gb_s",
    "read_share_pct",
    "rope",
    "rss_kb",
    "sample",
    "tok_s",
    "ttft_ms",
    "throttled",
    // What the machine has left for others, where no flag says so.
    "budget",
    "program",
];

fn smollm2() -> String {
    model("smollm2").to_str().expect("a UTF-8 path").to_owned()
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn program() -> Program {
    Program::open(&HOST.linked()).expect("the linked program")
}

/// The lines of a log, what was wrong with it, and what was in it.
fn read(programs: &[Program], log: &[u8]) -> anyhow::Result<(String, String, Summary)> {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    let summary = decode(programs, log, &mut lines, &mut notes)?;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ok((text(lines), text(notes), summary))
}

/// A run's log in a format, from `--log-file`.
fn log_of(name: &str, format: &str, arguments: &[&str], stdin: &[u8]) -> Vec<u8> {
    let path = scratch(&format!("{name}.{format}"));
    let flags = ["--log-format", format, "--log-file", path.to_str().unwrap()];
    let output = run_host(&[arguments, &flags[..]].concat(), stdin);
    assert_eq!(output.stderr, "");
    fs::read(path).expect("the log")
}

/// A line with the digits of measured fields hidden: the number of their decimals stays.
fn masked(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.split_once('=') {
        Some((name, value)) if MEASURED.contains(&name) => {
            let decimals = value.split_once('.').map_or(0, |parts| parts.1.len());
            let is_number = value.starts_with(|c: char| c.is_ascii_digit());
            format!("{name}=<{is_number} {decimals}>")
        }
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The lines of a log that two runs have, masked: how far a slow load is, comes by the clock.
fn lines(log: &str) -> Vec<String> {
    let lines = log.lines().filter(|line| !line.contains(" progress "));
    lines.map(masked).collect()
}

/// A run of which both logs are compared; returns them, the frames last.
fn compared(name: &str, arguments: &[&str], stdin: &[u8]) -> (String, Vec<u8>) {
    let text = log_of(name, "text", arguments, stdin);
    let text = String::from_utf8(text).expect("logs are UTF-8");
    let frames = log_of(name, "defmt", arguments, stdin);
    let (decoded, notes, summary) = read(&[program()], &frames).expect("a log of this program");
    assert_eq!(notes, "");
    assert_eq!((summary.texts, summary.lost), (0, 0));
    assert_eq!(lines(&decoded), lines(&text));
    (text, frames)
}

#[test]
fn defmt_log_has_the_events_of_the_text_log_in_a_quarter_of_the_bytes() {
    let model = smollm2();
    let arguments = [
        "-m",
        &model,
        "--raw",
        "-p",
        "The capital of France is",
        "-n",
        "64",
        "--ignore-eos",
        "--profile",
        "--seed",
        "7",
        "-v",
    ];
    let (text, frames) = compared("profile", &arguments, b"");
    assert_eq!(text.matches("rushlight token ").count(), 64);
    let (text, frames) = (text.len(), frames.len());
    assert!(
        4 * frames <= text,
        "{frames} bytes of frames, {text} of text"
    );
}

#[test]
fn optional_and_escaped_fields_survive() {
    let model = smollm2();
    let prompts = b"Say hello.\nWhy?\n";
    let console = [
        "-m",
        &model,
        "--console",
        "-",
        "-n",
        "3",
        "--seed",
        "1",
        "-c",
        "9000",
    ];
    let (text, _) = compared("console", &console, prompts);
    assert!(
        text.contains("rushlight warning message=\"-c 9000:"),
        "{text}"
    );
    assert!(
        text.contains("rushlight console state=closed lines=2"),
        "{text}"
    );

    let small = ["-m", &model, "-p", "x", "--budget", "20M"];
    let (text, _) = compared("small", &small, b"");
    assert!(
        text.contains(" way_2=\"-ctk q8_0 -ctv q8_0\" saves_2="),
        "{text}"
    );
    assert!(text.contains(" code=6 finish=error"), "{text}");

    let text = "word ".repeat(300);
    let scored = ["perplexity", "-m", &model, "-p", &text, "-c", "64"];
    let (text, _) = compared("scored", &scored, b"");
    assert!(text.contains(" perplexity="), "{text}");

    let image = scratch("log image.rush");
    let packed = ["pack", &model, image.to_str().unwrap()];
    let (text, _) = compared("pack", &packed, b"");
    assert!(text.contains("log image.rush\""), "{text}");
}

/// The bytes on stderr of a run that ends with `code`.
fn errors_of(arguments: &[&str], code: i32) -> Vec<u8> {
    let mut command = Command::new(HOST.linked());
    command.args(arguments).stdin(Stdio::null());
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    assert_eq!(output.stdout, b"");
    output.stderr
}

#[test]
fn errors_are_frames_too_whatever_is_in_them() {
    let odd = "no such \u{1b}[31m\"file\" = \\ \u{e9}\u{85}\n.gguf";
    let long = "a\u{1}\u{e9}".repeat(1200);
    let words = "gemv_q4_1,yes,no,q8_0,f16x_neon_dotprod,".repeat(40);
    let cases: [(&[&str], i32); 6] = [
        (&["--no-such-flag"], 2),
        (&["-p", "x"], 2),
        (&["-m", odd, "-p", "x"], 4),
        (&["-m", &long, "-p", "x"], 4),
        (&["-m", &words, "-p", "x"], 4),
        (&["-q", "-m", odd, "-p", "x"], 4),
    ];
    for (arguments, code) in cases {
        let errors = |format| errors_of(&[arguments, &["--log-format", format]].concat(), code);
        let (text, frames) = (errors("text"), errors("defmt"));
        let (decoded, notes, _) = read(&[program()], &frames).expect("a log of this program");
        assert_eq!(decoded.as_bytes(), text, "{arguments:?}");
        assert_eq!(notes, "", "{arguments:?}");
    }
}

#[test]
fn quiet_log_has_no_frame() {
    let model = smollm2();
    let quiet = ["-m", &model, "--raw", "-p", "Hello", "-n", "2", "-q"];
    assert_eq!(log_of("quiet", "defmt", &quiet, b""), b"");
}

#[test]
fn log_of_another_program_is_refused() {
    let frames = errors_of(&["--no-such-flag", "--log-format", "defmt"], 2);
    let arm64 = Program::open(&ARM64.linked()).expect("the linked program");
    let (host, other) = (program(), arm64.build.clone());
    let build = host.build.clone();
    let error = read(&[arm64], &frames).expect_err("another program");
    let error = error.to_string();
    assert!(error.contains(&build) && error.contains(&other), "{error}");

    // Among several the right one is found.
    let arm64 = Program::open(&ARM64.linked()).expect("the linked program");
    let (decoded, _, _) = read(&[arm64, host], &frames).expect("one of them");
    assert!(decoded.contains("--no-such-flag"), "{decoded}");

    let shipped = Program::open(&HOST.shipped()).err().expect("no symbols");
    assert!(shipped.to_string().contains("as linked"), "{shipped}");
}

#[test]
fn arm64_frames_decode() {
    let text = run_arm64("cortex-a53", &["-m", "/no/such file", "-p", "x"], b"");
    let path = scratch("arm64.defmt");
    let log = [
        "--log-format",
        "defmt",
        "--log-file",
        path.to_str().unwrap(),
    ];
    let missing = ["-m", "/no/such file", "-p", "x"];
    run_arm64("cortex-a53", &[&missing[..], &log].concat(), b"");
    let program = Program::open(&ARM64.linked()).expect("the linked program");
    let (decoded, notes, _) = read(&[program], &fs::read(path).unwrap()).expect("its log");
    assert_eq!((decoded, notes), (text.stderr, String::new()));
}

#[test]
fn terminal_takes_frames_as_they_are_and_gets_its_settings_back() {
    let pty = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
    grantpt(&pty).expect("a pty");
    unlockpt(&pty).expect("a pty");
    let path = ptsname(&pty, Vec::new()).expect("a pty");
    let path = path.to_str().expect("UTF-8");
    let terminal = File::options().read(true).write(true).open(path);
    let terminal = terminal.expect("the terminal");
    let modes = || tcgetattr(&terminal).expect("its settings").output_modes;
    let before = modes();
    assert!(before.contains(OutputModes::OPOST | OutputModes::ONLCR));

    // The tenth token's line has a byte 10, which a terminal in its usual state makes two.
    let model = smollm2();
    let run = [
        "-m",
        &model,
        "--raw",
        "-p",
        "One, two,",
        "-n",
        "10",
        "--profile",
    ];
    let mut command = Command::new(HOST.linked());
    command
        .args(run)
        .args(["--ignore-eos", "--log-format", "defmt"]);
    let stderr = terminal.try_clone().expect("the terminal");
    let mut child = command
        .stderr(stderr)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut log = Vec::new();
    let mut buffer = [0; 4096];
    // Read as it comes: a pty holds a few kilobytes only. The `end` line is the last.
    let ended = loop {
        let patience = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let ready = poll(&mut [PollFd::new(&pty, PollFlags::IN)], Some(&patience));
        assert_eq!(ready, Ok(1), "no `end` line came");
        let count = rustix::io::read(&pty, &mut buffer).expect("the log");
        log.extend_from_slice(&buffer[..count]);
        let (lines, notes, summary) = read(&[program()], &log).expect("a log of this program");
        if lines.contains("rushlight end ") {
            break (notes, summary.lost);
        }
    };
    assert_eq!(ended, (String::new(), 0));
    assert!(child.wait().expect("it ends").success());
    assert!(log.contains(&b'\n'));
    assert_eq!(modes(), before);
}

/// A log to spoil: some frames of each kind.
fn sound() -> Vec<u8> {
    let model = smollm2();
    let run = [
        "-m",
        &model,
        "--raw",
        "-p",
        "One, two,",
        "-n",
        "8",
        "--profile",
        "--ignore-eos",
    ];
    log_of("sound", "defmt", &run, b"")
}

#[test]
fn cut_log_has_the_frames_before_the_cut() {
    let (log, program) = (sound(), [program()]);
    let (whole, ..) = read(&program, &log).unwrap();
    for len in 0..log.len() {
        let (lines, notes, summary) = read(&program, &log[..len]).unwrap();
        assert!(whole.starts_with(&lines), "{len}: {lines}");
        let frames = log[..len].iter().filter(|&&byte| byte == 0).count();
        assert_eq!(summary.events, frames.saturating_sub(2), "{len}");
        let is_between = len == 0 || log[len - 1] == 0;
        assert_eq!(summary.lost, usize::from(!is_between), "{len}: {notes}");
        assert_eq!(notes.contains("cut inside a frame"), !is_between);
    }
}

#[test]
fn spoilt_frame_costs_no_other() {
    let (log, program) = (sound(), [program()]);
    let (whole, ..) = read(&program, &log).unwrap();
    let whole: Vec<&str> = whole.lines().collect();
    let opening = log[1..].iter().position(|&byte| byte == 0).unwrap() + 1;
    for at in opening + 1..log.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut spoilt = log.clone();
            spoilt[at] ^= flip;
            let (lines, ..) = read(&program, &spoilt).unwrap();
            let lines: Vec<&str> = lines.lines().collect();
            // All lines but those of the frame, or of the two that became one or three.
            let kept = whole.iter().filter(|line| lines.contains(line)).count();
            assert!(kept + 2 >= whole.len(), "{at} ^ {flip:02x}: {lines:#?}");
        }
    }
}

#[test]
fn noise_is_lost_and_text_is_passed_on() {
    let (log, program) = (sound(), [program()]);
    let (whole, ..) = read(&program, &log).unwrap();
    let mut state = 1u64;
    let mut noise = Vec::new();
    for _ in 0..100_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.push(state as u8);
    }
    // Before the log: the opening frame ends whatever was there. No zero byte, so no frame either.
    let deaf: Vec<u8> = noise.iter().map(|byte| byte | 1).collect();
    let (lines, notes, summary) = read(&program, &[&deaf, &log[..]].concat()).unwrap();
    assert_eq!((lines, summary.lost), (whole.clone(), 1), "{notes}");
    // Behind it, anything may come out but a crash.
    let (lines, _, summary) = read(&program, &[&log[..], &noise].concat()).unwrap();
    assert!(
        lines.starts_with(&whole) && summary.lost > 100,
        "{summary:?}"
    );

    let kernel = b"[    2.1] usb 1-1: new device\r\n[    2.2] usb 1-1: gone\r\n";
    let (lines, notes, summary) = read(&program, &[&log[..], kernel, &log].concat()).unwrap();
    let text = "[    2.1] usb 1-1: new device\n[    2.2] usb 1-1: gone\n";
    assert_eq!(lines, [&whole, text, &whole].concat());
    assert_eq!((summary.texts, notes.as_str()), (2, ""));
}
