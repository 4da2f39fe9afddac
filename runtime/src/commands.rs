//! The commands beside `run`.

use crate::arena;
use crate::board::Board;
use crate::cpu;
use crate::error::Error;
use crate::image;
use crate::log::{Log, LogFormat};
use crate::model_file::ModelFile;
use crate::options::{Options, UsageError};
use crate::output::Output;
use crate::plan::{self, BudgetSource};
use crate::prompt;
use crate::session::{self, Machine, Setup};
use crate::sys::{self, STDOUT};
use crate::tokenizer::Tokenizer;
use kernels_asm::features::Core;
use kernels_asm::registry::{KERNELS, Operation};

/// `plan`: the sum on stdout, a line per buffer, or one JSON object as the log has it.
///
/// # Errors
/// The model cannot be run, does not fit, or stdout is closed.
pub fn plan(machine: &Machine<'_>, options: &Options) -> Result<(), Error> {
    let model = ModelFile::open(options)?;
    // The prompt counts if one is named; none is waited for.
    let named = options.prompt.is_some() || options.prompt_file.is_some();
    let prompt = if named { prompt::read(options)? } else { &[] };
    let setup = Setup::new(machine, options, model, prompt)?;
    // A budget that is named may be that of another machine.
    let budget = match options.budget {
        Some(bytes) => (bytes, BudgetSource::Flag),
        None => plan::budget(None, machine.board.memory_budget),
    };
    if options.json {
        let stdout = Log {
            fd: STDOUT,
            format: LogFormat::Json,
            quiet: false,
        };
        let written = setup.plan_line(&stdout, budget).write();
        written.map_err(|errno| Error::of_io(errno, Error::Output))?;
    } else {
        print_plan(&setup, budget)?;
    }
    match options.force {
        true => Ok(()),
        false => Ok(setup.check_budget(budget)?),
    }
}

fn print_plan(setup: &Setup, (budget, source): (u64, BudgetSource)) -> Result<(), Error> {
    let (plan, request) = (setup.plan(), &setup.request);
    let mut out = Output::default();
    for (name, bytes) in plan.lines() {
        out.print(format_args!("{name:<14} {bytes:>14}"))?;
        match name {
            "embedding" => out.print(format_args!("  {}", setup.embedding_place()))?,
            "keys" => out.print(format_args!("  {}", request.key_format.name()))?,
            "values" => out.print(format_args!("  {}", request.value_format.name()))?,
            "history" => out.print(format_args!("  {} tokens", request.context))?,
            "forward" => {
                let [(a, staging), (b, encode), (c, step)] = plan.forward_lines();
                out.print(format_args!(
                    "  the most of {a} {staging}, {b} {encode}, {c} {step}"
                ))?;
            }
            _ if plan.is_mapped && name.starts_with("weights") => {
                out.print(format_args!("  mapped"))?;
            }
            _ => {}
        }
        out.print(format_args!("\n"))?;
    }
    let total = plan.total();
    let verdict = if total as u64 <= budget {
        "fits"
    } else {
        "does not fit"
    };
    out.print(format_args!("{:<14} {total:>14}\n", "total"))?;
    out.print(format_args!(
        "{:<14} {budget:>14}  {}: {verdict}\n",
        "budget",
        source.name()
    ))?;
    out.flush()
}

/// `pack`: a GGUF file to a packed image.
///
/// # Errors
/// The model cannot be run, or its image not be written.
pub fn pack(options: &Options, log: &Log) -> Result<(), Error> {
    let path = options.image.ok_or(UsageError::MissingImage)?;
    let model = ModelFile::open(options)?;
    let processors = cpu::processors(options.cpu_range).ok_or(UsageError::NoProcessor)?;
    let threads = options.threads.unwrap_or(processors.fastest);
    let began = sys::now();
    let bytes = image::write::pack(&model, path, &processors.assign(threads), log)?;
    let ms = (sys::now() - began) as f64 / 1e6;
    drop(
        log.event("pack")
            .text("image", path.to_bytes().escape_ascii())
            .number("bytes", bytes)
            .decimal("ms", ms)
            .decimal("mb_s", bytes as f64 / 1e3 / ms),
    );
    Ok(())
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

/// `kernels`: the list, what this CPU resolves, and what its cores were taken for.
///
/// # Errors
/// `--isa` or `--kernel` ask for what the CPU lacks, or stdout is closed.
pub fn kernels(options: &Options) -> Result<(), Error> {
    let processors = cpu::processors(options.cpu_range).ok_or(UsageError::NoProcessor)?;
    let threads = options.threads.unwrap_or(processors.fastest);
    let cores = cpu::cores(&processors.assign(threads));
    let resolved = session::resolve_kernels(options, cores)?;
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
            "{:<34} {:<12} {:<12} {state}\n",
            kernel.name,
            kernel.isa.name(),
            kernel.core.map_or("-", Core::name)
        ))?;
    }
    if cfg!(target_arch = "aarch64") {
        let tuning = cores.tuning().map_or("no core", Core::name);
        let cores = cores.name();
        out.print(format_args!("cores {cores}: kernels for {tuning}\n"))?;
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
