//! Prompts that are made to harm: long ones, of one letter, of any bytes. Each is answered, or is
//! refused with the tokens that it has and those that there is room for, in time that grows with
//! its length and on a stack of 1 MiB.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::{HOST, Output, mixed_model, model};

/// Bytes that the main thread's stack may have; the kernel ends a process that needs more. A run of
/// the shortest prompt needs 0.7 MB, all but a little for tables of as many layers as a model can
/// have; anything that recursed over a prompt would need far more.
const STACK: usize = 1 << 20;

fn scratch(name: &str, contents: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("prompts-{name}"));
    fs::write(&path, contents).expect("a scratch file");
    path.to_str().expect("UTF-8").to_owned()
}

/// A byte-level BPE vocabulary, and a SentencePiece one of bytes alone.
fn models() -> [String; 2] {
    let bpe = model("smollm2").to_str().expect("UTF-8").to_owned();
    [bpe, scratch("model.gguf", &mixed_model::gguf(4))]
}

/// Runs a prompt on the small stack.
fn run(model: &str, prompt: &str, more: &[&str]) -> (Output, Duration) {
    let began = Instant::now();
    let output = Command::new("prlimit")
        .arg(format!("--stack={STACK}"))
        .arg(HOST.linked())
        .args([
            "-m",
            model,
            "-f",
            prompt,
            "--raw",
            "-n",
            "1",
            "--ignore-eos",
        ])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .expect("util-linux has prlimit");
    let output = Output {
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("logs are UTF-8"),
        code: output.status.code().unwrap_or(-1),
    };
    (output, began.elapsed())
}

#[test]
fn long_prompts_are_refused_with_both_numbers_in_linear_time() {
    let prose = "The quick brown fox jumps over 13 lazy dogs; naïve café, 日本語 text.\n";
    // 10 MiB, but of letters and spaces 131,072: one word.
    let texts = [
        ("prose", prose.as_bytes(), 10 << 20),
        ("letter", b"a", 131_072),
        ("spaces", b" ", 131_072),
        ("continuations", &[0x80], 10 << 20),
    ];
    for model in models() {
        for (name, text, bytes) in texts {
            let refuse = |bytes: usize| {
                let path = scratch(name, &text.repeat(bytes / text.len()));
                let (output, took) = run(&model, &path, &["-c", "64"]);
                assert_eq!(output.code, 7, "{name}: {}", output.stderr);
                let error = output.stderr.lines().last().expect("a line");
                let numbers: Vec<u64> = error
                    .split(|c: char| !c.is_ascii_digit())
                    .filter_map(|digits| digits.parse().ok())
                    .collect();
                assert!(numbers.contains(&64), "{error}");
                assert!(numbers.iter().any(|&tokens| tokens > 400), "{error}");
                took
            };
            let (short, long) = (refuse(bytes / 5), refuse(bytes));
            println!("{name}: {short:?}, {long:?}");
            // Five times the text; starting the program counts for both, and machines are busy.
            let most = 15 * short + Duration::from_secs(1);
            assert!(long < most, "{name}: {short:?}, then {long:?}");
        }
    }
}

#[test]
fn any_bytes_are_answered() {
    let all: Vec<u8> = (0..=255).collect();
    for model in models() {
        for (name, text) in [
            ("lower", &all[..128]),
            ("upper", &all[128..]),
            ("nul", b"\0"),
            ("nuls", b"a\0b\0\0"),
            ("lone", b"\x80\xbf\x80"),
            ("cut", b"ab\xf0\x9f\x98"),
            ("surrogate", b"\xed\xa0\x80"),
            ("overlong", b"\xc0\xaf\xe0\x80\xaf"),
            ("beyond", b"\xf4\x90\x80\x80"),
            ("escapes", b"\x1b[2J\x1b]0;title\x07"),
        ] {
            let (output, _) = run(&model, &scratch(&format!("any-{name}"), text), &[]);
            assert_eq!(output.code, 0, "{name}: {}", output.stderr);
            assert!(
                output.stderr.contains(" generated=1 "),
                "{name}: {}",
                output.stderr
            );
            let is_plain = |c: char| c == '\n' || !c.is_control();
            assert!(
                output.stderr.chars().all(is_plain),
                "{name}: {}",
                output.stderr
            );
        }
    }
}
