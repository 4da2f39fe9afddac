//! yardstick: the matrix shapes of decoding TinyLlama, through our kernels and through Arm's
//! KleidiAI, taking turns on the same cores.
//!
//! `README.md` has the rules that make the figures comparable, and what no rule can make equal.
//! KleidiAI's half is there where `build.rs` was given a checkout; ours always is, on any machine.
//!
//! - [`options`]: the command line
//! - [`shape`]: the matrices, and how threads share one
//! - [`weights`]: random weights, and what their product has to be
//! - [`contestant`]: what both sides have to be able to do
//! - [`ours`], `kleidiai`: the two sides
//! - [`clock`]: cores, cycles and time
//! - [`measure`]: turns and medians
//! - [`report`]: the table and the CSV

pub mod clock;
pub mod contestant;
#[cfg(kleidiai)]
pub mod kleidiai;
pub mod measure;
pub mod options;
pub mod ours;
pub mod report;
pub mod shape;
pub mod weights;

use contestant::Contestant;
use kernels_asm::format::WeightFormat;
use options::Options;
use report::{Checked, Report};
use shape::Shape;
use std::fs;
use weights::{Expected, Matrix, vector};

/// Whether this build has KleidiAI's half.
pub const HAS_KLEIDIAI: bool = cfg!(kleidiai);

/// What of KleidiAI this build has, or why it has nothing.
pub fn kleidiai_note() -> String {
    match (
        option_env!("KLEIDIAI_VERSION"),
        cfg!(target_arch = "aarch64"),
    ) {
        (Some(version), _) => {
            let compiler = option_env!("KLEIDIAI_COMPILER").unwrap_or_default();
            format!("KleidiAI {version}, built with {compiler}")
        }
        (None, true) => "no KleidiAI: RUSHLIGHT_KLEIDIAI named no checkout at build time".into(),
        (None, false) => "no KleidiAI: it needs AArch64, and this is none".into(),
    }
}

/// A shape's contestants, each with what its product has to be.
type Field = Vec<(Box<dyn Contestant>, Expected)>;

/// Checks, and unless `--quick` measures, and returns what is to be printed.
///
/// Any wrong result is an error: a figure of a wrong kernel says nothing.
pub fn run(options: &Options) -> Result<Report, String> {
    let allowed = clock::allowed_cpus();
    let cpus = match options.cpus.as_slice() {
        [] => allowed,
        chosen => chosen.to_vec(),
    };
    let mut report = Report::new(&cpus, options);
    let mut counts = vec![1, cpus.len()];
    counts.dedup();
    let shapes = match options.quick {
        true => shape::small(),
        false => shape::DECODE.to_vec(),
    };
    for &shape in &shapes {
        let copies = |bytes| match options.quick {
            true => 2,
            false => (options.working_set_mib << 20).div_ceil(bytes).max(1),
        };
        let mut field = field(shape, &options.only, &copies)?;
        if options.quick {
            // One, and a number that shares rows unevenly; they may well sit on one core.
            for threads in [1, 3] {
                let cpus = vec![cpus[0]; threads];
                check(&mut field, shape, &cpus, &mut report)?;
            }
            continue;
        }
        report.quantisation(measure::quantisation(&mut field, shape, cpus[0])?);
        for &threads in &counts {
            let cpus = &cpus[..threads];
            let samples = shapes.len() * counts.len() * field.len() * measure::ROUNDS;
            let target = options.seconds / samples as f64;
            report
                .rows
                .extend(measure::turns(&field, shape, cpus, target)?);
            check(&mut field, shape, cpus, &mut report)?;
        }
    }
    if let Some(path) = &options.csv {
        fs::write(path, report.csv()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(report)
}

/// Every contestant whose name contains `only`, with weights packed and the vector quantised.
fn field(shape: Shape, only: &str, copies: &dyn Fn(usize) -> usize) -> Result<Field, String> {
    let x = vector(shape.columns);
    let mut field = Field::new();
    for format in [WeightFormat::Q4_0, WeightFormat::Q4_K, WeightFormat::Q8_0] {
        let matrix = Matrix::random(format, shape);
        let expected = Expected::new(&matrix, &x);
        if ours::name(format).contains(only) {
            let ours = ours::Ours::new(&matrix, &x, copies);
            field.push((Box::new(ours), expected.clone()));
        }
        #[cfg(kleidiai)]
        if format == WeightFormat::Q4_0 {
            for theirs in kleidiai::all(&matrix, &x, only, copies)? {
                field.push((Box::new(theirs), expected.clone().without_bits()));
            }
        }
    }
    match field.is_empty() {
        true => Err(format!("no contestant is called `{only}`")),
        false => Ok(field),
    }
}

/// Has each contestant compute one product with threads on `cpus`, and judges it.
fn check(
    field: &mut Field,
    shape: Shape,
    cpus: &[usize],
    report: &mut Report,
) -> Result<(), String> {
    for (contestant, expected) in field {
        // Where a kernel leaves a gap, this is no number.
        let mut out = vec![f32::NAN; shape.rows];
        measure::sample(&**contestant, shape, cpus, 1, &mut out)?;
        let name = contestant.name();
        let error = expected
            .judge(&out)
            .map_err(|error| format!("{name}, {shape}, {} threads: {error}", cpus.len()))?;
        report.checked.push(Checked {
            name: name.to_owned(),
            shape,
            threads: cpus.len(),
            error,
            bits: expected.has_bits(),
        });
    }
    Ok(())
}
