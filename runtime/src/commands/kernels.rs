//! `kernels`: what this CPU would run.

use crate::cpu;
use crate::error::Error;
use crate::options::{Options, UsageError};
use crate::output::Output;
use crate::session;
use kernels_asm::features::Core;
use kernels_asm::registry::{KERNELS, Operation};

/// The list, what this CPU resolves, and what its cores were taken for.
///
/// # Errors
/// `--isa` or `--kernel` ask for what the CPU lacks, or stdout is closed.
pub fn run(options: &Options) -> Result<(), Error> {
    let processors = cpu::processors(options.cpu_range).ok_or(UsageError::NoProcessor)?;
    let threads = options.threads.unwrap_or(processors.fastest);
    let cores = cpu::cores(&processors.assign(threads));
    let resolved = session::resolve_kernels(options, cores)?;
    let have = cpu::features();
    let mut out = Output::default();
    for kernel in KERNELS {
        let chosen = match kernel.operation {
            Operation::Gemv(format, _) => resolved.gemv_kernel(format).name == kernel.name,
            Operation::Gemm(format, _) => resolved
                .gemm_kernel(format)
                .is_some_and(|chosen| chosen.name == kernel.name),
            Operation::Vector(_) => resolved.vector_kernel().name == kernel.name,
        };
        let state = match (chosen, have.has(kernel.isa.needs())) {
            (true, _) => "chosen",
            (false, true) => "usable",
            (false, false) => "lacking",
        };
        out.print(format_args!(
            "{:<36} {:<12} {:<12} {state}\n",
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
