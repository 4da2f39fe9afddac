//! The logits of both along the text that the peer continues greedily.

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Programs, output};
use crate::command;

/// What is continued: prose, a list, code.
const TEXTS: [&str; 3] = [
    "The lighthouse stood at the end of the pier, and every evening the keeper",
    "The planets of the solar system, in order of their distance from the sun, are:\n1.",
    "def is_prime(n):\n    \"\"\"Whether n is a prime number.\"\"\"\n",
];
/// Steps of each, unless the model ends the text.
const STEPS: usize = 64;
/// Two right builds of the peer may choose differently where its best two logits are closer.
const GAP: f32 = 0.5;
/// Leading logits of the peer that are compared at each step.
pub const LEADING: usize = 10;

/// How the logits compare.
#[derive(Default)]
pub struct Forced {
    /// Steps in all.
    pub steps: usize,
    /// Steps at which the peer's best two are further apart than [`GAP`].
    pub decided: usize,
    /// Decided steps at which ours has another best.
    pub differing: usize,
    /// Sum over the steps of the mean absolute difference of the leading logits.
    sum: f64,
}

impl Forced {
    /// Mean absolute difference of leading logits.
    pub fn mean(&self) -> f64 {
        self.sum / self.steps as f64
    }

    /// Adds a step.
    fn add(&mut self, ours: &[f32], theirs: &[f32]) {
        let mut leading: Vec<usize> = (0..theirs.len()).collect();
        leading.sort_by(|&a, &b| theirs[b].total_cmp(&theirs[a]));
        leading.truncate(LEADING);
        let differences = leading.iter().map(|&id| f64::from(ours[id] - theirs[id]));
        let mean = differences.map(f64::abs).sum::<f64>() / leading.len() as f64;
        self.steps += 1;
        self.sum += mean;
        if theirs[leading[0]] - theirs[leading[1]] > GAP {
            self.decided += 1;
            let best = ours.iter().all(|&logit| logit <= ours[leading[0]]);
            self.differing += usize::from(!best);
        }
    }
}

/// Continues every text, and evaluates it here.
pub fn measure(programs: &Programs, model: &Path) -> Result<Forced> {
    let folder = output()?;
    let [text, ids, ours, theirs] =
        ["text", "ids", "ours.f32", "theirs.f32"].map(|name| folder.join(name));
    let mut forced = Forced::default();
    for prompt in TEXTS {
        fs::write(&text, prompt)?;
        let mut greedy = Command::new(&programs.greedy);
        greedy.arg(model).arg(STEPS.to_string());
        greedy.arg(programs.threads.to_string()).arg(&theirs);
        greedy.stdin(File::open(&text)?);
        let told = String::from_utf8(command::read(&mut greedy)?)?;
        let mut lines = told.lines().map(|line| line.split_whitespace());
        let (Some(prompt), Some(chosen)) = (lines.next(), lines.next()) else {
            bail!("the peer tells no ids");
        };
        let (prompt, chosen): (Vec<_>, Vec<_>) = (prompt.collect(), chosen.collect());
        // What the last one leads to is not compared.
        let evaluated = [&prompt[..], &chosen[..chosen.len() - 1]].concat();
        fs::write(&ids, evaluated.join(" "))?;
        let mut run = Command::new(&programs.ours);
        run.arg("-m").arg(model).arg("--prompt-ids").arg(&ids);
        run.arg("--logits").arg(&ours).args(["-n", "0", "-q"]);
        run.args(["-c", &evaluated.len().to_string()]);
        run.args(["-t", &programs.threads.to_string()]);
        command::run_quietly(&mut run)?;

        let width = row_bytes(&theirs, chosen.len())?;
        ensure!(
            row_bytes(&ours, evaluated.len())? == width,
            "rows of logits differ in length"
        );
        let mut ours = BufReader::new(File::open(&ours)?);
        ours.seek(SeekFrom::Start(((prompt.len() - 1) * width) as u64))?;
        let mut theirs = BufReader::new(File::open(&theirs)?);
        for _ in &chosen {
            forced.add(&row(&mut ours, width)?, &row(&mut theirs, width)?);
        }
    }
    for file in [text, ids, ours, theirs] {
        fs::remove_file(file)?;
    }
    Ok(forced)
}

/// Bytes of a row of a file with so many.
fn row_bytes(file: &Path, rows: usize) -> Result<usize> {
    let bytes = fs::metadata(file)?.len() as usize;
    ensure!(
        rows > 0 && bytes.is_multiple_of(4 * rows),
        "{} is no {rows} rows of logits",
        file.display()
    );
    Ok(bytes / rows)
}

fn row(file: &mut impl Read, bytes: usize) -> Result<Vec<f32>> {
    let mut row = vec![0; bytes];
    file.read_exact(&mut row).context("logits end early")?;
    let (floats, _) = row.as_chunks::<4>();
    Ok(floats
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_decided_steps_must_agree() {
        let mut forced = Forced::default();
        let theirs: Vec<f32> = (0..12).map(|id| id as f32).collect();
        let mut ours = theirs.clone();
        ours[11] = 9.5; // the best, by 1, is ours no more
        forced.add(&ours, &theirs);
        assert_eq!((forced.steps, forced.decided, forced.differing), (1, 1, 1));
        assert!((forced.mean() - 0.15).abs() < 1e-9);
        // Closer than the gap: no matter.
        let mut close = theirs.clone();
        close[10] = 10.75;
        forced.add(&ours, &close);
        assert_eq!((forced.steps, forced.decided, forced.differing), (2, 1, 1));
        forced.add(&theirs, &theirs);
        assert_eq!((forced.steps, forced.decided, forced.differing), (3, 2, 1));
    }
}
