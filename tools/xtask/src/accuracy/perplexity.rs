//! The perplexity of a text, by both.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Programs;
use crate::log::figure;
use crate::{command, workspace};

/// Some 17,000 tokens of prose; the first 32 chunks are scored.
const TEXT: &str = "tests/golden/novel.txt";
/// What both are told beside their files: 16,384 tokens in all.
const SETTINGS: [&str; 4] = ["-c", "512", "--chunks", "32"];
/// What the peer's last line starts with.
const ESTIMATE: &str = "Final estimate: PPL =";

/// Figures of one text.
pub struct Perplexity {
    pub ours: f64,
    pub theirs: f64,
    /// Of ours; both have the text in common, so the difference is known far better.
    pub standard_error: f64,
}

impl Perplexity {
    /// How many times theirs ours is.
    pub fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }
}

/// Scores the text.
pub fn measure(programs: &Programs, model: &Path) -> Result<Perplexity> {
    let arguments = |command: &mut Command| {
        command.arg("-m").arg(model);
        command.arg("-f").arg(workspace::root().join(TEXT));
        command.args(SETTINGS);
        command.args(["-t", &programs.threads.to_string()]);
    };
    let mut ours = Command::new(&programs.ours);
    ours.arg("perplexity");
    arguments(&mut ours);
    let lines = command::read(ours.args(["--format", "json", "-q"]))?;
    let lines = String::from_utf8(lines)?;
    let mut theirs = Command::new(&programs.perplexity);
    arguments(&mut theirs);
    let log = command::read_log(&mut theirs)?;
    let log = String::from_utf8_lossy(&log);
    Ok(Perplexity {
        ours: figure(&lines, "perplexity").context("ours tells no perplexity")?,
        theirs: estimate(&log).context("the peer tells no perplexity")?,
        standard_error: figure(&lines, "standard_error").context("ours tells no error")?,
    })
}

/// The perplexity in the peer's log.
fn estimate(log: &str) -> Option<f64> {
    let (_, rest) = log.split_once(ESTIMATE)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::estimate;

    #[test]
    fn estimate_is_found_in_the_log() {
        let log = "4.13 I Final estimate: PPL = 45.2771 +/- 4.33522\n\n";
        assert_eq!(estimate(log), Some(45.2771));
        assert_eq!(estimate("error: no model\n"), None);
    }
}
