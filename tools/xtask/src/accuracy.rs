//! `cargo xtask accuracy`: whether models say here what they say in llama.cpp.
//!
//! For each model, with the same file and settings on both sides: the perplexity of a text; the
//! logits along a text that llama.cpp continues greedily (teacher-forced: two right programs part
//! ways at near-ties, so free texts are not compared); the peak of the resident memory. And ten
//! questions answered, for a person to read.

mod answers;
mod forced;
mod perplexity;
mod report;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use self::report::{Report, Row};
use crate::flags::Flags;
use crate::machine::{self, Machine};
use crate::memory::way::{self, Files, Measured, Mode, Settings};
use crate::{apt, board, build, command, model, peer, workspace};

const USAGE: &str = "\
usage: cargo xtask accuracy [--model NAME]... [--write]
Default: every model with real weights; takes an hour and more. --write puts the table into
docs/models.md. Answers go to target/accuracy/NAME.md. Fails if a bound is exceeded.";

/// Models with real weights.
const MODELS: [&str; 4] = ["smollm2", "gemma3-270m", "qwen2.5-0.5b", "qwen2.5-1.5b"];
/// The context that memory is measured at.
const CONTEXT: usize = 2048;

/// The programs that are compared, and how they are run.
struct Programs {
    ours: PathBuf,
    perplexity: PathBuf,
    greedy: PathBuf,
    completion: PathBuf,
    threads: usize,
}

/// Measures, prints the table, and fails if a figure is out of bounds.
pub fn run(arguments: &[&str]) -> Result<()> {
    let (models, write) = parse(arguments)?;
    if !command::exists("time") {
        apt::install("time", "measuring memory")?;
    }
    let machine = Machine::here()?;
    let commit = machine::commit()?; // of what is built now; it may go on while this measures
    let programs = Programs {
        ours: build::board(&board::named(board::HOST)?)?,
        perplexity: peer::ensure(peer::PERPLEXITY)?,
        greedy: peer::ensure(peer::GREEDY)?,
        completion: peer::ensure(peer::COMPLETION)?,
        threads: machine.cores,
    };
    let mut rows = Vec::new();
    for name in models {
        let row = measure(name, &programs)?;
        println!("{}", row.text());
        rows.push(row);
    }
    let report = Report {
        date: machine::date("+%F")?,
        commit,
        rows,
    };
    print!("\n{}", report.table());
    if write {
        report.write(&workspace::root().join("docs/models.md"))?;
    }
    let exceeded = report.exceeded();
    if !exceeded.is_empty() {
        bail!("{}", exceeded.join("\n"));
    }
    Ok(())
}

fn measure(name: &str, programs: &Programs) -> Result<Row> {
    let model = model::ensure(name)?;
    eprintln!("accuracy: {name}: perplexity");
    let perplexity = perplexity::measure(programs, &model)?;
    eprintln!("accuracy: {name}: logits along a greedy text");
    let forced = forced::measure(programs, &model)?;
    eprintln!("accuracy: {name}: memory");
    let memory = memory(programs, &model)?;
    eprintln!("accuracy: {name}: ten questions");
    let answers = answers::write(programs, name, &model)?;
    eprintln!("accuracy: {name}: answers in {}", answers.display());
    Ok(Row {
        model: name.to_owned(),
        formats: formats(programs, &model)?,
        perplexity,
        forced,
        memory,
    })
}

/// Peaks of ours, streamed, and of the peer as it runs by default.
fn memory(programs: &Programs, model: &Path) -> Result<[Measured; 2]> {
    let files = Files {
        ours: &programs.ours,
        peer: Some(&programs.completion),
        model,
        image: model, // no way that is measured here reads it
    };
    let settings = Settings {
        context: CONTEXT,
        fill: false,
        threads: programs.threads,
        isa: None,
    };
    let ways = way::all(&files);
    let measured = |mode| {
        let way = ways.iter().find(|way| way.mode == mode);
        way.expect("all modes are there").measure(&settings)
    };
    Ok([measured(Mode::Streamed)?, measured(Mode::Repacked)?])
}

/// What the weights are stored in: `Q4_K 169, Q6_K 29`.
fn formats(programs: &Programs, model: &Path) -> Result<String> {
    let mut inspect = std::process::Command::new(&programs.ours);
    inspect.arg("inspect").arg(model).args(["--format", "json"]);
    let lines = String::from_utf8(command::read(&mut inspect)?)?;
    let mut formats = Vec::new();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        if line["event"] == "format" && line["speed"] != "vectors" {
            let name = line["type"].as_str().unwrap_or_default();
            formats.push(format!("{name} {}", line["tensors"]));
        }
    }
    Ok(formats.join(", "))
}

/// Where files of a measurement go.
fn output() -> Result<PathBuf> {
    let folder = workspace::target().join("accuracy");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn parse<'a>(arguments: &'a [&'a str]) -> Result<(Vec<&'a str>, bool)> {
    let (mut models, mut write) = (Vec::new(), false);
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--model" => models.push(flags.value()?),
            "--write" => write = true,
            _ => return flags.unknown(),
        }
    }
    if models.is_empty() {
        models.extend(MODELS);
    }
    Ok((models, write))
}
