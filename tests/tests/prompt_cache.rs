//! `--prompt-cache`: runs with it give the same text and the same logits as runs without, and a file
//! that is of no use harms nothing.

use runtime::gguf::Gguf;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tests::{HOST, Output, emulates, mixed_model, run_arm64, run_host};
use xxhash_rust::xxh64::xxh64;

/// Tokens of a prompt: more than two steps, and no multiple of eight.
const PROMPT: usize = 150;

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("prompt-cache-{name}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn model(name: &str, seed: u32) -> PathBuf {
    let path = scratch(name).with_extension("gguf");
    fs::write(&path, mixed_model::gguf(seed.into())).expect("a scratch file");
    path
}

/// A file of `count` ids, of which those from `changed` on are others.
fn prompt(name: &str, count: usize, changed: usize) -> PathBuf {
    let path = scratch(name).with_extension("ids");
    let id = |at: usize| 3 + (at * 7 + usize::from(at >= changed)) % 200;
    let ids: Vec<_> = (0..count).map(|at| id(at).to_string()).collect();
    fs::write(&path, ids.join(" ")).expect("a scratch file");
    path
}

/// No file of that name.
fn absent(name: &str) -> PathBuf {
    let path = scratch(name).with_extension("kv");
    let _ = fs::remove_file(&path); // of an earlier run
    path
}

fn arguments<'a>(model: &'a Path, ids: &'a Path, logits: &'a Path) -> Vec<&'a str> {
    let (model, ids, logits) = (text(model), text(ids), text(logits));
    let fixed = ["-n", "6", "--ids", "--ignore-eos"];
    let mut all = vec!["-m", model, "--prompt-ids", ids, "--logits", logits];
    all.extend(fixed);
    all
}

/// A run's output, and its logits.
fn run(model: &Path, ids: &Path, more: &[&str]) -> (Output, Vec<u8>) {
    let logits = scratch(&format!("{}.logits", ids.file_stem().unwrap().display()));
    let mut all = arguments(model, ids, &logits);
    all.extend(more);
    let output = run_host(&all, b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    (output, fs::read(logits).expect("they were written"))
}

/// A field of an event.
fn field(output: &Output, event: &str, name: &str) -> Option<usize> {
    let mut lines = output.stderr.lines();
    let line = lines.find(|line| line.starts_with(&format!("rushlight {event} ")))?;
    let mut fields = line.split(' ');
    fields
        .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        .map(|number| number.parse().expect("a number"))
}

/// Runs with a file, and compares with a run without; returns the tokens that came from the file.
fn assert_same(model: &Path, ids: &Path, cache: &Path, more: &[&str]) -> usize {
    let (plain, all) = run(model, ids, more);
    let with = [more, &["--prompt-cache", text(cache)]].concat();
    let (cached, last) = run(model, ids, &with);
    assert_eq!(plain.stdout, cached.stdout, "{more:?}");
    let taken = field(&cached, "prompt_cache", "tokens").expect("it is read");
    let row = all.len() / (field(&plain, "end", "prefill_tokens").unwrap() + 5);
    assert!(last == all[taken * row..], "{more:?}");
    let prefilled = field(&plain, "end", "prefill_tokens").map(|all| all - taken);
    assert_eq!(field(&cached, "end", "prefill_tokens"), prefilled);
    taken
}

#[test]
fn runs_from_a_file_have_the_same_logits() {
    let model = model("same", 1);
    let whole = prompt("whole", PROMPT, PROMPT);
    let longer = prompt("longer", PROMPT + 30, PROMPT);
    let shorter = prompt("shorter", 61, 61);
    let other = prompt("other", PROMPT, 93);
    let foreign = prompt("foreign", PROMPT, 0);
    for format in ["f32", "f16", "q8_0"] {
        let cache = absent(&format!("same-{format}"));
        let formats = ["-ctk", format, "-ctv", format];
        let taken =
            |ids, more: &[&str]| assert_same(&model, ids, &cache, &[&formats[..], more].concat());
        assert_eq!(taken(&whole, &["-c", "200"]), 0);
        assert_eq!(taken(&whole, &[]), PROMPT - 1);
        assert_eq!(
            taken(&whole, &["-c", "161", "-t", "1", "-b", "7"]),
            PROMPT - 1
        );
        assert_eq!(taken(&longer, &["--isa", "reference"]), PROMPT);
        // A context that has no room for all that the file has.
        assert_eq!(taken(&shorter, &["-c", "72"]), 60);
        assert_eq!(taken(&other, &["--prompt-cache-ro"]), 93);
        assert_eq!(taken(&foreign, &["--prompt-cache-ro"]), 0);
        assert_eq!(taken(&whole, &[]), PROMPT - 1); // none of these replaced it
        assert_eq!(taken(&foreign, &[]), 0);
        assert_eq!(taken(&foreign, &[]), PROMPT - 1); // this one did
    }
}

#[test]
fn keys_and_values_may_differ_in_format() {
    let (model, whole) = (model("differ", 2), prompt("differ", PROMPT, PROMPT));
    let cache = absent("differ");
    let formats = ["-ctk", "q8_0", "-ctv", "f32"];
    assert_eq!(assert_same(&model, &whole, &cache, &formats), 0);
    assert_eq!(assert_same(&model, &whole, &cache, &formats), PROMPT - 1);
}

#[test]
fn a_file_goes_from_machine_to_machine_and_from_gguf_to_image() {
    let model = model("travels", 3);
    let (whole, cache) = (prompt("travels", PROMPT, PROMPT), absent("travels"));
    let image = scratch("travels.rush");
    let packed = run_host(&["pack", text(&model), text(&image)], b"");
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    assert_eq!(assert_same(&model, &whole, &cache, &[]), 0);
    assert_eq!(assert_same(&image, &whole, &cache, &[]), PROMPT - 1);
    if !emulates("cortex-a55") {
        return;
    }
    let logits = scratch("arm.logits");
    let mut there = arguments(&model, &whole, &logits);
    there.extend(["--prompt-cache", text(&cache), "-t", "1"]);
    let output = run_arm64("cortex-a55", &there, b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(field(&output, "prompt_cache", "tokens"), Some(PROMPT - 1));
    let (plain, all) = run(&model, &whole, &[]);
    assert_eq!(output.stdout, plain.stdout);
    assert!(all.ends_with(&fs::read(logits).expect("they were written")));
}

#[test]
fn a_file_is_kept_unless_a_quarter_of_the_prompt_is_new() {
    let (model, cache) = (model("kept", 4), absent("kept"));
    let inode = || fs::metadata(&cache).expect("it is there").ino();
    run(
        &model,
        &prompt("kept", 100, 100),
        &["--prompt-cache", text(&cache), "-n", "0"],
    );
    let first = inode();
    let mut last = 0;
    for (count, is_kept) in [(101, true), (133, true), (134, false)] {
        let ids = prompt("kept", count, 100);
        last = assert_same(&model, &ids, &cache, &[]);
        assert_eq!(inode() == first, is_kept, "{count}");
    }
    assert_eq!(last, 100);
    assert!(!Path::new(&format!("{}.partial", text(&cache))).exists());
}

/// Makes the checksum of a file right.
fn seal(file: &mut [u8]) {
    let at = file.len() - 8;
    let sum = xxh64(&file[..at], 0);
    file[at..].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn what_is_of_no_use_is_told_and_replaced() {
    let (model, ids, cache) = (
        model("use", 5),
        prompt("use", PROMPT, PROMPT),
        absent("use"),
    );
    let (plain, _) = run(&model, &ids, &[]);
    let with = ["--prompt-cache", text(&cache)];
    run(&model, &ids, &with);
    let good = fs::read(&cache).expect("it is there");
    let another = {
        let path = self::model("another", 6);
        let cache = absent("another");
        run(&path, &ids, &["--prompt-cache", text(&cache)]);
        fs::read(cache).expect("it is there")
    };
    assert_ne!(another[16..24], good[16..24]);
    let changed = |at: usize, value: u8| {
        let mut file = good.clone();
        assert_ne!(file[at], value);
        file[at] = value;
        file
    };
    let sealed = |mut file: Vec<u8>| {
        seal(&mut file);
        file
    };
    assert_eq!(sealed(good.clone()), good);
    let mut cases = vec![
        (sealed(changed(8, 2)), "another version"),
        (sealed(changed(11, 1)), "another version"),
        (sealed(changed(12, 0)), "another -ctk or -ctv"),
        (sealed(changed(13, 9)), "another -ctk or -ctv"),
        (sealed(changed(14, 1)), "checksum"),
        (sealed(changed(20, good[20] ^ 1)), "another model"),
        (another, "another model"),
        (
            sealed(changed(24, 1 + PROMPT as u8)),
            "as long as it should",
        ),
        (sealed(changed(27, 0xff)), "as long as it should"),
        (changed(36, 77), "checksum"), // of which the first token is still that of the prompt
        (
            changed(good.len() / 2, good[good.len() / 2] ^ 0x80),
            "checksum",
        ),
        (
            changed(good.len() - 1, good[good.len() - 1] ^ 1),
            "checksum",
        ),
        ([&good[..], b"more"].concat(), "as long as it should"),
        (good[..good.len() - 1].to_vec(), "as long as it should"),
        (good[..31].to_vec(), "as long as it should"),
        (good[..8].to_vec(), "as long as it should"),
    ];
    // Numbers that are none, in every place: none stays behind.
    let mut nans = good.clone();
    nans[32 + 4 * PROMPT..].fill(0xff);
    cases.push((nans, "checksum"));
    for (number, (file, words)) in cases.iter().enumerate() {
        fs::write(&cache, file).expect("a scratch file");
        let (output, _) = run(&model, &ids, &with);
        let warning = output
            .stderr
            .lines()
            .find(|line| line.contains(" warning "));
        let warning = warning.unwrap_or_else(|| panic!("{number}: {}", output.stderr));
        assert!(warning.contains("prompt cache is not used: "), "{warning}");
        assert!(warning.contains(words), "{number}: {warning}");
        assert_eq!(output.stdout, plain.stdout, "{number}");
        assert!(fs::read(&cache).expect("it is there") == good, "{number}");
    }
}

#[test]
fn model_that_differs_in_one_place_is_another() {
    let (model, ids, cache) = (model("place", 5), prompt("place", 20, 20), absent("place"));
    run(&model, &ids, &["--prompt-cache", text(&cache)]);
    let bytes = fs::read(&model).expect("it is there");
    let gguf = Gguf::check(&bytes).expect("it is one");
    for (name, is_last) in [
        ("blk.0.attn_norm.weight", false),
        ("output_norm.weight", true),
        ("token_embd.weight", false),
        ("token_embd.weight", true),
        ("blk.1.attn_k.weight", true),
    ] {
        let tensor = gguf.tensor(name).expect("a tensor");
        let offset = gguf.file_offset(&tensor) as usize;
        let mut other = bytes.clone();
        let at = match is_last {
            true => offset + tensor.bytes as usize - 1,
            false => offset,
        };
        other[at] ^= 1;
        let path = scratch("place-2.gguf");
        fs::write(&path, other).expect("a scratch file");
        let with = ["--prompt-cache", text(&cache), "--prompt-cache-ro"];
        let (output, _) = run(&path, &ids, &with);
        assert!(
            output.stderr.contains("another model"),
            "{name}: {}",
            output.stderr
        );
    }
}

#[test]
fn reading_a_file_of_any_length_ends_by_a_signal() {
    let (model, ids, cache) = (model("long", 5), prompt("long", 16, 16), absent("long"));
    run(&model, &ids, &["--prompt-cache", text(&cache)]);
    let good = fs::read(&cache).expect("it is there");
    // The same first tokens, and behind them so many that are 0, in a file that takes no room.
    let tokens: u32 = 1 << 26;
    let eight = (good.len() - 40 - 4 * 16) as u64 / 2;
    let mut file = good[..32 + 4 * 16].to_vec();
    file[24..28].copy_from_slice(&tokens.to_le_bytes());
    fs::write(&cache, file).expect("a scratch file");
    let size = 40 + 4 * u64::from(tokens) + eight * u64::from(tokens / 8);
    let long = fs::File::options().write(true).open(&cache);
    long.and_then(|file| file.set_len(size))
        .expect("a file with a hole");
    let logits = scratch("long.logits");
    let mut child = Command::new(HOST.linked())
        .args(arguments(&model, &ids, &logits))
        .args(["--prompt-cache-ro", "--prompt-cache", text(&cache), "-q"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    thread::sleep(Duration::from_millis(500));
    assert!(
        child.try_wait().expect("a child").is_none(),
        "it ended by itself"
    );
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).expect("it is there");
    let began = Instant::now();
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
    assert!(began.elapsed() < Duration::from_secs(3));
    fs::remove_file(&cache).expect("a file");
}

#[test]
fn what_is_no_prompt_cache_is_refused_and_left() {
    let (model, ids) = (model("left", 7), prompt("left", 9, 9));
    let logits = scratch("left.logits");
    let refused = |cache: &str, code: i32, words: &str| {
        let mut all = arguments(&model, &ids, &logits);
        all.extend(["--prompt-cache", cache]);
        let output = run_host(&all, b"");
        assert_eq!(output.code, code, "{cache}: {}", output.stderr);
        assert!(output.stdout.is_empty());
        assert!(output.stderr.contains(words), "{}", output.stderr);
    };
    let before = fs::read(&model).expect("it is there");
    refused(text(&model), 5, "no prompt cache, and left as it is");
    assert!(fs::read(&model).expect("still") == before);
    let short = scratch("short");
    fs::write(&short, "RUSHKV").expect("a scratch file");
    refused(text(&short), 5, "no prompt cache");
    refused("/", 4, "neither a file");
    refused("/proc/version/kv", 4, "Not a directory");

    let mut both = arguments(&model, &ids, &logits);
    both.extend(["--prompt-cache", "x", "--sandbox"]);
    let output = run_host(&both, b"");
    assert_eq!(output.code, 2, "{}", output.stderr);
    let console = ["-m", text(&model), "--console", "-", "--prompt-cache", "x"];
    assert_eq!(run_host(&console, b"").code, 2);

    // An answer is not lost for want of a place for its file; an empty file is a reserved name.
    let (output, _) = run(&model, &ids, &["--prompt-cache", "/no/such/folder/kv"]);
    assert!(
        output.stderr.contains("prompt cache is not written"),
        "{}",
        output.stderr
    );
    let reserved = scratch("reserved");
    fs::write(&reserved, "").expect("a scratch file");
    assert_eq!(assert_same(&model, &ids, &reserved, &[]), 0);
    let inside = ["--prompt-cache-ro", "--sandbox"];
    assert_eq!(assert_same(&model, &ids, &reserved, &inside), 8);
}
