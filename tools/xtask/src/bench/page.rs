//! `--write`: the comparison with llama.cpp, measured model by model and written into the table of
//! `docs/performance.md`, where the rows of a model replace those from before.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::contestant::{Contestant, DEEP, TESTS};
use super::summary::Summary;
use crate::machine::{self, Machine};
use crate::memory::way::{self, Files, Mode, Settings, Way};
use crate::{board, build, model, peer, workspace};

const PAGE: &str = "docs/performance.md";
/// Around the part that is written.
const BEGIN: &str = "<!-- written by `cargo xtask bench --against llama.cpp --write` -->";
const END: &str = "<!-- end -->";
const HEADING: &str = "\
| model | measured | threads | Rushlight | llama.cpp | `--repack 0` | to its default | to its best |
|---|---|--:|--:|--:|--:|--:|--:|";

/// The models. The first is measured in full; of the others, decoding and prefill.
const MODELS: [&str; 8] = [
    model::SYNTHETIC,
    "tinyllama-synth-q4_0",
    "tinyllama-synth-q8_0",
    "tinyllama-synth-q6_k",
    "qwen2.5-0.5b",
    model::CODER,
    "gemma3-270m",
    model::DEFAULT,
];

/// What all are held to: what x86-64 boards have.
const ISA: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("avx2")
} else {
    None
};

/// A context that a prompt of 512 tokens fills, as the measurement of memory has it: the program
/// tells when the first token was there.
const FIRST_TOKEN: usize = 512 + way::ROOM;

/// Figures of the three contestants: this build, llama.cpp as it is, and without repacking.
type Figures = [Vec<f64>; 3];

/// Measures every model, or the one that is named, `runs` times in turns.
pub fn write(only: Option<&str>, threads: &[usize], runs: usize) -> Result<()> {
    let asked = |name: &&str| only.is_none_or(|only| only == *name);
    let models: Vec<_> = MODELS.into_iter().filter(asked).collect();
    ensure!(!models.is_empty(), "the page has no such model");
    for name in models {
        let rows = measure(name, name == MODELS[0], threads, runs)?;
        print!("{rows}");
        let path = workspace::root().join(PAGE);
        let page = fs::read_to_string(&path)?;
        let Machine { cpu, cores } = Machine::here()?;
        let heading = format!(
            "{cpu}, {cores} cores; {} at {}; medians of {runs} runs in turns (tok/s; for times ms, \
             where less is better).\n\n{HEADING}",
            machine::date("+%F")?,
            machine::commit()?
        );
        let page = replaced(&page, &heading, name, &rows).with_context(|| format!("in {PAGE}"))?;
        fs::write(path, page)?;
    }
    Ok(())
}

/// The rows of a model. In full: with a context that is nearly full, for the most threads only, and
/// until the first token, too.
fn measure(name: &str, in_full: bool, threads: &[usize], runs: usize) -> Result<String> {
    let model = model::ensure(name)?;
    let host = build::board(&board::named(board::HOST)?)?;
    let mut contestants = vec![Contestant::ours(host.clone(), ISA)];
    contestants.extend(Contestant::named(peer::NAME, ISA)?);
    let starts = match in_full {
        true => Some(Starts::of(&host, &model)?),
        false => None,
    };

    let most = threads.iter().max();
    let mut text = String::new();
    for &threads in threads {
        let deep = in_full && Some(&threads) == most;
        let tests: Vec<_> = TESTS.iter().chain(deep.then_some(&DEEP)).collect();
        let mut speeds: Vec<Figures> = vec![Figures::default(); tests.len()];
        let (mut load, mut first) = (Figures::default(), Figures::default());
        for round in 1..=runs {
            eprintln!("bench: {name}, {threads} threads, round {round} of {runs}");
            io::copy(&mut File::open(&model)?, &mut io::sink())?;
            for (test, figures) in tests.iter().zip(&mut speeds) {
                for (contestant, figures) in contestants.iter().zip(figures) {
                    figures.push(contestant.tok_s(test, &model, threads)?);
                }
            }
            if let Some(starts) = &starts {
                starts.measure(threads, &mut load, &mut first)?;
            }
        }
        for (test, figures) in tests.iter().zip(&speeds) {
            text += &row(name, test.name, threads, figures, f64::max);
        }
        if in_full {
            let what = "first token of 512, ms";
            text += &row(name, what, threads, &first, f64::min);
            text += &row(name, "load to ready, packed, ms", threads, &load, f64::min);
        }
    }
    Ok(text)
}

/// Whole runs of the three contestants, ours from a packed image, which goes with this.
struct Starts {
    ways: Vec<Way>,
    image: PathBuf,
}

impl Starts {
    /// Packs `model` with the build at `host`.
    fn of(host: &Path, model: &Path) -> Result<Self> {
        let peer = match ISA {
            Some(_) => peer::ensure_avx2(peer::COMPLETION)?,
            None => peer::ensure(peer::COMPLETION)?,
        };
        let image = way::pack(host, model)?;
        let files = Files {
            ours: host,
            peer: Some(&peer),
            model,
            image: &image,
        };
        let mut ways = way::all(&files);
        ways.retain(|way| way.names().1 != Mode::Streamed);
        Ok(Starts { ways, image })
    }

    /// One run of each.
    fn measure(&self, threads: usize, load: &mut Figures, first: &mut Figures) -> Result<()> {
        let settings = Settings {
            context: FIRST_TOKEN,
            fill: true,
            threads,
            isa: ISA,
        };
        for way in &self.ways {
            let index = match way.names().1 {
                Mode::Streamed | Mode::MappedImage => 0,
                Mode::Repacked => 1,
                Mode::Mapped => 2,
            };
            let measured = way.measure(&settings)?;
            load[index].push(measured.load_ms);
            first[index].push(measured.first_ms);
        }
        Ok(())
    }
}

impl Drop for Starts {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.image) {
            eprintln!("bench: cannot remove {}: {error}", self.image.display());
        }
    }
}

/// A line of the table; `better` is the better of two figures.
fn row(
    model: &str,
    what: &str,
    threads: usize,
    figures: &Figures,
    better: fn(f64, f64) -> f64,
) -> String {
    let medians = figures
        .each_ref()
        .map(|runs| Summary::of(runs).map_or(f64::NAN, |s| s.median));
    let [ours, default, plain] = medians;
    let mut line = format!("| {model} | {what} | {threads} |");
    for median in medians {
        write!(line, " {median:.1} |").expect("a string takes all");
    }
    let best = better(default, plain);
    format!("{line} {:.2}x | {:.2}x |\n", ours / default, ours / best)
}

/// The page with another heading and other rows of `model`, behind those of other models.
fn replaced(page: &str, heading: &str, model: &str, rows: &str) -> Result<String> {
    let (before, rest) = page
        .split_once(BEGIN)
        .context("the table's begin is missing")?;
    let (table, after) = rest.split_once(END).context("the table's end is missing")?;
    let own = format!("| {model} |");
    let others = table.lines().filter(|line| {
        line.starts_with("| ") && !line.starts_with("| model |") && !line.starts_with(&own)
    });
    let mut table = String::new();
    for line in others {
        table += line;
        table += "\n";
    }
    Ok(format!(
        "{before}{BEGIN}\n{heading}\n{table}{rows}{END}{after}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_model_replace_its_own_and_no_others() {
        let page = format!("before\n{BEGIN}\nNot yet.\n{END}\nafter\n");
        let page = replaced(&page, HEADING, "a", "| a | old |\n").unwrap();
        let page = replaced(&page, HEADING, "b", "| b | 1 |\n").unwrap();
        let page = replaced(&page, HEADING, "a", "| a | new |\n").unwrap();
        let expected =
            format!("before\n{BEGIN}\n{HEADING}\n| b | 1 |\n| a | new |\n{END}\nafter\n");
        assert_eq!(page, expected);
        assert!(replaced("no table", HEADING, "a", "").is_err());
    }

    #[test]
    fn ratio_is_to_the_better_of_the_peers_two() {
        let figures = [vec![30.0, 10.0, 20.0], vec![10.0], vec![16.0]];
        assert_eq!(
            row("m", "tg128", 2, &figures, f64::max),
            "| m | tg128 | 2 | 20.0 | 10.0 | 16.0 | 2.00x | 1.25x |\n"
        );
        let times = [vec![5.0], vec![10.0], vec![16.0]];
        assert!(row("m", "ms", 1, &times, f64::min).ends_with("| 0.50x | 0.50x |\n"));
    }

    #[test]
    fn page_has_its_table() {
        let page = include_str!("../../../../docs/performance.md");
        assert!(replaced(page, HEADING, "m", "").is_ok());
    }
}
