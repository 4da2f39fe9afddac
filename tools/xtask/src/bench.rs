//! `cargo xtask bench`: how fast this build is here and now, beside another program if asked.
//!
//! All take turns with the same file and threads, one repetition each, so that whatever else the
//! machine does meanwhile falls on all alike. Ours measures with `rushlight bench`, llama.cpp with
//! `llama-bench`, whose tests and flags are the same.

mod contestant;
mod page;
mod report;
mod summary;

use anyhow::Result;

use self::contestant::{Contestant, TESTS};
use self::report::{Report, Row};
use crate::flags::Flags;
use crate::machine::{self, Machine};
use crate::{board, build, model, peer};

const USAGE: &str = "\
usage: cargo xtask bench [--against llama.cpp|BINARY] [--model NAME] [--threads N[,N...]]
                         [--isa avx2] [--runs N] [--format text|jsonl]
       cargo xtask bench --against llama.cpp --write [--model NAME] [--threads N[,N...]] [--runs N]
BINARY is another build of rushlight. Default: smollm2, threads 1,2, 5 runs, as text.
--isa avx2 keeps all to what x86-64 boards have, as --write does; else they use all of this CPU.
--write measures the models of docs/performance.md, or the one named, and writes its table.";

/// Above this load average, something else is running.
const IDLE: f64 = 0.5;

struct Options<'a> {
    against: Option<&'a str>,
    model: Option<&'a str>,
    threads: Vec<usize>,
    isa: Option<&'static str>,
    runs: usize,
    jsonl: bool,
    write: bool,
}

/// Measures, and prints the result.
pub fn run(arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    if machine::load()? > IDLE {
        eprintln!("bench: something else is running: expect a wide spread");
    }
    if options.write {
        return page::write(options.model, &options.threads, options.runs);
    }
    let name = options.model.unwrap_or(model::DEFAULT);
    let others = options
        .against
        .map(|name| Contestant::named(name, options.isa))
        .transpose()?;
    let model = model::ensure(name)?;
    let mut contestants = vec![Contestant::ours(
        build::board(&board::named(board::HOST)?)?,
        options.isa,
    )];
    contestants.extend(others.into_iter().flatten());

    let mut report = Report {
        model: name,
        names: contestants.iter().map(|one| one.name.as_str()).collect(),
        machine: Machine::here()?,
        date: machine::date("+%F %R")?,
        load: machine::load()?,
        rows: rows(&options.threads, contestants.len()),
    };
    for round in 1..=options.runs {
        eprintln!("bench: round {round} of {}", options.runs);
        for row in &mut report.rows {
            for (contestant, figures) in contestants.iter().zip(&mut row.figures) {
                figures.push(contestant.tok_s(row.test, &model, row.threads)?);
            }
        }
    }
    if options.jsonl {
        print!("{}", report.jsonl());
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

/// One row without figures yet for each test and number of threads.
fn rows(threads: &[usize], contestants: usize) -> Vec<Row> {
    let of_test = |test| {
        let row = move |&threads| Row::new(test, threads, contestants);
        threads.iter().map(row)
    };
    TESTS.iter().flat_map(of_test).collect()
}

fn parse<'a>(arguments: &'a [&'a str]) -> Result<Options<'a>> {
    let mut options = Options {
        against: None,
        model: None,
        threads: vec![1, 2],
        isa: None,
        runs: 5,
        jsonl: false,
        write: false,
    };
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--against" => options.against = Some(flags.value()?),
            "--model" => options.model = Some(flags.value()?),
            "--threads" => {
                let list = flags.value()?;
                options.threads = match list.split(',').map(str::parse).collect() {
                    Ok(threads) => threads,
                    Err(_) => return flags.wrong(&format!("--threads cannot be `{list}`")),
                };
            }
            "--write" => options.write = true,
            "--isa" => {
                options.isa = match flags.value()? {
                    "avx2" => Some("avx2"),
                    other => return flags.wrong(&format!("--isa cannot be `{other}`")),
                };
            }
            "--runs" => options.runs = flags.parsed()?,
            "--format" => {
                options.jsonl = match flags.value()? {
                    "text" => false,
                    "jsonl" => true,
                    other => return flags.wrong(&format!("--format cannot be `{other}`")),
                };
            }
            _ => return flags.unknown(),
        }
    }
    if options.runs == 0 || options.threads.contains(&0) {
        return flags.wrong("--runs and --threads count from 1");
    }
    if options.write && (options.against != Some(peer::NAME) || options.jsonl) {
        return flags.wrong("--write goes with --against llama.cpp and no --format");
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn threads_are_a_list_of_counts() {
        let options = parse(&["--threads", "1,2,4", "--format", "jsonl"]).unwrap();
        assert_eq!(options.threads, [1, 2, 4]);
        assert!(options.jsonl);
        for wrong in ["", "1,", "0", "1;2"] {
            assert!(parse(&["--threads", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn page_is_a_comparison_with_the_peer() {
        assert!(parse(&["--write"]).is_err());
        assert!(parse(&["--write", "--against", "llama.cpp"]).is_ok());
        assert!(parse(&["--write", "--against", "old/rushlight"]).is_err());
    }
}
