//! Model files that are made to harm, by the whole program: each is refused with the code of what
//! is wrong, one line that names it, within a second, and within 32 MiB more of address space than
//! the program takes to say its version and reserves for a prompt. What is wrong inside a header, in every variety, is in
//! `gguf.rs`, `vocabulary.rs`, `chat.rs` and `packed_image.rs`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::gguf_writer::GgufWriter;
use tests::seeded_model::{MODELS, Weights};
use tests::{HOST, mixed_model};

/// Bytes of address space that `rushlight --version` has enough with.
const BASE: usize = 4 << 20;
/// What a prompt may fill. A page of it becomes memory when text is put there.
const PROMPT: usize = 64 << 20;
const ADDRESS_SPACE: usize = BASE + PROMPT + (32 << 20);
const PATIENCE: Duration = Duration::from_secs(1);

/// Numbers of value types (GGUF specification, `gguf_metadata_value_type`).
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const U64: u32 = 10;
const F64: u32 = 12;

fn scratch(name: &str, contents: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{name}"));
    fs::write(&path, contents).expect("a scratch file");
    path.to_str().expect("UTF-8").to_owned()
}

/// The end of a run under the limits: its code and its log.
fn limited(name: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let began = Instant::now();
    let output = Command::new("prlimit")
        .arg(format!("--as={ADDRESS_SPACE}"))
        .arg(HOST.linked())
        .args(arguments)
        .output()
        .expect("util-linux has prlimit");
    let took = began.elapsed();
    assert!(took < PATIENCE, "{name}: {took:?}");
    assert!(output.stdout.is_empty(), "{name}: {:?}", output.stdout);
    let log = String::from_utf8(output.stderr).expect("logs are UTF-8");
    assert!(
        !log.contains(|c: char| c.is_control() && c != '\n'),
        "{name}: {log:?}"
    );
    (output.status.code(), log)
}

fn assert_refused(name: &str, path: &str, code: i32, words: &str) {
    let (found, log) = limited(name, &["-m", path, "-p", "x", "-n", "1", "-t", "1"]);
    assert_eq!(found, Some(code), "{name}: {log}");
    let errors: Vec<_> = log
        .lines()
        .filter(|line| line.starts_with("rushlight error "))
        .collect();
    let [error] = errors[..] else {
        panic!("{name}: {log}")
    };
    assert!(error.contains(words), "{name}: {error}");
    assert!(
        error.ends_with(&format!(" code={code} finish=error")),
        "{name}: {error}"
    );
}

#[test]
fn version_is_said_in_the_base() {
    let output = Command::new("prlimit")
        .arg(format!("--as={BASE}"))
        .arg(HOST.linked())
        .arg("--version")
        .output()
        .expect("util-linux has prlimit");
    assert!(output.status.success());
}

/// Where `part` first is in `file`.
fn find(file: &[u8], part: &[u8]) -> usize {
    let mut windows = file.windows(part.len());
    windows
        .position(|window| window == part)
        .expect("it is there")
}

/// A right model in which `key` has this value instead.
fn with_value(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    let mut file = mixed_model::gguf_with(1, |file| file.raw(key, kind, value));
    let at = find(&file, key.as_bytes());
    file[at + key.len() - 1] = b'#'; // the one that was there has another name now
    file
}

fn with_number(key: &str, number: u32) -> Vec<u8> {
    with_value(key, U32, &number.to_le_bytes())
}

fn with_float(key: &str, number: f32) -> Vec<u8> {
    with_value(key, F32, &number.to_le_bytes())
}

/// A right model in which the first `from` reads `to`.
fn renamed(from: &str, to: &str) -> Vec<u8> {
    let mut file = mixed_model::gguf(1);
    let at = find(&file, from.as_bytes());
    file[at..at + from.len()].copy_from_slice(to.as_bytes());
    file
}

/// The front of a gemma2 that scales its scores by `width / heads`, which is less than one.
fn heads_beyond_the_width() -> Vec<u8> {
    let shape = [
        ("block_count", 46),
        ("embedding_length", 32),
        ("attention.head_count", 64),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 16),
    ];
    let file = GgufWriter::new().string("general.architecture", "gemma2");
    let add = |file: GgufWriter, (key, number)| file.u32(&format!("gemma2.{key}"), number);
    shape.into_iter().fold(file, add).finish()
}

#[test]
fn numbers_that_make_no_model_are_refused() {
    let heads = "llama.attention.head_count";
    let kv_heads = "llama.attention.head_count_kv";
    let epsilon = "llama.attention.layer_norm_rms_epsilon";
    let base =
        |value: f32| mixed_model::gguf_with(1, |file| file.f32("llama.rope.freq_base", value));
    let rotated = |count: u32| {
        mixed_model::gguf_with(1, |file| file.u32("llama.rope.dimension_count", count))
    };
    let cases = [
        ("block_count", with_number("llama.block_count", 0)),
        ("block_count", with_number("llama.block_count", 513)),
        ("block_count", with_number("llama.block_count", u32::MAX)),
        ("embedding_length", with_number("llama.embedding_length", 0)),
        (
            "embedding_length",
            with_number("llama.embedding_length", u32::MAX),
        ),
        ("head_count", with_number("llama.embedding_length", 255)),
        (
            "feed_forward_length",
            with_number("llama.feed_forward_length", 0),
        ),
        (
            "feed_forward_length",
            with_number("llama.feed_forward_length", 1 << 31),
        ),
        ("head_count", with_number(heads, 0)),
        ("head_count_kv", with_number(heads, 3)), // there are 2
        ("key_length", with_number(heads, 256)),
        ("head_count_kv", with_number(kv_heads, 0)),
        ("head_count_kv", with_number(kv_heads, 3)),
        ("head_count_kv", with_number(kv_heads, u32::MAX)),
        ("context_length", with_number("llama.context_length", 0)),
        ("layer_norm_rms_epsilon", with_float(epsilon, 0.0)),
        ("layer_norm_rms_epsilon", with_float(epsilon, -1e-5)),
        ("layer_norm_rms_epsilon", with_float(epsilon, f32::NAN)),
        ("layer_norm_rms_epsilon", with_float(epsilon, f32::INFINITY)),
        ("freq_base", base(0.0)),
        ("freq_base", base(-1.0)),
        ("freq_base", base(f32::NAN)),
        (
            "attn_factor",
            mixed_model::gguf_with(1, |file| file.f32("llama.rope.scaling.attn_factor", 3e38)),
        ),
        ("attention.head_count", heads_beyond_the_width()),
        ("dimension_count", rotated(63)),
        ("dimension_count", rotated(0)),
    ];
    for (number, (key, file)) in cases.iter().enumerate() {
        let name = format!("number-{number}");
        assert_refused(&name, &scratch(&name, file), 5, &format!("{key}: "));
    }
}

#[test]
fn keys_of_other_types_are_refused_by_name_or_taken_where_they_fit() {
    let text = [&3u64.to_le_bytes()[..], b"two"].concat();
    let array = [
        &U32.to_le_bytes()[..],
        &1u64.to_le_bytes(),
        &3u32.to_le_bytes(),
    ]
    .concat();
    let key = "llama.block_count";
    for (name, kind, value) in [
        ("float", F32, &3f32.to_le_bytes()[..]),
        ("double", F64, &3f64.to_le_bytes()),
        ("text", STRING, &text),
        ("array", ARRAY, &array),
        ("large", U64, &(1u64 << 32 | 3).to_le_bytes()),
        ("negative", I32, &(-3i32).to_le_bytes()),
    ] {
        let file = with_value(key, kind, value);
        assert_refused(name, &scratch(&format!("type-{name}"), &file), 5, key);
    }
    for (name, kind, value) in [
        ("u64", U64, &3u64.to_le_bytes()[..]),
        ("i32", I32, &3i32.to_le_bytes()),
    ] {
        let path = scratch(&format!("type-{name}"), &with_value(key, kind, value));
        let output = tests::run_host(&["-m", &path, "-p", "x", "-n", "1", "--raw"], b"");
        assert_eq!(output.code, 0, "{name}: {}", output.stderr);
    }
}

#[test]
fn context_length_of_a_file_sizes_nothing() {
    let path = scratch("context", &with_number("llama.context_length", u32::MAX));
    let output = tests::run_host(&["-m", &path, "-p", "x", "-n", "1", "--raw"], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(
        output.stderr.contains(" context=2048 "),
        "{}",
        output.stderr
    );
}

#[test]
fn models_that_are_not_whole_are_refused() {
    let model = mixed_model::gguf(1);
    let extended = |more: fn(GgufWriter) -> GgufWriter| mixed_model::gguf_with(1, more);
    let cases = [
        (
            "no-architecture",
            renamed("general.architecture", "general.architectur_"),
            "general.architecture is missing",
        ),
        (
            "architecture",
            with_value(
                "general.architecture",
                STRING,
                &[&4u64.to_le_bytes()[..], b"gpt9"].concat(),
            ),
            "gpt9",
        ),
        (
            "no-tensor",
            renamed("blk.1.ffn_up.weight", "blk.1.ffn_yp.weight"),
            "blk.1.ffn_",
        ),
        (
            "rows",
            GgufWriter::new()
                .string("general.architecture", "llama")
                .u32("llama.block_count", 1)
                .u32("llama.context_length", 256)
                .u32("llama.embedding_length", 32)
                .u32("llama.feed_forward_length", 32)
                .u32("llama.attention.head_count", 1)
                .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
                .tensor(
                    "token_embd.weight",
                    &[1, (1 << 20) + 1],
                    0,
                    &vec![0; 4 * ((1 << 20) + 1)],
                )
                .finish(),
            "tensor token_embd.weight has 1048577 rows, at most 1048576",
        ),
        (
            "no-embedding",
            renamed("token_embd.weight", "token_embe.weight"),
            "token_embd.weight",
        ),
        (
            "shape",
            with_number("llama.feed_forward_length", 256),
            "the metadata asks for",
        ),
        ("layers", with_number("llama.block_count", 2), "blk.2."),
        ("more-layers", with_number("llama.block_count", 4), "blk.3."),
        (
            "experts",
            extended(|file| file.u32("llama.expert_count", 8)),
            "mixture of experts",
        ),
        (
            "shard",
            extended(|file| file.u32("split.count", 3)),
            "split over several files",
        ),
        ("half", model[..model.len() / 2].to_vec(), "truncated"),
        ("last-byte", model[..model.len() - 33].to_vec(), "truncated"),
        (
            "page",
            b"<!DOCTYPE html><html>Not found</html>".to_vec(),
            "not a GGUF",
        ),
        (
            "pointer",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n".to_vec(),
            "git-lfs pointer",
        ),
        ("empty", vec![], "the file ends inside it"),
    ];
    for (name, file, words) in cases {
        assert_refused(name, &scratch(name, &file), 5, words);
    }
}

#[test]
fn other_spellings_of_a_tensors_name_are_refused() {
    // In front of the tensor whose place they would take, and of a shape that nobody has checked.
    let llama = |name: &str| mixed_model::gguf_with(1, |file| file.tensor(name, &[1], 0, &[0; 4]));
    let seeded = |model: &str, name: &str| {
        let model = MODELS.iter().find(|one| one.name == model);
        let file = model.expect("a model of that name").build(Weights::Mixed);
        file.tensor(name, &[1], 0, &[0; 4]).finish()
    };
    let of_llama = [
        "blk.00.attn_norm.weight",
        "blk.+0.attn_norm.weight",
        "blk.02.attn_q.weight",
        "blk.+2.ffn_down.weight",
    ];
    let of_others = [
        ("qwen2", "blk.00.attn_q.bias"),
        ("qwen3", "blk.+1.attn_q_norm.weight"),
        ("gemma3", "blk.001.post_ffw_norm.weight"),
    ];
    let cases = of_llama.map(|name| (name, llama(name)));
    let others = of_others.map(|(model, name)| (name, seeded(model, name)));
    for (number, (tensor, file)) in cases.into_iter().chain(others).enumerate() {
        let name = format!("spelling-{number}");
        let path = scratch(&name, &file);
        assert_refused(&name, &path, 5, &format!("tensor {tensor} is no part"));
        let image = format!("{path}.rush");
        let packed = tests::run_host(&["pack", &path, &image], b"");
        assert_eq!(packed.code, 5, "{tensor}: {}", packed.stderr);
        assert!(!fs::exists(format!("{image}.partial")).expect("a folder"));
    }
}

#[test]
fn divisors_of_frequencies_that_are_none_are_refused() {
    for (number, divisor) in [0.0, -1e-45, -2.0, f32::INFINITY, f32::NAN]
        .into_iter()
        .enumerate()
    {
        let mut divisors = [1f32; 32];
        divisors[31] = divisor;
        let bytes = divisors.map(f32::to_le_bytes).concat();
        let tensor = "rope_freqs.weight";
        let file = mixed_model::gguf_with(1, |file| file.tensor(tensor, &[32], 0, &bytes));
        let name = format!("divisor-{number}");
        assert_refused(
            &name,
            &scratch(&name, &file),
            5,
            &format!("tensor {tensor}: "),
        );
    }
}

#[test]
fn templates_that_are_no_known_family_say_what_to_do() {
    let nested = "{% if a %}".repeat(100_000);
    let long = "x{{ messages }}".repeat(1 << 16);
    let longer = "x{{ messages }}".repeat(1 << 20);
    for (name, template) in [
        (
            "unclosed",
            b"{% for message in messages %}{{ message".to_vec(),
        ),
        ("nested", nested.into_bytes()),
        ("long", long.into_bytes()),
        ("longer", longer.into_bytes()),
        (
            "bytes",
            vec![0xff, 0xfe, 0x00, b'{', b'{', 0x1b, b'[', b'2', b'J'],
        ),
    ] {
        let file =
            mixed_model::gguf_with(1, |file| file.string("tokenizer.chat_template", &template));
        assert_refused(
            name,
            &scratch(&format!("template-{name}"), &file),
            5,
            "--raw",
        );
    }
}

#[test]
fn what_is_no_file_is_refused_with_the_systems_words() {
    let fifo = format!("{}/hostile-fifo", env!("CARGO_TARGET_TMPDIR"));
    let _ = fs::remove_file(&fifo); // of an earlier run
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .expect("coreutils")
            .success()
    );
    for (name, path, words) in [
        ("folder", "/", "neither a file nor a block device"),
        ("pipe", &fifo, "neither a file nor a block device"),
        ("zeros", "/dev/zero", "neither a file nor a block device"),
        ("nowhere", "/no/such/file", "No such file"),
        ("empty", "", "No such file"),
        ("below-a-file", "/proc/version/model", "Not a directory"),
    ] {
        assert_refused(name, path, 4, words);
    }
}
