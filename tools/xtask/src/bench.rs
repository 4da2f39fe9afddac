//! `cargo xtask bench`: how fast this build is here and now, beside another program if asked.
//!
//! The two take turns with the same file and threads, one repetition each, so that whatever else
//! the machine does meanwhile falls on both alike.

mod contestant;
mod report;

use anyhow::Result;

use self::contestant::{Contestant, TESTS};
use self::report::{Report, Row};
use crate::flags::Flags;
use crate::machine::{self, Machine};
use crate::{board, build, model};

const USAGE: &str = "\
usage: cargo xtask bench [--against llama.cpp|BINARY] [--model NAME] [--threads N[,N...]]
                         [--runs N] [--format text|jsonl]
BINARY is another build of rushlight. Default: smollm2, threads 1,2, 5 runs, as text.";

/// Above this load average, something else is running.
const IDLE: f64 = 0.5;

struct Options<'a> {
    against: Option<&'a str>,
    model: &'a str,
    threads: Vec<usize>,
    runs: usize,
    jsonl: bool,
}

/// Measures, and prints the result.
pub fn run(arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let theirs = options.against.map(Contestant::named).transpose()?;
    let model = model::ensure(options.model)?;
    let ours = Contestant::Rushlight(build::board(&board::named(board::HOST)?)?);

    let mut report = Report {
        model: options.model,
        against: options.against,
        machine: Machine::here()?,
        date: machine::date("+%F %R")?,
        load: machine::load()?,
        rows: rows(&options.threads),
    };
    if report.load > IDLE {
        eprintln!(
            "bench: the load average is {}: expect a wide spread",
            report.load
        );
    }
    for round in 1..=options.runs {
        eprintln!("bench: round {round} of {}", options.runs);
        for row in &mut report.rows {
            row.ours.push(ours.tok_s(row.test, &model, row.threads)?);
            if let Some(theirs) = &theirs {
                let speed = theirs.tok_s(row.test, &model, row.threads)?;
                row.theirs.push(speed);
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
fn rows(threads: &[usize]) -> Vec<Row> {
    let of_test = |test| threads.iter().map(move |&threads| Row::new(test, threads));
    TESTS.iter().flat_map(of_test).collect()
}

fn parse<'a>(arguments: &'a [&'a str]) -> Result<Options<'a>> {
    let mut options = Options {
        against: None,
        model: model::DEFAULT,
        threads: vec![1, 2],
        runs: 5,
        jsonl: false,
    };
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--against" => options.against = Some(flags.value()?),
            "--model" => options.model = flags.value()?,
            "--threads" => {
                let list = flags.value()?;
                options.threads = match list.split(',').map(str::parse).collect() {
                    Ok(threads) => threads,
                    Err(_) => return flags.wrong(&format!("--threads cannot be `{list}`")),
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
}
