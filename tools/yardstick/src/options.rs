//! The command line.

use std::path::PathBuf;

/// What is printed after a mistake.
pub const USAGE: &str = "\
usage: yardstick [--quick] [--csv FILE] [--seconds N] [--cpus N[,N...]] [--only PATTERN]
                 [--working-set-mib N]
  --quick              check on small matrices, time nothing: for emulators
  --csv FILE           the figures as CSV too
  --seconds N          about how long to measure, packing aside (60)
  --cpus LIST          the cores to use, in this order (all that are allowed)
  --only PATTERN       only contestants whose name contains PATTERN
  --working-set-mib N  each matrix is repeated to this size, so that no cache holds it (24);
                       0 has one matrix over and over, in whatever cache holds it";

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Check, without timing.
    pub quick: bool,
    /// Where the CSV goes.
    pub csv: Option<PathBuf>,
    /// How long to measure.
    pub seconds: f64,
    /// The cores to use; empty for all.
    pub cpus: Vec<usize>,
    /// Part of the names of the contestants meant.
    pub only: String,
    /// What the copies of a matrix add up to.
    pub working_set_mib: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quick: false,
            csv: None,
            seconds: 60.0,
            cpus: Vec::new(),
            only: String::new(),
            working_set_mib: 24,
        }
    }
}

impl Options {
    /// Reads the arguments behind the program's name.
    pub fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--csv" => options.csv = Some(value()?.into()),
                "--seconds" => options.seconds = number(&value()?)? as f64,
                "--cpus" => {
                    let cpus = value()?;
                    options.cpus = cpus.split(',').map(number).collect::<Result<_, _>>()?;
                }
                "--only" => options.only = value()?,
                "--working-set-mib" => options.working_set_mib = number(&value()?)?,
                _ => return Err(format!("unknown option {arg}")),
            }
        }
        Ok(options)
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(line: &str) -> Result<Options, String> {
        Options::from_args(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_mistakes_named() {
        let options = parse("--cpus 4,5 --csv out.csv --seconds 30").unwrap();
        assert_eq!(options.cpus, [4, 5]);
        assert_eq!(options.csv, Some("out.csv".into()));
        assert_eq!(options.seconds, 30.0);
        assert_eq!(parse("--csv").unwrap_err(), "--csv needs a value");
        assert_eq!(parse("--cpus 1,x").unwrap_err(), "x is not a number");
    }
}
