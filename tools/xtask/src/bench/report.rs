//! What was measured, for a person or for a program.

use std::fmt;
use std::fmt::Write;

use serde_json::json;

use super::contestant::Test;
use crate::machine::Machine;

/// One test with one number of threads: tokens per second, a figure for each run.
pub struct Row {
    pub test: &'static Test,
    pub threads: usize,
    pub ours: Vec<f64>,
    /// Empty when nothing is compared.
    pub theirs: Vec<f64>,
}

impl Row {
    /// A row without figures.
    pub fn new(test: &'static Test, threads: usize) -> Self {
        Row {
            test,
            threads,
            ours: Vec::new(),
            theirs: Vec::new(),
        }
    }
}

/// All rows, and the circumstances.
pub struct Report<'a> {
    pub model: &'a str,
    pub against: Option<&'a str>,
    pub machine: Machine,
    pub date: String,
    /// The load average before the first run.
    pub load: f64,
    pub rows: Vec<Row>,
}

impl Report<'_> {
    /// A table to read.
    pub fn table(&self) -> String {
        let Machine { cpu, cores } = &self.machine;
        let runs = self.rows.first().map_or(0, |row| row.ours.len());
        let mut text = format!(
            "{cpu}, {cores} cores; {}; load average {:.2} at the start\n\
             {}, tok/s: median (min..max) of {runs} runs\n\n",
            self.date, self.load, self.model
        );
        let mut line = |cells: [&str; 5]| {
            let [test, threads, ours, theirs, ratio] = cells;
            let line = format!("{test:<5}  {threads:>7}  {ours:>22}  {theirs:>22}  {ratio:>5}");
            text += line.trim_end();
            text += "\n";
        };
        let (theirs, ratio) = match self.against {
            Some(name) => (name.rsplit('/').next().unwrap_or(name), "ratio"),
            None => ("", ""),
        };
        line(["test", "threads", "this build", theirs, ratio]);
        for row in &self.rows {
            let (test, threads) = (row.test.name, row.threads.to_string());
            let ours = Summary::of(&row.ours).map(|ours| ours.to_string());
            let theirs = Summary::of(&row.theirs).map(|theirs| theirs.to_string());
            let ratio = row.ratio().map(|ratio| format!("{ratio:.2}"));
            let [ours, theirs, ratio] = [ours, theirs, ratio].map(Option::unwrap_or_default);
            line([test, &threads, &ours, &theirs, &ratio]);
        }
        text
    }

    /// One JSON object a line, each with all that it takes to judge it.
    pub fn jsonl(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let (ours, theirs) = (Summary::of(&row.ours), Summary::of(&row.theirs));
            let object = json!({
                "test": row.test.name,
                "threads": row.threads,
                "tok_s": ours.as_ref().map(|ours| ours.median),
                "spread": ours.as_ref().map(Summary::spread),
                "peer": self.against,
                "peer_tok_s": theirs.as_ref().map(|theirs| theirs.median),
                "peer_spread": theirs.as_ref().map(Summary::spread),
                "ratio": row.ratio(),
                "runs": row.ours.len(),
                "model": self.model,
                "machine": self.machine.class(),
                "cpu": self.machine.cpu,
                "date": self.date,
                "load": self.load,
            });
            writeln!(text, "{object}").expect("a string takes all");
        }
        text
    }
}

impl Row {
    /// How many times as fast as the other this build is.
    fn ratio(&self) -> Option<f64> {
        Some(Summary::of(&self.ours)?.median / Summary::of(&self.theirs)?.median)
    }
}

/// What is told of several runs.
#[derive(Debug, PartialEq)]
struct Summary {
    median: f64,
    min: f64,
    max: f64,
}

impl Summary {
    fn of(runs: &[f64]) -> Option<Self> {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Summary { median, min, max })
    }

    /// From the slowest to the fastest, in tokens per second.
    fn spread(&self) -> f64 {
        self.max - self.min
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { median, min, max } = self;
        write!(out, "{median:.1} ({min:.1}..{max:.1})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::contestant::TESTS;

    fn report(theirs: &[f64]) -> Report<'static> {
        let mut row = Row::new(&TESTS[0], 2);
        row.ours = vec![30.0, 10.0, 20.0];
        row.theirs = theirs.to_vec();
        Report {
            model: "m",
            against: (!theirs.is_empty()).then_some("builds/old"),
            machine: Machine {
                cpu: "Some CPU".to_owned(),
                cores: 4,
            },
            date: "2026-01-02 03:04".to_owned(),
            load: 0.25,
            rows: vec![row],
        }
    }

    #[test]
    fn median_of_an_even_number_lies_between_the_middle_two() {
        let summary = |runs: &[f64]| Summary::of(runs).map(|summary| summary.to_string());
        assert_eq!(summary(&[4.0, 1.0, 2.0, 3.0]).unwrap(), "2.5 (1.0..4.0)");
        assert_eq!(summary(&[7.0]).unwrap(), "7.0 (7.0..7.0)");
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn table_shows_both_and_their_ratio() {
        let table = report(&[10.0]).table();
        assert!(
            table.starts_with("Some CPU, 4 cores; 2026-01-02 03:04; load"),
            "{table}"
        );
        let expected = "tg128        2       20.0 (10.0..30.0)       10.0 (10.0..10.0)   2.00\n";
        assert!(table.ends_with(expected), "{table}");
    }

    #[test]
    fn jsonl_row_stands_for_itself() {
        let alone: serde_json::Value = serde_json::from_str(&report(&[]).jsonl()).unwrap();
        assert_eq!(alone["test"], "tg128");
        assert_eq!(alone["tok_s"], 20.0);
        assert_eq!(alone["spread"], 20.0);
        assert!(alone["ratio"].is_null());
        let compared: serde_json::Value = serde_json::from_str(&report(&[40.0]).jsonl()).unwrap();
        assert_eq!(compared["ratio"], 0.5);
        assert_eq!(compared["machine"], "some-cpu-4c");
    }
}
