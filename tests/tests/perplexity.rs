//! `perplexity`: its figures beside llama.cpp's, beside the logits that they come from, and the
//! same on every machine.

use std::fs;
use std::path::{Path, PathBuf};
use tests::gguf_writer::GgufWriter;
use tests::{Output, mixed_model, model, run_arm64, run_host, workspace};

fn scratch(name: &str, contents: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, contents).expect("a scratch file");
    text(&path)
}

fn text(path: &Path) -> String {
    path.to_str().expect("a UTF-8 path").to_owned()
}

fn prose() -> String {
    text(&workspace().join("tests/golden/prose.txt"))
}

/// Stdout of a run that ends well.
fn stdout(output: Output) -> String {
    assert_eq!(output.code, 0, "{}", output.stderr);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The perplexities so far, the estimate, and its standard error, from either program.
fn figures(printed: &str) -> (Vec<f64>, f64, f64) {
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let lines = || printed.lines().filter(|line| !line.starts_with('#'));
    let chunks = lines().filter(|line| line.starts_with('['));
    let chunks = chunks.flat_map(|line| line.split(',').filter(|chunk| !chunk.is_empty()));
    let chunks = chunks.map(|chunk| number(chunk.split(']').nth(1).expect("a figure").trim()));
    let estimate = lines()
        .find_map(|line| line.strip_prefix("Final estimate: PPL = "))
        .expect("an estimate");
    let (estimate, error) = estimate.split_once(" +/- ").expect("an error");
    (chunks.collect(), number(estimate), number(error))
}

#[test]
fn figures_are_llama_cpps_within_half_a_percent() {
    let golden = workspace().join("tests/golden/perplexity_smollm2.txt");
    let golden = figures(&fs::read_to_string(golden).expect("a golden file"));
    let model = text(&model("smollm2"));
    let output = run_host(&["perplexity", "-m", &model, "-f", &prose()], b"");
    let end = output.stderr.lines().last().expect("an end line");
    let share = end.split("actual_to_plan_pct=").nth(1).expect("a share");
    let share = share.split(' ').next().and_then(|text| text.parse().ok());
    let share: f64 = share.expect("a number");
    assert!((98.0..102.0).contains(&share), "{end}");
    let (chunks, estimate, error) = figures(&stdout(output));
    assert_eq!(chunks.len(), golden.0.len());
    for (ours, theirs) in chunks.iter().zip(&golden.0) {
        assert!((ours / theirs - 1.0).abs() < 0.005, "{ours}, {theirs}");
    }
    assert!((estimate / golden.1 - 1.0).abs() < 0.005, "{estimate}");
    assert!((error / golden.2 - 1.0).abs() < 0.02, "{error}");
}

#[test]
fn figures_are_the_same_to_the_last_digit_everywhere() {
    let (model, prose) = (text(&model("smollm2")), prose());
    let base = ["perplexity", "-m", &model, "-f", &prose];
    let base = [&base[..], &["-c", "32", "--chunks", "2"]].concat();
    let host = |more: &[&str]| stdout(run_host(&[&base, more].concat(), b""));
    let arm64 = |cpu: &str, more: &[&str]| stdout(run_arm64(cpu, &[&base, more].concat(), b""));
    let reference = host(&["--isa", "reference", "-t", "1"]);
    assert_eq!(reference.lines().count(), 3);
    assert_eq!(host(&["-t", "2"]), reference);
    assert_eq!(host(&["-t", "3", "-b", "5"]), reference);
    assert_eq!(host(&["-b", "1"]), reference);
    assert_eq!(arm64("cortex-a53", &["-t", "2"]), reference);
    assert_eq!(arm64("cortex-a76", &["-t", "1", "-b", "7"]), reference);
}

/// The mixed model, made to start texts with token 256.
fn model_with_bos(name: &str) -> String {
    let key = "tokenizer.ggml.add_bos_token";
    let more = |file: GgufWriter| file.u32("tokenizer.ggml.bos_token_id", 256);
    let mut file = mixed_model::gguf_with(3, more);
    let at = file
        .windows(key.len())
        .position(|window| window == key.as_bytes())
        .expect("the key");
    file[at + key.len() + 4] = 1; // behind its type
    scratch(&format!("perplexity-{name}.gguf"), &file)
}

#[test]
fn figures_follow_from_the_logits_of_each_chunk() {
    const CONTEXT: usize = 16;
    let model = model_with_bos("logits");
    let prose = fs::read(prose()).expect("the text");
    let file = scratch("perplexity.txt", &prose[..50]);
    let arguments = ["perplexity", "-m", &model, "-f", &file, "-c", "16"];
    let (chunks, estimate, _) = figures(&stdout(run_host(&arguments, b"")));
    // BOS, and a token a byte; the space in front and each of the others has three.
    let ids = run_host(&["tokenize", "-m", &model, "-f", &file, "--ids"], b"");
    let ids: Vec<usize> = stdout(ids)
        .lines()
        .map(|line| line.parse().expect("an id"))
        .collect();
    assert_eq!((ids.len(), ids[0], chunks.len()), (74, 256, 4));

    let logits = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("perplexity.f32");
    let (mut sum, mut count) = (0.0, 0);
    for (chunk, found) in ids.chunks_exact(CONTEXT).zip(&chunks) {
        let mut chunk = chunk.to_vec();
        chunk[0] = 256;
        let words: Vec<String> = chunk.iter().map(usize::to_string).collect();
        let words = scratch("perplexity.ids", words.join(" ").as_bytes());
        let arguments = ["-m", &model, "--prompt-ids", &words, "-n", "0"];
        let more = ["--logits", &text(&logits)];
        stdout(run_host(&[&arguments[..], &more].concat(), b""));
        let bytes = fs::read(&logits).expect("the logits");
        let rows: Vec<f64> = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes).into())
            .collect();
        let width = rows.len() / CONTEXT;
        for at in CONTEXT / 2..CONTEXT - 1 {
            let row = &rows[at * width..][..width];
            let all: f64 = row.iter().map(|logit| logit.exp()).sum();
            sum += all.ln() - row[chunk[at + 1]];
            count += 1;
        }
        let expected = (sum / f64::from(count)).exp();
        assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
    }
    assert_eq!(estimate, chunks[3]);
}

#[test]
fn json_has_the_same_figures() {
    let model = model_with_bos("json");
    let base = ["perplexity", "-m", &model, "-f", &prose(), "-c", "16"];
    let base = [&base[..], &["--chunks", "2"]].concat();
    let (chunks, estimate, error) = figures(&stdout(run_host(&base, b"")));
    let json = stdout(run_host(&[&base[..], &["--format", "json"]].concat(), b""));
    let rows: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!((rows.len(), chunks.len()), (3, 2));
    for (row, chunk) in rows.iter().zip(chunks) {
        assert_eq!(row["perplexity"], chunk);
    }
    assert_eq!(rows[2]["perplexity"], estimate);
    assert_eq!(rows[2]["standard_error"], error);
    assert_eq!(rows[2]["scored"], 14);
}

#[test]
fn text_or_context_that_is_too_short_is_told_with_both_numbers() {
    let model = model_with_bos("short");
    let output = run_host(
        &["perplexity", "-m", &model, "-p", "abc", "-c", "64", "-q"],
        b"",
    );
    assert_eq!(output.code, 2);
    // BOS, a space of three bytes, and three bytes.
    assert!(
        output.stderr.contains("7 tokens, at least 128"),
        "{}",
        output.stderr
    );
    assert!(output.stdout.is_empty());
    let output = run_host(&["perplexity", "-m", &model, "-p", "abc", "-c", "4"], b"");
    assert_eq!(output.code, 2);
    assert!(
        output.stderr.contains("-c 4, at least 8"),
        "{}",
        output.stderr
    );
}

#[test]
fn markers_with_a_space_added_after_each_are_planned_for() {
    // Vocabularies as large as before, in which byte 0xFF is a marker M instead.
    let (mut tokens, mut kinds) = (Vec::new(), Vec::new());
    for byte in 0..=254 {
        tokens.push(format!("<0x{byte:02X}>"));
        kinds.push(6);
    }
    tokens.extend(["M", "</s>"].map(String::from));
    kinds.extend([4, 3]);
    let (texts, types) = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type");
    let more = |file: GgufWriter| file.strings(texts, &tokens).i32s(types, &kinds);
    let mut file = mixed_model::gguf_with(3, more);
    for key in [texts, types] {
        let mut windows = file.windows(key.len());
        let at = windows.position(|window| window == key.as_bytes());
        file[at.expect("the key") + key.len() - 1] = b'#'; // those that were there
    }
    let model = scratch("perplexity-markers.gguf", &file);
    let text = scratch("markers.txt", "M ".repeat(2000).as_bytes());
    let arguments = ["perplexity", "-m", &model, "-f", &text, "-c", "16"];
    let output = run_host(&[&arguments[..], &["--chunks", "1"]].concat(), b"");
    // Each marker, and each space with the one before it: 14,000 tokens.
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains(" tokens=16 "), "{}", output.stderr);
}
