//! The console: prompts by a pty, or by stdin, and whatever else comes that way.
//!
//! Most tests take a small model of random weights: its answers are random bytes, so that what is
//! lost or changed on the way shows. An answer is expected to be that of a run of its own.

mod program;
mod pty;

use program::{Console, one_shot, plain, random_model, smollm2};
use pty::Pty;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::time::Duration;
use tests::{HOST, Output, mixed_model, run_host};

/// Settings under which the random model says something else to every prompt.
const VARIED: [&str; 12] = [
    "--raw",
    "--temp",
    "2",
    "--top-k",
    "0",
    "--top-p",
    "1",
    "--min-p",
    "0",
    "-s",
    "7",
    "--ignore-eos",
];

/// A model's file, and those settings with `more`.
fn varied<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["-m", model][..], &VARIED, more].concat()
}

/// Sends a line and expects its answer: what a run of its own says, and a ready prompt.
fn ask(console: &mut Console, settings: &[&str], line: &[u8], end: &[u8]) {
    let expected = [&one_shot(settings, line)[..], b"\n> "].concat();
    console.send(&[line, end].concat());
    let said = console.read(expected.len());
    assert!(
        said == expected,
        "{:?}: {:?} is not {:?}",
        line.escape_ascii().to_string(),
        said.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}

#[test]
fn answers_are_those_of_single_runs() {
    let model = random_model("same");
    let settings = varied(&model, &["-n", "40", "-c", "200"]);
    let mut console = Console::on_pty("same", "", &settings);
    assert_eq!(console.read(2), b"> ");
    ask(&mut console, &settings, b"one", b"\r");
    ask(&mut console, &settings, b"two", b"\n");
    ask(&mut console, &settings, b"three", b"\r\n");
    // No UTF-8, and FF, which the kernel would mark.
    ask(&mut console, &settings, b"\xff\xfe caf\xc3 \xff\xff", b"\r");
    ask(
        &mut console,
        &settings,
        "caf\u{e9} \u{1f600}\tx".as_bytes(),
        b"\n",
    );
    // In parts, and edited.
    let expected = one_shot(&settings, b"abc");
    for part in [
        &b"a"[..],
        b"\0\x01",
        b"x\xc3\xa9\x08",
        b"\x7f",
        b"\x1b[",
        b"Cbc",
        b"\r",
    ] {
        console.send(part);
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(console.read(expected.len()), expected);
    assert_eq!(console.read(3), b"\n> ");
    // Together.
    let expected = [
        one_shot(&settings, b"four"),
        b"\n> ".to_vec(),
        one_shot(&settings, b"five"),
        b"\n> ".to_vec(),
    ];
    console.send(b"four\nfive\n");
    let expected = expected.concat();
    assert_eq!(console.read(expected.len()), expected);
    // An empty line asks nothing.
    console.send(b"\r\n");
    assert_eq!(console.read(2), b"> ");
    let end = console.terminate(Signal::TERM);
    assert_eq!(end.code, 143, "{}", end.stderr);
    assert_eq!(plain(&end, "end").len(), 8);
    assert!(
        end.stderr.ends_with("state=closed lines=8 finish=cancel\n"),
        "{}",
        end.stderr
    );
}

#[test]
fn lines_of_a_terminal_are_shown_if_asked_for() {
    let model = random_model("echo");
    let settings = varied(&model, &["-n", "1500", "-c", "2000"]);
    let mut console = Console::on_pty("echo", ",echo,crlf", &settings);
    assert_eq!(console.read(2), b"> ");
    let expected = String::from_utf8_lossy(&one_shot(&settings, b"ab")).into_owned();
    assert!(expected.contains('\n'), "take another seed: {expected:?}");
    console.send(b"ax\x08b\0\r");
    let shown = b"ax\x08 \x08b\r\n";
    assert_eq!(console.read(shown.len()), shown);
    let answer = one_shot(&settings, b"ab");
    let lines: Vec<&[u8]> = answer.split(|&byte| byte == b'\n').collect();
    let expected = [&lines.join(&b"\r\n"[..]), &b"\r\n> "[..]].concat();
    assert_eq!(console.read(expected.len()), expected);
}

#[test]
fn interrupt_cancels_the_answer_and_nothing_else() {
    let model = random_model("interrupt");
    let long = varied(&model, &["-n", "20000", "-c", "30000"]);
    let mut console = Console::on_pty("interrupt", "", &long);
    assert_eq!(console.read(2), b"> ");
    for _ in 0..3 {
        console.send(b"a story\r");
        console.read(20);
        console.send(b"\x03");
        console.read_to_ready();
    }
    // While a line is typed, it clears that.
    console.send(b"abc\x03");
    assert_eq!(console.read(3), b"\n> ");
    // What was typed ahead stays.
    console.send(b"first\r");
    console.read(20);
    console.send(b"second\r\x03");
    console.wait_for_log("state=", 1);
    console.wait_for_log("rushlight end ", 4);
    console.read(20);
    console.send(b"\x03");
    console.read_to_ready();
    let end = console.terminate(Signal::INT);
    assert_eq!(end.code, 130, "{}", end.stderr);
    let ends = plain(&end, "end");
    assert_eq!(ends.len(), 5, "{}", end.stderr);
    assert!(ends.iter().all(|line| line.ends_with("finish=cancel")));
}

#[test]
fn signal_ends_an_answer_and_the_program() {
    let model = random_model("signal");
    let long = varied(&model, &["-n", "20000", "-c", "30000"]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut console = Console::on_pty("signal", "", &long);
        console.send(b"a story\r");
        console.read(40);
        let end = console.terminate(signal);
        assert_eq!(end.code, code, "{}", end.stderr);
        assert_eq!(plain(&end, "end").len(), 1, "{}", end.stderr);
        assert!(
            end.stderr.ends_with("lines=1 finish=cancel\n"),
            "{}",
            end.stderr
        );
    }
}

#[test]
fn signal_ends_the_last_answer_too() {
    let model = random_model("last");
    let settings = varied(&model, &["-n", "20000", "-c", "30000", "--console", "-"]);
    let mut console = Console::on_pipes("last", &settings);
    assert_eq!(console.read(2), b"> ");
    console.send(b"much, without an end");
    console.close_input();
    console.read(40);
    let end = console.terminate(Signal::TERM);
    assert_eq!(end.code, 143, "{}", end.stderr);
    assert!(
        end.stderr.ends_with("lines=1 finish=cancel\n"),
        "{}",
        end.stderr
    );
}

#[test]
fn program_is_told_that_a_signal_ended_its_answer() {
    let model = smollm2();
    let base = ["-m", &model, "-c", "2000", "--ignore-eos"];
    let settings = [&base[..], &["--framed"]].concat();
    for end in [&b"\n"[..], b""] {
        let mut console = Console::on_pipes("told", &settings);
        assert_eq!(console.read_object(), json!({"ready": true}));
        console.send(
            &[
                &b"{\"id\":1,\"prompt\":\"Write a story\",\"n\":1900}"[..],
                end,
            ]
            .concat(),
        );
        if end.is_empty() {
            console.close_input();
        }
        let mut text = String::new();
        for _ in 0..20 {
            text += console.read_object()["text"].as_str().expect("text");
        }
        assert_eq!(console.terminate_and_keep(Signal::TERM).code, 143);
        let (rest, finish) = console.read_answer();
        assert_eq!(
            (&finish["finish"], &finish["id"]),
            (&json!("cancel"), &json!(1))
        );
        // Nothing is missing before it.
        let generated = finish["generated"].to_string();
        let run = one_shot(&[&base[..], &["-n", &generated]].concat(), b"Write a story");
        assert_eq!(text + &rest, String::from_utf8_lossy(&run));
    }
}

#[test]
fn stdin_that_cannot_be_read_is_an_error() {
    let model = random_model("unreadable");
    for mode in [&["--console", "-"][..], &["--framed"]] {
        for (input, words) in [
            ("<&-", "stdin: Bad file descriptor"),
            ("</", "stdin: Is a directory"),
        ] {
            let script = format!("exec \"$0\" \"$@\" {input}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).arg(HOST.linked());
            let output = shell.args(varied(&model, mode)).output().expect("sh runs");
            let log = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(4), "{mode:?} {input}: {log}");
            assert!(log.contains(words), "{mode:?} {input}: {log}");
        }
    }
}

#[test]
fn line_that_is_too_long_is_swallowed_to_its_end() {
    let model = random_model("long");
    let settings = varied(&model, &["-n", "8", "-c", "200"]);
    let mut console = Console::on_pty("long", "", &settings);
    assert_eq!(console.read(2), b"> ");
    for (bytes, message) in [
        (
            16_385,
            "error: line of more than 16384 bytes: not taken\n> ",
        ),
        (
            100_000,
            "error: line of more than 16384 bytes: not taken\n> ",
        ),
        (
            16_384,
            "error: prompt of 16387 tokens, context of 200 (-c)\n> ",
        ),
    ] {
        console.send(&vec![b'x'; bytes]);
        console.send(b"\r\n");
        let said = console.read(message.len());
        assert_eq!(String::from_utf8_lossy(&said), message);
        ask(&mut console, &settings, b"short", b"\r");
    }
}

#[test]
fn noise_is_survived() {
    let model = random_model("noise");
    let settings = varied(&model, &["-n", "2", "-c", "256"]);
    let mut console = Console::on_pty("noise", "", &settings);
    assert_eq!(console.read(2), b"> ");
    let mut random = pty::Random(1);
    let mut noise: Vec<u8> = (0..1 << 20).map(|_| random.below(256) as u8).collect();
    for byte in &mut noise {
        // Fewer line ends, for fewer prompts to answer.
        if matches!(byte, b'\r' | b'\n') && random.below(8) > 0 {
            *byte = b'~';
        }
    }
    console.send_while_reading(&noise);
    console.send_while_reading(b"\x03\r\x03");
    console.read_to_silence();
    ask(&mut console, &settings, b"still there?", b"\r");
    // And without any line end.
    noise.retain(|byte| !matches!(byte, b'\r' | b'\n' | 3));
    console.send_while_reading(&noise);
    console.send(b"\r");
    let said = console.read_to_silence();
    assert!(
        said.ends_with(b"bytes: not taken\n> "),
        "{}",
        said.escape_ascii()
    );
    ask(&mut console, &settings, b"and now?", b"\r");
}

#[test]
fn terminal_that_hangs_up_is_waited_for() {
    let model = random_model("hang-up");
    let long = varied(&model, &["-n", "3000", "-c", "30000"]);
    let mut console = Console::on_pty("hang-up", "", &long);
    assert_eq!(console.read(2), b"> ");
    // In the middle of a line, of an answer, and while nobody does anything.
    for (round, before) in [&b"half a li"[..], b"a story\r", b""].iter().enumerate() {
        console.send(before);
        if before.ends_with(b"\r") {
            console.read(20);
        }
        console.hang_up();
        console.wait_for_log("state=hung_up", round + 1);
        std::thread::sleep(Duration::from_millis(300));
        console.reconnect();
        assert_eq!(console.read(2), b"> ");
    }
    let short = varied(&model, &["-n", "20"]);
    let expected = one_shot(&short, b"hello");
    console.send(b"hello\r");
    assert_eq!(console.read(expected.len()), expected);
    console.send(b"\x03");
    console.read_to_ready();
    let end = console.terminate(Signal::TERM);
    assert_eq!(end.code, 143, "{}", end.stderr);
    assert_eq!(
        end.stderr.matches("state=open").count(),
        3,
        "{}",
        end.stderr
    );
    assert!(
        plain(&end, "end")[0].ends_with("finish=cancel"),
        "{}",
        end.stderr
    );
}

#[test]
fn slow_reader_gets_every_byte() {
    let model = random_model("slow");
    let settings = varied(&model, &["-n", "400", "-c", "600"]);
    let mut console = Console::on_pty("slow", "", &settings);
    assert_eq!(console.read(2), b"> ");
    let expected = [&one_shot(&settings, b"slowly")[..], b"\n> "].concat();
    console.send(b"slowly\r");
    let mut said = Vec::new();
    while said.len() < expected.len() {
        said.extend(console.read(32.min(expected.len() - said.len())));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(said == expected);
}

#[test]
fn reader_that_stops_loses_its_answer_and_no_more() {
    let model = random_model("stops");
    // Far more than a pty holds.
    let settings = varied(&model, &["-n", "20000", "-c", "21000", "--framed"]);
    let mut console = Console::on_pty("stops", ",wait=1", &settings);
    assert_eq!(console.read_object(), json!({"ready": true}));
    console.send(b"{\"prompt\":\"much\",\"id\":1}\n");
    console.wait_for_log("nobody reads for", 1);
    console.wait_for_log("finish=cancel", 1);
    let (mut cut, mut finish) = (0, None);
    while finish.is_none() {
        match serde_json::from_slice::<Value>(&console.read_line()) {
            Ok(object) if object.get("finish").is_some() => finish = Some(object),
            Ok(object) => assert_eq!(object["id"], 1),
            Err(_) => cut += 1,
        }
    }
    assert!(cut <= 1, "{cut} objects that are none");
    let finish = finish.expect("it was waited for");
    assert_eq!(
        (&finish["finish"], &finish["id"]),
        (&json!("cancel"), &json!(1))
    );
    console.send(b"{\"prompt\":\"little\",\"n\":3,\"id\":2}\n");
    let (_, end) = console.read_answer();
    assert_eq!(
        (&end["finish"], &end["generated"]),
        (&json!("length"), &json!(3))
    );
}

#[test]
fn pipe_that_is_not_read_holds_nothing_up() {
    let model = random_model("pipe");
    let settings = varied(
        &model,
        &["-n", "20000", "-c", "21000", "--console", "-,wait=1"],
    );
    let mut console = Console::on_pipes("pipe", &settings);
    assert_eq!(console.read(2), b"> ");
    console.narrow_output();
    for round in 1..=2 {
        console.send(b"much\n");
        console.wait_for_log("nobody reads for", round);
        console.read_to_ready();
    }
    console.close_input();
    let end = console.wait();
    assert_eq!(end.code, 0, "{}", end.stderr);
}

#[test]
fn stdin_is_answered_to_its_end() {
    let model = random_model("stdin");
    let settings = varied(&model, &["-n", "30"]);
    let console = [&settings[..], &["--console", "-"]].concat();
    let expected = [
        &b"> "[..],
        &one_shot(&settings, b"one"),
        b"\n> ",
        &one_shot(&settings, b"two, without an end"),
        b"\n> \n",
    ];
    let output = run_host(&console, b"one\ntwo, without an end");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.stdout, expected.concat());
    assert!(
        output.stderr.ends_with("lines=2 finish=stop\n"),
        "{}",
        output.stderr
    );
    assert_eq!(run_host(&console, b"").stdout, b"> \n");
}

#[test]
fn closed_stdout_ends_with_code_8() {
    let model = random_model("closed");
    let settings = varied(&model, &["-n", "20000", "-c", "21000", "--console", "-"]);
    let mut console = Console::on_pipes("closed", &settings);
    assert_eq!(console.read(2), b"> ");
    console.send(b"much\n");
    console.close_output();
    let end = console.wait();
    assert_eq!(end.code, 8, "{}", end.stderr);
}

#[test]
fn memory_is_planned_and_stays_flat() {
    let field = |line: &str, name: &str| -> f64 {
        let (_, rest) = line.split_once(&format!(" {name}=")).expect("the field");
        let word = rest.split(' ').next().expect("split gives a first part");
        word.parse().expect("a number")
    };
    // A hundred prompts of all lengths.
    let random = random_model("flat");
    let settings = varied(&random, &["-n", "2", "-c", "512", "--framed"]);
    let line = |at: usize| format!("{{\"prompt\":\"{}\"}}\n", "x".repeat(1 + at * 7 % 100));
    let lines: String = (0..100).map(line).collect();
    let output = run_host(&settings, lines.as_bytes());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let ends = plain(&output, "end");
    assert_eq!(ends.len(), 100);
    let anonymous = |at: usize| field(ends[at], "anon_kb");
    assert_eq!(anonymous(99), anonymous(4), "{}\n{}", ends[4], ends[99]);
    // The whole of a line is planned for.
    let model = smollm2();
    let prompt = format!("{{\"prompt\":\"{}\"}}\n", "x".repeat(16_000));
    let arguments = ["-m", &model, "-n", "2", "-c", "512", "--framed"];
    let output = run_host(&arguments, (prompt + "{\"prompt\":\"Hi\"}").as_bytes());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let of_plan = field(plain(&output, "end")[0], "actual_to_plan_pct");
    assert!((98.0..=102.0).contains(&of_plan), "{of_plan} % of the plan");
    let plan = run_host(&["plan", &model, "--framed", "-c", "512"], b"");
    let plan = String::from_utf8(plan.stdout).expect("UTF-8");
    let line = plan.lines().find(|line| line.starts_with("console"));
    assert!(line.expect("a line").ends_with(" 32768"), "{plan}");
}

#[test]
fn template_and_system_prompt_are_those_of_a_run() {
    let model = smollm2();
    let settings = [
        "-m",
        &model,
        "-n",
        "24",
        "-c",
        "512",
        "-sys",
        "Answer in French.\\n",
    ];
    let mut console = Console::on_pty("template", "", &settings);
    assert_eq!(console.read(2), b"> ");
    for line in ["What is the capital of France?", "Who are you?"] {
        ask(&mut console, &settings, line.as_bytes(), b"\r");
    }
}

#[test]
fn requests_are_answered_as_they_ask() {
    let model = smollm2();
    let base = ["-m", &model, "-c", "512"];
    let mut console = Console::on_pty("requests", "", &[&base[..], &["--framed"]].concat());
    assert_eq!(console.read_object(), json!({"ready": true}));
    let cases: [(Value, &[&str], &str, &str); 6] = [
        (
            json!({"prompt": "Hi", "n": 5}),
            &["-n", "5"],
            "Hi",
            "length",
        ),
        (
            json!({"prompt": "Count to \"ten\"\n\u{1f600}\u{e9}", "n": 40, "temp": 0.8, "seed": 3, "id": "\u{7f}\"x\""}),
            &["-n", "40", "--temp", "0.8", "-s", "3"],
            "Count to \"ten\"\n\u{1f600}\u{e9}",
            "length",
        ),
        (
            json!({"prompt": "What is the capital of France?", "system": "Be brief.", "n": 9, "id": -9}),
            &["-n", "9", "-sys", "Be brief."],
            "What is the capital of France?",
            "length",
        ),
        (
            json!({"prompt": "What is the capital of France? Answer in one short sentence."}),
            &[],
            "What is the capital of France? Answer in one short sentence.",
            "eos",
        ),
        (
            json!({"prompt": "Say: one, two, three.", "stop": [",", "."]}),
            &["-r", ",", "-r", "."],
            "Say: one, two, three.",
            "stop",
        ),
        (
            json!({"prompt": "Hi", "n": 0}),
            &["-n", "0"],
            "Hi",
            "length",
        ),
    ];
    for (request, flags, prompt, finish) in cases {
        console.send(format!("{request}\n").as_bytes());
        let (text, end) = console.read_answer();
        let run = one_shot(&[&base[..], flags].concat(), prompt.as_bytes());
        assert_eq!(text, String::from_utf8_lossy(&run), "{request}");
        assert_eq!(end["finish"], finish, "{request}");
        assert_eq!(end.get("id"), request.get("id"), "{request}");
        for count in [
            "prefill_tokens",
            "generated",
            "prefill_ms",
            "decode_ms",
            "seed",
        ] {
            assert!(end[count].is_number(), "{count} in {end}");
        }
    }
    // An interrupt cancels, and the objects stay whole.
    console.send(b"{\"prompt\":\"Tell me a story.\",\"n\":400,\"id\":1}\n");
    assert_eq!(console.read_object()["id"], 1);
    console.send(b"\x03{\"prompt\":\"\",\"n\":1,\"id\":2}\n");
    assert_eq!(console.read_answer().1["finish"], "cancel");
    assert_eq!(console.read_answer().1["id"], 2);
}

#[test]
fn line_that_is_no_request_is_told_so() {
    let model = random_model("errors");
    let settings = varied(&model, &["-n", "4", "-c", "100", "--framed"]);
    let long = format!("{{\"prompt\":\"{}\"}}", "x".repeat(200));
    let too_long = "x".repeat(20_000);
    let cases = [
        ("{\"prompt\":", 2, "not a JSON object", json!(null)),
        ("prompt", 2, "not a JSON object", json!(null)),
        (
            "{\"id\":5,\"prompt\":\"\u{0}\"}",
            2,
            "not a JSON object",
            json!(5),
        ),
        (
            "{\"id\":5,\"prompt\":7}",
            2,
            "\"prompt\" takes a string",
            json!(5),
        ),
        (
            "{\"id\":5,\"promt\":7}",
            2,
            "unknown key \"promt\"",
            json!(5),
        ),
        (
            "{\"prompt\":\"a\",\"stop\":\"\"}",
            2,
            "\"stop\" takes a string of 1 to 128 bytes",
            json!(null),
        ),
        (&long, 7, "context of 100", json!(null)),
        (&too_long, 2, "line of more than 16384 bytes", json!(null)),
        ("{\"prompt\":\"\"}", 2, "the prompt is empty", json!(null)),
    ];
    let mut lines: Vec<u8> = Vec::new();
    for (line, ..) in &cases {
        lines.extend(line.as_bytes());
        lines.push(b'\n');
    }
    lines.extend(b"{\"prompt\":\"\xff\"}\n");
    let output = run_host(&settings, &lines);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut objects = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    assert_eq!(objects.next(), Some(json!({"ready": true})));
    for (line, code, message, id) in cases {
        let object = objects.next().expect("an object for each line");
        let error = object["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{line}: {object}"));
        assert!(error.contains(message), "{line}: {object}");
        assert_eq!(
            (&object["code"], &object["id"]),
            (&json!(code), &id),
            "{line}"
        );
    }
    let last = objects.next().expect("an object for the last line");
    assert_eq!(last["error"], "not a JSON object");
    assert_eq!(objects.next(), None);
}

/// Pieces of lines that are nearly requests.
const PIECES: [&str; 25] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\"prompt\":\"a\"",
    "\"n\":0",
    "\"temp\":0.5",
    "\"stop\":[\"x\",\"y\"]",
    "\"id\":\"i\"",
    "\"seed\":1",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\n",
    "\\q",
    " ",
    "\t",
    "1",
    "-",
    "e5",
    "true",
    "\u{e9}",
];

#[test]
fn requests_are_json_as_others_have_it() {
    let model = random_model("json");
    let settings = varied(&model, &["-n", "0", "-c", "100", "--framed"]);
    let mut random = pty::Random(3);
    let mut lines = Vec::new();
    while lines.len() < 3000 {
        // The parts of a request, in any order, and then something wrong with some.
        let mut keys: Vec<&str> = PIECES[8..14].to_vec();
        let mut line = String::from("{");
        for at in 0..1 + random.below(5) {
            let key = keys.swap_remove(random.below(keys.len()));
            line += if at > 0 { "," } else { "" };
            line += key;
        }
        line += "}";
        for _ in 0..random.below(3) {
            let mut at = random.below(line.len() + 1);
            while !line.is_char_boundary(at) {
                at -= 1;
            }
            line.insert_str(at, PIECES[random.below(PIECES.len())]);
        }
        // An empty line asks nothing, and whether a key stands twice the other side does not say.
        let twice = PIECES[8..14]
            .iter()
            .any(|&key| line.matches(key.split(':').next().expect("a key")).count() > 1);
        if !twice {
            lines.push(line);
        }
    }
    let output = run_host(&settings, (lines.join("\n") + "\n").as_bytes());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let objects: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(objects.len(), lines.len() + 1);
    let mut good = 0;
    for (line, object) in lines.iter().zip(&objects[1..]) {
        let expected = is_request(line);
        assert_eq!(object.get("finish").is_some(), expected, "{line}: {object}");
        good += usize::from(expected);
    }
    assert!(
        (500..2500).contains(&good),
        "{good} of {} are good",
        lines.len()
    );
}

/// Whether a line is a request by another reader of JSON.
fn is_request(line: &str) -> bool {
    let Ok(Value::Object(request)) = serde_json::from_str(line) else {
        return false;
    };
    let is_text = |value: &Value| value.as_str().is_some();
    request.contains_key("prompt")
        && request.iter().all(|(key, value)| match key.as_str() {
            "prompt" | "system" => is_text(value),
            "id" => is_text(value) || value.is_i64(),
            "n" | "seed" => value.is_u64(),
            "temp" => value
                .as_f64()
                .is_some_and(|number| (0.0..3e38).contains(&number)),
            "stop" => match value {
                Value::Array(texts) => texts
                    .iter()
                    .all(|text| text.as_str().is_some_and(|text| !text.is_empty())),
                Value::String(text) => !text.is_empty(),
                _ => false,
            },
            _ => false,
        })
}

#[test]
fn what_is_no_console_is_refused() {
    let model = random_model("usage");
    let pty = Pty::open("usage");
    let device = format!("{}:9600", pty.path());
    let odd = format!("{}:12345", pty.path());
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--console", &odd], 2, "speeds are 1200, 2400"),
        (&["--console", pty.path()], 2, "takes DEV:BAUD"),
        (&["--console", "ttyS0"], 2, "takes DEV:BAUD"),
        (&["--console", "/dev/ttyS0:9600,what"], 2, "takes DEV:BAUD"),
        (&["--console", "-,xonxoff"], 2, "takes DEV:BAUD"),
        (&["--console", &device, "-p", "x"], 2, "-p does not go with"),
        (&["--framed", "--ids"], 2, "--ids does not go with"),
        (
            &["--console", "/no/such/tty:9600"],
            4,
            "/no/such/tty:9600: No such file",
        ),
        (&["--console", "/dev/null:9600"], 4, "/dev/null:9600: "),
    ];
    for (arguments, code, words) in cases {
        let output = run_host(&[&["-m", &model][..], arguments].concat(), b"");
        assert_eq!(output.code, code, "{arguments:?}: {}", output.stderr);
        assert!(
            output.stderr.contains(words),
            "{arguments:?}: {}",
            output.stderr
        );
        assert!(
            !output.stderr.contains("rushlight load"),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn terminal_gets_its_settings_back() {
    let model = random_model("settings");
    let mut console = Console::on_pty("settings", ",xonxoff", &["-m", &model, "--raw"]);
    assert_eq!(console.read(2), b"> ");
    assert!(!console.terminal_is_canonical());
    let Output { code, .. } = console.terminate_and_keep(Signal::TERM);
    assert_eq!(code, 143);
    assert!(console.terminal_is_canonical());
}

#[test]
fn terminal_gets_its_settings_back_when_the_model_shrinks() {
    // Its embedding is in memory; texts of tokens stay pages of the file.
    let model = random_model("shrinks");
    let tied = mixed_model::tied(21, |metadata| metadata).finish();
    fs::write(&model, tied).expect("a scratch file");
    let settings = varied(&model, &["-n", "20000", "-c", "30000"]);
    let mut console = Console::on_pty("shrinks", "", &settings);
    assert_eq!(console.read(2), b"> ");
    assert!(!console.terminal_is_canonical());
    let file = fs::OpenOptions::new().write(true).open(&model);
    file.and_then(|file| file.set_len(0)).expect("it shrinks");
    console.send(b"much\r");
    let end = console.wait();
    assert_eq!(end.code, 5, "{}", end.stderr);
    assert!(console.terminal_is_canonical());
}
