//! The memory promises: a run takes what was planned and no more, does not grow, and refuses what
//! does not fit before it has taken anything.
//!
//! The model is TinyLlama-1.1B's shapes in Q4_K_M with random weights (`cargo xtask model
//! tinyllama-synth`), the largest that the first board must run.

use kernels_asm::format::WeightFormat::Q8_0;
use std::collections::HashMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tests::watched::{self, Watched};
use tests::{HOST, Output, mixed_model, model, run_host};

const MIB: u64 = 1 << 20;

fn tinyllama() -> String {
    model("tinyllama-synth").to_str().expect("UTF-8").to_owned()
}

fn smollm2() -> String {
    model("smollm2").to_str().expect("UTF-8").to_owned()
}

fn scratch(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{name}"));
    path.to_str().expect("UTF-8").to_owned()
}

/// The packed image of TinyLlama, made once for all tests of this file. It has no name any more, so
/// that its 680 MB are free as soon as the tests have ended, however they end.
fn packed_tinyllama() -> &'static str {
    static IMAGE: OnceLock<(fs::File, String)> = OnceLock::new();
    let (_, path) = IMAGE.get_or_init(|| {
        let image = scratch("tinyllama.rush");
        let output = run_host(&["pack", &tinyllama(), &image], b"");
        assert_eq!(output.code, 0, "{}", output.stderr);
        let file = fs::File::open(&image).expect("an image");
        fs::remove_file(&image).expect("an image");
        let path = format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd());
        (file, path)
    });
    path
}

/// The fields of the last log line of `event`.
fn fields<'o>(output: &'o Output, event: &str) -> HashMap<&'o str, &'o str> {
    let prefix = format!("rushlight {event} ");
    let mut lines = output.stderr.lines();
    let line = lines.rfind(|line| line.starts_with(&prefix));
    let line = line.unwrap_or_else(|| panic!("no {event} line in:\n{}", output.stderr));
    line.split(' ')
        .filter_map(|word| word.split_once('='))
        .collect()
}

fn number(fields: &HashMap<&str, &str>, name: &str) -> u64 {
    let text = fields
        .get(name)
        .unwrap_or_else(|| panic!("no {name} in {fields:?}"));
    text.parse()
        .unwrap_or_else(|error| panic!("{name}={text}: {error}"))
}

/// Checks the peak of a run against its own plan: the bound of the promise, and the whole sum.
fn check(name: &str, run: &Watched) {
    assert_eq!(run.output.code, 0, "{name}: {}", run.output.stderr);
    let plan = fields(&run.output, "plan");
    let parts = [
        "weights_q4_k",
        "weights_q6_k",
        "vectors",
        "keys",
        "values",
        "forward",
    ];
    let parts: u64 = parts.iter().map(|part| number(&plan, part)).sum();
    let (peak, bound) = (run.most, parts + 4 * MIB);
    println!("{name}: peak {peak}, weights + KV + forward + 4 MiB {bound}");
    assert!(
        peak <= bound,
        "{name}: {peak} bytes resident, {bound} promised"
    );
    // The kernel's page tables are planned for, and are in nobody's resident set.
    let planned = number(&plan, "total") - number(&plan, "page_tables");
    let ratio = peak as f64 / planned as f64;
    println!("{name}: {:.2} % of the plan", 100.0 * ratio);
    assert!(
        (0.98..=1.02).contains(&ratio),
        "{name}: {ratio} of the plan"
    );
}

fn short_run(model: &str) -> Vec<&str> {
    let prompt = [
        "--raw",
        "-p",
        "Hello",
        "-n",
        "2",
        "-c",
        "2048",
        "--ignore-eos",
    ];
    [&["-m", model], &prompt[..]].concat()
}

#[test]
fn peak_while_streaming_is_the_plan() {
    let run = watched::resident(&short_run(&tinyllama()));
    check("streamed", &run);
    let end = fields(&run.output, "end");
    let own: f64 = end["actual_to_plan_pct"].parse().expect("a number");
    assert!(
        (98.0..=102.0).contains(&own),
        "{own} % of the plan by its own account"
    );
    assert!(
        1024 * number(&end, "peak_rss_kb") >= run.most,
        "the mark only rises"
    );
}

#[test]
fn peak_of_a_mapped_image_is_the_plan() {
    let run = watched::resident(&short_run(packed_tinyllama()));
    check("mapped", &run);
    // Weights are the file's pages, and all else is the program's own.
    let (plan, end) = (fields(&run.output, "plan"), fields(&run.output, "end"));
    let weights = number(&plan, "weights_q4_k") + number(&plan, "weights_q6_k");
    assert!(number(&end, "file_kb") * 1024 >= weights);
    assert!(number(&end, "anon_kb") * 1024 < 64 * MIB);
}

/// Of a model of nothing the program is most, and two in a hundred would hide any error: here the
/// plan is held to account in KiB. It is never less than what is taken.
#[test]
fn peak_of_a_tiny_model_is_the_plan() {
    const SPARE: u64 = 320 << 10;
    let (gguf, image) = (scratch("tiny.gguf"), scratch("tiny.rush"));
    fs::write(&gguf, mixed_model::uniform(1, Q8_0, 64)).expect("a file");
    let output = run_host(&["pack", &gguf, &image], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let tiny = ["-c", "256", "-n", "200", "-p", "x", "--raw", "--ignore-eos"];
    for (model, threads) in [(&gguf, "1"), (&image, "1"), (&gguf, "2"), (&image, "2")] {
        // What was just written may be in the page cache in larger pieces than are mapped else.
        let written = fs::File::open(model).and_then(|file| file.sync_all());
        written.expect("only what is on the storage can be dropped");
        drop_cache(model);
        let run = watched::resident(&[&["-m", model, "-t", threads], &tiny[..]].concat());
        assert_eq!(run.output.code, 0, "{}", run.output.stderr);
        let (plan, end) = (fields(&run.output, "plan"), fields(&run.output, "end"));
        let planned = number(&plan, "total") - number(&plan, "page_tables");
        let peak = 1024 * number(&end, "peak_rss_kb");
        println!("{model} -t {threads}: peak {peak}, planned {planned}");
        assert!(
            (planned - SPARE..=planned).contains(&peak),
            "{peak} of {planned}"
        );
    }
    for file in [gguf, image] {
        fs::remove_file(file).expect("a file");
    }
}

#[test]
fn peak_under_emulation_is_the_plan() {
    let streamed = watched::resident_arm64("cortex-a76", &short_run(&tinyllama()));
    check("streamed on an emulated Cortex-A76", &streamed);
    // Slow enough that progress is shown, which is not a bar where there is no terminal.
    let progress = fields(&streamed.output, "progress");
    assert_eq!(progress["work"], "load");
    assert!((1..=100).contains(&number(&progress, "percent")));
    assert!(!streamed.output.stderr.contains(['\r', '\x1b']));
    check(
        "mapped on an emulated Cortex-A53",
        &watched::resident_arm64("cortex-a53", &short_run(packed_tinyllama())),
    );
}

/// What a run takes, from its header.
fn planned(arguments: &[&str]) -> u64 {
    let output = run_host(&[&["plan", "--format", "json"], arguments].concat(), b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    plan["total"].as_u64().expect("a total")
}

#[test]
fn budget_a_mib_short_is_refused_at_once_and_for_nothing() {
    let model = tinyllama();
    let run = short_run(&model);
    let budget = (planned(&run) - MIB).to_string();
    let refuse = || run_host(&[&run[..], &["--budget", &budget]].concat(), b"");
    // Other tests run beside this one: the best of some runs tells what it takes.
    let times = (0..5).map(|_| {
        let began = Instant::now();
        refuse();
        began.elapsed()
    });
    let took = times.min().expect("five runs");
    assert!(took < Duration::from_millis(100), "{took:?}");
    let refused = refuse();
    assert_eq!(refused.code, 6, "{}", refused.stderr);
    let error = refused.stderr.lines().last().expect("an error");
    assert!(error.contains("does not fit: 66"), "{error}");
    assert!(
        error.matches(" saves ").count() >= 2,
        "two ways out at least: {error}"
    );
    // By the kernel's count, which a short life cannot hide.
    let touched = Command::new("time")
        .args(["-f", "%M"])
        .arg(HOST.linked())
        .args(&run)
        .args(["--budget", &budget, "-q"])
        .output()
        .expect("GNU time runs");
    let touched = String::from_utf8(touched.stderr).expect("UTF-8");
    let kb: u64 = touched
        .lines()
        .last()
        .expect("a line")
        .parse()
        .expect("KiB");
    println!("refused in {took:?} with {kb} KiB resident");
    assert!(kb * 1024 < 16 * MIB, "{kb} KiB");
}

#[test]
fn budget_beyond_what_there_is_grants_nothing() {
    let model = smollm2();
    let huge = ["-m", &model, "-p", "x", "-c", "16777216"];
    let granted = ["--budget", "9000000G"];
    let output = run_host(&[&huge[..], &granted].concat(), b"");
    assert_eq!(output.code, 6, "{}", output.stderr);
    assert!(!output.stderr.contains("(flag)"), "{}", output.stderr);
    // As a plan for another machine it counts alone.
    let output = run_host(&[&["plan"], &huge[..], &granted].concat(), b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
}

#[test]
fn every_way_out_saves_what_it_says() {
    let model = tinyllama();
    let run = short_run(&model);
    let total = planned(&run);
    let budget = (total - 24 * MIB).to_string();
    let output = run_host(
        &[&["plan", "--format", "json", "--budget", &budget], &run[..]].concat(),
        b"",
    );
    assert_eq!(output.code, 6, "{}", output.stderr);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(plan["fits"], "no");
    let mut flags = 0;
    for index in 1.. {
        let Some(way) = plan[format!("way_{index}")].as_str() else {
            break;
        };
        let saves = plan[format!("saves_{index}")].as_u64().expect("bytes");
        assert!(saves > 0, "{way}");
        if way.starts_with('-') {
            let flags_of_way: Vec<&str> = way.split(' ').collect();
            assert_eq!(
                planned(&[&run[..], &flags_of_way].concat()),
                total - saves,
                "{way}"
            );
            flags += 1;
        }
    }
    assert!(flags >= 2, "{plan}");
}

/// The control group of memory that this process is in, of whichever version the machine has: its
/// folder and the file of its limit.
fn memory_cgroup() -> Option<(PathBuf, &'static str)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let folder = |root: &str| PathBuf::from(format!("{root}{path}"));
        match controllers {
            "" => {
                let folder = folder("/sys/fs/cgroup");
                let lists = fs::read_to_string(folder.join("cgroup.subtree_control")).ok()?;
                lists.contains("memory").then_some((folder, "memory.max"))
            }
            _ if controllers.split(',').any(|name| name == "memory") => {
                Some((folder("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"))
            }
            _ => None,
        }
    })
}

/// Runs the program inside a control group of so many bytes.
fn run_in_cgroup(name: &str, bytes: u64, arguments: &[&str]) -> Option<Output> {
    let (parent, limit) = memory_cgroup()?;
    let group = parent.join(format!("rushlight-test-{name}-{}", std::process::id()));
    fs::create_dir(&group).ok()?; // not root, or a file system that is read-only
    fs::write(group.join(limit), bytes.to_string()).expect("a limit can be set");
    let script = format!(
        "echo $$ > '{}/cgroup.procs' && exec '{}' \"$@\"",
        group.display(),
        HOST.linked().display()
    );
    let output = Command::new("sh")
        .args(["-c", &script, "sh"])
        .args(arguments)
        .output()
        .expect("a shell");
    fs::remove_dir(&group).expect("an empty group goes");
    Some(Output {
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        code: output.status.code().unwrap_or(-1),
    })
}

#[test]
fn cgroup_of_the_plan_is_enough_and_a_smaller_one_is_refused() {
    let model = tinyllama();
    for (name, model) in [("streamed", model.as_str()), ("mapped", packed_tinyllama())] {
        let run = short_run(model);
        let limit = planned(&run).next_multiple_of(2 * MIB);
        let Some(output) = run_in_cgroup(name, limit, &run) else {
            println!("no control group of memory can be made here: nothing tested");
            return;
        };
        assert_eq!(output.code, 0, "{name}: {}", output.stderr);
        assert_eq!(fields(&output, "end")["finish"], "length");
        let plan = fields(&output, "plan");
        assert_eq!(plan["budget_source"], "cgroup");
        assert_eq!(number(&plan, "budget"), limit);
        let output = run_in_cgroup(name, limit - 4 * MIB, &run).expect("as before");
        assert_eq!(output.code, 6, "{name}: {}", output.stderr);
    }
}

#[test]
fn resident_set_at_token_1000_is_that_at_token_50() {
    let model = smollm2();
    let story = [
        "--raw",
        "-p",
        "Once upon a time",
        "--ignore-eos",
        "--profile",
    ];
    let output = run_host(&[&["-m", &model, "-n", "1000"], &story[..]].concat(), b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let resident = |token: &str| {
        let line = output
            .stderr
            .lines()
            .find(|line| line.starts_with(&format!("rushlight token i={token} ")));
        let line = line.unwrap_or_else(|| panic!("no line of token {token}"));
        let part = |name: &str| {
            let value = line.split(name).nth(1).expect("a field");
            value.split(' ').next().expect("a value").to_owned()
        };
        (part(" rss_kb="), part(" anon_kb="), part(" file_kb="))
    };
    assert_eq!(resident("50"), resident("1000"));
}

/// Drops what the kernel holds of a file, so that it has to be read.
fn drop_cache(file: &str) {
    let dd = Command::new("dd")
        .args([
            &format!("if={file}"),
            "iflag=nocache",
            "count=0",
            "status=none",
        ])
        .status();
    assert!(dd.expect("dd runs").success());
}

#[test]
fn cold_load_reads_each_byte_once() {
    // Files that no other test has in use.
    let (gguf, image) = (scratch("cold.gguf"), scratch("cold.rush"));
    fs::copy(smollm2(), &gguf).expect("a copy");
    let output = run_host(&["pack", &gguf, &image], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let cases = [(&gguf, None), (&image, Some("--prefault")), (&image, None)];
    for (file, more) in cases {
        let written = fs::File::open(file).and_then(|file| file.sync_all());
        written.expect("only what is on the storage can be dropped");
        drop_cache(file);
        let run = watched::reads(&[&short_run(file)[..], more.as_slice()].concat());
        assert_eq!(run.output.code, 0, "{}", run.output.stderr);
        let size = fs::metadata(file).expect("a file").len();
        println!("{file} {more:?}: {} bytes read, {size} there", run.most);
        assert!(run.most >= size / 10 * 9, "it was not cold");
        assert!(run.most <= size + MIB, "{} of {size}", run.most);
    }
    for file in [gguf, image] {
        fs::remove_file(file).expect("a file");
    }
}

#[test]
fn pack_reads_no_byte_twice() {
    let (log, image) = (scratch("pack.txt"), scratch("pack.rush"));
    let status = Command::new("strace")
        .args(["-f", "-e", "trace=pread64", "-o"])
        .arg(&log)
        .arg(HOST.linked())
        .args(["pack", &tinyllama(), "-q"])
        .arg(&image)
        .status();
    assert!(status.expect("strace runs").success());
    fs::remove_file(&image).expect("an image");
    let calls = fs::read_to_string(&log).expect("the calls");
    let results = calls.lines().filter_map(|line| line.rsplit_once(" = "));
    let read: u64 = results
        .filter_map(|(_, result)| result.parse::<u64>().ok())
        .sum();
    let size = fs::metadata(tinyllama()).expect("a file").len();
    println!("{read} bytes read, {size} there");
    assert!((size / 10 * 9..=size).contains(&read), "{read} of {size}");
}

#[test]
fn mapped_image_is_ready_within_60_ms_of_process_time() {
    let image = &scratch("smollm2.rush");
    let output = run_host(&["pack", &smollm2(), image], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Other tests run beside this one: the best of some runs tells what it takes.
    let times = (0..7).map(|_| {
        let output = run_host(&short_run(image), b"");
        let cpu_ms = fields(&output, "load")["cpu_ms"];
        cpu_ms.parse::<f64>().expect("a number")
    });
    let best = times.reduce(f64::min).expect("seven runs");
    println!("{best} ms");
    fs::remove_file(image).expect("an image");
    assert!(best <= 60.0, "{best} ms");
}

/// System calls that change what memory a process has.
const MEMORY_CALLS: &str = "mmap,munmap,mremap,brk,madvise,mprotect,mlock,mlock2,mlockall";

#[test]
fn no_memory_call_is_made_between_token_50_and_token_1000() {
    let model = smollm2();
    let log = scratch("calls.txt");
    let output = Command::new("strace")
        .args(["-f", "-e", &format!("trace={MEMORY_CALLS},write"), "-o"])
        .arg(&log)
        .arg(HOST.linked())
        .args([
            "-m",
            &model,
            "--raw",
            "-p",
            "Once upon a time",
            "-n",
            "1000",
        ])
        .args(["--ignore-eos", "--profile"])
        .output()
        .expect("strace runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let calls = fs::read_to_string(&log).expect("the calls");
    let is_memory = |line: &&str| {
        let call = line.split_ascii_whitespace().nth(1).unwrap_or_default();
        let name = call.split('(').next().unwrap_or_default();
        MEMORY_CALLS.split(',').any(|memory| memory == name)
    };
    let at = |token: &str| {
        let wanted = format!("rushlight token i={token} ");
        let at = calls.lines().position(|line| line.contains(&wanted));
        at.unwrap_or_else(|| panic!("no line of token {token}"))
    };
    let (from, to) = (at("50"), at("1000"));
    let lines: Vec<&str> = calls.lines().collect();
    assert!(to - from > 950, "a log line a token at least");
    let found: Vec<_> = lines[from..to].iter().copied().filter(is_memory).collect();
    assert!(found.is_empty(), "{found:?}");
    // The same eyes see the mapping of the file and the reservation.
    assert!(
        lines[..from]
            .iter()
            .copied()
            .filter(|line| is_memory(line))
            .count()
            > 3
    );
}

#[test]
fn address_space_that_is_too_small_is_refused_wherever_it_ends() {
    let model = smollm2();
    for mib in [8, 64, 100, 200] {
        let output = Command::new("prlimit")
            .arg(format!("--as={}", mib * MIB))
            .arg(HOST.linked())
            .args(["-m", &model, "--raw", "-p", "a", "-n", "1", "-q"])
            .stdin(Stdio::null())
            .output()
            .expect("util-linux has prlimit");
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{mib} MiB: {log}");
        assert!(log.contains("Out of memory"), "{mib} MiB: {log}");
        assert!(output.stdout.is_empty());
    }
}
