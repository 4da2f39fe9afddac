//! The table and the CSV.

use crate::measure::Count;
use crate::options::Options;
use crate::shape::Shape;
use crate::{clock, kleidiai_note};
use std::fmt;

/// A contestant's figures for one shape and number of threads.
pub struct Row {
    /// The contestant.
    pub name: String,
    /// The matrix.
    pub shape: Shape,
    /// How many threads shared it.
    pub threads: usize,
    /// Cycles a weight, of all cores together.
    pub cycles: Option<Count>,
    /// Time a weight.
    pub ns_per_weight: f64,
    /// Packed bytes a second.
    pub gb_per_second: f64,
    /// From the fastest turn to the slowest, as a share of the median.
    pub spread: f64,
}

/// How long a contestant takes to quantise a vector.
pub struct Quantisation {
    /// The contestant.
    pub name: String,
    /// Length of the vector.
    pub columns: usize,
    /// The median.
    pub microseconds: f64,
}

/// A product that was judged and found right.
pub struct Checked {
    /// The contestant.
    pub name: String,
    /// The matrix.
    pub shape: Shape,
    /// How many threads shared it.
    pub threads: usize,
    /// The largest error of a row, as a share of its norm.
    pub error: f64,
    /// Whether it was also compared with our reference, bit by bit.
    pub bits: bool,
}

/// All that is printed.
pub struct Report {
    head: Vec<String>,
    quick: bool,
    /// What was measured.
    pub rows: Vec<Row>,
    quantisations: Vec<Quantisation>,
    /// What was found right.
    pub checked: Vec<Checked>,
}

impl Report {
    /// A report without figures yet, about this machine.
    pub fn new(cpus: &[usize], options: &Options) -> Self {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let mut head = vec![
            format!("machine: {}; cores {}", clock::machine(), cpus.join(",")),
            format!("against: {}", kleidiai_note()),
        ];
        if !options.quick {
            head.push(format!(
                "one vector (m = 1); weights packed and vector quantised ahead on both sides; \
                 working set {} MiB",
                options.working_set_mib
            ));
        }
        Self {
            head,
            quick: options.quick,
            rows: Vec::new(),
            quantisations: Vec::new(),
            checked: Vec::new(),
        }
    }

    /// Takes figures of the quantisation, once for each length.
    pub fn quantisation(&mut self, figures: Vec<Quantisation>) {
        for figure in figures {
            let is_same = |known: &&Quantisation| {
                known.name == figure.name && known.columns == figure.columns
            };
            if self.quantisations.iter().find(is_same).is_none() {
                self.quantisations.push(figure);
            }
        }
    }

    /// The figures, one line each, below a line with their names.
    pub fn csv(&self) -> String {
        let mut csv = "rows,columns,threads,contestant,cycles_per_weight,cycles_from,\
                       ns_per_weight,gb_per_second,spread\n"
            .to_owned();
        for row in &self.rows {
            let (cycles, from) = match row.cycles {
                Some(count) if count.counted => (format!("{:.4}", count.cycles), "counter"),
                Some(count) => (format!("{:.4}", count.cycles), "frequency"),
                None => (String::new(), ""),
            };
            csv += &format!(
                "{},{},{},{},{cycles},{from},{:.5},{:.3},{:.3}\n",
                row.shape.rows,
                row.shape.columns,
                row.threads,
                row.name,
                row.ns_per_weight,
                row.gb_per_second,
                row.spread
            );
        }
        csv
    }

    fn write_rows(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same = |a: &Row, b: &Row| a.shape == b.shape && a.threads == b.threads;
        for rows in self.rows.chunk_by(same) {
            let fastest = rows.iter().map(|row| row.ns_per_weight);
            let fastest = fastest.fold(f64::INFINITY, f64::min);
            let (shape, threads) = (rows[0].shape, rows[0].threads);
            writeln!(out, "\n{shape} ({}), threads: {threads}", shape.what)?;
            writeln!(
                out,
                "{:39} {:>9} {:>9} {:>7} {:>7} {:>6}",
                "", "cycles/w", "ns/w", "GB/s", "spread", "time"
            )?;
            for row in rows {
                let cycles = match row.cycles {
                    Some(count) if count.counted => format!("{:.3}", count.cycles),
                    Some(count) => format!("~{:.3}", count.cycles),
                    None => "-".to_owned(),
                };
                writeln!(
                    out,
                    "{:39} {cycles:>9} {:9.4} {:7.2} {:6.1}% {:6.2}",
                    row.name,
                    row.ns_per_weight,
                    row.gb_per_second,
                    100.0 * row.spread,
                    row.ns_per_weight / fastest
                )?;
            }
        }
        writeln!(
            out,
            "\ncycles/w: of all cores together, by the CPU's counter; with ~ time by the clock \
             that the\nkernel names. GB/s: packed bytes. spread: slowest less fastest turn. \
             time: the fastest is 1."
        )
    }

    fn write_quantisations(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nquantising the vector, not part of the above, in us")?;
        for figure in &self.quantisations {
            writeln!(
                out,
                "{:39} {:>9} {:9.2}",
                figure.name, figure.columns, figure.microseconds
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.head {
            writeln!(out, "{line}")?;
        }
        if self.quick {
            for checked in &self.checked {
                let bits = match checked.bits {
                    true => "bits of the reference",
                    false => "within tolerance",
                };
                writeln!(
                    out,
                    "{:39} {:>8} threads {}: {bits}, error {:.4}",
                    checked.name,
                    checked.shape.to_string(),
                    checked.threads,
                    checked.error
                )?;
            }
        } else {
            self.write_rows(out)?;
            self.write_quantisations(out)?;
        }
        let with_bits = self.checked.iter().filter(|checked| checked.bits).count();
        writeln!(
            out,
            "\nchecked: {} products, {with_bits} of them bit by bit",
            self.checked.len()
        )
    }
}
