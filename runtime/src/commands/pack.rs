//! `pack`: a GGUF file to a packed image.

use crate::cpu;
use crate::error::Error;
use crate::golden;
use crate::image::write::{Packed, Packing, pack};
use crate::log::{Log, event};
use crate::model_file::ModelFile;
use crate::options::{Options, UsageError};
use crate::plan;
use crate::session::{self, Machine};
use crate::sys;

/// Writes the image.
///
/// # Errors
/// The model cannot be run, or its image not be written.
pub fn run(machine: &Machine<'_>, options: &Options, log: &Log) -> Result<(), Error> {
    let path = options.image.ok_or(UsageError::MissingImage)?;
    let model = ModelFile::open(options)?;
    let processors = cpu::processors(options.cpu_range).ok_or(UsageError::NoProcessor)?;
    let threads = options.threads.unwrap_or(processors.fastest);
    let cpus = processors.assign(threads);
    let began = sys::now();
    let packing = Packing {
        model: &model,
        cpus: &cpus,
        kernels: session::resolve_kernels(options, cpu::cores(&cpus))?,
        log,
        notify: machine.notify,
        budget: (!options.force).then(|| plan::budget(options.budget, machine.board.memory_budget)),
        program_bytes: machine.program_bytes,
    };
    let Packed { bytes, golden } = pack(&packing, path)?;
    let ms = (sys::now() - began) as f64 / 1e6;
    event!(
        log,
        "pack",
        text image = path.to_bytes().escape_ascii(),
        number bytes = bytes,
        decimal ms = ms,
        decimal mb_s = bytes as f64 / 1e3 / ms,
        text golden = golden::Shown(golden),
    );
    Ok(())
}
