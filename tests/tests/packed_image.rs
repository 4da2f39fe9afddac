//! Packed images: the same text as from the GGUF file, the same bytes whoever packs, and a clear
//! no to whatever is not whole.

use kernels_asm::format::{LAYOUT, WeightFormat};
use kernels_asm::pack::pack_group;
use runtime::gguf::{HEADER_BYTES_MAX, TENSORS_MAX};
use runtime::image::{Image, ImageError, VERSION};
use rustix::fs::FlockOperation;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tests::targets::seal;
use tests::{Output, mixed_model, model, run_arm64, run_host, watched};
use xxhash_rust::xxh64::xxh64;

fn scratch(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("packed-{name}"));
    path.to_str().expect("UTF-8").to_owned()
}

fn write(name: &str, contents: &[u8]) -> String {
    let path = scratch(name);
    fs::write(&path, contents).expect("a scratch file");
    path
}

/// The small model as a GGUF file and as a packed image, both on disk.
fn mixed(name: &str) -> (String, String) {
    let gguf = write(&format!("{name}.gguf"), &mixed_model::gguf(3));
    let image = scratch(&format!("{name}.rush"));
    let output = run_host(&["pack", &gguf, &image], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    (gguf, image)
}

/// Arguments of a short run on ids that every vocabulary has.
fn arguments<'a>(model: &'a str, logits: &'a str, ids: &'a str) -> Vec<&'a str> {
    let run = ["--prompt-ids", ids, "-n", "3", "-c", "64", "--ids"];
    [&["-m", model, "--logits", logits, "--ignore-eos"], &run[..]].concat()
}

/// The logits of a short run.
fn logits(name: &str, model: &str, run: impl FnOnce(&[&str]) -> Output) -> Vec<u8> {
    let ids = write(&format!("{name}.ids"), b"28 30 42 100 101 7 9 250 198 33");
    let file = scratch(&format!("{name}.f32"));
    let output = run(&arguments(model, &file, &ids));
    assert_eq!(output.code, 0, "{name}: {}", output.stderr);
    let logits = fs::read(&file).expect("the logits");
    assert!(!logits.is_empty());
    logits
}

fn on_host(arguments: &[&str]) -> Output {
    run_host(arguments, b"")
}

/// Runs what should be refused, and gives the message.
fn refusal(model: &str, more: &[&str]) -> String {
    let output = run_host(&[&["-m", model, "-p", "x"], more].concat(), b"");
    assert_eq!(output.code, 5, "{}", output.stderr);
    assert!(output.stdout.is_empty());
    output.stderr
}

#[test]
fn image_gives_the_same_bits_as_its_gguf_file_on_every_machine() {
    let (gguf, image) = mixed("bits");
    let streamed = logits("streamed", &gguf, on_host);
    assert!(logits("mapped", &image, on_host) == streamed);
    let prefaulted = |arguments: &[&str]| on_host(&[arguments, &["--prefault"]].concat());
    assert!(logits("prefaulted", &image, prefaulted) == streamed);
    for cpu in ["cortex-a53", "cortex-a76"] {
        let emulated = |arguments: &[&str]| run_arm64(cpu, arguments, b"");
        assert!(logits(cpu, &image, emulated) == streamed, "{cpu}");
    }
}

#[test]
fn tied_embedding_is_stored_once_and_gives_the_same_bits() {
    let gguf = model("smollm2").to_str().expect("UTF-8").to_owned();
    let image = scratch("smollm2.rush");
    let output = run_host(&["pack", &gguf, &image], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Both have the same weights, the image in groups of eight rows with whole pages in front.
    let size = |path: &str| fs::metadata(path).expect("a file").len();
    assert!(size(&image).abs_diff(size(&gguf)) < 64 * 1024);
    assert!(logits("smollm2-mapped", &image, on_host) == logits("smollm2", &gguf, on_host));
}

#[test]
fn emulated_arm_packs_the_same_bytes() {
    let (gguf, image) = mixed("arm");
    let other = scratch("arm-other.rush");
    let pack = ["pack", gguf.as_str(), other.as_str(), "-t", "3"];
    let output = run_arm64("cortex-a53", &pack, b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(fs::read(image).expect("an image") == fs::read(other).expect("an image"));
}

/// A block device of 8 MiB of nothing, where the machine lets us make one, and what `test` says.
fn with_block_device<T>(name: &str, mib: usize, test: impl FnOnce(&str) -> T) -> Option<T> {
    let backing = write(&format!("{name}.bin"), &vec![0xa5; mib << 20]);
    let losetup = Command::new("losetup")
        .args(["-f", "--show", &backing])
        .output();
    let Some(made) = losetup.ok().filter(|output| output.status.success()) else {
        println!("no loop device can be made here: nothing tested");
        return None;
    };
    let device = String::from_utf8(made.stdout).expect("UTF-8");
    let device = device.trim();
    let test = std::panic::AssertUnwindSafe(|| test(device));
    let outcome = std::panic::catch_unwind(test);
    let freed = Command::new("losetup").args(["-d", device]).status();
    assert!(freed.expect("losetup runs").success());
    fs::remove_file(&backing).expect("a file");
    Some(outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

#[test]
fn block_device_holds_an_image_and_may_be_longer() {
    let (gguf, image) = mixed("device");
    let file = logits("file", &image, on_host);
    with_block_device("device", 8, |device| {
        let packed = run_host(&["pack", &gguf, device], b"");
        assert_eq!(packed.code, 0, "{}", packed.stderr);
        assert!(logits("device", device, on_host) == file);
    });
}

#[test]
fn block_device_that_is_too_small_keeps_what_it_has() {
    let (gguf, _) = mixed("small");
    let large = model("smollm2").to_str().expect("UTF-8").to_owned();
    with_block_device("small", 8, |device| {
        let packed = run_host(&["pack", &gguf, device], b"");
        assert_eq!(packed.code, 0, "{}", packed.stderr);
        let refused = run_host(&["pack", &large, device], b"");
        assert_eq!(refused.code, 4, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("No space left"),
            "{}",
            refused.stderr
        );
        assert_eq!(run_host(&["plan", device], b"").code, 0);
    });
}

#[test]
fn block_device_whose_image_was_half_replaced_has_none() {
    let (gguf, _) = mixed("replaced");
    let large = model("smollm2").to_str().expect("UTF-8").to_owned();
    with_block_device("replaced", 110, |device| {
        let packed = run_host(&["pack", &gguf, device], b"");
        assert_eq!(packed.code, 0, "{}", packed.stderr);
        let mut pack = Command::new(tests::HOST.linked())
            .args(["pack", &large, device, "-q"])
            .spawn()
            .expect("it starts");
        // Killed as soon as it has begun, long before it can be done.
        let begun = || {
            let mut front = [0; 8];
            let mut file = fs::File::open(device).expect("the device");
            file.read_exact(&mut front).expect("8 bytes");
            front == [0; 8]
        };
        while !begun() {}
        pack.kill().expect("it is killed");
        assert!(!pack.wait().expect("it ends").success());
        let message = refusal(device, &[]);
        assert!(message.contains("not a GGUF file"), "{message}");
    });
}

#[test]
fn block_device_is_not_packed_onto_itself() {
    let (gguf, _) = mixed("itself");
    with_block_device("itself", 8, |device| {
        fs::write(device, fs::read(&gguf).expect("a file")).expect("the device takes it");
        let output = run_host(&["pack", device, device], b"");
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains("would replace the model"));
        assert_eq!(run_host(&["plan", device], b"").code, 0);
    });
}

#[test]
fn cut_image_is_refused_at_every_kind_of_length() {
    let (_, image) = mixed("cut");
    let whole = fs::read(&image).expect("an image");
    for len in [8, 63, 64, 200, 4096, whole.len() / 2, whole.len() - 1] {
        let cut = write("cut.rush", &whole[..len]);
        let message = refusal(&cut, &[]);
        assert!(message.contains("cut: "), "{len}: {message}");
    }
    // What remains of fewer bytes is no image by its first bytes.
    for len in [0, 1, 7] {
        let cut = write("cut.rush", &whole[..len]);
        refusal(&cut, &[]);
    }
}

#[test]
fn every_flipped_bit_of_a_header_is_found() {
    let (_, image) = mixed("flipped");
    let mut bytes = fs::read(&image).expect("an image");
    let data = u64::from_le_bytes(bytes[24..32].try_into().expect("8 bytes")) as usize;
    let table_end = 64 + 32 * u32::from_le_bytes(bytes[40..44].try_into().expect("4")) as usize;
    let header_bytes = u32::from_le_bytes(bytes[44..48].try_into().expect("4 bytes")) as usize;
    assert!(Image::check(&bytes).is_ok());
    assert!(table_end + header_bytes <= data);
    for bit in 8 * 8..8 * (table_end + header_bytes) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Image::check(&bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    bytes[table_end + 100] ^= 4;
    let message = refusal(&write("flipped.rush", &bytes), &[]);
    assert!(
        message.contains("damaged: the header's checksum"),
        "{message}"
    );
}

#[test]
fn other_versions_layouts_and_files_are_named() {
    let (_, image) = mixed("other");
    let whole = fs::read(&image).expect("an image");
    let changed = |at: usize, number: u32| {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        seal(&mut bytes);
        refusal(&write("other.rush", &bytes), &[])
    };
    let message = changed(8, VERSION + 1);
    assert!(
        message.contains(&format!("version {}", VERSION + 1)),
        "{message}"
    );
    let message = changed(12, LAYOUT + 7);
    assert!(
        message.contains(&format!("layout {}", LAYOUT + 7)),
        "{message}"
    );
    // Line ends that a transfer changed.
    let mut text = whole.clone();
    text.insert(7, b'\r');
    let message = refusal(&write("text.rush", &text), &[]);
    assert!(message.contains("not a GGUF file"), "{message}");
}

#[test]
fn flipped_bit_of_a_tensor_is_found_when_asked_for() {
    let (_, image) = mixed("tensor");
    let whole = fs::read(&image).expect("an image");
    let intact = run_host(
        &[
            "-m",
            &image,
            "-p",
            "x",
            "-n",
            "1",
            "--check-tensors",
            "--raw",
        ],
        b"",
    );
    assert_eq!(intact.code, 0, "{}", intact.stderr);
    // The last tensor is the embedding, which is never mapped.
    let data = u64::from_le_bytes(whole[24..32].try_into().expect("8 bytes")) as usize;
    for at in [data, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let message = refusal(&write("tensor-bad.rush", &bytes), &["--check-tensors"]);
        assert!(message.contains("the checksum of tensor"), "{message}");
        if at == whole.len() - 1 {
            assert!(message.contains("token_embd.weight"), "{message}");
        }
    }
}

#[test]
fn packing_what_is_packed_or_to_where_nothing_can_be_is_refused() {
    let (gguf, image) = mixed("again");
    let link = scratch("again-link");
    let _ = fs::remove_file(&link); // of a run before
    std::os::unix::fs::symlink(&gguf, &link).expect("a link");
    let cases = [
        (&gguf, gguf.clone(), 2, "would replace the model"),
        (&gguf, link, 2, "would replace the model"),
        (&image, scratch("again-2.rush"), 5, "packed already"),
        (
            &gguf,
            "/no/such/folder/x.rush".to_owned(),
            4,
            "No such file",
        ),
        (&gguf, "/dev/null".to_owned(), 4, "neither a file"),
        (
            &gguf,
            env!("CARGO_TARGET_TMPDIR").to_owned(),
            4,
            "Is a directory",
        ),
    ];
    for (from, to, code, words) in cases {
        let before = fs::read(from).expect("a file");
        let output = run_host(&["pack", from, &to], b"");
        assert_eq!(output.code, code, "{to}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{to}: {}", output.stderr);
        assert!(!fs::exists(format!("{to}.partial")).expect("a folder"));
        assert!(fs::read(from).expect("a file") == before, "{to}");
    }
    let output = run_host(&["pack", &gguf], b"");
    assert_eq!(output.code, 2, "{}", output.stderr);
}

#[test]
fn image_that_another_program_writes_is_left_to_it() {
    let (gguf, _) = mixed("busy");
    let image = scratch("busy-2.rush");
    let other = fs::File::create(format!("{image}.partial")).expect("a file");
    (&other).write_all(b"half an image").expect("it is written");
    rustix::fs::flock(&other, FlockOperation::LockExclusive).expect("it is locked");
    let output = run_host(&["pack", &gguf, &image], b"");
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("busy"), "{}", output.stderr);
    let half = fs::read(format!("{image}.partial")).expect("it is still there");
    assert_eq!(half, b"half an image");
    // What nobody writes any more is no hindrance, and nothing of it is in the image.
    drop(other);
    let output = run_host(&["pack", &gguf, &image], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(
        fs::read(&image).expect("an image") == fs::read(scratch("busy.rush")).expect("another")
    );
    assert!(!fs::exists(format!("{image}.partial")).expect("a folder"));
}

#[test]
fn what_has_the_name_of_an_unfinished_image_is_not_destroyed() {
    let (gguf, _) = mixed("partial");
    let image = scratch("partial-2.rush");
    let (partial, other) = (format!("{image}.partial"), scratch("partial-other"));
    let refused = |model: &str, words: &str| {
        let output = run_host(&["pack", model, &image], b"");
        assert_eq!(output.code, 4, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
        fs::remove_file(&partial).expect("it is still there");
    };
    fs::copy(&gguf, &partial).expect("a copy");
    refused(&partial, "busy"); // the model itself
    fs::write(&other, b"other").expect("a scratch file");
    std::os::unix::fs::symlink(&other, &partial).expect("a link");
    refused(&gguf, "link");
    fs::hard_link(&other, &partial).expect("a second name");
    refused(&gguf, "exists");
    assert_eq!(fs::read(&other).expect("it is still there"), b"other");
    let made = Command::new("mkfifo").arg(&partial).status();
    assert!(made.expect("mkfifo runs").success());
    refused(&gguf, "No such device"); // nobody reads it
}

#[test]
fn image_without_its_end_is_never_under_its_name() {
    let (gguf, _) = mixed("limit");
    let image = scratch("limit-2.rush");
    // A file system that is full, as far as the program can see.
    let script = format!(
        "ulimit -f 100; exec '{}' pack '{gguf}' '{image}'",
        tests::HOST.linked().display()
    );
    let output = Command::new("sh").args(["-c", &script]).output();
    let output = output.expect("a shell");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{log}");
    assert!(log.contains("File too large"), "{log}");
    for name in [image.clone(), format!("{image}.partial")] {
        assert!(!fs::exists(&name).expect("a folder"), "{name}");
    }
}

#[test]
fn bar_is_gone_before_an_error_is_told() {
    let model = model("tinyllama-synth").to_str().expect("UTF-8").to_owned();
    let program = tests::HOST.linked();
    let pack = format!(
        "exec '{}' pack '{model}' '{}'",
        program.display(),
        scratch("bar.rush")
    );
    // A terminal, and somebody who presses Ctrl-C when they see the bar.
    let mut terminal = Command::new("script")
        .args(["-qfec", &pack, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    let (mut screen, mut shown) = (terminal.stdout.take().expect("a pipe"), Vec::new());
    while !String::from_utf8_lossy(&shown).contains("\rpack [") {
        let mut part = [0; 256];
        let len = screen.read(&mut part).expect("a screen");
        assert!(len > 0, "no bar: {}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&part[..len]);
    }
    let mut keys = terminal.stdin.take().expect("a pipe");
    keys.write_all(b"\x03").expect("it listens");
    screen.read_to_end(&mut shown).expect("it ends");
    terminal.wait().expect("it ends");
    let shown = String::from_utf8_lossy(&shown);
    let (before, error) = shown.split_once("rushlight error").expect("an error");
    assert!(error.contains("code=130"), "{shown}");
    assert!(before.ends_with("\r\x1b[K"), "{before:?}");
}

/// A number of eight bytes.
fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn set(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

/// Where the preamble has the image's bytes, and where its mapped weights start and end.
const SIZE: usize = 16;
const START: usize = 24;
const END: usize = 32;
/// Where the table has the offsets of the first tensors, which are the embedding's, that is not
/// mapped, and matrices of the first layer.
const OFFSETS: [usize; 4] = [72, 104, 136, 168];

#[test]
fn image_that_is_laid_out_otherwise_is_refused() {
    let (_, image) = mixed("laid");
    let whole = fs::read(&image).expect("an image");
    let (size, start, end) = (
        number(&whole, SIZE),
        number(&whole, START),
        number(&whole, END),
    );
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        seal(&mut bytes);
        let message = refusal(&write("laid-otherwise.rush", &bytes), &[]);
        assert!(message.contains("outside its place"), "{name}: {message}");
    };
    changed("more is mapped than weights", &|bytes| {
        bytes.resize(bytes.len() + (1 << 20), 0);
        set(bytes, SIZE, size + (1 << 20));
        set(bytes, END, size + (1 << 20));
    });
    changed("rows are mapped", &|bytes| set(bytes, END, size));
    changed("more than rows", &|bytes| {
        bytes.push(0);
        set(bytes, SIZE, size + 1);
    });
    changed("less is mapped", &|bytes| set(bytes, END, end - 64));
    changed("the header is mapped", &|bytes| {
        set(bytes, START, start - 64)
    });
    changed("a tensor is elsewhere", &|bytes| {
        set(bytes, OFFSETS[1], number(&whole, OFFSETS[2]));
    });
    changed("two are exchanged", &|bytes| {
        set(bytes, OFFSETS[2], number(&whole, OFFSETS[3]));
        set(bytes, OFFSETS[3], number(&whole, OFFSETS[2]));
    });
    changed("a tensor is nowhere", &|bytes| {
        set(bytes, OFFSETS[0], u64::MAX - 63);
    });
    changed("all are further away", &|bytes| {
        let far = vec![0; 64 << 10];
        bytes.splice(start as usize..start as usize, far);
        for at in (0..whole[40]).map(|entry| 72 + 32 * usize::from(entry)) {
            set(bytes, at, number(&whole, at) + (64 << 10));
        }
        for at in [SIZE, END] {
            set(bytes, at, number(&whole, at) + (64 << 10));
        }
    });
}

#[test]
fn header_that_is_too_large_is_refused_before_it_is_read() {
    let (_, image) = mixed("large");
    let bytes = fs::read(&image).expect("an image");
    let both = number(&bytes, 40);
    let (tensors, gguf_header) = (both as u32 as usize, (both >> 32) as usize);
    for (tensors, gguf_header) in [
        (TENSORS_MAX + 1, gguf_header),
        (u32::MAX as usize, gguf_header),
        (tensors, HEADER_BYTES_MAX + 1),
    ] {
        let mut bytes = bytes.clone();
        set(&mut bytes, 40, (gguf_header << 32 | tensors) as u64);
        let error = ImageError::Header {
            tensors,
            gguf_header,
        };
        assert_eq!(Image::check(&bytes).err(), Some(error));
    }
}

#[test]
fn packing_keeps_to_the_budget() {
    const ARRAY: usize = 32 << 20;
    let more = vec![0; ARRAY];
    let file = mixed_model::gguf_with(1, |file| file.array("more", 0, ARRAY as u64, &more));
    let (gguf, image) = (write("budget.gguf", &file), scratch("budget.rush"));
    let _ = fs::remove_file(&image); // of a run before
    let pack = ["pack", gguf.as_str(), &image, "-t", "1"];
    let output = run_host(&[&pack[..], &["--budget", "1K"]].concat(), b"");
    assert_eq!(output.code, 6, "{}", output.stderr);
    let words = "does not fit: ";
    let (_, error) = output.stderr.split_once(words).expect("a budget");
    assert!(error.contains("0.0 MiB budget (flag); --force"), "{error}");
    let planned: f64 = error
        .split(' ')
        .next()
        .expect("a number")
        .parse()
        .expect("MiB");
    for name in [image.clone(), format!("{image}.partial")] {
        assert!(!fs::exists(&name).expect("a folder"), "{name}");
    }
    // The header is mapped and copied; of the image, what is mapped is the kernel's.
    let enough = format!("{}K", (planned * 1024.0) as u64 + 52); // of a tenth of a MiB
    let run = watched::resident(&[&pack[..], &["--budget", &enough]].concat());
    assert_eq!(run.output.code, 0, "{}", run.output.stderr);
    let mapped = (fs::metadata(&image).expect("an image").len() as usize - ARRAY) as f64;
    let peak = run.most as f64;
    let planned = planned * f64::from(1 << 20);
    println!("peak {peak}, planned {planned}, mapped {mapped}");
    assert!(peak > 2.0 * ARRAY as f64, "{peak}");
    assert!(
        peak <= 1.02 * (planned + mapped),
        "{peak} of {planned} and {mapped}"
    );
    let forced = run_host(&[&pack[..], &["--budget", "1K", "--force"]].concat(), b"");
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    for name in [gguf, image] {
        fs::remove_file(name).expect("a file");
    }
}

#[test]
fn layout_number_stands_for_these_bytes() {
    let packed = WeightFormat::ALL.map(|format| {
        let row_bytes = format.row_bytes(512);
        let raw: Vec<u8> = (0..8 * row_bytes).map(|i| (i * i % 251) as u8).collect();
        let mut rows = raw.chunks_exact(row_bytes);
        let mut packed = vec![0; format.group_bytes(512)];
        let rows = core::array::from_fn(|_| rows.next());
        pack_group(format, rows, 512, &mut packed);
        packed
    });
    // Printed by this test. When a record changes, images of before are read wrong: count LAYOUT
    // up. A format that is new changes the hash too, and needs no new number.
    assert_eq!(
        (LAYOUT, xxh64(&packed.concat(), 0)),
        (1, 12_559_171_720_781_670_974)
    );
}

#[test]
fn image_whose_header_lies_about_a_size_is_malformed_and_not_too_large() {
    let (_, image) = mixed("lies");
    let mut bytes = fs::read(&image).expect("an image");
    // The vocabulary of the embedding, in the tensor's record: more rows than there are.
    let name = b"token_embd.weight";
    let at = bytes.windows(name.len()).position(|window| window == name);
    let rows = at.expect("the record") + name.len() + 4 + 8;
    assert_eq!(bytes[rows..rows + 8], 257u64.to_le_bytes());
    bytes[rows..rows + 8].copy_from_slice(&(1u64 << 38).to_le_bytes());
    seal(&mut bytes);
    refusal(&write("lies.rush", &bytes), &[]);
}

#[test]
fn errors_of_an_image_say_what_to_do() {
    let text = ImageError::Layout { found: 9 }.to_string();
    assert!(text.contains("pack the model again"), "{text}");
}
