//! The rows of `bench`: for a person, a spreadsheet or a program, with the same fields.

use super::workload::{Format, Test};
use crate::error::Error;
use crate::log::escape;
use crate::output::Output;
use crate::session::Setup;
use core::fmt;
use core::fmt::Write;
use kernels_asm::features::Isa;

/// Mean and sample standard deviation as figures come (Welford, 1962).
#[derive(Clone, Copy, Default)]
pub struct Samples {
    count: u32,
    mean: f64,
    squares: f64,
}

impl Samples {
    /// Takes a figure.
    pub fn add(&mut self, figure: f64) {
        self.count += 1;
        let distance = figure - self.mean;
        self.mean += distance / f64::from(self.count);
        self.squares += distance * (figure - self.mean);
    }

    /// How far figures lie from their mean; 0 for one alone.
    fn deviation(&self) -> f64 {
        let others = self.count.saturating_sub(1).max(1);
        libm::sqrt(self.squares / f64::from(others))
    }
}

/// A value of a row.
#[derive(Clone, Copy)]
enum Value<'v> {
    Text(&'v dyn fmt::Display),
    Number(u64),
    Decimal(f64),
}

/// Prints rows.
pub struct Report<'s> {
    setup: &'s Setup<'s>,
    /// Name of the model's file.
    model: &'s str,
    isa: Isa,
    format: Format,
    out: Output,
    has_heading: bool,
}

impl<'s> Report<'s> {
    /// For the model in `setup`, whose file is `model`.
    pub fn new(setup: &'s Setup<'s>, model: &'s str, isa: Isa, format: Format) -> Self {
        Report {
            setup,
            model,
            isa,
            format,
            out: Output::default(),
            has_heading: false,
        }
    }

    /// Prints a row at once: the next may take minutes.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn row(&mut self, test: Test, samples: &Samples) -> Result<(), Error> {
        let (setup, model) = (self.setup, self.model);
        let (request, kernels) = (&setup.request, setup.kernel_names());
        let size = setup.sizes.raw + setup.sizes.rows;
        let (keys, values) = (request.key_format.name(), request.value_format.name());
        let fields = [
            ("test", Value::Text(&test)),
            ("tok_s", Value::Decimal(samples.mean)),
            ("spread", Value::Decimal(samples.deviation())),
            ("repeats", Value::Number(samples.count.into())),
            ("tokens", Value::Number(test.tokens as u64)),
            ("depth", Value::Number(test.depth as u64)),
            ("model", Value::Text(&model)),
            ("size", Value::Number(size)),
            ("threads", Value::Number(request.threads as u64)),
            ("batch", Value::Number(request.batch as u64)),
            ("context", Value::Number(request.context as u64)),
            ("k_format", Value::Text(&keys)),
            ("v_format", Value::Text(&values)),
            ("isa", Value::Text(&self.isa.name())),
            ("kernels", Value::Text(&kernels)),
            ("version", Value::Text(&env!("CARGO_PKG_VERSION"))),
        ];
        match self.format {
            Format::Jsonl => self.json(&fields)?,
            Format::Csv => self.csv(&fields)?,
            Format::Text => self.table(test, samples, size)?,
        }
        self.has_heading = true;
        self.out.flush()
    }

    fn json(&mut self, fields: &[(&'static str, Value<'_>)]) -> Result<(), Error> {
        for (index, (name, value)) in fields.iter().enumerate() {
            let before = if index == 0 { "{" } else { "," };
            self.out.print(format_args!("{before}\"{name}\":"))?;
            match value {
                Value::Text(text) => self.out.print(format_args!("\"{}\"", Escaped(*text)))?,
                Value::Number(number) => self.out.print(format_args!("{number}"))?,
                Value::Decimal(number) => self.out.print(format_args!("{number:.3}"))?,
            }
        }
        self.out.print(format_args!("}}\n"))
    }

    fn csv(&mut self, fields: &[(&'static str, Value<'_>)]) -> Result<(), Error> {
        if !self.has_heading {
            for (index, (name, _)) in fields.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                self.out.print(format_args!("{comma}{name}"))?;
            }
            self.out.print(format_args!("\n"))?;
        }
        for (index, (_, value)) in fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match value {
                Value::Text(text) => self.out.print(format_args!("{comma}{}", Quoted(*text)))?,
                Value::Number(number) => self.out.print(format_args!("{comma}{number}"))?,
                Value::Decimal(number) => self.out.print(format_args!("{comma}{number:.3}"))?,
            }
        }
        self.out.print(format_args!("\n"))
    }

    fn table(&mut self, test: Test, samples: &Samples, size: u64) -> Result<(), Error> {
        let request = &self.setup.request;
        if !self.has_heading {
            self.out.print(format_args!(
                "{:<28} {:>8} {:>10} {:>7} {:>5} {:>9}  {:<16} {:>10}   {}\n",
                "model", "MiB", "isa", "threads", "batch", "kv", "test", "tok/s", "spread"
            ))?;
        }
        let mut kv = heapless::String::<16>::new();
        let (keys, values) = (request.key_format.name(), request.value_format.name());
        let _ = write!(kv, "{keys}/{values}"); // the longest names fit
        let mut name = heapless::String::<32>::new();
        let _ = write!(name, "{test}"); // two counts of seven digits fit
        let (tok_s, spread) = (samples.mean, samples.deviation());
        self.out.print(format_args!(
            "{:<28} {:>8.1} {:>10} {:>7} {:>5} {kv:>9}  {name:<16} {tok_s:>10.2} ± {spread:.2}\n",
            self.model,
            size as f64 / f64::from(1 << 20),
            self.isa.name(),
            request.threads,
            request.batch,
        ))
    }
}

/// A text as a JSON string has it between its quotes.
struct Escaped<'v>(&'v dyn fmt::Display);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| escape(self.0, letter))
    }
}

/// A text as a field of a CSV file: in quotes, quotes within it doubled.
struct Quoted<'v>(&'v dyn fmt::Display);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        write!(Doubling(f), "{}", self.0)?;
        f.write_char('"')
    }
}

struct Doubling<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Doubling<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (index, part) in text.split('"').enumerate() {
            if index > 0 {
                self.0.write_str("\"\"")?;
            }
            self.0.write_str(part)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn deviation_is_that_of_a_sample() {
        let mut samples = Samples::default();
        samples.add(7.0);
        assert_eq!((samples.mean, samples.deviation()), (7.0, 0.0));
        samples.add(9.0);
        samples.add(11.0);
        assert_eq!((samples.mean, samples.deviation()), (9.0, 2.0)); // (4 + 0 + 4) / 2 = 4
    }

    #[test]
    fn quotes_in_a_field_are_doubled() {
        assert_eq!(Quoted(&"a \"b\", c").to_string(), "\"a \"\"b\"\", c\"");
        assert_eq!(Quoted(&"").to_string(), "\"\"");
    }

    #[test]
    fn quotes_in_a_string_are_escaped() {
        assert_eq!(Escaped(&"a \"b\"\n").to_string(), "a \\\"b\\\"\\u000a");
    }
}
