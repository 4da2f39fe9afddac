//! What was measured, and whether it keeps the bounds.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::forced::{Forced, LEADING};
use super::perplexity::Perplexity;
use crate::memory::way::Measured;

/// How far the perplexity may be from the peer's.
const RATIO: f64 = 0.005;
/// How far leading logits may be from the peer's, on average.
const DIFFERENCE: f64 = 0.3;
/// How far the peak may be from the plan.
const PLAN: f64 = 0.02;
/// Models with a bound on their peak, in KiB: 1.25 GB, which leaves a board of 1.92 GB its room.
const PEAKS: [(&str, u64); 1] = [("qwen2.5-1.5b", 1_250_000_000 / 1024)];
/// Between these lines of the page stands the table.
const MARKS: [&str; 2] = ["<!-- accuracy: begin -->\n", "<!-- accuracy: end -->\n"];

/// A model.
pub struct Row {
    pub model: String,
    pub formats: String,
    pub perplexity: Perplexity,
    pub forced: Forced,
    /// Of ours and of the peer.
    pub memory: [Measured; 2],
}

/// All models, and the circumstances.
pub struct Report {
    pub date: String,
    pub commit: String,
    pub rows: Vec<Row>,
}

impl Row {
    /// A line for a person who waits.
    pub fn text(&self) -> String {
        let Row {
            perplexity, forced, ..
        } = self;
        format!(
            "{}: perplexity {:.4} +/- {:.4}, llama.cpp {:.4}: ratio {:.5}; {} of {} decided steps \
             differ, leading logits by {:.3}",
            self.model,
            perplexity.ours,
            perplexity.standard_error,
            perplexity.theirs,
            perplexity.ratio(),
            forced.differing,
            forced.decided,
            forced.mean()
        )
    }

    fn cells(&self) -> String {
        let Row {
            perplexity, forced, ..
        } = self;
        let mib = |kib: f64| kib / 1024.0;
        let [ours, theirs] = &self.memory;
        format!(
            "| {} | {} | {:.0} ({:.0}) | {:.0} | {:.4} | {:.4} | {:.4} | {} of {} | {:.3} |",
            self.model,
            self.formats,
            mib(ours.rss_kib as f64),
            mib(ours.plan_kib.unwrap_or(f64::NAN)),
            mib(theirs.rss_kib as f64),
            perplexity.ours,
            perplexity.theirs,
            perplexity.ratio(),
            forced.decided - forced.differing,
            forced.decided,
            forced.mean()
        )
    }

    fn exceeded(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut bound = |holds: bool, text: String| {
            if !holds {
                lines.push(format!("{}: {text}", self.model));
            }
        };
        let ratio = self.perplexity.ratio();
        bound(
            (ratio - 1.0).abs() <= RATIO,
            format!("perplexity is {ratio:.5} of the peer's"),
        );
        let Forced { differing, .. } = self.forced;
        bound(
            differing == 0,
            format!("another choice at {differing} decided steps"),
        );
        let mean = self.forced.mean();
        bound(
            mean <= DIFFERENCE,
            format!("leading logits differ by {mean:.3}"),
        );
        let peak = self.memory[0].rss_kib;
        let plan = self.memory[0].plan_kib.unwrap_or(f64::NAN);
        bound(
            (peak as f64 / plan - 1.0).abs() <= PLAN,
            format!("peak of {peak} KiB, {plan} planned"),
        );
        let most = PEAKS.iter().find(|(model, _)| *model == self.model);
        bound(
            most.is_none_or(|&(_, most)| peak <= most),
            format!("peak of {peak} KiB"),
        );
        lines
    }
}

impl Report {
    /// A table for the page.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}, commit {}; `cargo xtask accuracy`.\n\n\
             | model | matrices | peak RSS at `-c 2048` (plan), MiB | llama.cpp, MiB | perplexity \
             | llama.cpp | ratio | same choice | {LEADING} leading logits |\n\
             |---|---|--:|--:|--:|--:|--:|--:|--:|\n",
            self.date, self.commit
        );
        for row in &self.rows {
            writeln!(text, "{}", row.cells()).expect("a string takes all");
        }
        text
    }

    /// Puts the table into a page, in the place of the one that is there.
    pub fn write(&self, page: &Path) -> Result<()> {
        let text = fs::read_to_string(page)?;
        let replaced = between_marks(&text, &self.table());
        let replaced = replaced.with_context(|| format!("no place in {}", page.display()))?;
        fs::write(page, replaced)?;
        Ok(())
    }

    /// A line for each bound that is exceeded.
    pub fn exceeded(&self) -> Vec<String> {
        self.rows.iter().flat_map(Row::exceeded).collect()
    }
}

fn between_marks(page: &str, table: &str) -> Option<String> {
    let [begin, end] = MARKS;
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some([before, begin, table, end, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, peak: u64) -> Row {
        let measured = |rss_kib, plan_kib| Measured {
            first_ms: 1.0,
            rss_kib,
            load_ms: 1.0,
            plan_kib,
        };
        let mut forced = Forced::default();
        forced.steps = 1;
        Row {
            model: "qwen2.5-1.5b".to_owned(),
            formats: "Q4_K 1".to_owned(),
            perplexity: Perplexity {
                ours,
                theirs: 10.0,
                standard_error: 0.1,
            },
            forced,
            memory: [measured(peak, Some(1000.0 * 1024.0)), measured(peak, None)],
        }
    }

    #[test]
    fn figure_is_out_of_bounds_by_the_least_more() {
        let lines = |ours, peak| row(ours, peak).exceeded().len();
        assert_eq!(lines(10.049, 1000 * 1024), 0);
        assert_eq!(lines(10.051, 1000 * 1024), 1);
        assert_eq!(lines(9.949, 1000 * 1024), 1);
        assert_eq!(lines(10.0, 1021 * 1024), 1);
        assert_eq!(lines(10.0, 1_250_000_000 / 1024 + 1), 2);
    }

    #[test]
    fn table_replaces_the_one_before() {
        let [begin, end] = MARKS;
        let page = format!("a\n{begin}old\n{end}b\n");
        let replaced = between_marks(&page, "new\n").unwrap();
        assert_eq!(replaced, format!("a\n{begin}new\n{end}b\n"));
        assert_eq!(between_marks("a\n", "new\n"), None);
    }
}
