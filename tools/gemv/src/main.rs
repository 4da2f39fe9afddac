//! gemv: the matrices of decoding TinyLlama, one product at a time on one core, by our kernels and
//! by ggml's, which take turns.
//!
//! ggml runs in a program of its own (`tools/xtask/src/peer/gemv.cpp`), which is idle while ours
//! measures, and ours while that one does. `docs/kernels.md` has the rules that make the figures
//! comparable.

mod measure;
mod options;
mod peer;
mod read;
mod report;

use kernels_asm::format::WeightFormat;
use options::Options;
use peer::Peer;
use report::Report;
use std::process::{Command, ExitCode};
use yardstick::clock;
use yardstick::shape::DECODE;

fn main() -> ExitCode {
    let options = match Options::from_args(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("gemv: {message}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("gemv: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Measures every format at every shape. Any wrong product is an error.
fn run(options: &Options) -> Result<Report, String> {
    let cpu = match (options.cpu, clock::allowed_cpus().last()) {
        (Some(cpu), _) => cpu,
        (None, Some(&cpu)) => cpu,
        (None, None) => return Err("no core to run on".to_owned()),
    };
    // The peer, a child, stays on this core, too.
    clock::pin(cpu)?;
    let mut peer = options
        .peer
        .as_ref()
        .map(Command::new)
        .map(Peer::start)
        .transpose()?;
    let mut report = Report::new(cpu, options);
    for format in WeightFormat::ALL {
        if !options.means(format) {
            continue;
        }
        for shape in DECODE {
            eprintln!("gemv: {} {shape}", format.name());
            let cell = measure::cell(format, shape, peer.as_mut(), options)?;
            report.cells.push(cell);
        }
    }
    Ok(report)
}
