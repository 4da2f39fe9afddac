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
    /// Code of the last answer that was refused.
    refused: Option<u8>,
    asked: usize,
    text: Vec<u8>,
    logs: String,
}

/// A run that is over.
pub struct Talk {
    /// What Rushlight ended with, or refused a prompt with.
    pub code: u8,
    /// The answers, a line end after each.
    pub text: Vec<u8>,
    /// What the second serial line had.
    pub logs: String,
}

/// Boots a machine and sends the prompts, each once its forerunner is answered; without any, sends
/// what comes by stdin. Text goes to stdout as it comes, logs to stderr.
///
/// # Errors
/// The kernel is not well, or the system does not end in time.
pub fn talk(qemu: &mut Command, prompts: &[&str], limit: Duration) -> Result<Talk> {
    let deadline = Instant::now() + limit;
    qemu.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = qemu
        .spawn()
        .map_err(|error| command::not_started(qemu, &error))?;
    let result = listen(&mut child, prompts, deadline);
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
    let code = code.context("the board went off without saying why")?;
    Ok(Talk {
        code: progress.refused.filter(|_| code == 0).unwrap_or(code),
        text: progress.text,
        logs: progress.logs,
    })
}

fn listen(child: &mut Child, prompts: &[&str], deadline: Instant) -> Result<Progress> {
    let (sender, heard) = mpsc::channel();
    let mut input = child.stdin.take();
    let stdout = child.stdout.take().context("stdout is piped")?;
    let stderr = child.stderr.take().context("stderr is piped")?;
    let text_sender = sender.clone();
    match prompts {
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
            Ok(Heard::Text(bytes)) if prompts.is_empty() => progress.show(&bytes)?,
            Ok(Heard::Text(line)) => {
                if progress.hear_object(&line)? {
                    progress.ask_next(input.as_mut(), prompts)?;
                }
            }
            Ok(Heard::Log(line)) => {
                let line = line.trim_end();
                eprintln!("{line}");
                progress.hear_log(line);
                if line.starts_with("rushlight console") && line.ends_with("state=ready") {
                    match prompts {
                        [] => forward_stdin(input.take()),
                        _ => progress.ask_next(input.as_mut(), prompts)?,
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

    /// An object of an answer; whether it is the last one.
    fn hear_object(&mut self, line: &[u8]) -> Result<bool> {
        let Ok(object) = serde_json::from_slice::<Value>(line) else {
            bail!("no JSON: {}", String::from_utf8_lossy(line).trim_end());
        };
        if let Some(text) = object["text"].as_str() {
            self.show(text.as_bytes())?;
        }
        if object["error"].is_string() {
            let code = object["code"].as_u64();
            self.refused = code.and_then(|code| u8::try_from(code).ok());
        }
        let is_last = object["finish"].is_string() || object["error"].is_string();
        if is_last {
            self.show(b"\n")?;
        }
        Ok(is_last)
    }

    /// Sends the next prompt, or the word that ends the system.
    fn ask_next(&mut self, input: Option<&mut ChildStdin>, prompts: &[&str]) -> Result<()> {
        let input = input.context("stdin is piped")?;
        match prompts.get(self.asked) {
            Some(prompt) => writeln!(input, "{}", json!({ "prompt": prompt }))?,
            None => writeln!(input, "poweroff")?,
        }
        self.asked += 1;
        input.flush()?;
        Ok(())
    }
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
        let _ = writeln!(input, "poweroff"); // it may be off already
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
