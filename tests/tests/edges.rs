//! The program at its edges: files that ask for what is not computed, streams that are closed or
//! blocked, values that make no sense. Each ends with the documented code and says why.

use kernels_asm::format::WeightFormat;
use runtime::gguf::Gguf;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tests::gguf_writer::GgufWriter;
use tests::{HOST, Output, host_that_hears_hangups, mixed_model, model, run_host};

fn scratch(name: &str, contents: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("edges-{name}"));
    fs::write(&path, contents).expect("a scratch file");
    path.to_str().expect("UTF-8").to_owned()
}

/// Runs a model on a few ids.
fn run(model: &str, name: &str, more: &[&str]) -> Output {
    let ids = scratch(&format!("{name}.ids"), b"1 2 3");
    let common = [
        "-m",
        model,
        "--prompt-ids",
        &ids,
        "-n",
        "2",
        "--ids",
        "--ignore-eos",
    ];
    run_host(&[&common[..], more].concat(), b"")
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    type More = fn(GgufWriter) -> GgufWriter;
    let cases: [(&str, More, &str); 5] = [
        (
            "scaling",
            |file| file.string("llama.rope.scaling.type", "dynamic"),
            "dynamic",
        ),
        (
            "clamp",
            |file| file.f32("llama.attention.clamp_kqv", 8.0),
            "clamping",
        ),
        (
            "scale",
            |file| file.f32("llama.logit_scale", 0.5),
            "logit scale",
        ),
        (
            "causal",
            |file| file.bool("llama.attention.causal", false),
            "not causal",
        ),
        (
            "bias",
            |file| file.tensor("blk.0.attn_q.bias", &[8], 0, &[0; 32]),
            "attn_q.bias",
        ),
    ];
    for (name, more, words) in cases {
        let model = scratch(&format!("{name}.gguf"), &mixed_model::gguf_with(3, more));
        let output = run(&model, name, &[]);
        assert_eq!(output.code, 5, "{name}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{name}: {}", output.stderr);
    }
    let neutral = mixed_model::gguf_with(3, |file| file.f32("llama.rope.scaling.factor", 1.0));
    let model = scratch("neutral.gguf", &neutral);
    assert_eq!(run(&model, "neutral", &[]).code, 0);
}

#[test]
fn logit_that_is_no_number_ends_with_code_9() {
    let mut bytes = mixed_model::gguf(4);
    // The scale of the last block of the last tensor, the output matrix; 14 bytes of padding
    // follow.
    let scale = bytes.len() - 16;
    bytes[scale..scale + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    let model = scratch("nan.gguf", &bytes);
    let output = run(&model, "nan", &[]);
    assert_eq!(output.code, 9, "{}", output.stderr);
    let words = "tensor output.weight has a weight that is infinite or no number";
    assert!(output.stderr.contains(words), "{}", output.stderr);
    assert!(
        output.stderr.contains("rushlight load "),
        "{}",
        output.stderr
    );
    let output = run(&model, "nan", &["--check-tensors", "-n", "0"]);
    assert_eq!(output.code, 9, "{}", output.stderr);
    assert!(output.stderr.contains(words), "{}", output.stderr);
    let logits = scratch("nan.f32", b"");
    let output = run(&model, "nan-rows", &["-n", "0", "--logits", &logits]);
    assert_eq!(output.code, 9, "{}", output.stderr);
}

#[test]
fn weight_that_is_no_number_is_found_before_it_is_used_in_every_kind_of_tensor() {
    let whole = mixed_model::gguf(13);
    let gguf = Gguf::check(&whole).expect("a model");
    for (tensor, at, value) in [
        (
            "token_embd.weight",
            34 * 8 * 200,
            &0x7c00u16.to_le_bytes()[..],
        ), // stays in the file
        ("blk.0.ffn_up.weight", 22 * 100, &0x7e00u16.to_le_bytes()),
        (
            "blk.1.ffn_norm.weight",
            4 * 7,
            &f32::NEG_INFINITY.to_le_bytes(),
        ),
        ("blk.2.attn_v.weight", 4 * 1000, &f32::NAN.to_le_bytes()),
    ] {
        let found = gguf.tensor(tensor).expect("the tensor is there");
        let at = gguf.file_offset(&found) as usize + at;
        let mut bytes = whole.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        let name = format!("finite-{tensor}");
        let model = scratch(&format!("{name}.gguf"), &bytes);
        let output = run(&model, &name, &["--check-tensors", "-n", "0"]);
        assert_eq!(output.code, 9, "{tensor}: {}", output.stderr);
        let words = format!("tensor {tensor} has a weight");
        assert!(
            output.stderr.contains(&words),
            "{tensor}: {}",
            output.stderr
        );
    }
    let model = scratch("finite.gguf", &whole);
    assert_eq!(
        run(&model, "finite", &["--check-tensors", "-n", "0"]).code,
        0
    );
}

#[test]
fn key_or_value_that_is_no_number_ends_with_code_9_in_every_cache_format() {
    for tensor in ["blk.1.attn_k.weight", "blk.1.attn_v.weight"] {
        let mut bytes = mixed_model::gguf(13);
        let gguf = Gguf::check(&bytes).expect("a model");
        let found = gguf.tensor(tensor).expect("the tensor is there");
        // The scale of its first block, which both formats have in front.
        let at = gguf.file_offset(&found) as usize;
        bytes[at..at + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
        let model = scratch(&format!("{tensor}.gguf"), &bytes);
        for format in ["f32", "f16", "q8_0"] {
            let output = run(&model, tensor, &["-ctk", format, "-ctv", format]);
            assert_eq!(output.code, 9, "{tensor}, {format}: {}", output.stderr);
        }
    }
}

#[test]
fn head_that_is_no_whole_blocks_of_q8_0_is_refused_before_anything_is_loaded() {
    // The tensors have another shape than this asks for, which would be told later.
    let keys = mixed_model::gguf_with(12, |file| file.u32("llama.attention.key_length", 24));
    let model = scratch("heads.gguf", &keys);
    for (flag, code) in [("q8_0", 2), ("f16", 5)] {
        for half in ["-ctk", "-ctv"] {
            let output = run(&model, "heads", &[half, flag]);
            assert_eq!(output.code, code, "{}", output.stderr);
            let said = output
                .stderr
                .contains("blocks of 32 numbers, this model heads of 24");
            assert_eq!(said, code == 2, "{}", output.stderr);
        }
    }
}

#[test]
fn float_rows_that_are_no_whole_blocks_are_refused() {
    for (hidden, code) in [(520, 0), (516, 5)] {
        let bytes = mixed_model::uniform(14, WeightFormat::F16, hidden);
        let model = scratch(&format!("rows-{hidden}.gguf"), &bytes);
        let output = run(&model, "rows", &[]);
        assert_eq!(output.code, code, "{hidden}: {}", output.stderr);
        let said = "blk.0.ffn_down.weight: rows of 516 weights in F16, read in blocks of 8";
        let found = output.stderr.contains(said);
        assert_eq!(found, code != 0, "{}", output.stderr);
    }
}

#[test]
fn errors_are_told_before_the_weights_are_read() {
    let model = scratch("early.gguf", &mixed_model::gguf(5));
    let none = scratch("none.ids", b" \n");
    let cases: [(&[&str], i32); 5] = [
        (&["-r", ""], 2),
        (&["--repeat-penalty", "0"], 2),
        (&["--cpu-range", "63"], 2),
        (&["--logits", "/no/such/folder/logits"], 4),
        (&["--prompt-ids", &none], 2),
    ];
    for (more, code) in cases {
        let output = run(&model, "early", more);
        assert_eq!(output.code, code, "{more:?}: {}", output.stderr);
        assert!(
            !output.stderr.contains("rushlight load"),
            "{more:?}: {}",
            output.stderr
        );
    }
}

#[test]
fn endless_ids_are_not_read_to_their_end() {
    let model = scratch("endless.gguf", &mixed_model::gguf(6));
    let output = run_host(&["-m", &model, "--prompt-ids", "-"], &b"1 ".repeat(1 << 20));
    assert_eq!(output.code, 7, "{}", output.stderr);
}

#[test]
fn stop_text_ends_ids_too() {
    let model = scratch("stop.gguf", &mixed_model::gguf(7));
    let varied = [
        "-n", "24", "--temp", "3", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-s", "1",
    ];
    let free = run(&model, "stop-free", &varied);
    let ids: Vec<u8> = String::from_utf8(free.stdout)
        .expect("ids are text")
        .lines()
        .map(|id| id.parse().expect("a byte's token"))
        .collect();
    // Every token of this vocabulary is a byte.
    let stop = ids.iter().position(u8::is_ascii_graphic);
    let Some(at) = stop else {
        panic!("no letter among {ids:?}: take another seed")
    };
    let text = char::from(ids[at]).to_string();
    let stopped = run(
        &model,
        "stop",
        &[&varied[..], &["--no-escape", "-r", &text]].concat(),
    );
    assert_eq!(
        stopped.stdout.iter().filter(|&&byte| byte == b'\n').count(),
        at + 1
    );
    assert!(stopped.stderr.contains("finish=stop"), "{}", stopped.stderr);
}

#[test]
fn usage_error_is_json_if_logs_are() {
    let output = run_host(&["--no-such-flag", "--log-format", "json"], b"");
    assert_eq!(output.code, 2);
    let line: serde_json::Value = serde_json::from_str(output.stderr.trim()).expect("JSON");
    assert_eq!(
        (line["event"].as_str(), line["code"].as_i64()),
        (Some("error"), Some(2))
    );
}

#[test]
fn long_name_leaves_the_log_line_its_end() {
    let path = "x".repeat(3000);
    let output = run_host(&["-m", &path, "-p", "x", "--log-format", "json"], b"");
    assert_eq!(output.code, 4);
    let line: serde_json::Value = serde_json::from_str(output.stderr.trim()).expect("JSON");
    assert_eq!(line["finish"], "error");
}

#[test]
fn pipe_is_no_model_and_is_not_waited_for() {
    let path = format!("{}/edges-pipe", env!("CARGO_TARGET_TMPDIR"));
    let _ = fs::remove_file(&path); // of a run before
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .expect("mkfifo runs")
            .success()
    );
    let output = run_host(&["-m", &path, "-p", "x"], b"");
    assert_eq!(output.code, 4, "{}", output.stderr);
}

#[test]
fn closed_stdout_is_not_taken_for_another_file() {
    let model = scratch("closed.gguf", &mixed_model::gguf(8));
    let log = scratch("closed.log", b"");
    let script = r#"exec "$0" "$@" >&-"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(HOST.linked());
    shell.args([
        "-m",
        &model,
        "--raw",
        "-p",
        "abc",
        "-n",
        "4",
        "--ignore-eos",
    ]);
    let status = shell
        .args(["--ids", "--log-file", &log])
        .stdin(Stdio::null())
        .status();
    assert_eq!(status.expect("sh runs").code(), Some(8));
    let log = fs::read_to_string(&log).expect("the log");
    assert!(
        log.lines().all(|line| line.starts_with("rushlight ")),
        "{log}"
    );
}

/// Whether the program with that number has come so far that SIGTERM is caught.
fn catches_signals(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:\t"));
    let mask = u64::from_str_radix(mask.expect("a mask"), 16).expect("hexadecimal");
    mask >> 14 & 1 == 1
}

/// Whether it waits for something.
fn sleeps(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
    stat.contains(") S ")
}

#[test]
fn closed_stream_that_nothing_can_stand_for_is_an_error() {
    // No descriptor may be opened any more.
    let script = r#"exec prlimit --nofile=0 "$0" --help <&-"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(HOST.linked());
    let output = shell.output().expect("sh runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("a standard stream is closed: "), "{log}");
}

#[test]
fn termination_ends_a_wait_for_the_prompt() {
    let model = scratch("wait.gguf", &mixed_model::gguf(9));
    let mut child = Command::new(HOST.linked())
        .args(["-m", &model])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the program starts");
    while !catches_signals(child.id()) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    // Waiting closes stdin, which ends a read that began after the signal.
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
}

/// Starts the program, interrupts it once `is_time` (asked with its number), and lets it end.
fn interrupt_when(arguments: &[&str], is_time: impl Fn(u32) -> bool) -> Output {
    let child = Command::new(HOST.linked())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    while !is_time(child.id()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    Output {
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        code: output.status.code().unwrap_or(-1),
    }
}

#[test]
fn interrupt_ends_a_load() {
    let model = model("tinyllama-synth").to_str().expect("UTF-8").to_owned();
    let is_loading = |id: u32| {
        let pages = fs::read_to_string(format!("/proc/{id}/statm")).expect("it runs");
        let resident = pages.split(' ').nth(1).expect("a second number");
        resident.parse::<u64>().expect("a number") * 4096 > 128 << 20
    };
    let run = ["-m", &model, "--raw", "-p", "x", "-n", "1"];
    let output = interrupt_when(&run, is_loading);
    assert_eq!(output.code, 130, "{}", output.stderr);
    assert!(
        output.stderr.ends_with("code=130 finish=cancel\n"),
        "{}",
        output.stderr
    );
    // It ended then and there, and not after the weights.
    assert!(
        !output.stderr.contains("rushlight load "),
        "{}",
        output.stderr
    );
}

#[test]
fn interrupt_ends_the_search_for_weights_that_are_no_numbers() {
    // In the last tensor there is one: a search that goes on to its end finds it.
    let mut bytes = fs::read(model("smollm2")).expect("a model");
    let gguf = Gguf::check(&bytes).expect("a model");
    let last = gguf.tensors().last().expect("a tensor");
    let end = (gguf.file_offset(&last) + last.bytes) as usize;
    assert_eq!(last.kind.name, "F32");
    bytes[end - 4..end].copy_from_slice(&f32::NAN.to_le_bytes());
    let (model, log) = (scratch("search.gguf", &bytes), scratch("search.log", b""));
    let run = ["-m", &model, "--raw", "-p", "x", "-n", "0", "-t", "1"];
    let run = [&run[..], &["--check-tensors", "--log-file", &log]].concat();
    let is_searching = |_| {
        let log = fs::read_to_string(&log).expect("a log");
        log.contains("rushlight load ")
    };
    let output = interrupt_when(&run, is_searching);
    let log = fs::read_to_string(&log).expect("a log");
    assert_eq!(output.code, 130, "{log}");
    assert_eq!(run_host(&run, b"").code, 9);
    fs::remove_file(model).expect("a file");
}

#[test]
fn interrupt_ends_a_pack_and_leaves_nothing() {
    let model = model("tinyllama-synth").to_str().expect("UTF-8").to_owned();
    let image = scratch("interrupted.rush", b"");
    fs::remove_file(&image).expect("a scratch file");
    let partial = format!("{image}.partial");
    let is_packing = |_| fs::metadata(&partial).is_ok_and(|file| file.len() > 64 << 20);
    let output = interrupt_when(&["pack", &model, &image], is_packing);
    assert_eq!(output.code, 130, "{}", output.stderr);
    assert!(
        output.stderr.ends_with("code=130 finish=cancel\n"),
        "{}",
        output.stderr
    );
    for name in [&image, &partial] {
        assert!(!fs::exists(name).expect("a folder"), "{name}");
    }
}

#[test]
fn file_that_shrinks_under_a_run_is_explained() {
    // An embedding that is read from the file, and none: then it is a page of a text that is gone.
    let tied = mixed_model::tied(11, |metadata| metadata).finish();
    for (name, bytes) in [("row", mixed_model::gguf(11)), ("page", tied)] {
        shrink_under_a_run(&scratch(&format!("shrinks-{name}.gguf"), &bytes));
    }
}

fn shrink_under_a_run(model: &str) {
    let log = format!("{model}.log");
    let run = [
        "--log-file",
        &log,
        "--raw",
        "-p",
        "abc",
        "-n",
        "30000",
        "-c",
        "31000",
        "--ignore-eos",
        "--ids",
    ];
    let mut child = Command::new(HOST.linked())
        .args(["-m", model])
        .args(run)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // It is in the middle of its text once the first byte is there.
    let stdout = child.stdout.as_mut().expect("stdout is piped");
    stdout.read_exact(&mut [0]).expect("a first byte");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(model)
        .expect("the model");
    file.set_len(0).expect("it shrinks");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5));
    assert!(output.stderr.is_empty());
    let logs = fs::read_to_string(&log).expect("a log");
    assert!(logs.contains("became shorter while it was read"), "{logs}");
    assert!(logs.ends_with("code=5 finish=error\n"), "{logs}");
}

#[test]
fn plan_counts_the_prompt_that_is_named() {
    let model = scratch("plan.gguf", &mixed_model::gguf(10));
    let prompt = scratch("plan.txt", &[b'a'; 5000]);
    let output = run_host(&["plan", "-m", &model, "-f", &prompt], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = text.lines().find(|line| line.starts_with("prompt"));
    assert!(line.expect("a line").ends_with(" 5000"), "{text}");
}

#[test]
fn hangup_ends_a_run_unless_it_is_to_be_ignored() {
    let model = model("smollm2").to_str().expect("UTF-8").to_owned();
    let hang_up = |mut program: Command| {
        let mut child = program
            .args([
                "-m",
                &model,
                "--raw",
                "-p",
                "Once",
                "-n",
                "300",
                "--ignore-eos",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut first = [0];
        let mut stdout = child.stdout.take().expect("piped");
        stdout.read_exact(&mut first).expect("some text");
        let kill = Command::new("kill")
            .args(["-HUP", &child.id().to_string()])
            .status();
        assert!(kill.expect("kill runs").success());
        std::io::copy(&mut stdout, &mut std::io::sink()).expect("the rest");
        let output = child.wait_with_output().expect("it ends");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), log)
    };
    let (code, log) = hang_up(host_that_hears_hangups());
    assert_eq!(code, Some(129), "{log}");
    assert!(log.trim_end().ends_with("finish=cancel"), "{log}");
    let (code, log) = hang_up({
        let mut ignoring = Command::new("nohup");
        ignoring.arg(HOST.linked());
        ignoring
    });
    assert_eq!(code, Some(0), "{log}");
    assert!(log.trim_end().ends_with("finish=length"), "{log}");
}

#[test]
fn streams_that_wait_for_nothing_are_waited_for() {
    use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
    use std::fs::File;
    use std::io::Write;
    use std::thread;

    let model = scratch("slow.gguf", &mixed_model::gguf(9));
    let text = "Once upon a time. ".repeat(200);
    let tokenize = ["tokenize", "-m", &model, "--ids"];
    let whole = run_host(&tokenize, text.as_bytes()).stdout;
    let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("a pipe");
    fcntl_setpipe_size(&writer, 4096).expect("a small one");
    assert!(whole.len() > 4096, "it does not fit at once");
    let mut tokenizer = Command::new(HOST.linked())
        .args(tokenize)
        .stdin(File::open(scratch("slow.txt", text.as_bytes())).expect("it is there"))
        .stdout(writer)
        .spawn()
        .expect("it starts");
    let mut shown: Vec<u8> = Vec::new();
    while tokenizer.try_wait().expect("a child").is_none() {
        thread::sleep(Duration::from_millis(50)); // a slow reader
        let mut part = [0; 1000];
        if let Ok(count) = rustix::io::read(&reader, &mut part[..]) {
            shown.extend_from_slice(&part[..count]);
        }
    }
    let mut part = [0; 1000];
    while let Ok(count @ 1..) = rustix::io::read(&reader, &mut part[..]) {
        shown.extend_from_slice(&part[..count]);
    }
    assert!(tokenizer.wait().expect("it ends").success());
    assert!(shown == whole);

    let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("a pipe");
    let run = Command::new(HOST.linked())
        .args(["-m", &model, "--raw", "-n", "1", "--ignore-eos"])
        .stdin(reader)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    thread::sleep(Duration::from_millis(200)); // nothing is there yet
    let mut writer = File::from(writer);
    writer.write_all(b"Once").expect("it is read");
    drop(writer);
    let output = run.wait_with_output().expect("it ends");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(log.contains(" prefill_tokens=7 "), "{log}"); // four bytes, and three of the space before
}

#[test]
fn ids_on_a_stream_that_waits_for_nothing_are_waited_for() {
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::fs::File;
    use std::io::Write;

    let model = scratch("slow-ids.gguf", &mixed_model::gguf(9));
    let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("a pipe");
    let run = Command::new(HOST.linked())
        .args(["-m", &model, "--prompt-ids", "-", "-n", "1", "--ids"])
        .stdin(reader)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(Duration::from_millis(200)); // nothing is there yet
    let mut writer = File::from(writer);
    writer.write_all(b"79 110").expect("it is read");
    drop(writer);
    let output = run.wait_with_output().expect("it ends");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(log.contains(" prefill_tokens=2 "), "{log}");
}

#[test]
fn prompt_may_have_64_mib_and_ids_as_many_bytes() {
    const BYTES: usize = 64 << 20;
    let model = scratch("large.gguf", &mixed_model::gguf(9));
    let more = "prompt of more than 67108864 bytes";
    let mut text = b"word word\n".repeat(BYTES / 10 + 1);
    for (bytes, code) in [(BYTES, 0), (BYTES + 1, 7)] {
        text.resize(bytes, b'\n');
        let output = run_host(&["plan", "-m", &model, "-f", "-"], &text);
        assert_eq!(output.code, code, "{}", output.stderr);
        assert_eq!(output.stderr.contains(more), code == 7);
    }
    text.fill(b'\n');
    for (bytes, code) in [(BYTES, 2), (BYTES + 1, 7)] {
        let output = run_host(&["-m", &model, "--prompt-ids", "-"], &text[..bytes]);
        assert_eq!(output.code, code, "{}", output.stderr);
        assert_eq!(output.stderr.contains(more), code == 7);
    }
}

#[test]
fn interrupt_ends_a_long_text_on_its_way_to_tokens() {
    const BYTES: usize = 48 << 20;
    let model = scratch("long.gguf", &mixed_model::gguf(9));
    let text = scratch("long.txt", &b"word word\n".repeat(BYTES / 10 + 1));
    let is_read = |id: u32| {
        let io = fs::read_to_string(format!("/proc/{id}/io")).expect("it runs");
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        let read = read.expect("bytes").parse::<usize>().expect("a number");
        read > BYTES
    };
    for (command, names) in [
        ("run", &["-m"][..]),
        ("tokenize", &["tokenize", "--ids", "-m"]),
    ] {
        let arguments = [names, &[&model, "-f", &text]].concat();
        let output = interrupt_when(&arguments, is_read);
        assert_eq!(output.code, 130, "{command}: {}", output.stderr);
        let end = "code=130 finish=cancel\n";
        assert!(output.stderr.ends_with(end), "{}", output.stderr);
    }
    fs::remove_file(text).expect("a scratch file");
}

#[test]
fn termination_ends_tokens_that_nobody_reads() {
    let model = scratch("unread.gguf", &mixed_model::gguf(9));
    let text = scratch("unread.txt", &b"word word\n".repeat(100_000));
    let mut child = Command::new(HOST.linked())
        .args(["tokenize", "-m", &model, "--ids", "-f", &text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let (mut stdout, id) = (child.stdout.take().expect("piped"), child.id());
    stdout.read_exact(&mut [0]).expect("an id");
    // It sleeps once the pipe is full.
    while !sleeps(id) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = Command::new("kill")
        .args(["-TERM", &id.to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if std::time::Instant::now() > patience {
            child.kill().expect("a child");
            panic!("it goes on");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(143));
}

#[test]
fn termination_ends_a_wait_for_somebody_who_writes_the_prompt() {
    let model = scratch("unwritten.gguf", &mixed_model::gguf(9));
    let fifo = format!("{}/edges-unwritten", env!("CARGO_TARGET_TMPDIR"));
    let _ = fs::remove_file(&fifo); // of a run before
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo runs").success());
    let waits = |id: u32| catches_signals(id) && sleeps(id);
    for flag in ["-f", "--prompt-ids"] {
        let output = interrupt_when(&["-m", &model, flag, &fifo], waits);
        assert_eq!(output.code, 130, "{flag}: {}", output.stderr);
    }
}

#[test]
fn text_without_a_token_is_told_from_an_empty_one() {
    // Texts of byte tokens are made structure: then there is none that text may become.
    let kinds = "tokenizer.ggml.token_type";
    let unknown = "tokenizer.ggml.unknown_token_id";
    let more = |file: GgufWriter| file.i32s(kinds, &[3; 257]).u32(unknown, u32::MAX);
    let mut file = mixed_model::gguf_with(3, more);
    for key in [kinds, unknown] {
        let mut windows = file.windows(key.len());
        let at = windows.position(|window| window == key.as_bytes());
        file[at.expect("the key") + key.len() - 1] = b'#'; // those that were there
    }
    let model = scratch("wordless.gguf", &file);
    for (text, words) in [
        ("x", "the prompt has no tokens in the model's vocabulary"),
        ("", "the prompt is empty"),
    ] {
        let output = run_host(&["-m", &model, "--raw", "-p", text], b"");
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
}
