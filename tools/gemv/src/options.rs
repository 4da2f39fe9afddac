//! The command line.

use kernels_asm::format::WeightFormat;
use std::path::PathBuf;
use std::str::FromStr;

/// What is printed after a mistake.
pub const USAGE: &str = "\
usage: gemv [--peer PROGRAM] [--only FORMAT[,FORMAT...]] [--cpu N] [--rounds N]
            [--working-set-mib N]
  --peer PROGRAM       runs ggml's products; without it ours are alone
  --only LIST          only these formats, as GGUF spells them
  --cpu N              the core to use (the last that is allowed)
  --rounds N           how often each has its turn (9)
  --working-set-mib N  each matrix is repeated to this size, for each contestant, so that no cache
                       holds it (512)";

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The program that runs ggml.
    pub peer: Option<PathBuf>,
    /// The formats meant; empty for all.
    pub only: Vec<WeightFormat>,
    /// The core to use.
    pub cpu: Option<usize>,
    /// Turns that the figures are the medians of.
    pub rounds: usize,
    /// What the copies of a matrix add up to.
    pub working_set_mib: usize,
}

impl Options {
    /// Whether this format is to be measured.
    pub fn means(&self, format: WeightFormat) -> bool {
        self.only.is_empty() || self.only.contains(&format)
    }

    /// Reads the arguments behind the program's name.
    pub fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            peer: None,
            only: Vec::new(),
            cpu: None,
            rounds: 9,
            working_set_mib: 512,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--peer" => options.peer = Some(value()?.into()),
                "--only" => {
                    options.only = value()?.split(',').map(format).collect::<Result<_, _>>()?;
                }
                "--cpu" => options.cpu = Some(number(&value()?)?),
                "--rounds" => options.rounds = number(&value()?)?,
                "--working-set-mib" => options.working_set_mib = number(&value()?)?,
                _ => return Err(format!("unknown option {arg}")),
            }
        }
        match options.rounds {
            0 => Err("--rounds counts from 1".to_owned()),
            _ => Ok(options),
        }
    }
}

fn format(name: &str) -> Result<WeightFormat, String> {
    let is = |format: &WeightFormat| format.name().eq_ignore_ascii_case(name);
    let found = WeightFormat::ALL.into_iter().find(is);
    found.ok_or_else(|| format!("no format is called {name}"))
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::from_args(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_mistakes_named() {
        let options = parse("--only q4_k,F16 --cpu 1 --rounds 3 --peer p").unwrap();
        assert_eq!(options.only, [WeightFormat::Q4_K, WeightFormat::F16]);
        assert!(options.means(WeightFormat::F16) && !options.means(WeightFormat::F32));
        assert_eq!((options.cpu, options.rounds), (Some(1), 3));
        assert_eq!(options.peer, Some("p".into()));
        assert_eq!(parse("--only Q9").unwrap_err(), "no format is called Q9");
        assert_eq!(parse("--rounds 0").unwrap_err(), "--rounds counts from 1");
        assert_eq!(parse("--cpu x").unwrap_err(), "x is not a number");
        assert_eq!(parse("--cpu").unwrap_err(), "--cpu needs a value");
        assert!(parse("").unwrap().means(WeightFormat::F32));
    }
}
