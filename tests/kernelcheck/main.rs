//! kernelcheck: every kernel of the registry against its reference, bit for bit; and how fast.
//!
//! It walks `KERNELS` and runs each entry that this CPU can on random input and on the edges of
//! what the format allows, in buffers that end at unmapped pages, through a trampoline that fills
//! the registers with junk and checks those that must survive. Packing and the reference kernels,
//! which everything else is compared with, are held to an oracle of their own first. The entry of a
//! tier of float operations stands for one entry each; `tests/vector` holds their reference to f64.
//!
//! It does not judge speed: `--bench` prints figures and fails on nothing.

mod bench;
mod compare;
mod guard;
mod inputs;
mod options;
mod oracle;
mod quantizer;
mod trampoline;
mod vector;

use compare::{Case, Vectors, compare, compare_several};
use kernels_asm::features::Isa;
use kernels_asm::format::WeightFormat;
use kernels_asm::registry::{Gemm, Gemv, KERNELS, Kernel, Operation};
use kernels_asm::samples::{Integers, Rng, Scales};
use options::Options;
use std::process::ExitCode;
use std::sync::Mutex;

/// What is being run: for the line that a crash leaves behind.
static RUNNING: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    let options = match Options::from_args(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("kernelcheck: {message}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let have = tests::detected_features();
    let chosen: Vec<Entry> = entries()
        .filter(|entry| options.names(&entry.name))
        .filter(|entry| options.isa.is_none_or(|isa| entry.kernel.isa == isa))
        .collect();
    let can_run = |entry: &Entry| have.has(entry.kernel.isa.needs());
    if options.list {
        for entry in &chosen {
            let (name, isa) = (&entry.name, entry.kernel.isa.name());
            let not = if can_run(entry) {
                ""
            } else {
                "  not on this CPU"
            };
            println!("{name:36} {isa}{not}");
        }
        return ExitCode::SUCCESS;
    }
    report_crashes();
    println!("seed {}", options.seed);
    let runnable = chosen.iter().filter(|entry| can_run(entry));
    if options.bench {
        let kernels: Vec<_> = runnable.map(|entry| entry.kernel).collect();
        bench::run(&kernels, &options);
        bench::run_packing(&options);
        return ExitCode::SUCCESS;
    }
    let (mut checked, mut failures) = (0, 0);
    for entry in runnable {
        let result = check(entry, &options);
        let name = &entry.name;
        match &result {
            Ok(cases) => println!("{name:36} {cases} cases, all equal"),
            Err(message) => println!("{name:36} FAILED: {message}"),
        }
        checked += 1;
        failures += usize::from(result.is_err());
    }
    if checked == 0 {
        eprintln!("kernelcheck: this CPU can run no kernel of that name and tier; see --list");
        return ExitCode::from(2);
    }
    println!("{checked} kernels checked");
    if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What is checked, and reported, by itself.
struct Entry {
    name: String,
    kernel: &'static Kernel,
    /// Which of the float operations of a tier.
    operation: Option<vector::Operation>,
}

/// The list, with an entry for each float operation of a tier behind the tier's own.
fn entries() -> impl Iterator<Item = Entry> {
    KERNELS.iter().flat_map(|kernel| {
        let operations: &[vector::Operation] = match kernel.operation {
            Operation::Vector(_) => &vector::OPERATIONS,
            _ => &[],
        };
        let whole = Entry {
            name: kernel.name.into(),
            kernel,
            operation: None,
        };
        let part = |&operation: &vector::Operation| Entry {
            name: format!("{}/{}", kernel.name, operation.0),
            kernel,
            operation: Some(operation),
        };
        std::iter::once(whole).chain(operations.iter().map(part))
    })
}

/// Checks one entry; returns how many cases it passed.
fn check(entry: &Entry, options: &Options) -> Result<usize, String> {
    let (name, kernel) = (&entry.name, entry.kernel);
    set_running(format!("{name} seed {}", options.seed));
    match kernel.operation {
        Operation::Vector(operations) => match entry.operation {
            Some(operation) => {
                let running = |case: &str| set_running(format!("{name} {case}"));
                vector::check(operation, operations, options, running)
            }
            None => quantizer::check(operations, options),
        },
        Operation::Gemv(format, gemv) if kernel.isa == Isa::Reference => {
            let cases = oracle::check(format, options.seed)?;
            Ok(cases + check_gemv(name, format, gemv, options)?)
        }
        Operation::Gemv(format, gemv) => check_gemv(name, format, gemv, options),
        Operation::Gemm(format, gemm) => check_gemm(name, format, gemm, options),
    }
}

/// Compares a GEMV with its reference on every kind of input.
fn check_gemv(
    name: &str,
    format: WeightFormat,
    gemv: Gemv,
    options: &Options,
) -> Result<usize, String> {
    let mut rng = Rng(options.seed);
    let reference = reference(format);
    let mut cases = 0;
    for _ in 0..options.rounds {
        for (weights, activations) in kinds().step_by(options.every) {
            let case = Case::random(&mut rng, weights, activations);
            set_running(format!("{name} {case:?}"));
            compare(format, reference, gemv, &case)
                .map_err(|error| format!("{error}; {case:?}"))?;
            cases += 1;
        }
    }
    Ok(cases)
}

/// Compares a GEMM with the reference GEMV of its format, vector by vector.
fn check_gemm(
    name: &str,
    format: WeightFormat,
    gemm: Gemm,
    options: &Options,
) -> Result<usize, String> {
    let mut rng = Rng(options.seed);
    let reference = reference(format);
    let mut cases = 0;
    for _ in 0..options.rounds {
        for (weights, activations) in kinds().step_by(options.every) {
            let case = Case::random(&mut rng, weights, activations);
            let vectors = Vectors::random(&mut rng);
            set_running(format!("{name} {vectors:?} {case:?}"));
            compare_several(format, reference, gemm, &case, &vectors)
                .map_err(|error| format!("{error}; {vectors:?} {case:?}"))?;
            cases += 1;
        }
    }
    Ok(cases)
}

type Kinds = (Integers, Scales);

/// Every kind of weights with every kind of activations.
fn kinds() -> impl Iterator<Item = (Kinds, Kinds)> {
    let one = || {
        Integers::ALL
            .into_iter()
            .flat_map(|integers| Scales::ALL.map(|scales| (integers, scales)))
    };
    one().flat_map(move |weights| one().map(move |activations| (weights, activations)))
}

fn reference(format: WeightFormat) -> Gemv {
    let of_format = |kernel: &Kernel| match kernel.operation {
        Operation::Gemv(of, gemv) if of == format && kernel.isa == Isa::Reference => Some(gemv),
        _ => None,
    };
    KERNELS
        .iter()
        .find_map(of_format)
        .expect("every format has a reference")
}

fn set_running(what: String) {
    *RUNNING.lock().expect("nothing panics while it holds this") = what;
}

/// Has a fault in a kernel end the program with a line that says which one, and on what input.
#[allow(unsafe_code)] // signal handlers
fn report_crashes() {
    extern "C" fn handler(signal: libc::c_int) {
        // The fault is a kernel's, so this thread is in no lock and in no allocation.
        let running = RUNNING
            .try_lock()
            .map(|running| running.clone())
            .unwrap_or_default();
        println!("CRASHED with signal {signal}: {running}");
        std::process::exit(1);
    }
    let handler: extern "C" fn(libc::c_int) = handler;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL] {
        // SAFETY: the handler lives as long as the program and runs on a synchronous fault only.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}
