//! `cargo xtask demo`: the default model sums up the last commits of the repository it runs in.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::{board, build, command, model};

/// What stands before the commits, and what the model is asked to do with them. A model of this
/// size follows an instruction best when it comes last.
const BEFORE: &str = "Here is a list of changes to a program:\n";
const INSTRUCTION: &str = "\n\nSummarize these changes in one paragraph.";
/// With more than a handful, a model of this size starts to recite.
const COMMITS_MAX: &str = "4";
/// Keeps prompt and template below some 300 tokens, so that the first word comes soon.
const LOG_BYTES_MAX: usize = 800;
/// Enough for a paragraph, and a little reluctance to say things twice.
const ANSWER: &[&str] = &[
    "-n",
    "200",
    "--repeat-penalty",
    "1.05",
    "--repeat-last-n",
    "128",
];

/// Sets up what the demo needs, then streams the model's answer to stdout.
pub fn run() -> Result<()> {
    answer(Stdio::inherit())?;
    Ok(())
}

/// The same, with the answer returned.
pub fn text() -> Result<Vec<u8>> {
    Ok(answer(Stdio::piped())?.stdout)
}

fn answer(stdout: Stdio) -> Result<Output> {
    let prompt = [BEFORE, &commits()?, INSTRUCTION].concat();
    let binary = build::board(&board::named(board::HOST)?)?;
    let model = model::ensure(model::DEFAULT)?;

    let mut rushlight = Command::new(binary);
    rushlight.arg("-m").arg(model).args(ANSWER);
    let mut child = rushlight
        .stdin(Stdio::piped())
        .stdout(stdout)
        .spawn()
        .map_err(|error| command::not_started(&rushlight, &error))?;
    // A program that ends before it has read everything says why by its exit code, not here.
    let _ = child
        .stdin
        .take()
        .context("stdin is piped")?
        .write_all(prompt.as_bytes());
    let output = child.wait_with_output()?;
    command::check(&rushlight, output.status)?;
    Ok(output)
}

/// The subjects of the last commits, newest first.
fn commits() -> Result<String> {
    if !command::exists("git") {
        bail!("the demo sums up the commits of this repository, but git is not installed");
    }
    let mut log = Command::new("git");
    log.args([
        "log",
        "--no-merges",
        "--pretty=format:- %s",
        "-n",
        COMMITS_MAX,
    ]);
    let Ok(log) = command::read(&mut log) else {
        bail!("the demo sums up the commits of this repository, but git shows none: see above");
    };
    let log = String::from_utf8_lossy(&log);
    let log = whole_lines(&log, LOG_BYTES_MAX);
    if log.is_empty() {
        bail!("the demo sums up the commits of this repository, but it has none yet");
    }
    Ok(log.to_owned())
}

/// The longest run of whole lines at the start of `text` with at most `bytes_max` bytes.
fn whole_lines(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = text.as_bytes()[..=bytes_max]
        .iter()
        .rposition(|&byte| byte == b'\n');
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::whole_lines;

    #[test]
    fn log_is_cut_at_the_last_line_that_fits() {
        assert_eq!(whole_lines("one\ntwo\nthree", 13), "one\ntwo\nthree");
        assert_eq!(whole_lines("one\ntwo\nthree", 12), "one\ntwo");
        assert_eq!(whole_lines("one\ntwo\nthree", 7), "one\ntwo");
        assert_eq!(whole_lines("one\ntwo\nthree", 6), "one");
        assert_eq!(whole_lines("ünë", 2), "");
    }
}
