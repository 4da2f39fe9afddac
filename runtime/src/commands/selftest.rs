//! `selftest`: whether this CPU, this build and this file compute what they must.
//!
//! Each kernel that the CPU can run, against the reference; with `-m`, the tensors of the file, and
//! the logits of a few fixed tokens. Those of a packed image have been computed while it was packed,
//! here or on another machine; those of a GGUF file are computed twice, by the kernels that a run
//! would take and by the reference.

use crate::chat::ChatChoice;
use crate::conversation::Conversation;
use crate::error::Error;
use crate::golden;
use crate::log::Log;
use crate::options::Options;
use crate::output::Output;
use crate::selftest::Checks;
use crate::session::{self, Machine, Memory};
use crate::trace::Trace;
use kernels_asm::features::Features;
use kernels_asm::registry::Kernels;

/// A line a check on stdout, and a last one if all is right.
///
/// # Errors
/// Something is not what it must be, the model cannot be run, or stdout is closed.
pub fn run(machine: &Machine<'_>, options: &Options, log: &Log) -> Result<(), Error> {
    let mut out = Output::default();
    check_kernels(options, &mut out)?;
    if options.model.is_some() {
        session::traced(options, log, |trace| {
            check_model(machine, options, log, trace, &mut out)
        })?;
    }
    out.print(format_args!("all is as it must be\n"))?;
    out.flush()
}

fn check_kernels(options: &Options, out: &mut Output) -> Result<(), Error> {
    let mut checks = Checks::new(session::usable_features(options)?)?;
    let (mut all, mut wrong) = (0, 0);
    for kernel in checks.kernels() {
        out.print(format_args!("{:<36} ", kernel.name))?;
        out.flush()?; // should it crash, its name is the last word
        all += 1;
        match checks.check(kernel)? {
            None => out.print(format_args!("ok\n"))?,
            Some(difference) => {
                wrong += 1;
                out.print(format_args!("differs: {difference}\n"))?;
            }
        }
    }
    out.print(format_args!("{} of {all} kernels ok\n", all - wrong))?;
    out.flush()?;
    match wrong {
        0 => Ok(()),
        _ => Err(Error::Kernels { wrong, all }),
    }
}

fn check_model(
    machine: &Machine<'_>,
    options: &Options,
    log: &Log,
    trace: Trace<'_>,
    out: &mut Output,
) -> Result<(), Error> {
    let options = &Options {
        context: Some(golden::TOKENS),
        batch: golden::CHUNK,
        key_format: golden::KV_FORMAT,
        value_format: golden::KV_FORMAT,
        chat: ChatChoice::Raw,
        prompt: None,
        prompt_file: None,
        prompt_ids: None,
        system: None,
        console: None,
        check_tensors: true,
        ..options.clone()
    };
    let setup = session::set_up(machine, options, log, trace)?;
    let mut memory = Memory::reserve(&setup, options, trace)?;
    let kv = memory.kv.open();
    let mut talk = Conversation::new(&setup, &memory.model, &kv, memory.forward, log, trace)?;
    let (model, forward) = (&memory.model, &mut talk.forward);
    let mut engine =
        session::start_engine(&setup, options, model, memory.stacks, forward, log, trace)?;
    memory.plan.check_used(&memory.model, &kv)?;
    out.print(format_args!("{:<36} ok\n", "tensors"))?;
    out.print(format_args!("{:<36} ", "golden logits"))?;
    out.flush()?;

    let found = golden::checksum(&mut engine, &mut talk.cache, &mut talk.forward)?;
    let (expected, of) = match setup.model.image.and_then(|image| image.golden()) {
        Some(golden) => (golden, "in the image"),
        None => {
            engine.kernels = Kernels::resolve(Features::NONE, None, &[])?;
            let computed = golden::checksum(&mut engine, &mut talk.cache, &mut talk.forward)?;
            (computed, "by the reference kernels")
        }
    };
    let shown = golden::Shown(Some(found));
    if found == expected {
        return out.print(format_args!("ok, checksum {shown}, as {of}\n"));
    }
    out.print(format_args!("differ: checksum {shown}\n"))?;
    out.flush()?;
    Err(Error::Golden {
        found,
        expected,
        of,
    })
}
