//! The tables, as Markdown.

use crate::measure::{Cell, Theirs};
use crate::options::Options;
use std::fmt;
use yardstick::clock;
use yardstick::shape::{DECODE, Shape};

/// How often TinyLlama, of 22 layers, multiplies with each matrix of `DECODE` for a token.
const TIMES: [usize; DECODE.len()] = [44, 44, 44, 22, 1];
/// What is aimed at: so many times as fast as the peer,
const RATIO: f64 = 1.3;
/// or at least this share of the speed of a read.
const SHARE: f64 = 0.9;

/// All that is printed.
pub struct Report {
    head: String,
    /// What was measured: for each format, each shape of `DECODE` in its order.
    pub cells: Vec<Cell>,
}

impl Report {
    /// A report without figures yet, about this machine.
    pub fn new(cpu: usize, options: &Options) -> Self {
        let (machine, rounds, mib) = (clock::machine(), options.rounds, options.working_set_mib);
        Self {
            head: format!(
                "{machine}; core {cpu}; medians of {rounds} rounds; working set {mib} MiB"
            ),
            cells: Vec::new(),
        }
    }
}

/// Figures of one product or of a sum of products.
#[derive(Default)]
struct Figures {
    bytes: f64,
    ours: f64,
    read: f64,
    plain_read: f64,
    theirs: Option<f64>,
}

impl Figures {
    /// Of a cell, `times` over: with the faster read, and the peer's fastest buffer.
    fn of(cell: &Cell, times: usize) -> Self {
        let times = times as f64;
        Self {
            bytes: times * cell.bytes as f64,
            ours: times * cell.ours,
            read: times * cell.plain_read.min(cell.two_streams),
            plain_read: times * cell.plain_read,
            theirs: best(&cell.theirs).map(|best| times * best.seconds),
        }
    }

    fn add(&mut self, other: Self) {
        self.theirs = match self.ours {
            0.0 => other.theirs,
            _ => self.theirs.zip(other.theirs).map(|(a, b)| a + b),
        };
        self.bytes += other.bytes;
        self.ours += other.ours;
        self.read += other.read;
        self.plain_read += other.plain_read;
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.theirs? / self.ours)
    }

    fn share(&self) -> f64 {
        self.read / self.ours
    }

    /// Whether this is what is aimed at.
    fn is_reached(&self) -> bool {
        self.share() >= SHARE || self.ratio().is_some_and(|ratio| ratio >= RATIO)
    }

    /// Speeds in GB/s of packed bytes, and what they come to.
    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speed = |seconds: f64| self.bytes / seconds / 1e9;
        let (ours, plain, read) = (self.ours, self.plain_read, self.read);
        let (ours, plain, read) = (speed(ours), speed(plain), speed(read));
        let ratio = self.ratio().map(|ratio| format!("{ratio:.2}"));
        let (ratio, share) = (ratio.unwrap_or_default(), self.share());
        write!(
            out,
            "{ours:5.1} | {plain:5.1} | {read:5.1} | {ratio:>5} | {share:5.2} |"
        )
    }
}

/// The peer's fastest kind of buffer.
fn best(theirs: &[Theirs]) -> Option<&Theirs> {
    theirs.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// A time, where there is one.
fn text(seconds: Option<f64>, unit: f64) -> String {
    seconds.map_or(String::new(), |seconds| format!("{:.1}", seconds / unit))
}

/// The formats, each with all its shapes.
impl Report {
    fn formats(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunk_by(|a, b| a.format == b.format)
    }

    fn write_formats(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "\nA token of TinyLlama: all its matrices, as often as it has them.\n\n\
             | format | ours ms | llama.cpp ms | its buffers | GB/s | plain read | best read | ratio \
             | share | |\n|---|---|---|---|---|---|---|---|---|---|"
        )?;
        for cells in self.formats() {
            let mut all = Figures::default();
            let mut buffers: Vec<&str> = Vec::new();
            for (cell, times) in cells.iter().zip(TIMES) {
                all.add(Figures::of(cell, times));
                buffers.extend(best(&cell.theirs).map(|best| best.buffer.as_str()));
            }
            buffers.sort_unstable();
            buffers.dedup();
            let (ours, theirs) = (all.ours * 1e3, text(all.theirs, 1e-3));
            let (name, buffers) = (cells[0].format.name(), buffers.join(", "));
            write!(out, "| {name:6} | {ours:6.1} | {theirs:>6} | {buffers} | ")?;
            all.write(out)?;
            let missed = |(cell, _): &(&Cell, usize)| !Figures::of(cell, 1).is_reached();
            let missed: Vec<String> = cells
                .iter()
                .zip(TIMES)
                .filter(missed)
                .map(|(cell, _)| cell.shape.to_string())
                .collect();
            match missed.as_slice() {
                [] => writeln!(out, " reached |")?,
                shapes => writeln!(out, " not at {} |", shapes.join(", "))?,
            }
        }
        writeln!(
            out,
            "\nGB/s: ours, of packed bytes; reads of the same memory. ratio: the peer's time to \
             ours.\nshare: the time of the best read to ours. reached: {RATIO} or {SHARE}, \
             at every shape."
        )
    }

    fn write_shapes(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "\n| format | shape | ours us | llama.cpp us | GB/s | plain read | best read | ratio \
             | share |\n|---|---|---|---|---|---|---|---|---|"
        )?;
        for cell in &self.cells {
            let Shape { rows, columns, .. } = cell.shape;
            let (name, ours) = (cell.format.name(), cell.ours * 1e6);
            let theirs: Vec<String> = cell
                .theirs
                .iter()
                .map(|theirs| format!("{} {:.1}", theirs.buffer, theirs.seconds * 1e6))
                .collect();
            let (shape, theirs) = (format!("{rows}x{columns}"), theirs.join(", "));
            write!(out, "| {name:6} | {shape:10} | {ours:8.1} | {theirs} | ")?;
            Figures::of(cell, 1).write(out)?;
            writeln!(out)?;
        }
        Ok(())
    }

    fn write_errors(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0.0, f64::max);
        writeln!(
            out,
            "\nLargest error of a row, as a share of the root of the sum of its terms' squares \
             (ours with\nthe bits of the reference):\n\n| format | ours | peer |\n|---|---|---|"
        )?;
        for cells in self.formats() {
            let name = cells[0].format.name();
            let ours = largest(&mut cells.iter().map(|cell| cell.error));
            let theirs = cells.iter().flat_map(|cell| &cell.theirs);
            let theirs = largest(&mut theirs.map(|theirs| theirs.error));
            writeln!(out, "| {name:6} | {ours:.4} | {theirs:.4} |")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.head)?;
        self.write_formats(out)?;
        self.write_shapes(out)?;
        self.write_errors(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels_asm::format::WeightFormat;

    /// A cell at each shape: ours takes 2 us, the read `read`, the peer's buffers `a` and `b`.
    fn report(read: f64, a: f64, b: f64) -> Report {
        let theirs = |buffer: &str, seconds| Theirs {
            buffer: buffer.to_owned(),
            seconds,
            error: 0.02,
        };
        let cell = |shape| Cell {
            format: WeightFormat::Q4_0,
            shape,
            bytes: 20_000,
            ours: 2e-6,
            plain_read: 4e-6,
            two_streams: read,
            error: 0.01,
            theirs: vec![theirs("CPU", a), theirs("AMX", b)],
        };
        Report {
            head: "a machine".to_owned(),
            cells: DECODE.into_iter().map(cell).collect(),
        }
    }

    fn format_line(report: &Report) -> String {
        let text = report.to_string();
        let line = text.lines().find(|line| line.starts_with("| Q4_0"));
        line.unwrap().to_owned()
    }

    #[test]
    fn fastest_buffer_counts_and_every_product_of_a_token_is_summed() {
        // 44 + 44 + 44 + 22 + 1 products.
        let expected = "| Q4_0   |    0.3 |    0.4 | AMX |  10.0 |   5.0 |  20.0 |  1.40 |  0.50 | \
                        reached |";
        assert_eq!(format_line(&report(1e-6, 9e-6, 2.8e-6)), expected);
    }

    #[test]
    fn ratio_or_share_of_the_faster_read_reaches_the_aim() {
        assert!(format_line(&report(1.9e-6, 2e-6, 2e-6)).ends_with(" reached |"));
        // The plain read is slower and so does not count.
        let missed = format_line(&report(1.7e-6, 2e-6, 2.5e-6));
        assert!(missed.contains("|  1.00 |  0.85 | not at 2048x2048, 256x2048, "));
    }

    #[test]
    fn without_a_peer_there_is_no_ratio() {
        let mut report = report(1.9e-6, 1.0, 1.0);
        report.cells.iter_mut().for_each(|cell| cell.theirs.clear());
        let expected = "| Q4_0   |    0.3 |        |  |  10.0 |   5.0 |  10.5 |       |  0.95 | \
                        reached |";
        assert_eq!(format_line(&report), expected);
    }
}
