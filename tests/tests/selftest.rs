//! `rushlight selftest`: right machines and files pass, on every machine the same; what is changed is
//! found, with the code of what it is.

use kernels_asm::features::Isa;
use runtime::image::{Image, VERSION};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tests::targets::seal;
use tests::{CORES, Output, emulates, mixed_model, run_arm64, run_host};
use xxhash_rust::xxh64::xxh64;

/// Where an image has the checksum of its golden logits.
const GOLDEN_AT: usize = 48;

fn scratch(name: &str, contents: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("selftest-{name}"));
    fs::write(&path, contents).expect("a scratch file");
    path.to_str().expect("UTF-8").to_owned()
}

fn selftest(more: &[&str]) -> Output {
    run_host(&[&["selftest"], more].concat(), b"")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("a report")
}

/// A small model in all formats as a GGUF file, and what `pack` makes of it.
fn packed(name: &str, gguf: &[u8], more: &[&str]) -> (String, String, Output) {
    let gguf = scratch(&format!("{name}.gguf"), gguf);
    let image = scratch(&format!("{name}.rush"), b"");
    let output = run_host(&[&["pack", &gguf, &image], more].concat(), b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    (gguf, image, output)
}

/// The checksum that a report has, if the logits were right.
fn checksum(output: &Output) -> &str {
    assert_eq!(output.code, 0, "{}{}", stdout(output), output.stderr);
    let report = stdout(output);
    assert!(report.ends_with("all is as it must be\n"), "{report}");
    let golden = report
        .lines()
        .find_map(|line| line.strip_prefix("golden logits"));
    let golden = golden.expect("a line of the logits").trim_start();
    let checksum = golden.strip_prefix("ok, checksum ").expect(golden);
    &checksum[..16]
}

/// The error line of a test that fails.
fn failure(output: &Output, code: i32) -> &str {
    assert_eq!(output.code, code, "{}{}", stdout(output), output.stderr);
    assert!(!stdout(output).contains("all is as"), "{}", stdout(output));
    let lines = output.stderr.lines();
    let errors: Vec<_> = lines
        .filter(|line| line.starts_with("rushlight error "))
        .collect();
    let [error] = errors[..] else {
        panic!("{}", output.stderr)
    };
    error
}

#[test]
fn every_kernel_that_this_cpu_can_run_is_tested_within_a_second() {
    let kernels = run_host(&["kernels"], b"");
    let usable = stdout(&kernels).lines().filter(|line| {
        let state = line.split_whitespace().last();
        matches!(state, Some("chosen" | "usable"))
    });
    let usable: Vec<_> = usable.filter_map(|line| line.split(' ').next()).collect();
    let began = Instant::now();
    let output = selftest(&[]);
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let report = stdout(&output);
    let ok: Vec<_> = report
        .lines()
        .filter_map(|line| line.strip_suffix(" ok"))
        .map(str::trim_end)
        .collect();
    assert_eq!(ok[..usable.len()], usable);
    let all = usable.len();
    let summary = format!("\n{all} of {all} kernels ok\nall is as it must be\n");
    assert!(report.ends_with(&summary), "{report}");
}

#[test]
fn tier_is_tested_alone_with_those_below_it() {
    let mut before = 17; // sixteen formats, and the float operations
    for isa in Isa::ALL {
        let output = selftest(&["--isa", isa.name()]);
        if !tests::detected_features().has(isa.needs()) {
            assert_eq!(output.code, 3, "{}", output.stderr);
            continue;
        }
        let report = stdout(&output);
        assert_eq!(output.code, 0, "{}: {report}", isa.name());
        let kernels = report.lines().count() - 2;
        assert!(kernels >= before, "{report}");
        before = kernels;
    }
}

#[test]
fn emulated_arm_cores_compute_what_they_must_and_what_this_machine_packed() {
    let (_, image, _) = packed("arm", &mixed_model::gguf(5), &[]);
    let here = selftest(&["-m", &image]);
    let known: Vec<_> = CORES.into_iter().filter(|cpu| emulates(cpu)).collect();
    assert!(known.len() >= 2, "run `cargo xtask setup`");
    for cpu in known {
        let there = run_arm64(cpu, &["selftest", "-m", &image, "-t", "3"], b"");
        assert_eq!(checksum(&there), checksum(&here), "{cpu}");
        assert!(stdout(&there).contains("gemv_q4_k_neon"), "{cpu}");
    }
}

#[test]
fn file_and_image_have_the_checksum_that_pack_tells_whatever_packs() {
    let model = mixed_model::gguf(6);
    let (gguf, image, log) = packed("same", &model, &[]);
    let told = log.stderr.trim_end().rsplit_once(" golden=");
    let (_, golden) = told.expect("what was packed");
    assert_eq!(golden.len(), 16);
    let of_image = selftest(&["-m", &image]);
    assert_eq!(checksum(&of_image), golden);
    assert!(stdout(&of_image).contains("as in the image"));
    for more in [
        &[][..],
        &["--isa", "reference"],
        &["-t", "1", "-c", "64", "-ctk", "q8_0"],
    ] {
        let of_file = selftest(&[&["-m", &gguf], more].concat());
        assert_eq!(checksum(&of_file), golden, "{more:?}");
        assert!(stdout(&of_file).contains("by the reference kernels"));
    }
    let (_, other, _) = packed("same-reference", &model, &["--isa", "reference", "-t", "1"]);
    assert!(fs::read(&image).expect("an image") == fs::read(other).expect("an image"));
    let bytes = fs::read(&image).expect("an image");
    let golden = u64::from_str_radix(golden, 16).expect("a number");
    let checked = Image::check(&bytes).expect("it is whole");
    assert_eq!((checked.golden(), VERSION), (Some(golden), 1));
}

#[test]
fn checksum_is_that_of_the_logits_that_a_run_has_after_these_tokens() {
    let (gguf, ..) = packed("logits", &mixed_model::gguf(12), &[]);
    let ids: Vec<_> = (0..8).map(|index| (1 + 7919 * index) % 257).collect();
    let ids = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let (ids, logits) = (
        scratch("logits.ids", ids.as_bytes()),
        scratch("logits.f32", b""),
    );
    let files = ["-m", &gguf, "--prompt-ids", &ids, "--logits", &logits];
    let output = run_host(&[&files[..], &["-n", "0", "-b", "3"]].concat(), b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let logits = fs::read(logits).expect("eight rows");
    assert_eq!(logits.len(), 8 * 257 * 4);
    let found = selftest(&["-m", &gguf]);
    assert_eq!(checksum(&found), format!("{:016x}", xxh64(&logits, 0)));
}

#[test]
fn another_checksum_in_a_whole_header_is_code_10_with_both() {
    let (_, image, _) = packed("changed", &mixed_model::gguf(7), &[]);
    let right = selftest(&["-m", &image]);
    let mut bytes = fs::read(&image).expect("an image");
    bytes[GOLDEN_AT..GOLDEN_AT + 8].copy_from_slice(&0xfeed_u64.to_le_bytes());
    seal(&mut bytes);
    let output = selftest(&["-m", &scratch("changed-2.rush", &bytes)]);
    let words = format!(
        "golden logits: checksum {} here, 000000000000feed in the image",
        checksum(&right)
    );
    let error = failure(&output, 10);
    assert!(error.contains(&words), "{error}");
    assert!(error.ends_with(" code=10 finish=error"), "{error}");
    assert!(stdout(&output).contains("golden logits                        differ: "));
}

#[test]
fn changed_weight_is_code_5_by_its_hash_and_code_10_by_its_logits_if_the_hash_is_changed_too() {
    let (_, image, _) = packed("weight", &mixed_model::gguf(8), &[]);
    let mut bytes = fs::read(&image).expect("an image");
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes")) as usize
    };
    // A matrix of a layer: the embedding comes first, and few of its rows are used.
    let entries = (64..).step_by(32);
    let mut matrices = entries.filter(|&entry| word(&bytes, entry + 16) > 1 << 14);
    let entry = matrices.nth(1).expect("a matrix");
    let (at, len) = (word(&bytes, entry + 8), word(&bytes, entry + 16));
    bytes[at + len / 2] ^= 0x40;
    let output = selftest(&["-m", &scratch("weight-2.rush", &bytes)]);
    let error = failure(&output, 5);
    assert!(error.contains("the checksum of tensor"), "{error}");
    let hash = xxh64(&bytes[at..at + len], 0);
    bytes[entry + 24..entry + 32].copy_from_slice(&hash.to_le_bytes());
    seal(&mut bytes);
    let output = selftest(&["-m", &scratch("weight-2.rush", &bytes)]);
    let error = failure(&output, 10);
    assert!(error.contains("golden logits: "), "{error}");
}

#[test]
fn image_without_golden_logits_is_tested_as_a_gguf_file_is() {
    let (_, image, _) = packed("none", &mixed_model::gguf(9), &[]);
    let with = selftest(&["-m", &image]);
    let mut bytes = fs::read(&image).expect("an image");
    bytes[GOLDEN_AT..GOLDEN_AT + 8].fill(0);
    seal(&mut bytes);
    let without = selftest(&["-m", &scratch("none-2.rush", &bytes)]);
    assert_eq!(checksum(&without), checksum(&with));
    assert!(stdout(&without).contains("by the reference kernels"));
}

#[test]
fn model_whose_logits_are_no_numbers_is_packed_with_a_warning_and_fails_with_code_9() {
    let mut bytes = mixed_model::gguf(10);
    // The scale of the last block of the output matrix; 14 bytes of padding follow.
    let scale = bytes.len() - 16;
    bytes[scale..scale + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    let (_, image, log) = packed("nan", &bytes, &[]);
    assert!(
        log.stderr.contains("rushlight warning message="),
        "{}",
        log.stderr
    );
    assert!(log.stderr.contains(" golden=none\n"), "{}", log.stderr);
    let error = selftest(&["-m", &image]);
    let error = failure(&error, 9);
    assert!(error.contains("output.weight"), "{error}");
}

#[test]
fn file_that_is_no_model_fails_after_the_kernels_with_its_own_code() {
    let output = selftest(&["-m", &scratch("none.gguf", b"no model")]);
    failure(&output, 5);
    assert!(stdout(&output).contains(" kernels ok\n"));
    failure(&selftest(&["-m", "/no/such/file"]), 4);
    let (gguf, ..) = packed("budget", &mixed_model::gguf(11), &[]);
    failure(&selftest(&["-m", &gguf, "--budget", "64K"]), 6);
}
