//! `cargo xtask memory`: how much memory a run takes at its peak, beside llama.cpp if asked.
//!
//! And how fast the model is loaded, beside a plain read of its file.
//!
//! The kernel counts, and `time -v` tells: the same figure for every program, whatever it says of
//! itself. Both have the same file, context, KV format, threads and prompt.

mod load;
mod report;
pub mod way;

use std::fs;

use anyhow::{Result, bail};

use self::report::Report;
use self::way::{Files, Settings, Way};
use crate::flags::Flags;
use crate::machine::{self, Machine};
use crate::{apt, board, build, command, model, peer};

const USAGE: &str = "\
usage: cargo xtask memory [--against llama.cpp] [--model NAME] [--context N] [--fill]
Default: tinyllama-synth, context 2048, a thread for each core. The prompt is short, or with --fill
it fills the context, which takes minutes. Fails if a bound is exceeded.";

struct Options<'a> {
    against: bool,
    model: &'a str,
    context: usize,
    fill: bool,
}

/// Measures, prints the result, and fails if rushlight takes more than it may.
pub fn run(arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let model = model::ensure(options.model)?;
    let peer = match options.against {
        true => Some(peer::ensure(peer::COMPLETION)?),
        false => None,
    };
    if !command::exists("time") {
        apt::install("time", "measuring memory")?;
    }
    let ours = build::board(&board::named(board::HOST)?)?;
    let machine = Machine::here()?;
    let settings = Settings {
        context: options.context,
        fill: options.fill,
        threads: machine.cores,
        isa: None,
    };

    let mut rows = Vec::new();
    // Packed anew each time, as the layout may have changed.
    let image = way::pack(&ours, &model)?;
    let files = Files {
        ours: &ours,
        peer: peer.as_deref(),
        model: &model,
        image: &image,
    };
    for way in way::all(&files) {
        let Way { program, mode, .. } = &way;
        eprintln!("memory: {program}, {mode}");
        rows.push((way.names(), way.measure(&settings)?));
    }
    fs::remove_file(image)?;
    let report = Report {
        model: options.model,
        settings,
        machine,
        date: machine::date("+%F %R")?,
        rows,
    };
    print!("{}", report.table());
    eprintln!("memory: loading from a cold cache");
    let speeds = load::measure(&ours, &model)?;
    let (read, load, share) = (speeds.read, speeds.load, speeds.share());
    println!(
        "\nFrom a cold cache, medians: a plain read {read:.0} MB/s, loading {load:.0} MB/s: \
         {share:.2} of it."
    );
    let mut exceeded = report.exceeded();
    if share < load::SHARE {
        exceeded.push(format!(
            "loading reaches {share:.2} of a plain read's speed"
        ));
    }
    if !exceeded.is_empty() {
        bail!("{}", exceeded.join("\n"));
    }
    Ok(())
}

fn parse<'a>(arguments: &'a [&'a str]) -> Result<Options<'a>> {
    let mut options = Options {
        against: false,
        model: model::SYNTHETIC,
        context: 2048,
        fill: false,
    };
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--against" => match flags.value()? {
                peer::NAME => options.against = true,
                other => return flags.wrong(&format!("cannot compare with `{other}`")),
            },
            "--model" => options.model = flags.value()?,
            "--context" => options.context = flags.parsed()?,
            "--fill" => options.fill = true,
            _ => return flags.unknown(),
        }
    }
    if options.context < way::CONTEXT_MIN {
        return flags.wrong(&format!("--context counts from {}", way::CONTEXT_MIN));
    }
    Ok(options)
}
