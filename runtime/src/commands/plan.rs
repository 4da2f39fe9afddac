//! `plan`: what a run would take.

use crate::error::Error;
use crate::log::{Log, LogFormat};
use crate::model_file::ModelFile;
use crate::options::Options;
use crate::output::Output;
use crate::plan::{self, BudgetSource};
use crate::prompt;
use crate::session::{Machine, Setup};
use crate::sys::STDOUT;

/// The sum on stdout, a line per buffer, or one JSON object as the log has it.
///
/// # Errors
/// The model cannot be run, does not fit, or stdout is closed.
pub fn run(machine: &Machine<'_>, options: &Options) -> Result<(), Error> {
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
        let stdout = Log::new(STDOUT, LogFormat::Json);
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

fn print_plan(setup: &Setup<'_>, (budget, source): (u64, BudgetSource)) -> Result<(), Error> {
    let (plan, request) = (setup.plan(), &setup.request);
    let mut out = Output::default();
    for (name, bytes) in plan.lines() {
        let name = name.text();
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
