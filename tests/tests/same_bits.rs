//! The promise of the same bits: logits files are equal byte for byte, whatever computes them.
//!
//! Two models: SmolLM2, real weights in Q4_1 and Q8_0; and a small one with random weights in
//! every format that has kernels. Emulated Arm cores: Cortex-A53 (no SDOT) and Cortex-A76 (SDOT).

use kernels_asm::format::WeightFormat;
use std::fs;
use std::path::{Path, PathBuf};
use tests::{Output, mixed_model, model, run_arm64, run_host};

/// Some ids of English text, below 256 so that both vocabularies have them.
const IDS: &str = "28 30 42 100 101 102 7 9 250 198 33 57 58 59 60 61 62 63 64 65 200 201 202";

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The logits of every position of [`IDS`] and of two generated tokens.
fn logits(name: &str, run: impl FnOnce(&[&str]) -> Output, model: &Path, more: &[&str]) -> Vec<u8> {
    let (ids, file) = (
        scratch(&format!("{name}.ids")),
        scratch(&format!("{name}.f32")),
    );
    fs::write(&ids, IDS).expect("a scratch file");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (model, ids, out) = (text(model), text(&ids), text(&file));
    let common = [
        "-m",
        &model,
        "--prompt-ids",
        &ids,
        "--logits",
        &out,
        "--ids",
    ];
    let bounds = ["-n", "3", "-c", "64", "--ignore-eos"];
    let output = run(&[&common[..], &bounds, more].concat());
    assert_eq!(output.code, 0, "{name}: {}", output.stderr);
    let logits = fs::read(&file).expect("the logits");
    fs::remove_file(&file).expect("a scratch file");
    assert!(!logits.is_empty() && logits.len().is_multiple_of(4));
    logits
}

fn host(name: &str, model: &Path, more: &[&str]) -> Vec<u8> {
    logits(name, |arguments| run_host(arguments, b""), model, more)
}

fn arm64(name: &str, cpu: &str, model: &Path, more: &[&str]) -> Vec<u8> {
    logits(
        name,
        |arguments| run_arm64(cpu, arguments, b""),
        model,
        more,
    )
}

fn check(name: &str, model: &Path) {
    let reference = host(
        &format!("{name}-reference"),
        model,
        &["--isa", "reference", "-t", "2"],
    );
    let variants: [(&str, &[&str]); 7] = [
        ("fastest-1", &["-t", "1"]),
        ("fastest-2", &["-t", "2"]),
        ("fastest-3", &["-t", "3"]),
        ("batch-1", &["-b", "1"]),
        ("batch-5", &["-b", "5", "-t", "3"]),
        ("reference-1", &["--isa", "reference", "-t", "1"]),
        ("reference-3", &["--isa", "reference", "-t", "3", "-b", "7"]),
    ];
    for (variant, more) in variants {
        let found = host(&format!("{name}-{variant}"), model, more);
        assert!(
            found == reference,
            "{name}: {variant} differs from the reference"
        );
    }
    for cpu in ["cortex-a53", "cortex-a76"] {
        for threads in ["1", "2", "3"] {
            let variant = format!("{name}-{cpu}-{threads}");
            let found = arm64(&variant, cpu, model, &["-t", threads]);
            assert!(found == reference, "{variant} differs from the reference");
        }
    }
}

#[test]
fn smollm2_gives_the_same_bits_everywhere() {
    check("smollm2", &model("smollm2"));
}

#[test]
fn every_format_gives_the_same_bits_everywhere() {
    let path = scratch("mixed.gguf");
    fs::write(&path, mixed_model::gguf(1)).expect("a scratch file");
    check("mixed", &path);
}

#[test]
fn tied_float_matrices_give_the_same_bits_everywhere() {
    for format in [WeightFormat::F32, WeightFormat::F16, WeightFormat::BF16] {
        let name = format!("uniform-{}", format.name());
        let path = scratch(&format!("{name}.gguf"));
        fs::write(&path, mixed_model::uniform(1, format, 520)).expect("a scratch file");
        let run = |isa: &str| host(&format!("{name}-{isa}"), &path, &["--isa", isa]);
        let reference = run("reference");
        let more = ["-t", "3", "-b", "5"];
        assert!(host(&format!("{name}-fastest"), &path, &more) == reference);
        assert!(arm64(&format!("{name}-a53"), "cortex-a53", &path, &more) == reference);
    }
}

#[test]
fn every_cache_format_gives_the_same_bits_everywhere() {
    let path = scratch("mixed-cache.gguf");
    fs::write(&path, mixed_model::gguf(2)).expect("a scratch file");
    let formats = [
        ("f32", "f32"),
        ("f16", "f16"),
        ("q8_0", "q8_0"),
        ("q8_0", "f16"),
        ("f32", "q8_0"),
    ];
    let mut all = Vec::new();
    for (key, value) in formats {
        let run = |variant: &str, cpu: Option<&str>, more: &[&str]| {
            let name = format!("cache-{key}-{value}-{variant}");
            let more = [&["-ctk", key, "-ctv", value], more].concat();
            match cpu {
                Some(cpu) => arm64(&name, cpu, &path, &more),
                None => host(&name, &path, &more),
            }
        };
        let reference = run("reference", None, &["--isa", "reference", "-t", "1"]);
        let variants: [(&str, Option<&str>, &[&str]); 6] = [
            ("fastest-1", None, &["-t", "1"]),
            ("fastest-3", None, &["-t", "3"]),
            ("batch-1", None, &["-b", "1", "-t", "2"]),
            ("batch-5", None, &["-b", "5", "-t", "3"]),
            ("a53", Some("cortex-a53"), &["-t", "2"]),
            ("a76", Some("cortex-a76"), &["-t", "3", "-b", "7"]),
        ];
        for (variant, cpu, more) in variants {
            assert!(
                run(variant, cpu, more) == reference,
                "{key}, {value}: {variant} differs from the reference"
            );
        }
        assert!(
            !all.contains(&reference),
            "{key}, {value}: the flags do something"
        );
        all.push(reference);
    }
}
