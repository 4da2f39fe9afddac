//! What was measured, for a person or for a program.

use std::fmt::Write;

use serde_json::json;

use super::contestant::Test;
use super::summary::Summary;
use crate::machine::Machine;

/// One test with one number of threads: tokens per second, a figure for each run.
pub struct Row {
    pub test: &'static Test,
    pub threads: usize,
    /// For each contestant, this build first.
    pub figures: Vec<Vec<f64>>,
}

impl Row {
    /// A row without figures.
    pub fn new(test: &'static Test, threads: usize, contestants: usize) -> Self {
        Row {
            test,
            threads,
            figures: vec![Vec::new(); contestants],
        }
    }

    /// How many times as fast as another contestant this build is.
    fn ratio(&self, other: usize) -> Option<f64> {
        let median = |figures: &[f64]| Some(Summary::of(figures)?.median);
        Some(median(self.figures.first()?)? / median(self.figures.get(other)?)?)
    }
}

/// All rows, and the circumstances.
pub struct Report<'a> {
    pub model: &'a str,
    /// This build and whom it is compared with.
    pub names: Vec<&'a str>,
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
        let runs = self.rows.first().map_or(0, |row| row.figures[0].len());
        let mut text = format!(
            "{cpu}, {cores} cores; {}; load average {:.2} at the start\n\
             {}, tok/s: median (min..max) of {runs} runs\n\n",
            self.date, self.load, self.model
        );
        let mut line = |test: &str, threads: &str, cells: &[String]| {
            let mut line = format!("{test:<12}  {threads:>7}");
            for cell in cells {
                let width = if cell.len() > 5 { 22 } else { 5 };
                write!(line, "  {cell:>width$}").expect("a string takes all");
            }
            text += line.trim_end();
            text += "\n";
        };
        let mut heads = vec![self.names[0].to_owned()];
        for name in &self.names[1..] {
            heads.extend([format!("{name:>22}"), "ratio".to_owned()]);
        }
        line("test", "threads", &heads);
        for row in &self.rows {
            let mut cells = Vec::new();
            for (index, figures) in row.figures.iter().enumerate() {
                cells.extend(Summary::of(figures).map(|summary| summary.to_string()));
                if index > 0 {
                    cells.extend(row.ratio(index).map(|ratio| format!("{ratio:.2}")));
                }
            }
            line(row.test.name, &row.threads.to_string(), &cells);
        }
        text
    }

    /// One JSON object a line, each with all that it takes to judge it: one for each test, number
    /// of threads, and contestant that this build is compared with.
    pub fn jsonl(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let ours = Summary::of(&row.figures[0]);
            for other in 1..self.names.len().max(2) {
                let theirs = row.figures.get(other).and_then(|runs| Summary::of(runs));
                let object = json!({
                    "test": row.test.name,
                    "threads": row.threads,
                    "tok_s": ours.as_ref().map(|ours| ours.median),
                    "spread": ours.as_ref().map(Summary::spread),
                    "peer": self.names.get(other),
                    "peer_tok_s": theirs.as_ref().map(|theirs| theirs.median),
                    "peer_spread": theirs.as_ref().map(Summary::spread),
                    "ratio": row.ratio(other),
                    "runs": row.figures[0].len(),
                    "model": self.model,
                    "machine": self.machine.class(),
                    "cpu": self.machine.cpu,
                    "date": self.date,
                    "load": self.load,
                });
                writeln!(text, "{object}").expect("a string takes all");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::contestant::TESTS;

    fn report(others: &[f64]) -> Report<'static> {
        let mut row = Row::new(&TESTS[0], 2, 1 + others.len());
        row.figures[0] = vec![30.0, 10.0, 20.0];
        for (figures, &other) in row.figures[1..].iter_mut().zip(others) {
            *figures = vec![other];
        }
        Report {
            model: "m",
            names: ["this build", "old", "older"][..=others.len()].to_vec(),
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
    fn table_shows_all_and_their_ratios() {
        let table = report(&[10.0, 40.0]).table();
        assert!(
            table.starts_with("Some CPU, 4 cores; 2026-01-02 03:04; load"),
            "{table}"
        );
        let (ours, old) = ("20.0 (10.0..30.0)", "10.0 (10.0..10.0)");
        let older = "40.0 (40.0..40.0)";
        let expected =
            format!("tg128               2  {ours:>22}  {old:>22}   2.00  {older:>22}   0.50\n");
        assert!(table.ends_with(&expected), "{table}");
    }

    #[test]
    fn jsonl_row_stands_for_itself() {
        let rows = |others: &[f64]| -> Vec<serde_json::Value> {
            let text = report(others).jsonl();
            let rows = text.lines().map(serde_json::from_str);
            rows.collect::<Result<_, _>>().unwrap()
        };
        let alone = &rows(&[])[0];
        assert_eq!(alone["test"], "tg128");
        assert_eq!(alone["tok_s"], 20.0);
        assert_eq!(alone["spread"], 20.0);
        assert!(alone["ratio"].is_null());
        let compared = rows(&[40.0, 10.0]);
        assert_eq!(compared.len(), 2);
        assert_eq!(compared[0]["ratio"], 0.5);
        assert_eq!(compared[1]["peer"], "older");
        assert_eq!(compared[1]["ratio"], 2.0);
        assert_eq!(compared[0]["machine"], "some-cpu-4c");
    }
}
