//! The command line of kernelcheck.

use kernels_asm::features::Isa;

/// What is printed after a mistake.
pub const USAGE: &str = "\
usage: kernelcheck [--list | --short | --long | --bench] [--op PATTERN] [--isa NAME] [--seed N] [--rounds N]
  --list        name the kernels and their tiers, run nothing
  --short       a third of one round, for emulated CPUs
  --long        10,000 cases of each: as --rounds 25
  --bench       time the kernels instead of checking them
  --op PATTERN  only kernels whose name contains PATTERN
  --isa NAME    only kernels of that tier
  --seed N      seed of the inputs, as printed by the run to be repeated
  --rounds N    how often to go through the kinds of input (4)
  --cold-mib N  size of the cold matrix of --bench; more than the last-level cache (1024)";

/// What was asked for.
pub struct Options {
    /// List and stop.
    pub list: bool,
    /// Time instead of checking.
    pub bench: bool,
    /// Part of the names of the kernels meant.
    pub op: String,
    /// The only tier meant.
    pub isa: Option<Isa>,
    /// Seed of the inputs.
    pub seed: u64,
    /// How often to go through the kinds of input.
    pub rounds: usize,
    /// Of the cases of a round, every how many are run.
    pub every: usize,
    /// Size of a matrix that no cache holds.
    pub cold_mib: usize,
}

impl Options {
    /// Whether `--op` means what has this name.
    pub fn names(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.op.to_lowercase())
    }

    /// Reads the arguments behind the program's name.
    pub fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            list: false,
            bench: false,
            op: String::new(),
            isa: None,
            seed: 1,
            rounds: 4,
            every: 1,
            cold_mib: 1024,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--list" => options.list = true,
                "--short" => (options.rounds, options.every) = (1, 3),
                "--long" => options.rounds = 25,
                "--bench" => options.bench = true,
                "--op" => options.op = value()?,
                "--isa" => options.isa = Some(isa(&value()?)?),
                "--seed" => options.seed = number(&value()?)? as u64,
                "--rounds" => options.rounds = number(&value()?)?,
                "--cold-mib" => options.cold_mib = number(&value()?)?,
                _ => return Err(format!("unknown option {arg}")),
            }
        }
        Ok(options)
    }
}

fn isa(name: &str) -> Result<Isa, String> {
    Isa::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Isa::ALL.into_iter().map(Isa::name).collect();
        format!("no tier is called {name}; there are {}", names.join(", "))
    })
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
