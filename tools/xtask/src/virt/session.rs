//! The talk with a booted board: prompts to its first serial line, text back from there, logs from
//! the second.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::command;

/// What is sent once the board waits for it.
#[derive(Clone, Debug)]
pub struct Step {
    /// One request, or whatever else makes one object come back.
    line: Vec<u8>,
    /// Whether a BREAK follows as soon as the answer begins.
    breaks: bool,
}

impl Step {
    /// A prompt.
    pub fn ask(prompt: &str) -> Self {
        Step::raw(json!({ "prompt": prompt }).to_string().as_bytes())
    }

    /// A prompt whose answer of so many tokens is broken off at its start.
    pub fn ask_and_break(prompt: &str, tokens: u32) -> Self {
        let request = json!({ "prompt": prompt, "n": tokens });
        Step {
            breaks: true,
            ..Step::raw(request.to_string().as_bytes())
        }
    }

    /// Whatever bytes, and a line end.
    pub fn raw(line: &[u8]) -> Self {
        Step {
            line: line.to_vec(),
            breaks: false,
        }
    }
}

/// QEMU turns this into a BREAK on the line, and the first byte twice into itself.
const BREAK: &[u8] = b"\x01b";
const ESCAPE: u8 = BREAK[0];

/// What Rushlight says when it waits for somebody who says how the system ends.
const WAITS: &str = "rushlight init message=\"type poweroff or reboot\"";

/// What the kernel says when it is not well.
const TROUBLES: [&str; 3] = ["Kernel panic", "Out of memory", "Oops"];

/// What comes from the machine.
enum Heard {
    Log(String),
    /// A piece of text, as it comes; or a line, in the framed mode.
    Text(Vec<u8>),
    /// One of the two lines has ended.
    End,
}

/// What is known of a run so far.
#[derive(Default)]
struct Progress {
    code: Option<u8>,
    trouble: Option<String>,
    refused: Vec<u8>,
    finishes: Vec<String>,
    /// Steps that were taken.
    taken: usize,
    /// Whether a BREAK is due when text comes.
    breaks: bool,
    /// Whether what is typed is shown by the kernel, and answered by nobody.
    waits: bool,
    text: Vec<u8>,
    logs: String,
}

/// A run that is over.
pub struct Talk {
    /// What Rushlight ended with.
    pub code: u8,
    /// The codes of the requests that were refused.
    pub refused: Vec<u8>,
    /// How the others ended, as the log says it.
    pub finishes: Vec<String>,
    /// The answers, a line end after each.
    pub text: Vec<u8>,
    /// What the second serial line had.
    pub logs: String,
}

/// Boots a machine and takes the steps, each once its forerunner is answered; without any, sends
/// what comes by stdin. Text goes to stdout as it comes, logs to stderr.
///
/// # Errors
/// The kernel is not well, or the system does not end in time.
pub fn talk(qemu: &mut Command, steps: &[Step], limit: Duration) -> Result<Talk> {
    let deadline = Instant::now() + limit;
    qemu.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = qemu
        .spawn()
        .map_err(|error| command::not_started(qemu, &error))?;
    let result = listen(&mut child, steps, deadline);
    if result.is_err() {
        let _ = child.kill(); // it may have ended by itself
    }
    let status = child.wait()?;
    let progress = result?;
    if let Some(trouble) = progress.trouble {
        bail!("the kernel of the board is not well: {trouble}");
    }
    ensure!(status.success(), "QEMU failed: {status}");
    let code = progress.code;
    Ok(Talk {
        code: code.context("the board went off without saying why")?,
        refused: progress.refused,
        finishes: progress.finishes,
        text: progress.text,
        logs: progress.logs,
    })
}

fn listen(child: &mut Child, steps: &[Step], deadline: Instant) -> Result<Progress> {
    let (sender, heard) = mpsc::channel();
    let mut input = child.stdin.take();
    let stdout = child.stdout.take().context("stdout is piped")?;
    let stderr = child.stderr.take().context("stderr is piped")?;
    let text_sender = sender.clone();
    match steps {
        [] => thread::spawn(move || hear_bytes(stdout, &text_sender)),
        _ => thread::spawn(move || hear_lines(stdout, &text_sender, Heard::Text)),
    };
    thread::spawn(move || {
        let as_log = |line: Vec<u8>| Heard::Log(String::from_utf8_lossy(&line).into_owned());
        hear_lines(stderr, &sender, as_log);
    });
    let mut progress = Progress::default();
    let mut open = 2;
    while open > 0 {
        match heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Heard::End) => open -= 1,
            Ok(Heard::Text(bytes)) if steps.is_empty() || progress.waits => {
                progress.show(&bytes)?;
            }
            Ok(Heard::Text(line)) => match progress.hear_object(&line)? {
                Object::Text => progress.break_off(input.as_mut())?,
                Object::Last => progress.next(input.as_mut(), steps)?,
            },
            Ok(Heard::Log(line)) => {
                let line = line.trim_end();
                eprintln!("{line}");
                progress.hear_log(line);
                progress.waits |= line == WAITS;
                let is_ready =
                    line.starts_with("rushlight console") && line.ends_with("state=ready");
                if is_ready || line == WAITS {
                    match steps {
                        [] => forward_stdin(input.take()),
                        _ => progress.next(input.as_mut(), steps)?,
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => bail!("the board was not done in time"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(progress)
}

impl Progress {
    fn hear_log(&mut self, line: &str) {
        self.logs += line;
        self.logs.push('\n');
        if let Some(fields) = line.strip_prefix("rushlight init code=") {
            let code = fields.split(' ').next().unwrap_or_default();
            self.code = code.parse().ok();
        }
        if TROUBLES.iter().any(|trouble| line.contains(trouble)) {
            self.trouble.get_or_insert_with(|| line.to_owned());
        }
    }

    fn show(&mut self, bytes: &[u8]) -> Result<()> {
        self.text.extend(bytes);
        let mut stdout = std::io::stdout();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(())
    }

    /// An object of an answer.
    fn hear_object(&mut self, line: &[u8]) -> Result<Object> {
        let Ok(object) = serde_json::from_slice::<Value>(line) else {
            bail!("no JSON: {}", String::from_utf8_lossy(line).trim_end());
        };
        if let Some(text) = object["text"].as_str() {
            self.show(text.as_bytes())?;
        }
        if object["error"].is_string() {
            let code = object["code"].as_u64().context("an error has a code")?;
            self.refused.push(u8::try_from(code)?);
            return Ok(Object::Last);
        }
        if let Some(finish) = object["finish"].as_str() {
            self.finishes.push(finish.to_owned());
            self.show(b"\n")?;
            return Ok(Object::Last);
        }
        Ok(Object::Text)
    }

    /// Sends a BREAK, if the answer that is coming is to have one and had none yet.
    fn break_off(&mut self, input: Option<&mut ChildStdin>) -> Result<()> {
        match core::mem::take(&mut self.breaks) {
            true => send(input, BREAK),
            false => Ok(()),
        }
    }

    /// Takes the next step, or sends the word that ends the system.
    fn next(&mut self, input: Option<&mut ChildStdin>, steps: &[Step]) -> Result<()> {
        let step = steps.get(self.taken);
        let line = step.map_or(POWER_OFF, |step| &step.line);
        self.breaks = step.is_some_and(|step| step.breaks);
        self.taken += 1;
        let mut bytes = Vec::with_capacity(line.len() + 1);
        for &byte in line {
            bytes.push(byte);
            bytes.extend((byte == ESCAPE).then_some(ESCAPE));
        }
        bytes.push(b'\n');
        send(input, &bytes)
    }
}

/// A line of the framed mode.
enum Object {
    /// A part of an answer, or that the board is ready.
    Text,
    /// The end of an answer, or the refusal of a request.
    Last,
}

/// The line that ends the system.
const POWER_OFF: &[u8] = b"poweroff";

fn send(input: Option<&mut ChildStdin>, bytes: &[u8]) -> Result<()> {
    let input = input.context("stdin is piped")?;
    input.write_all(bytes)?;
    input.flush()?;
    Ok(())
}

/// Sends what comes by stdin, and at its end the word that ends the system. The thread ends with
/// the process: nothing ends a read of a terminal.
fn forward_stdin(input: Option<ChildStdin>) {
    let Some(mut input) = input else {
        return; // the line was ready before, and is again
    };
    thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if writeln!(input, "{line}").is_err() {
                return;
            }
        }
        // It may be off already.
        let _ = input
            .write_all(POWER_OFF)
            .and_then(|()| input.write_all(b"\n"));
    });
}

/// Tells bytes as they come, until there are no more.
fn hear_bytes(mut from: impl Read, to: &Sender<Heard>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.send(Heard::Text(buffer[..count].to_vec())).is_err() {
            return;
        }
    }
    let _ = to.send(Heard::End); // nobody may listen any more
}

/// Tells lines, until there are no more.
fn hear_lines(from: impl Read, to: &Sender<Heard>, heard: impl Fn(Vec<u8>) -> Heard) {
    let lines = BufReader::new(from).split(b'\n').map_while(Result::ok);
    for line in lines {
        if to.send(heard(line)).is_err() {
            return;
        }
    }
    let _ = to.send(Heard::End);
}
