//! `bench`: which rows it prints, what is in them, and that it does the work that they name.

use std::fs;
use std::path::PathBuf;
use tests::{Output, mixed_model, model, run_arm64, run_host};

/// The flags of a short measurement, on one thread.
const SHORT: [&str; 6] = ["-p", "12", "-n", "3", "-t", "1"];

/// The mixed model as a file of this test's own.
fn mixed(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{name}.gguf"));
    fs::write(&path, mixed_model::gguf(3)).expect("a scratch file");
    path.to_str().expect("a UTF-8 path").to_owned()
}

fn bench(model: &str, flags: &[&str]) -> Output {
    run_host(&[&["bench", "-m", model], flags].concat(), b"")
}

/// Stdout of a measurement that ends well.
fn stdout(output: Output) -> String {
    assert_eq!(output.code, 0, "{}", output.stderr);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The rows of `--format jsonl`.
fn rows(model: &str, flags: &[&str]) -> Vec<serde_json::Value> {
    let printed = stdout(bench(model, &[flags, &["--format", "jsonl"]].concat()));
    let rows = printed.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().expect("an object a line")
}

/// A line of a CSV file as its fields, after RFC 4180.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut().expect("there is one");
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            letter => field.push(letter),
        }
    }
    assert!(!quoted, "{line}");
    fields
}

#[test]
fn row_says_what_was_measured_and_on_what() {
    let model = mixed("row");
    let flags = ["-ctk", "f32", "-b", "5", "-r", "2", "--isa", "reference"];
    let rows = rows(&model, &[&SHORT[..], &flags].concat());
    assert_eq!(rows.len(), 2);
    for (row, test, tokens) in [(&rows[0], "pp12", 12), (&rows[1], "tg3", 3)] {
        assert_eq!(row["test"], test);
        assert_eq!(row["tokens"], tokens);
        assert!(row["tok_s"].as_f64().expect("a speed") > 0.0, "{row}");
        assert!(row["spread"].as_f64().expect("a spread") >= 0.0, "{row}");
        let kernels = row["kernels"].as_str().expect("kernels");
        assert!(kernels.contains("Q4_K:gemv_q4_k_reference"), "{row}");
        for (field, value) in [("repeats", 2), ("depth", 0), ("threads", 1), ("batch", 5)] {
            assert_eq!(row[field], value, "{field}");
        }
        for (field, value) in [
            ("model", "bench-row.gguf"),
            ("isa", "reference"),
            ("k_format", "f32"),
            ("v_format", "f16"),
        ] {
            assert_eq!(row[field], value, "{field}");
        }
        assert_eq!(row["context"], 12);
        let file = fs::metadata(&model).expect("the model").len();
        let size = row["size"].as_u64().expect("a size");
        assert!((file / 2..file).contains(&size), "{size} of {file}");
    }
}

#[test]
fn tests_are_all_pairs_of_depth_and_count() {
    let flags = ["-p", "pp4,8", "-n", "tg2,0", "-d", "0,d6", "-r", "1"];
    let rows = rows(&mixed("pairs"), &flags);
    let tests: Vec<&str> = rows.iter().filter_map(|row| row["test"].as_str()).collect();
    let expected = ["pp4", "pp8", "tg2", "pp4 @ d6", "pp8 @ d6", "tg2 @ d6"];
    assert_eq!(tests, expected);
    // One repetition has no spread.
    assert!(rows.iter().all(|row| row["spread"] == 0.0));
    assert!(rows.iter().all(|row| row["context"] == 14));
}

#[test]
fn csv_has_the_fields_of_jsonl() {
    let model = mixed("csv");
    let json = rows(&model, &[&SHORT[..], &["-r", "1"]].concat());
    let csv = [&SHORT[..], &["-r", "1", "--format", "csv"]].concat();
    let csv = stdout(bench(&model, &csv));
    let mut lines = csv.lines().map(fields);
    let names = lines.next().expect("a heading");
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), json.len());
    for (line, object) in lines.iter().zip(&json) {
        assert_eq!(line.len(), names.len());
        let object = object.as_object().expect("an object");
        assert_eq!(object.len(), names.len());
        for (name, field) in names.iter().zip(line) {
            match &object[name] {
                serde_json::Value::String(text) => assert_eq!(field, text),
                number if ["tok_s", "spread"].contains(&name.as_str()) => {
                    assert!(number.is_f64() && field.parse::<f64>().is_ok(), "{name}");
                }
                number => assert_eq!(*field, number.to_string()),
            }
        }
    }
}

#[test]
fn table_has_a_heading_and_a_line_a_test() {
    let printed = stdout(bench(&mixed("table"), &[&SHORT[..], &["-r", "2"]].concat()));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[0].starts_with("model "), "{printed}");
    assert!(
        lines[1].contains(" pp12 ") && lines[1].contains(" ± "),
        "{printed}"
    );
    assert!(lines[2].contains(" tg3 "), "{printed}");
}

/// What a run does is seen in its trace: the tokens of each prefill and decoding step.
#[test]
fn tokens_are_evaluated_as_often_as_the_rows_say() {
    let trace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench.trace.json");
    let path = trace.to_str().expect("a UTF-8 path");
    let work = |more: &[&str]| {
        let flags = [&SHORT[..], &["-b", "5", "--trace", path], more].concat();
        stdout(bench(&mixed("work"), &flags));
        let text = fs::read_to_string(&trace).expect("a trace");
        let count = |name: &str| text.matches(&format!("\"name\":\"{name}")).count();
        (count("prefill"), count("decode token"))
    };
    // 12 tokens are three steps of at most five; a warm-up decodes one token.
    assert_eq!(work(&["-r", "2", "--no-warmup"]), (2 * 3, 2 * 3));
    assert_eq!(work(&["-r", "2"]), (3 * 3, 2 * 3 + 1));
    // Seven tokens of depth are two steps, once.
    assert_eq!(work(&["-r", "1", "--no-warmup", "-d", "7"]), (2 + 3, 3));
}

#[test]
fn wrong_flags_are_usage_errors() {
    let model = mixed("wrong");
    for (flags, said) in [
        (&["-p", "0", "-n", "0"][..], "are all 0"),
        (&["-p", "tg12"], "flag -p takes"),
        (&["-n", "1,2,3,4,5,6,7,8,9"], "flag -n takes"),
        (&["-d", "-1"], "flag -d takes"),
        (&["-r", "0"], "flag -r takes"),
        (&["--format", "json"], "text, csv or jsonl"),
        (&["--no-such-flag"], "unknown flag"),
        (&["-p", "100", "-d", "30", "-c", "157"], "needs 158"),
        (&["-n"], "needs a value"),
    ] {
        let output = bench(&model, flags);
        assert_eq!(output.code, 2, "{flags:?}");
        assert!(output.stdout.is_empty(), "{flags:?}");
        assert!(output.stderr.contains(said), "{flags:?}: {}", output.stderr);
    }
}

#[test]
fn budget_holds_as_in_a_run() {
    let smollm2 = model("smollm2");
    let smollm2 = smollm2.to_str().expect("a UTF-8 path");
    let output = bench(smollm2, &["--budget", "50M"]);
    assert_eq!(output.code, 6, "{}", output.stderr);
    assert!(output.stdout.is_empty());
    assert!(output.stderr.contains("fits=no"), "{}", output.stderr);
}

#[test]
fn stdin_is_not_read() {
    let flags = [&SHORT[..], &["-r", "1"]].concat();
    let model = mixed("stdin");
    let output = run_host(&[&["bench", "-m", &model], &flags[..]].concat(), b"text");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains(" prompt=0 "), "{}", output.stderr);
}

#[test]
fn arm_program_names_its_kernels() {
    let model = mixed("arm");
    let flags = [&["bench", "-m", &model], &SHORT[..]].concat();
    let flags = [&flags[..], &["-r", "1", "--format", "jsonl"]].concat();
    let printed = stdout(run_arm64("cortex-a76", &flags, b""));
    let row = printed.lines().next().expect("a row");
    let row: serde_json::Value = serde_json::from_str(row).expect("an object");
    assert_eq!(row["isa"], "dotprod");
    let kernels = row["kernels"].as_str().expect("kernels");
    assert!(kernels.contains("gemv_q4_k_neon_dotprod"), "{row}");
}
