//! What was measured, and whether it keeps the bounds.

use std::fmt::Write;

use super::way::{Measured, Mode, RUSHLIGHT, Settings};
use crate::machine::Machine;

/// Ours may take so many times what the peer does; with what it is compared, and how it takes its
/// weights.
static BOUNDS: [(Mode, Mode, f64); 3] = [
    (Mode::Streamed, Mode::Mapped, 1.0),
    (Mode::Streamed, Mode::Repacked, 0.65),
    (Mode::MappedImage, Mode::Repacked, 0.65),
];

/// All rows, and the circumstances.
pub struct Report<'a> {
    pub model: &'a str,
    pub settings: Settings,
    pub machine: Machine,
    pub date: String,
    /// The program and its mode, and what that took. The first is what others are compared with.
    pub rows: Vec<((&'static str, Mode), Measured)>,
}

impl Report<'_> {
    /// A table for a page or a terminal.
    pub fn table(&self) -> String {
        let Machine { cpu, cores } = &self.machine;
        let Settings {
            context,
            fill,
            threads,
            ..
        } = self.settings;
        let prompt = if fill { "that fills it" } else { "of a line" };
        let mut text = format!(
            "{cpu}, {cores} cores; {}\n\
             {}, context {context}, a prompt {prompt}, KV f16, {threads} threads\n\n\
             | program | weights | peak RSS, MiB | to ours | planned, MiB | load, ms |\n\
             |---|---|--:|--:|--:|--:|\n",
            self.date, self.model
        );
        for ((program, mode), measured) in &self.rows {
            let ratio = measured.rss_kib as f64 / self.rows[0].1.rss_kib as f64;
            let plan = measured.plan_kib.map(|kib| format!("{:.1}", kib / 1024.0));
            writeln!(
                text,
                "| {program} | {mode} | {:.1} | {ratio:.2} | {} | {:.0} |",
                mib(measured),
                plan.unwrap_or_default(),
                measured.load_ms
            )
            .expect("a string takes all");
        }
        text
    }

    /// A line for each bound that is exceeded.
    pub fn exceeded(&self) -> Vec<String> {
        let of = |wanted| {
            let mut rows = self.rows.iter();
            rows.find(|((_, mode), _)| *mode == wanted)
                .map(|row| mib(&row.1))
        };
        let mut lines = Vec::new();
        for (mode, other, most) in &BOUNDS {
            if let (Some(ours), Some(theirs)) = (of(*mode), of(*other))
                && ours > theirs * most
            {
                lines.push(format!(
                    "{RUSHLIGHT}, {mode}: {ours:.1} MiB, more than {most} of the {theirs:.1} MiB \
                     that the other takes, {other}"
                ));
            }
        }
        lines
    }
}

fn mib(measured: &Measured) -> f64 {
    measured.rss_kib as f64 / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: &[(Mode, u64)]) -> Report<'static> {
        let row = |&(mode, mib): &(Mode, u64)| {
            let measured = Measured {
                rss_kib: mib * 1024,
                load_ms: 12.5,
                first_ms: 1.0,
                plan_kib: (mode == Mode::Streamed).then_some(2048.0),
            };
            (("program", mode), measured)
        };
        Report {
            model: "m",
            settings: Settings {
                context: 64,
                fill: false,
                threads: 2,
                isa: None,
            },
            machine: Machine {
                cpu: "Some CPU".to_owned(),
                cores: 2,
            },
            date: "2026-01-02 03:04".to_owned(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn table_has_a_row_for_each_way() {
        let table = report(&[(Mode::Streamed, 100), (Mode::Repacked, 150)]).table();
        let rows: Vec<&str> = table.lines().skip(5).collect();
        let expected = [
            "| program | streamed and packed | 100.0 | 1.00 | 2.0 | 12 |",
            "| program | mapped and repacked (its default) | 150.0 | 1.50 |  | 12 |",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn bound_is_exceeded_by_the_least_more() {
        let lines = |ours, mapped, repacked| {
            let rows = [
                (Mode::Streamed, ours),
                (Mode::Mapped, mapped),
                (Mode::Repacked, repacked),
            ];
            report(&rows).exceeded().len()
        };
        assert_eq!(lines(650, 650, 1000), 0);
        assert_eq!(lines(650, 649, 1000), 1);
        assert_eq!(lines(651, 651, 1000), 1);
        assert_eq!(lines(651, 650, 1000), 2);
        assert!(report(&[(Mode::Streamed, 1)]).exceeded().is_empty());
    }
}
