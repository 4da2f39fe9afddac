//! The command line as scripts see it: exit codes, and what is on stdout.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn unknown_model_is_a_usage_error_that_lists_all() {
    for arguments in [["model", "no-such-model"].as_slice(), &["model"]] {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        for name in [
            "smollm2",
            "gemma3-270m",
            "qwen2.5-0.5b",
            "qwen2.5-1.5b",
            "tinyllama-synth",
            "tinyllama-synth-q4_0",
            "tinyllama-synth-q8_0",
            "tinyllama-synth-q6_k",
        ] {
            assert!(text(&output.stderr).contains(name), "{name}");
        }
    }
}

#[test]
fn unknown_board_is_a_usage_error_that_lists_all() {
    for arguments in [
        ["build", "toaster"].as_slice(),
        &["image", "toaster"],
        &["image"],
    ] {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        for name in ["host", "generic-arm64", "virt"] {
            assert!(text(&output.stderr).contains(name), "{name}");
        }
    }
}

#[test]
fn wrong_disk_of_the_emulated_board_is_a_usage_error() {
    let output = xtask(&["virt", "--disk", "tape"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--disk cannot be `tape`"));
}

#[test]
fn deployment_to_nowhere_is_a_usage_error() {
    let deploy = |words: &[&str]| {
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask.arg("deploy").args(words);
        xtask.env_remove("RUSHLIGHT_DEPLOY").output().unwrap()
    };
    for (words, reason) in [
        (&[][..], "to which USER@HOST?"),
        (&["--", "root@board"], "to which USER@HOST?"),
        (&["root@board", "--dir"], "--dir needs a value"),
        (&["root@board", "--service", "ttyS0"], "needs --model"),
    ] {
        let output = deploy(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(reason), "{words:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn unknown_command_is_a_usage_error() {
    for arguments in [[].as_slice(), &["dance"], &["setup", "now"]] {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("usage: cargo xtask COMMAND"));
    }
}

#[test]
fn measurement_without_its_command_is_a_usage_error() {
    let figures = ["--metric", "tok_s", "--before", "50", "--after", "51"];
    let rest = ["--kept", "--model", "smollm2", "--why", "luck"];
    let output = xtask(&[&["perf-log"], &figures[..], &rest].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("without --command"));
}

#[test]
fn bench_against_what_is_not_there_is_a_usage_error() {
    for (arguments, reason) in [
        (["--against", "no-such-build"], "no-such-build"),
        (["--threads", "two"], "--threads cannot be `two`"),
        (["--runs", "0"], "count from 1"),
    ] {
        let output = xtask(&[&["bench"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(reason), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn memory_against_what_is_not_known_is_a_usage_error() {
    for (arguments, reason) in [
        (["--against", "ollama"], "cannot compare with `ollama`"),
        (["--context", "8"], "counts from 64"),
        (["--model", "no-such-model"], "no-such-model"),
    ] {
        let output = xtask(&[&["memory"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(reason), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn model_prints_its_path_and_nothing_else() {
    let output = xtask(&["model", "smollm2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    assert!(
        std::path::Path::new(stdout.trim_end()).is_file(),
        "{stdout}"
    );
}
