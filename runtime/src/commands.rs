//! The commands beside `run`.

use crate::arena;
use crate::board::Board;
use crate::cpu;
use crate::error::Error;
use crate::log::Log;
use crate::model_file::ModelFile;
use crate::options::Options;
use crate::output::Output;
use crate::prompt;
use crate::session::{self, Machine, Setup};
use crate::sys;
use crate::tokenizer::Tokenizer;
use kernels_asm::registry::{KERNELS, Operation};

/// `plan`: the sum on stdout, a line per buffer.
///
/// # Errors
/// The model cannot be run, does not fit, or stdout is closed.
pub fn plan(machine: &Machine<'_>, options: &Options, log: &Log) -> Result<(), Error> {
    let model = ModelFile::open(options)?;
    // The prompt counts if one is named; none is waited for.
    let named = options.prompt.is_some() || options.prompt_file.is_some();
    let prompt = if named { prompt::read(options)? } else { &[] };
    let setup = Setup::new(machine, options, model, prompt)?;
    let mut out = Output::default();
    for (name, bytes) in setup.plan.lines() {
        out.print(format_args!("{name:<10} {bytes:>14}\n"))?;
    }
    out.print(format_args!("{:<10} {:>14}\n", "total", setup.plan.total()))?;
    out.flush()?;
    setup.check_budget(log, machine.board, options)
}

/// `tokenize`: the ids of a text, one a line, or its pieces.
///
/// # Errors
/// The vocabulary cannot be used, or stdout is closed.
pub fn tokenize(options: &Options) -> Result<(), Error> {
    let ModelFile { gguf, .. } = ModelFile::open(options)?;
    let text = prompt::read(options)?;
    let index = Tokenizer::bytes(&gguf)?;
    let block = sys::reserve(arena::rounded(index) + Tokenizer::encode_bytes(text.len()))
        .map_err(Error::System)?;
    let (model, _, mut forward) = arena::split(block, index, 0)?;
    let tokenizer = Tokenizer::new(&gguf, &model.open_once())?;
    let scratch = forward.open();
    let ids = tokenizer.encode(text, &scratch)?;
    let bos = tokenizer
        .bos()
        .filter(|_| options.bos && tokenizer.adds_bos());
    let mut out = Output::default();
    for id in bos.into_iter().chain(ids.iter().copied()) {
        match options.ids {
            true => out.print(format_args!("{id}\n"))?,
            false => {
                let text = tokenizer.text(id).escape_ascii();
                out.print(format_args!("{id:>6} '{text}'\n"))?;
            }
        }
    }
    out.flush()
}

/// `kernels`: the list, and what this CPU resolves.
///
/// # Errors
/// `--isa` or `--kernel` ask for what the CPU lacks, or stdout is closed.
pub fn kernels(options: &Options) -> Result<(), Error> {
    let resolved = session::resolve_kernels(options)?;
    let have = cpu::features();
    let mut out = Output::default();
    for kernel in KERNELS {
        let chosen = match kernel.operation {
            Operation::Gemv(format, _) => resolved.gemv_kernel(format).name == kernel.name,
            Operation::Vector(_) => resolved.vector_kernel().name == kernel.name,
        };
        let state = match (chosen, have.has(kernel.isa.needs())) {
            (true, _) => "chosen",
            (false, true) => "usable",
            (false, false) => "lacking",
        };
        out.print(format_args!(
            "{:<28} {:<12} {state}\n",
            kernel.name,
            kernel.isa.name()
        ))?;
    }
    out.flush()
}

/// `--version`.
///
/// # Errors
/// stdout is closed.
pub fn version(board: &Board) -> Result<(), Error> {
    let mut out = Output::default();
    out.print(format_args!(
        "rushlight {} ({})\n",
        env!("CARGO_PKG_VERSION"),
        board.name
    ))?;
    out.flush()
}
