//! Programs run under what counts their instructions.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use cycles::gate;
use cycles::image::{self, Function};

use super::{Phase, emulator};
use crate::{board, build, command, workspace};

/// The board whose program has the kernels for the Cortex-A55.
const ARM64: &str = "generic-arm64";

/// The end of the names of GEMVs that are tuned for it.
pub const TUNED: &str = "_neon_dotprod_cortex_a55";
/// That of those for out-of-order cores, which have fewer instructions, and pair fewer.
pub const PLAIN: &str = "_neon_dotprod";

/// How `bench` measures a test once: without a run that warms up, on one thread, in chunks of 16,
/// in a context that does not depend on the test.
const ONCE: [&str; 9] = ["-r", "1", "--no-warmup", "-t", "1", "-b", "16", "-c", "64"];

/// Instructions, and of which functions where that is known.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Counts {
    pub total: u64,
    pub by_function: BTreeMap<String, u64>,
}

impl Counts {
    /// What each of `tokens` took: what these counts have more than `shorter`.
    fn per_token(&self, shorter: &Counts, tokens: usize) -> Counts {
        let share = |longer: u64, shorter: u64| longer.saturating_sub(shorter) / tokens as u64;
        let before = |name: &str| shorter.by_function.get(name).copied().unwrap_or(0);
        let functions = self.by_function.iter();
        Counts {
            total: share(self.total, shorter.total),
            by_function: functions
                .map(|(name, &count)| (name.clone(), share(count, before(name))))
                .collect(),
        }
    }
}

/// A build of rushlight, and how its instructions are counted.
pub enum Counter {
    /// The host's program under callgrind.
    Callgrind { program: PathBuf },
    /// The 64-bit Arm one under QEMU.
    Qemu {
        program: PathBuf,
        functions: Vec<Function>,
        /// What it is called in the budgets.
        name: &'static str,
        /// The values of `--kernel`: the same GEMVs whatever core there is.
        kernels: Vec<String>,
    },
}

impl Counter {
    /// All that there are on this machine; what is left out is said.
    pub fn all() -> Result<Vec<Counter>> {
        let mut counters = Vec::new();
        if ARCH == "x86_64" {
            let program = build::board(&board::named(board::HOST)?)?;
            counters.push(Counter::Callgrind { program });
        } else {
            eprintln!("counts: AVX2 NOT COUNTED: this is no x86-64 machine");
        }
        match emulator::is_there() {
            true => counters.push(Counter::arm64(TUNED)?),
            false => eprintln!("counts: 64-bit Arm NOT COUNTED: its QEMU comes from Debian"),
        }
        Ok(counters)
    }

    /// That of the 64-bit Arm program with the GEMVs whose names end so.
    pub fn arm64(end: &str) -> Result<Counter> {
        let board = board::named(ARM64)?;
        build::board(&board)?;
        let program = board.linked();
        let functions = image::functions(&fs::read(&program)?)?;
        let budgets = gate::budgets(&workspace::root().join("kernels-asm/src/aarch64"))?;
        let kernels = budgets.iter().filter_map(|budget| {
            let format = budget.kernel.strip_prefix("gemv_")?.strip_suffix(end)?;
            Some(format!("{}={}", format.to_uppercase(), budget.kernel))
        });
        Ok(Counter::Qemu {
            program,
            functions,
            name: if end == TUNED {
                "dotprod-a55"
            } else {
                "dotprod"
            },
            kernels: kernels.collect(),
        })
    }

    /// The kernels that it counts, in the words of the budgets.
    pub fn name(&self) -> &'static str {
        match self {
            Counter::Callgrind { .. } => "avx2",
            Counter::Qemu { name, .. } => name,
        }
    }

    /// Instructions for each token of several phases.
    pub fn count_each(&self, model: &Path, phases: &[Phase]) -> Result<Vec<Counts>> {
        phases
            .iter()
            .map(|&phase| self.count(model, phase))
            .collect()
    }

    /// Instructions for each token of a phase.
    pub fn count(&self, model: &Path, phase: Phase) -> Result<Counts> {
        let [short, long] = phase.lengths();
        let run = |tokens| {
            let mut words: Vec<OsString> = vec!["bench".into(), "-m".into(), model.into()];
            words.extend(ONCE.iter().map(Into::into));
            words.extend(phase.flags(tokens).map(Into::into));
            words.extend(self.kernels(phase).map(Into::into));
            self.run(&words)
        };
        Ok(run(long)?.per_token(&run(short)?, long - short))
    }

    /// The flags that choose the GEMVs, for what runs them: a GEMM, which there is one of for all
    /// cores, would give way to them.
    fn kernels(&self, phase: Phase) -> impl Iterator<Item = &str> {
        let kernels = match self {
            Counter::Qemu { kernels, .. } if phase == Phase::Decode => &kernels[..],
            _ => &[],
        };
        kernels.iter().flat_map(|kernel| ["--kernel", kernel])
    }

    fn run(&self, words: &[OsString]) -> Result<Counts> {
        match self {
            Counter::Callgrind { program } => {
                let out = output("callgrind")?;
                let mut valgrind = Command::new("valgrind");
                valgrind.args(["--quiet", "--tool=callgrind"]);
                let mut flag = OsString::from("--callgrind-out-file=");
                flag.push(&out);
                valgrind.arg(flag).arg(program).args(words);
                valgrind.args(["--isa", "avx2"]);
                command::read_log(&mut valgrind)?;
                Ok(Counts {
                    total: summary(&fs::read_to_string(out)?).context("callgrind tells no sum")?,
                    ..Counts::default()
                })
            }
            Counter::Qemu {
                program, functions, ..
            } => {
                let out = output("qemu")?;
                let mut qemu = emulator::counting(&out);
                qemu.arg(program).args(words).args(["--isa", "dotprod"]);
                command::read_log(&mut qemu)?;
                let blocks = emulator::blocks(&fs::read_to_string(out)?)?;
                Ok(attributed(&blocks, functions))
            }
        }
    }
}

/// Where a counter writes to.
pub fn output(name: &str) -> Result<PathBuf> {
    let folder = workspace::target().join("counts");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(name))
}

/// The sum of a file of callgrind's: all threads, all code.
fn summary(file: &str) -> Option<u64> {
    let mut lines = file.lines();
    lines
        .find_map(|line| line.strip_prefix("summary: "))?
        .trim()
        .parse()
        .ok()
}

/// Adds up blocks, as addresses and instructions executed, by the function that they begin in.
fn attributed(blocks: &[(u64, u64)], functions: &[Function]) -> Counts {
    let mut by_address: Vec<&Function> = functions.iter().collect();
    by_address.sort_by_key(|function| function.address);
    let mut counts = Counts::default();
    for &(address, executed) in blocks {
        counts.total += executed;
        let next = by_address.partition_point(|function| function.address <= address);
        let holds =
            |function: &&&Function| address < function.address + 4 * function.words.len() as u64;
        let function = next.checked_sub(1).map(|index| &by_address[index]);
        if let Some(function) = function.filter(holds) {
            *counts.by_function.entry(function.name.clone()).or_default() += executed;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(total: u64, kernel: u64) -> Counts {
        let by_function = BTreeMap::from([("kernel".to_owned(), kernel)]);
        Counts { total, by_function }
    }

    #[test]
    fn token_takes_what_a_longer_run_takes_more() {
        let per_token = counts(1000, 400).per_token(&counts(600, 100), 2);
        assert_eq!(per_token, counts(200, 150));
    }

    #[test]
    fn blocks_belong_to_the_function_that_they_begin_in() {
        let function = |name: &str, address, words| Function {
            name: name.to_owned(),
            address,
            words: vec![0; words],
        };
        let functions = [function("kernel", 0x100, 4), function("before", 0x80, 2)];
        let blocks = [
            (0x80, 1),
            (0x88, 10),
            (0x10c, 100),
            (0x110, 1000),
            (0x10, 5),
        ];
        let counts = attributed(&blocks, &functions);
        assert_eq!(counts.total, 1116);
        assert_eq!(counts.by_function["before"], 1);
        assert_eq!(counts.by_function["kernel"], 100);
    }

    #[test]
    fn sum_of_callgrind_is_found() {
        assert_eq!(
            summary("events: Ir\nsummary: 123\n\ntotals: 123\n"),
            Some(123)
        );
        assert_eq!(summary("events: Ir\n"), None);
    }
}
