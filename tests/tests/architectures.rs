//! Every architecture: right, by an independent forward pass, and the same bits everywhere.
//!
//! The models are seeded (`tests::seeded_model`); `golden/architectures.bin` has logits that a
//! float64 forward pass makes of their weights (`golden/make_architectures.py`).

use runtime::gguf::Gguf;
use std::fs;
use std::path::{Path, PathBuf};
use tests::gguf_writer::GgufWriter;
use tests::seeded_model::{IDS, MODELS, SeededModel, Weights};
use tests::{CORES, Output, emulates, run_arm64, run_host, workspace};

/// Bytes of a record's name in the golden file.
const NAME: usize = 32;

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("architectures-{name}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A model's file; the name tells the tests apart that make it.
fn file(test: &str, model: &SeededModel, weights: Weights) -> PathBuf {
    let path = scratch(&format!("{test}-{}-{}.gguf", model.name, weights.name()));
    fs::write(&path, model.gguf(weights)).expect("a scratch file");
    path
}

/// The logits of every position of [`IDS`], and of two generated tokens.
fn logits(model: &Path, run: impl FnOnce(&[&str]) -> Output, more: &[&str]) -> Vec<u8> {
    let (ids, out) = (model.with_extension("ids"), model.with_extension("f32"));
    fs::write(&ids, IDS).expect("a scratch file");
    let files = ["-m", text(model), "--prompt-ids", text(&ids)];
    let rest = ["--logits", text(&out), "--ids", "--ignore-eos"];
    let bounds = ["-n", "3", "-c", "64"];
    let output = run(&[&files[..], &rest, &bounds, more].concat());
    assert_eq!(output.code, 0, "{more:?}: {}", output.stderr);
    let logits = fs::read(&out).expect("the logits");
    assert!(!logits.is_empty());
    logits
}

fn host(arguments: &[&str]) -> Output {
    run_host(arguments, b"")
}

/// What the reference says of a model.
struct Golden {
    checksum: u64,
    /// Positions, and their logits.
    rows: Vec<(usize, Vec<f32>)>,
}

/// The record of that name. The layout is described in `make_architectures.py`.
fn golden(name: &str) -> Golden {
    let bytes = fs::read(workspace().join("tests/golden/architectures.bin")).expect("the file");
    let mut rest = &bytes[..];
    loop {
        assert!(!rest.is_empty(), "architectures.bin has no {name}");
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("4 bytes"));
        let (rows, vocabulary) = (number(NAME + 8) as usize, number(NAME + 12) as usize);
        let (positions, logits) = (NAME + 16, NAME + 16 + 4 * rows);
        let end = logits + 4 * rows * vocabulary;
        if rest[..NAME].starts_with(name.as_bytes()) && rest[name.len()] == 0 {
            let row = |row: usize| {
                let row_bytes = &rest[logits + 4 * row * vocabulary..][..4 * vocabulary];
                floats(row_bytes)
            };
            return Golden {
                checksum: u64::from_le_bytes(rest[NAME..NAME + 8].try_into().expect("8 bytes")),
                rows: (0..rows)
                    .map(|i| (number(positions + 4 * i) as usize, row(i)))
                    .collect(),
            };
        }
        rest = &rest[end..];
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// As in `make_architectures.py`.
fn checksum(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<4>().0.iter().zip(1u64..);
    words.fold(0, |sum, (word, place)| {
        sum.wrapping_add(u64::from(u32::from_le_bytes(*word)).wrapping_mul(place))
    })
}

/// The greatest difference from the reference, in parts of its greatest logit, over all positions
/// that it has.
fn error(model: &SeededModel, weights: Weights) -> f64 {
    let name = format!("{}-{}", model.name, weights.name());
    let golden = golden(&name);
    let bytes = model.gguf(weights);
    assert_eq!(checksum(&bytes), golden.checksum, "{name} is another model");
    let cache: &[&str] = match weights {
        Weights::Floats => &["-ctk", "f32", "-ctv", "f32"],
        Weights::Mixed => &[],
    };
    let found = floats(&logits(&file("error", model, weights), host, cache));
    let errors = golden.rows.iter().map(|(position, expected)| {
        let found = &found[position * expected.len()..][..expected.len()];
        let greatest = |numbers: &mut dyn Iterator<Item = f32>| {
            numbers.fold(0.0, |max, number| f64::from(number).abs().max(max))
        };
        let difference = greatest(&mut found.iter().zip(expected).map(|(f, e)| f - e));
        difference / greatest(&mut expected.iter().copied())
    });
    let error = errors.fold(0.0, f64::max);
    println!("{name}: {error:.2e}");
    error
}

/// Measured: at most 7.6e-3.
#[test]
fn quantised_models_are_near_the_reference() {
    for model in MODELS {
        assert!(error(&model, Weights::Mixed) <= 2e-2, "{}", model.name);
    }
}

/// Float weights meet activations as they are, and the cache holds floats too. Measured: at most
/// 1.4e-6.
#[test]
fn float_models_are_nearer_to_the_reference() {
    for model in MODELS {
        assert!(error(&model, Weights::Floats) <= 1e-4, "{}", model.name);
    }
}

#[test]
fn every_architecture_gives_the_same_bits_everywhere() {
    for model in MODELS {
        let path = file("bits", &model, Weights::Mixed);
        let reference = logits(&path, host, &["--isa", "reference", "-t", "2"]);
        let variants: [&[&str]; 7] = [
            &["-t", "1"],
            &["-t", "2"],
            &["-t", "3"],
            &["-t", "4", "-b", "5"],
            &["-b", "1"],
            &["--isa", "reference", "-t", "1", "-b", "7"],
            &["--isa", "reference", "-t", "4"],
        ];
        for more in variants {
            let found = logits(&path, host, more);
            assert!(found == reference, "{}: {more:?} differs", model.name);
        }
        // Every QEMU has the first and the third.
        let variants = [["-t", "1", "-b", "7"], ["-t", "2", "-b", "64"]];
        let cores = CORES.into_iter().filter(|cpu| emulates(cpu));
        for (cpu, more) in cores.zip(variants.iter().cycle()) {
            let found = logits(&path, |arguments| run_arm64(cpu, arguments, b""), more);
            assert!(found == reference, "{}: {cpu} {more:?} differs", model.name);
        }
        let image = path.with_extension("rush");
        let packed = host(&["pack", text(&path), text(&image)]);
        assert_eq!(packed.code, 0, "{}", packed.stderr);
        let found = logits(&image, host, &[]);
        assert!(found == reference, "{}: packed differs", model.name);
    }
}

#[test]
fn every_cache_format_under_a_window_gives_the_same_bits_everywhere() {
    // Heads of whole blocks of 32, caps, and windows that start inside a block of eight.
    let model = MODELS.iter().find(|model| model.name == "gemma2");
    let path = file("cache", model.expect("a model"), Weights::Mixed);
    for format in ["f32", "q8_0"] {
        let cache = ["-ctk", format, "-ctv", format];
        let with = |more: &[&'static str]| [&cache[..], more].concat();
        let reference = logits(&path, host, &with(&["--isa", "reference", "-t", "1"]));
        assert!(logits(&path, host, &with(&["-t", "3", "-b", "5"])) == reference);
        let arm64 = |arguments: &[&str]| run_arm64("cortex-a53", arguments, b"");
        assert!(logits(&path, arm64, &with(&["-t", "2"])) == reference);
    }
}

/// Runs a model to which `more` was added, and says how that ended.
fn run(name: &str, of: &str, more: impl FnOnce(GgufWriter) -> GgufWriter) -> Output {
    let path = scratch(&format!("{name}.gguf"));
    let model = MODELS.iter().find(|model| model.name == of);
    let writer = model.expect("a model").build(Weights::Mixed);
    fs::write(&path, more(writer).finish()).expect("a scratch file");
    let ids = path.with_extension("ids");
    fs::write(&ids, "1 2 3").expect("a scratch file");
    let files = ["-m", text(&path), "--prompt-ids", text(&ids), "-n", "1"];
    run_host(&files, b"")
}

#[test]
fn what_an_architecture_does_not_have_is_refused_by_name() {
    type More = fn(GgufWriter) -> GgufWriter;
    let cases: [(&str, &str, More, &str); 7] = [
        (
            "bias",
            "qwen3",
            |file| file.tensor("blk.0.attn_q.bias", &[8], 0, &[0; 32]),
            "blk.0.attn_q.bias is no part of the qwen3 models",
        ),
        (
            "norm",
            "qwen2",
            |file| file.tensor("blk.0.attn_q_norm.weight", &[8], 0, &[0; 32]),
            "blk.0.attn_q_norm.weight is no part of the qwen2 models",
        ),
        (
            "divisors",
            "qwen2",
            |file| file.tensor("rope_freqs.weight", &[8], 0, &[0; 32]),
            "rope_freqs.weight is no part of the qwen2 models",
        ),
        (
            "longrope",
            "qwen3",
            |file| file.string("qwen3.rope.scaling.type", "longrope"),
            r#"RoPE scaling \"longrope\" is not supported (none, linear, yarn are)"#,
        ),
        (
            "extrapolation",
            "qwen2-yarn",
            |file| file.f32("qwen2.rope.scaling.yarn_ext_factor", 0.5),
            "key qwen2.rope.scaling.yarn_ext_factor: 0.5",
        ),
        (
            "window",
            "smollm3",
            |file| file.u32("smollm3.attention.sliding_window", 8),
            "a sliding window in this architecture is not supported",
        ),
        (
            "cap",
            "llama-divisors",
            |file| file.f32("llama.attn_logit_softcapping", 50.0),
            "a cap of scores is not supported",
        ),
    ];
    for (name, of, more, words) in cases {
        let output = run(name, of, more);
        assert_eq!(output.code, 5, "{name}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{name}: {}", output.stderr);
    }
}

#[test]
fn architecture_that_is_not_supported_is_told_those_that_are() {
    let path = scratch("unknown.gguf");
    let file = GgufWriter::new().string("general.architecture", "mamba");
    fs::write(&path, file.finish()).expect("a scratch file");
    let output = run_host(&["-m", text(&path), "-p", "x"], b"");
    assert_eq!(output.code, 5, "{}", output.stderr);
    let words = r#"\"mamba\" is not supported (llama, smollm3, qwen2, qwen3, gemma2, gemma3 are)"#;
    assert!(output.stderr.contains(words), "{}", output.stderr);
}

#[test]
fn linear_scaling_is_read_under_its_old_name_and_without_its_type() {
    let model = MODELS.iter().find(|model| model.name == "qwen2");
    let with = |name: &str, more: fn(GgufWriter) -> GgufWriter| {
        let path = scratch(&format!("linear-{name}.gguf"));
        let writer = model.expect("a model").build(Weights::Mixed);
        fs::write(&path, more(writer).finish()).expect("a scratch file");
        logits(&path, host, &[])
    };
    let old = with("old", |file| file.f32("qwen2.rope.scale_linear", 4.0));
    let new = with("new", |file| file.f32("qwen2.rope.scaling.factor", 4.0));
    let off = with("off", |file| {
        file.f32("qwen2.rope.scaling.factor", 4.0)
            .string("qwen2.rope.scaling.type", "none")
    });
    assert!(old == new);
    assert!(off == with("plain", |file| file) && off != new);
}

#[test]
fn logit_that_is_infinite_is_not_hidden_by_its_cap() {
    let model = MODELS.iter().find(|model| model.name == "gemma2");
    let mut bytes = model.expect("a model").gguf(Weights::Mixed);
    let gguf = Gguf::check(&bytes).expect("a model");
    let embedding = gguf
        .tensor("token_embd.weight")
        .expect("the tensor is there");
    assert_eq!(embedding.kind.name, "Q8_0");
    // The scale of the first block of the first row, a token that the prompt does not have.
    let at = gguf.file_offset(&embedding) as usize;
    bytes[at..at + 2].copy_from_slice(&0x7c00u16.to_le_bytes());
    let path = scratch("infinite.gguf");
    fs::write(&path, bytes).expect("a scratch file");
    let ids = path.with_extension("ids");
    fs::write(&ids, "1 2 3").expect("a scratch file");
    let output = host(&["-m", text(&path), "--prompt-ids", text(&ids), "-n", "1"]);
    assert_eq!(output.code, 9, "{}", output.stderr);
}

/// The bytes of a model with one name in its header made another of the same length.
fn renamed(model: &str, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let model = MODELS.iter().find(|known| known.name == model);
    let mut bytes = model.expect("a model").gguf(Weights::Mixed);
    let at = bytes
        .windows(from.len())
        .position(|part| part == from.as_bytes());
    let at = at.expect("the name is there");
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    bytes
}

#[test]
fn tensor_that_an_architecture_needs_is_missed_by_name() {
    let cases = [
        ("qwen2", "blk.1.attn_v.bias", "blk.1.attn_x.bias"),
        (
            "qwen3",
            "blk.2.attn_k_norm.weight",
            "blk.2.attn_x_norm.weight",
        ),
        (
            "gemma2",
            "blk.0.post_ffw_norm.weight",
            "blk.0.post_xxx_norm.weight",
        ),
    ];
    for (model, from, to) in cases {
        let path = scratch(&format!("missing-{model}.gguf"));
        fs::write(&path, renamed(model, from, to)).expect("a scratch file");
        let output = run_host(&["-m", text(&path), "-p", "x", "--raw"], b"");
        assert_eq!(output.code, 5, "{}", output.stderr);
        let words = format!("tensor {from} is missing");
        assert!(output.stderr.contains(&words), "{}", output.stderr);
    }
}
