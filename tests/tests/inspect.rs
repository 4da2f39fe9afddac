//! `inspect`: what it shows of small files, whole; of files that it cannot know; and of bad ones.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use tests::gguf_writer::GgufWriter;
use tests::{Output, mixed_model, run_host, vocab};

fn scratch(name: &str, contents: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, contents).expect("a scratch file");
    path.to_str().expect("a UTF-8 path").to_owned()
}

/// With the reference's kernels: those of this CPU are another matter.
fn inspect(file: &str, more: &[&str]) -> Output {
    run_host(
        &[&["inspect", file, "--isa", "reference"], more].concat(),
        b"",
    )
}

fn shown(file: &str, more: &[&str]) -> String {
    let output = inspect(file, more);
    assert_eq!(output.code, 0, "{}", output.stderr);
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn rows(file: &str) -> Vec<Value> {
    let shown = shown(file, &["--format", "json"]);
    let rows = shown.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().expect("JSON")
}

#[test]
fn small_model_is_shown_whole() {
    let file = scratch("inspect.gguf", &mixed_model::gguf(1));
    let golden = include_str!("../golden/inspect_mixed.txt");
    assert_eq!(shown(&file, &[]), golden);
    // As JSON: a row for each line that is neither a heading nor empty, nor says "nothing".
    let lines = golden.lines().filter(|line| line.starts_with("  ")).count();
    assert_eq!(rows(&file).len(), lines + 1);
}

#[test]
fn packed_image_shows_the_file_that_it_was_made_from() {
    let file = scratch("inspect-packed.gguf", &mixed_model::gguf(1));
    let image = file.replace(".gguf", ".rush");
    let packed = run_host(&["pack", &file, &image], b"");
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    let expected = shown(&file, &[]).replacen("GGUF:", "packed image:", 1);
    assert_eq!(shown(&image, &[]), expected);
}

#[test]
fn vocabulary_without_tensors_is_shown() {
    let rows = rows(vocab("llama-spm").to_str().expect("a UTF-8 path"));
    let of = |event: &str| {
        let found = rows.iter().find(|row| row["event"] == event);
        found.unwrap_or_else(|| panic!("no {event}"))
    };
    assert_eq!(of("file")["tensors"], 0);
    assert_eq!(of("tokenizer")["tokens"], 32_000);
    assert_eq!(of("tokenizer")["adds_bos"], "yes");
    assert_eq!(of("token")["text"], "<s>");
    assert_eq!(of("architecture")["runs"], "vocabulary only");
}

#[test]
fn what_is_not_known_is_shown_as_the_file_has_it() {
    let file = GgufWriter::new()
        .string("general.architecture", "mamba\u{1b}[31m")
        .string("tokenizer.ggml.model", "t5")
        .string("tokenizer.chat_template", "{{ messages[0] }}")
        .string("a.text", [b'a', 0xff, b'\n', b'"'])
        .f32s("a.list", &[0.5, f32::NAN, -1e30])
        .raw("a.u64", 10, &u64::MAX.to_le_bytes())
        .tensor("ssm\u{7}", &[256, 2, 3], 16, &[0; 66 * 6])
        .tensor("bias", &[3], 28, &[0; 24])
        .finish();
    let file = scratch("inspect-unknown.gguf", &file);
    let text = shown(&file, &[]);
    for line in [
        "  a.text                                         string          a\u{fffd}\\u000a\"",
        "  a.list                                         f32[3]          [0.5, NaN, -1e30]",
        "  a.u64                                          u64             18446744073709551615",
        "  ssm\\u0007                                      IQ2_XXS  256 x 2 x 3                   396",
        "  bias                                           F64      3                              24",
        "  IQ2_XXS      1 tensors            396 bytes  94.29 %  not supported - -",
        "  F64          1 tensors             24 bytes   5.71 %  vectors       - -",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
    assert!(text.contains("  mamba\\u001b[31m, runs here: no: architecture"));
    assert!(text.contains("  unknown: "));
    assert!(text.contains("--raw"));
    assert!(text.contains("  not usable: "));
    assert!(rows(&file).iter().any(|row| row["runs"] == "no"));
}

#[test]
fn bad_files_have_the_exit_codes_of_a_run() {
    let mut cut = mixed_model::gguf(1);
    cut.truncate(5000);
    for (name, bytes, code) in [
        ("cut", &cut[..], 5),
        ("empty", b"", 5),
        ("other", b"#!/bin/sh", 5),
    ] {
        let file = scratch(&format!("inspect-{name}"), bytes);
        let output = inspect(&file, &[]);
        assert_eq!(output.code, code, "{name}: {}", output.stderr);
        assert!(output.stdout.is_empty(), "{name}");
    }
    assert_eq!(inspect("/no/such/file", &[]).code, 4);
    assert_eq!(run_host(&["inspect"], b"").code, 2);
}
