//! `--trace`: what the file says is what happened, and writing it changes nothing else.

use runtime::arena;
use runtime::gguf::Gguf;
use runtime::trace::{ScopeName, Trace, TraceSink};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use tests::memory::Block;
use tests::{HOST, Output, model, run_host};

const THREADS: u64 = 2;
const TOKENS: usize = 4;
/// Tokens of a chunk of the prompt: some are whole, the last is not.
const BATCH: u64 = 12;

fn smollm2() -> String {
    model("smollm2").to_str().expect("a UTF-8 path").to_owned()
}

/// A path of the test's own.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{name}"))
}

/// Runs the model on a prompt, with more arguments.
fn run(more: &[&str]) -> Output {
    let model = smollm2();
    let (threads, tokens) = (THREADS.to_string(), TOKENS.to_string());
    let batch = BATCH.to_string();
    #[rustfmt::skip]
    let common = [
        "-m", &model, "-p", "Tell me a story.", "--ignore-eos",
        "-t", &threads, "-n", &tokens, "-b", &batch,
    ];
    run_host(&[&common[..], more].concat(), b"")
}

fn parse(path: &PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a trace");
    match serde_json::from_str(&text) {
        Ok(Value::Array(events)) => events,
        other => panic!("no array: {other:?}"),
    }
}

/// A run and its trace, made once for all tests that only look.
struct Traced {
    output: Output,
    events: Vec<Value>,
}

fn traced() -> &'static Traced {
    static TRACED: OnceLock<Traced> = OnceLock::new();
    TRACED.get_or_init(|| {
        let path = scratch("looked-at.json");
        let output = run(&["--trace", path.to_str().expect("UTF-8")]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let events = parse(&path);
        Traced { output, events }
    })
}

/// The sum of those numbers of the `plan` line whose names begin with one of these.
fn planned(names: &[&str]) -> u64 {
    let lines = &traced().output.stderr;
    let line = lines
        .lines()
        .find(|line| line.starts_with("rushlight plan"));
    let words = line.expect("a plan").split(' ');
    let fields = words.filter_map(|word| word.split_once('='));
    let named = fields.filter(|(name, _)| names.iter().any(|wanted| name.starts_with(wanted)));
    let numbers: Vec<u64> = named
        .map(|(_, number)| number.parse().expect("a number"))
        .collect();
    assert!(numbers.len() >= names.len(), "{names:?}");
    numbers.iter().sum()
}

/// Nanoseconds of a number of microseconds.
fn ns(micros: &Value) -> u64 {
    (micros.as_f64().expect("a number") * 1000.0).round() as u64
}

/// An event with a length.
struct Span<'e> {
    name: &'e str,
    member: u64,
    from: u64,
    to: u64,
    args: &'e Value,
}

impl Span<'_> {
    fn holds(&self, other: &Span<'_>) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    fn is_matmul(&self) -> bool {
        let kernel = self.args["kernel"].as_str();
        kernel.is_some_and(|kernel| kernel.starts_with("gemv_"))
    }
}

fn spans() -> Vec<Span<'static>> {
    let events = traced().events.iter().filter(|event| event["ph"] == "X");
    events
        .map(|event| Span {
            name: event["name"].as_str().expect("a name"),
            member: event["tid"].as_u64().expect("a track"),
            from: ns(&event["ts"]),
            to: ns(&event["ts"]) + ns(&event["dur"]),
            args: &event["args"],
        })
        .collect()
}

/// Bytes in use after each change of a scope, with what the change was.
fn live(scope: &str) -> Vec<(&'static str, u64)> {
    let names = tracks();
    let events = traced().events.iter().filter(|event| event["ph"] == "i");
    events
        .filter(|event| names[&track(event)] == scope)
        .map(|event| {
            let live = event["args"]["live"].as_u64().expect("a number");
            (event["name"].as_str().expect("a name"), live)
        })
        .collect()
}

fn track(event: &Value) -> (u64, u64) {
    let number = |name: &str| event[name].as_u64().expect("a number");
    (number("pid"), number("tid"))
}

/// Names of the tracks.
fn tracks() -> BTreeMap<(u64, u64), &'static str> {
    let events = traced().events.iter();
    events
        .filter(|event| event["ph"] == "M" && event["name"] == "thread_name")
        .map(|event| {
            (
                track(event),
                event["args"]["name"].as_str().expect("a name"),
            )
        })
        .collect()
}

#[test]
fn every_track_of_a_trace_is_named() {
    let names = tracks();
    let mut sorted: Vec<_> = names.values().copied().collect();
    sorted.sort_unstable();
    let wanted = ["Forward", "Kv", "Model", "worker 0 (main)", "worker 1"];
    assert_eq!(sorted, wanted);
    for event in &traced().events {
        assert!(
            event["name"] == "process_name" || names.contains_key(&track(event)),
            "{event}"
        );
    }
    let events = traced().events.iter();
    let processes = events.filter(|event| event["name"] == "process_name");
    let processes: Vec<_> = processes.map(|event| &event["args"]["name"]).collect();
    assert_eq!(processes, ["team", "arena"]);
}

#[test]
fn phases_of_a_run_are_all_there_in_order() {
    let mut spans = spans();
    spans.retain(|span| span.member == 0);
    spans.sort_by_key(|span| span.from);
    let inner = [
        "embed",
        "norm",
        "matmul",
        "rope",
        "attention",
        "refine",
        "write",
    ];
    let outer = spans
        .iter()
        .filter(|span| span.args.get("kernel").is_none() && !inner.contains(&span.name));
    let names: Vec<_> = outer.clone().map(|span| span.name).collect();
    let prefills = names.iter().filter(|&&name| name == "prefill").count();
    let mut wanted = vec!["header", "prompt", "setup", "tokenizer", "encode", "load"];
    wanted.extend(vec!["prefill"; prefills]);
    wanted.push("sample");
    for name in ["decode token 2", "decode token 3", "decode token 4"] {
        wanted.extend([name, "sample"]);
    }
    assert_eq!(names, wanted);
    let prefills = outer.filter(|span| span.name == "prefill");
    let lengths: Vec<_> = prefills
        .map(|span| span.args["tokens"].as_u64().expect("a number"))
        .collect();
    let (last, whole) = lengths.split_last().expect("a prefill");
    assert!(!whole.is_empty() && *last <= BATCH, "{lengths:?}");
    assert!(whole.iter().all(|&len| len == BATCH), "{lengths:?}");
    let writes = spans.iter().filter(|span| span.name == "write").count();
    assert_eq!(writes, TOKENS);
}

#[test]
fn spans_of_a_member_nest() {
    for member in 0..THREADS {
        let mut spans = spans();
        spans.retain(|span| span.member == member);
        assert!(!spans.is_empty(), "member {member} did something");
        spans.sort_by_key(|span| (span.from, u64::MAX - span.to));
        let mut open: Vec<Span<'_>> = Vec::new();
        for span in spans {
            open.retain(|outer| outer.to > span.from);
            if let Some(outer) = open.last() {
                assert!(outer.holds(&span), "{} in {}", span.name, outer.name);
            }
            open.push(span);
        }
    }
}

#[test]
fn matmul_spans_of_a_token_are_each_matrix_once_a_member() {
    let bytes = fs::read(smollm2()).expect("the model");
    let gguf = Gguf::check(&bytes).expect("a model");
    // The embedding is the output matrix too.
    let matrices: BTreeMap<_, _> = gguf
        .tensors()
        .filter(|tensor| tensor.shape[1] > 1)
        .map(|tensor| (tensor.name, tensor.shape[1].next_multiple_of(8)))
        .collect();
    let (spans, mut tokens) = (spans(), 0);
    let decodes = spans.iter().filter(|span| span.name.starts_with("decode "));
    for decode in decodes {
        tokens += 1;
        let mut rows = BTreeMap::new();
        let mut seen = Vec::new();
        for span in spans
            .iter()
            .filter(|span| span.is_matmul() && decode.holds(span))
        {
            seen.push((span.member, span.name));
            assert_eq!(span.args["tokens"], 1, "{}", span.name);
            *rows.entry(span.name).or_default() += span.args["rows"].as_u64().expect("rows");
        }
        assert_eq!(rows, matrices, "each row of each matrix once");
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all, "a member has one span a matrix");
    }
    assert_eq!(tokens, TOKENS - 1, "the first token comes from the prefill");
}

#[test]
fn attention_spans_share_out_every_pair() {
    let mut pairs = BTreeMap::<_, u64>::new();
    let spans = spans();
    let decode = spans.iter().find(|span| span.name == "decode token 2");
    let decode = decode.expect("a token");
    let attention = spans
        .iter()
        .filter(|span| span.name.ends_with(".attention"));
    for span in attention.filter(|span| decode.holds(span)) {
        *pairs.entry(span.name).or_default() += span.args["pairs"].as_u64().expect("pairs");
    }
    assert_eq!(pairs.len(), 30, "the layers of the model");
    assert!(pairs.values().all(|&pairs| pairs == 3), "its KV heads");
}

#[test]
fn forward_scope_is_empty_after_each_use_and_within_its_plan() {
    let changes = live("Forward");
    let resets = changes.iter().filter(|(what, _)| *what == "reset");
    assert!(resets.clone().all(|&(_, live)| live == 0));
    let prefills = spans().iter().filter(|span| span.name == "prefill").count();
    // Encoding, loading, the chunks of the prompt, and the tokens after the first.
    assert_eq!(resets.count(), 2 + prefills + TOKENS - 1);
    assert_eq!(changes.last().expect("a change").0, "reset");
    let peak = changes.iter().map(|&(_, live)| live).max().expect("a peak");
    assert!(peak > 0 && peak <= planned(&["forward"]), "{peak}");
}

#[test]
fn model_and_kv_scopes_hold_what_was_planned() {
    let model = planned(&["weights_", "vectors", "tokenizer", "tables"]);
    let kv = planned(&["keys", "values", "history"]);
    for (scope, sum) in [("Model", model), ("Kv", kv)] {
        let changes = live(scope);
        let [.., (last, full), (end, empty)] = changes[..] else {
            panic!("{changes:?}")
        };
        assert_eq!((last, full), ("alloc", sum), "{scope}");
        assert_eq!((end, empty), ("reset", 0), "{scope}");
    }
}

#[test]
fn counters_say_what_the_scopes_say() {
    for scope in ["Model", "Kv", "Forward"] {
        let name = format!("{scope} live bytes");
        let events = traced().events.iter();
        let counted: Vec<_> = events
            .filter(|event| event["ph"] == "C" && event["name"] == name.as_str())
            .map(|event| event["args"]["bytes"].as_u64().expect("a number"))
            .collect();
        let live: Vec<_> = live(scope).iter().map(|change| change.1).collect();
        assert_eq!(counted, live, "{scope}");
    }
}

#[test]
fn tracing_changes_no_output() {
    let [with, without] = [true, false].map(|is_traced| {
        let (logits, trace) = (scratch("logits.f32"), scratch("beside.json"));
        let (logits, trace) = (logits.to_str().unwrap(), trace.to_str().unwrap());
        let more = ["--logits", logits, "--trace", trace];
        let output = run(&more[..if is_traced { 4 } else { 2 }]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        (output.stdout, fs::read(logits).expect("logits"))
    });
    assert!(!with.0.is_empty() && !with.1.is_empty());
    assert!(with == without);
}

#[test]
fn trace_that_cannot_be_created_ends_with_code_4() {
    let output = run(&["--trace", "/no/such/folder/trace"]);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("/no/such/folder/trace"));
    assert!(output.stdout.is_empty());
}

#[test]
fn trace_that_cannot_be_written_is_warned_of_once() {
    let output = run(&["--trace", "/dev/full"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.stdout, traced().output.stdout);
    let events = output.stderr.lines().map(|line| line.split(' ').nth(1));
    let events: Vec<_> = events.map(|event| event.expect("an event")).collect();
    assert_eq!(events, ["start", "plan", "load", "warning", "end"]);
    assert!(output.stderr.contains("/dev/full: "), "{}", output.stderr);
}

#[test]
fn trace_of_a_failed_run_is_whole() {
    let path = scratch("failed.json");
    let output = run(&["-c", "4", "--trace", path.to_str().expect("UTF-8")]);
    assert_eq!(output.code, 7, "{}", output.stderr);
    let events = parse(&path);
    assert!(events.iter().any(|event| event["name"] == "encode"));
}

#[test]
fn trace_of_an_interrupted_run_is_whole() {
    let path = scratch("interrupted.json");
    let mut child = Command::new(HOST.linked())
        .args(["-m", &smollm2(), "-p", "Tell me a story."])
        .args(["-n", "1900", "--ignore-eos", "--trace"])
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    // It is in the middle of its text once the first byte is there.
    let stdout = child.stdout.as_mut().expect("stdout is piped");
    stdout.read_exact(&mut [0]).expect("a first byte");
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(parse(&path).iter().any(|event| event["name"] == "load"));
}

/// A sink of the test's own: changes of the arena's scopes.
#[derive(Default)]
struct Recorder(Mutex<Vec<(ScopeName, usize, usize)>>);

impl TraceSink for Recorder {
    fn alloc(&self, scope: ScopeName, bytes: usize, live: usize, _at: u64) {
        self.0
            .lock()
            .expect("one thread")
            .push((scope, bytes, live));
    }

    fn reset(&self, scope: ScopeName, _at: u64) {
        self.0.lock().expect("one thread").push((scope, 0, 0));
    }
}

#[test]
fn scopes_report_rounded_bytes_and_their_end() {
    let (recorder, mut block) = (Recorder::default(), Block::new(1024));
    let trace = Trace::new(Some(&recorder));
    let (model, _, mut forward) = arena::split_traced(block.bytes(), 128, 0, trace).unwrap();
    let model = model.open_once();
    model.alloc::<u8>(1).unwrap();
    for floats in [1, 17] {
        let scratch = forward.open();
        scratch.alloc::<f32>(floats).unwrap();
        scratch.alloc::<f32>(1).unwrap();
        scratch.alloc::<u8>(1024).unwrap_err(); // nothing was handed out
    }
    drop(model);
    use ScopeName::{Forward, Model};
    let wanted = [
        (Model, 64, 64),
        (Forward, 64, 64),
        (Forward, 64, 128),
        (Forward, 0, 0),
        (Forward, 128, 128),
        (Forward, 64, 192),
        (Forward, 0, 0),
        (Model, 0, 0),
    ];
    assert_eq!(*recorder.0.lock().expect("one thread"), wanted);
}
