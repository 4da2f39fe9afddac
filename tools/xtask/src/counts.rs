//! `cargo xtask counts`: instructions of this build for each token, which are the same on every
//! machine and beside any other work, held to the budgets in `counts/budgets.csv`.
//!
//! The host's program runs with the AVX2 kernels under valgrind's callgrind, the 64-bit Arm one
//! with those for the Cortex-A55 under QEMU. Both measure with `rushlight bench`, on one thread and
//! from a packed image, two lengths of a test: what the longer takes more belongs to its tokens
//! alone, without start, loading and end. Emulation counts exactly; its time means nothing.

mod budget;
mod counter;
mod emulator;
mod modelled;
mod peer;

use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail};

use self::budget::{Budget, Budgets};
use self::counter::{Counter, Counts};
use crate::flags::Flags;
use crate::memory::way;
use crate::{apt, board, build, command, exit, model};

const USAGE: &str = "\
usage: cargo xtask counts [--quick] [--write]
       cargo xtask counts --against llama.cpp
--quick leaves out what takes minutes, --write takes the counts as the new budgets.
--against builds llama.cpp for 64-bit Arm, counts it beside this build, and models cycles.";

/// The two phases of a run, in what `bench` calls their tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// One token after the other, at the start of the context.
    Decode,
    /// Chunks of 16 tokens: large enough for whole tiles, and small enough to be emulated.
    Prefill,
}

impl Phase {
    /// What it is called in the budgets.
    fn name(self) -> &'static str {
        match self {
            Phase::Decode => "decode",
            Phase::Prefill => "prefill",
        }
    }

    /// Two lengths of its test. Whatever is done once is done in the shorter one too.
    fn lengths(self) -> [usize; 2] {
        match self {
            Phase::Decode => [2, 4],
            Phase::Prefill => [16, 32],
        }
    }

    /// The flags of `rushlight bench`, and of `llama-bench`, for a length.
    fn flags(self, tokens: usize) -> [String; 4] {
        let [prompt, generate] = match self {
            Phase::Decode => [0, tokens],
            Phase::Prefill => [tokens, 0],
        };
        ["-p", &prompt.to_string(), "-n", &generate.to_string()].map(str::to_owned)
    }
}

/// What is counted: a model, a phase, and whether that is a matter of seconds.
const CASES: [(&str, Phase, bool); 4] = [
    (model::DEFAULT, Phase::Decode, true),
    (model::DEFAULT, Phase::Prefill, true),
    (model::SYNTHETIC, Phase::Decode, true),
    (model::SYNTHETIC, Phase::Prefill, false),
];

/// Counts, prints a line for each case, and compares with the budgets or writes them.
pub fn run(arguments: &[&str]) -> Result<()> {
    let (mut quick, mut write, mut against) = (false, false, false);
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--quick" => quick = true,
            "--write" => write = true,
            "--against" => match flags.value()? {
                crate::peer::NAME => against = true,
                other => return flags.wrong(&format!("cannot compare with `{other}`")),
            },
            _ => return flags.unknown(),
        }
    }
    match (against, quick || write) {
        (true, false) => peer::compare(),
        (true, true) => exit::usage("--against goes with no other flag", USAGE),
        (false, _) => gate(quick, write),
    }
}

/// Sees to it that what counts is there.
pub fn ensure() -> Result<()> {
    if ARCH == "x86_64" && !command::exists("valgrind") {
        apt::install("valgrind", "counting instructions")?;
    }
    emulator::ensure()
}

/// What `cargo xtask test` does: the cases of seconds, against their budgets.
pub fn quick() -> Result<()> {
    gate(true, false)
}

fn gate(quick: bool, write: bool) -> Result<()> {
    let mut budgets = Budgets::read()?;
    ensure()?;
    let counters = Counter::all()?;
    let mut failures = Vec::new();
    println!(
        "{:13} {:16} {:8} {:>14} {:>14} {:>8}",
        "instructions", "model", "phase", "a token", "budget", "change"
    );
    for name in [model::DEFAULT, model::SYNTHETIC] {
        let cases = CASES.iter().filter(|case| case.0 == name);
        let cases = cases.filter(|case| case.2 || !quick);
        let phases: Vec<Phase> = cases.map(|case| case.1).collect();
        for (counter, phase, counts) in count_all(&counters, name, &phases)? {
            let found = Budget {
                instructions: counter.to_owned(),
                model: name.to_owned(),
                phase: phase.name().to_owned(),
                per_token: counts.total,
                tolerance_pct: budget::TOLERANCE_PCT,
            };
            println!("{}", budgets.line(&found));
            match write {
                true => budgets.set(found),
                false => failures.extend(budgets.failure(&found)),
            }
        }
    }
    if write {
        return budgets.write();
    }
    if failures.is_empty() {
        return Ok(());
    }
    bail!(
        "more instructions than their budgets (`cargo xtask counts --write` sets them anew):\n{}",
        failures.join("\n")
    )
}

/// The counts of a model's phases by each counter; these work side by side.
fn count_all(
    counters: &[Counter],
    name: &str,
    phases: &[Phase],
) -> Result<Vec<(&'static str, Phase, Counts)>> {
    with_image(name, |image| {
        thread::scope(|scope| {
            let started: Vec<_> = counters
                .iter()
                .map(|counter| scope.spawn(move || counter.count_each(image, phases)))
                .collect();
            let mut all = Vec::new();
            for (counter, counts) in counters.iter().zip(started) {
                let counts = counts.join().expect("a counter does not panic")?;
                let named = phases.iter().zip(counts);
                all.extend(named.map(|(&phase, counts)| (counter.name(), phase, counts)));
            }
            Ok(all)
        })
    })
}

/// Does `job` with a packed image of a model: packing would be emulated else.
fn with_image<T>(name: &str, job: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let model = model::ensure(name)?;
    let host = build::board(&board::named(board::HOST)?)?;
    let image = way::pack(&host, &model)?;
    let done = job(&image);
    fs::remove_file(&image).with_context(|| format!("cannot remove {}", image.display()))?;
    done
}
