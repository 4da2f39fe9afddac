//! `pack`: a GGUF file to a packed image.

use crate::cpu;
use crate::error::Error;
use crate::image;
use crate::log::{Log, event};
use crate::model_file::ModelFile;
use crate::options::{Options, UsageError};
use crate::sys;

/// Writes the image.
///
/// # Errors
/// The model cannot be run, or its image not be written.
pub fn run(options: &Options, log: &Log) -> Result<(), Error> {
    let path = options.image.ok_or(UsageError::MissingImage)?;
    let model = ModelFile::open(options)?;
    let processors = cpu::processors(options.cpu_range).ok_or(UsageError::NoProcessor)?;
    let threads = options.threads.unwrap_or(processors.fastest);
    let began = sys::now();
    let bytes = image::write::pack(&model, path, &processors.assign(threads), log)?;
    let ms = (sys::now() - began) as f64 / 1e6;
    event!(
        log,
        "pack",
        text image = path.to_bytes().escape_ascii(),
        number bytes = bytes,
        decimal ms = ms,
        decimal mb_s = bytes as f64 / 1e3 / ms,
    );
    Ok(())
}
