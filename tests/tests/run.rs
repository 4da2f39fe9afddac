//! The program as a person runs it: prompt in, text out, logs apart, exit codes as documented.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tests::{HOST, Output, model, run_host};

fn smollm2() -> String {
    model("smollm2").to_str().expect("a UTF-8 path").to_owned()
}

/// A file of the test's own, in cargo's folder for such.
fn scratch(name: &str, contents: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    File::create(&path)
        .and_then(|mut file| file.write_all(contents))
        .expect("a scratch file");
    path
}

/// The value of `name` in the last log line of `event`.
fn field<'o>(output: &'o Output, event: &str, name: &str) -> &'o str {
    let prefix = format!("rushlight {event} ");
    let line = output
        .stderr
        .lines()
        .rfind(|line| line.starts_with(&prefix));
    let line = line.unwrap_or_else(|| panic!("no {event} line in:\n{}", output.stderr));
    let key = format!(" {name}=");
    let at = line
        .find(&key)
        .unwrap_or_else(|| panic!("no {name} in: {line}"));
    line[at + key.len()..]
        .split(' ')
        .next()
        .expect("split gives a first part")
}

#[test]
fn raw_prompt_is_continued_sensibly() {
    let model = smollm2();
    let prompt = "The capital of France is";
    let output = run_host(&["-m", &model, "--raw", "-p", prompt, "-n", "6"], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    assert!(text.contains("Paris"), "{text:?}");
    assert_eq!(field(&output, "end", "finish"), "length");
    assert_eq!(field(&output, "end", "generated"), "6");
}

#[test]
fn chat_prompt_from_stdin_ends_by_itself() {
    let model = smollm2();
    let question = b"What is the capital of France? Answer in one short sentence.";
    let output = run_host(&["-m", &model, "-n", "64"], question);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    assert!(text.contains("Paris"), "{text:?}");
    assert!(!text.contains("<|im_end|>"), "{text:?}");
    assert_eq!(field(&output, "end", "finish"), "eos");
}

#[test]
fn stdin_is_joined_to_the_prompt_by_a_blank_line() {
    let model = smollm2();
    let base = ["-m", &model, "--raw", "-n", "4", "--ids"];
    let joined = run_host(&[&base[..], &["-p", "Colours:"]].concat(), b"red, green,");
    let whole = run_host(&base, b"Colours:\n\nred, green,");
    assert_eq!(joined.code, 0, "{}", joined.stderr);
    assert_eq!(joined.stdout, whole.stdout);
    assert_eq!(
        field(&joined, "end", "prefill_tokens"),
        field(&whole, "end", "prefill_tokens")
    );
}

#[test]
fn stop_string_is_not_shown() {
    let model = smollm2();
    let base = ["-m", &model, "--raw", "-p", "1, 2, 3, 4, 5,", "-n", "24"];
    let free = run_host(&base, b"");
    let free = String::from_utf8(free.stdout).expect("UTF-8");
    assert!(free.contains("8, 9"), "{free:?}");
    let stopped = run_host(&[&base[..], &["-r", "8, 9"]].concat(), b"");
    assert_eq!(field(&stopped, "end", "finish"), "stop");
    let stopped = String::from_utf8(stopped.stdout).expect("UTF-8");
    assert_eq!(stopped, free[..free.find("8, 9").expect("seen above")]);
}

#[test]
fn same_seed_gives_the_same_text_and_is_printed() {
    let model = smollm2();
    let base = [
        "-m",
        &model,
        "-p",
        "Tell me a story.",
        "-n",
        "24",
        "--temp",
        "0.9",
    ];
    let first = run_host(&base, b"");
    let seed = field(&first, "end", "seed");
    let again = run_host(&[&base[..], &["--seed", seed, "-t", "1"]].concat(), b"");
    assert_eq!(first.stdout, again.stdout);
    let other = run_host(&[&base[..], &["--seed", "1"]].concat(), b"");
    let another = run_host(&[&base[..], &["--seed", "2"]].concat(), b"");
    assert_ne!(other.stdout, another.stdout);
}

#[test]
fn json_logs_are_json_with_the_same_names() {
    let model = smollm2();
    let arguments = [
        "-m",
        &model,
        "-p",
        "Hi",
        "-n",
        "3",
        "--log-format",
        "json",
        "--profile",
    ];
    let output = run_host(&[&arguments[..], &["--ignore-eos"]].concat(), b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let lines: Vec<serde_json::Value> = output
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let events: Vec<_> = lines
        .iter()
        .map(|line| line["event"].as_str().expect("event"))
        .collect();
    assert_eq!(
        events,
        ["start", "plan", "load", "token", "token", "token", "end"]
    );
    for name in [
        "i", "id", "ms", "matmul", "attn", "norm", "rope", "sample", "other", "rss_kb",
    ] {
        assert!(lines[3][name].is_number(), "{name} in {}", lines[3]);
    }
    for token in &lines[3..6] {
        let ms = |name: &str| token[name].as_f64().expect("a number");
        let buckets = ["matmul", "attn", "norm", "rope", "sample", "other"];
        let sum: f64 = buckets.into_iter().map(ms).sum();
        // Within 2 %, and what rounding to hundredths takes.
        assert!((sum - ms("ms")).abs() <= 0.02 * ms("ms") + 0.04, "{token}");
    }
    for name in [
        "decode_tok_s",
        "prefill_tok_s",
        "ttft_ms",
        "gb_s",
        "read_gb_s",
        "read_share_pct",
        "peak_rss_kb",
        "plan_kb",
    ] {
        assert!(lines[6][name].is_number(), "{name} in {}", lines[6]);
    }
}

#[test]
fn each_failure_has_its_exit_code_and_one_clear_line() {
    let model = smollm2();
    let not_gguf = scratch("not.gguf", b"PK\x03\x04 not a model");
    let cut = scratch(
        "cut.gguf",
        &std::fs::read(&model).expect("the model")[..3_000_000],
    );
    let (not_gguf, cut) = (
        not_gguf.to_str().expect("UTF-8"),
        cut.to_str().expect("UTF-8"),
    );
    let foreign = if cfg!(target_arch = "x86_64") {
        "dotprod"
    } else {
        "avx2"
    };
    #[rustfmt::skip]
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--no-such-flag"], 2, "--no-such-flag"),
        (&["-p", "x"], 2, "no model"),
        (&["-m", &model, "-p", "x", "-n", "many"], 2, "many"),
        (&["-m", &model, "-p", "x", "--chat", "no-such-template"], 2, "no-such-template"),
        (&["-m", &model, "-p", "x", "--isa", foreign], 3, foreign),
        (&["-m", "/no/such/file", "-p", "x"], 4, "/no/such/file"),
        (&["-m", "/", "-p", "x"], 4, "neither a file"),
        (&["-m", not_gguf, "-p", "x"], 5, "not a GGUF"),
        (&["-m", cut, "-p", "x"], 5, "truncated"),
        (&["-m", &model, "-p", "x", "--budget", "20M"], 6, "saves"),
        (&["-m", &model, "-p", "x", "--budget", "20M"], 6, " -ctk q8_0 -ctv q8_0 saves 21.1 MiB;"),
        (&["-m", &model, "-p", "x", "-ctk", "q4_0"], 2, "f32, f16 or q8_0"),
        (&["-m", &model, "-p", "one two three four five six", "-c", "4"], 7, "context of 4"),
    ];
    for (arguments, code, words) in cases {
        let output = run_host(arguments, b"");
        assert_eq!(output.code, *code, "{arguments:?}: {}", output.stderr);
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let errors: Vec<_> = output
            .stderr
            .lines()
            .filter(|line| line.starts_with("rushlight error"))
            .collect();
        let [error] = errors[..] else {
            panic!("{arguments:?}: {}", output.stderr)
        };
        assert!(error.contains(words), "{arguments:?}: {error}");
        assert!(error.ends_with("finish=error"), "{error}");
    }
}

#[test]
fn force_runs_over_budget() {
    let model = smollm2();
    let arguments = [
        "-m", &model, "--raw", "-p", "Hello", "-n", "2", "--budget", "20M", "--force",
    ];
    let output = run_host(&arguments, b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(field(&output, "plan", "fits"), "no");
}

#[test]
fn closed_stdout_ends_with_code_8() {
    let mut child = Command::new(HOST.linked())
        .args([
            "-m",
            &smollm2(),
            "-p",
            "Tell me a long story.",
            "-n",
            "200",
            "--ignore-eos",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(8));
}

#[test]
fn interrupt_ends_with_code_130_and_says_cancel() {
    let model = smollm2();
    let story = ["-p", "Tell me a story.", "-n", "1900", "--ignore-eos"];
    let mut child = Command::new(HOST.linked())
        .args(["-m", &model])
        .args(story)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // It is in the middle of its text once the first byte is there.
    let stdout = child.stdout.as_mut().expect("stdout is piped");
    stdout.read_exact(&mut [0]).expect("a first byte");
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let logs = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        logs.lines()
            .last()
            .expect("a line")
            .contains("finish=cancel"),
        "{logs}"
    );
}

#[test]
fn full_context_stops_and_says_so() {
    let model = smollm2();
    let arguments = [
        "-m",
        &model,
        "--raw",
        "-p",
        "Hello",
        "-c",
        "16",
        "-n",
        "64",
        "--ignore-eos",
    ];
    let output = run_host(&arguments, b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(field(&output, "end", "finish"), "context");
}
