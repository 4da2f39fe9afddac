//! Budgets and bounds of the kernels, and whether they keep them.
//!
//! A budget stands in a kernel's own file, as the line
//!
//! ```text
//! // budget: 317 cycles a record (cortex-a55)
//! ```
//!
//! and is what the hot loop, of one record, takes: more is a loss, and less is to be written down,
//! so that it is not lost again. A record of a GEMM is gone through for a tile of four vectors.
//!
//! Every kernel has a budget whose instructions the core has. What is tuned for it must keep the
//! bounds below as well; for others the budget is a comparison.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use kernels_asm::format::WeightFormat;

use crate::decode::{Instruction, Kind};
use crate::image::Function;
use crate::pipeline;

/// The end of the name of a GEMV that is tuned for the core.
const CORE: &str = "_cortex_a55";
/// The end of the name of a kernel with SDOT for other cores. A GEMM has one for all cores, which
/// is tuned for this one.
const SDOT: &str = "_neon_dotprod";
/// The end of the name of a kernel that the core cannot run.
const SMMLA: &str = "_neon_i8mm";

/// Vectors in a tile of a GEMM.
const TILE: usize = 4;

/// Cycles that a weight may take with one vector in a GEMV, and with each of a tile's in a GEMM,
/// if they are tuned for the core: a tenth and less above what the counts of their vector
/// operations allow.
const BOUNDS: [(&str, f64, f64); 7] = [
    ("Q4_0", 0.168, 0.115),
    ("Q4_1", 0.185, 0.125),
    ("Q5_0", 0.225, 0.127),
    ("Q8_0", 0.18, 0.1),
    ("Q4_K", 0.165, 0.11),
    ("Q5_K", 0.215, 0.121),
    ("Q6_K", 0.215, 0.122),
];

/// How much faster a loop may seem if sums are handed on early: more means that the schedule leans
/// on a property of the core that is not settled.
const FORWARDING_SHARE: f64 = 0.03;

/// A kernel with a budget.
#[derive(Debug)]
pub struct Budget {
    /// The kernel's name: its symbol, and the stem of its file.
    pub kernel: String,
    /// Cycles of a record.
    pub cycles: u64,
}

/// What a kernel takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Cycles of its hot loop if a sum takes four cycles to the next, the pessimistic reading.
    pub cycles: f64,
    /// The same if it takes one.
    pub forwarded: f64,
    /// Multiply-accumulates by dot product.
    pub dots: usize,
    /// Loads of whole 128-bit registers.
    pub wide_loads: usize,
}

impl Measured {
    /// What the model says of a loop.
    pub fn of(body: &[Instruction]) -> Self {
        let is_dot = |i: &&Instruction| i.kind == Kind::Accumulate(crate::decode::Family::Dot);
        Self {
            cycles: pipeline::cycles(body, 4),
            forwarded: pipeline::cycles(body, 1),
            dots: body.iter().filter(is_dot).count(),
            wide_loads: body.iter().filter(|i| i.loads_128_bits).count(),
        }
    }
}

/// The kernels of a folder that the core can run, by name.
///
/// # Errors
/// A file cannot be read, or a budget is missing or not understood.
pub fn budgets(folder: &Path) -> Result<Vec<Budget>> {
    let mut budgets = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {folder:?}"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "S") {
            continue;
        }
        let kernel = path
            .file_stem()
            .context("a file has a name")?
            .to_string_lossy();
        let text = fs::read_to_string(&path)?;
        match budget(&text).with_context(|| format!("budget in {}", path.display()))? {
            Some(cycles) => budgets.push(Budget {
                kernel: kernel.into_owned(),
                cycles,
            }),
            None if kernel.ends_with(SMMLA) => {}
            None => bail!("{kernel} has no line `{LINE}N{UNIT}`"),
        }
    }
    budgets.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    Ok(budgets)
}

const LINE: &str = "// budget: ";
const UNIT: &str = " cycles a record (cortex-a55)";

/// The budget that a file states.
fn budget(text: &str) -> Result<Option<u64>> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(LINE));
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    ensure!(lines.next().is_none(), "there is more than one");
    let number = line
        .strip_suffix(UNIT)
        .and_then(|number| number.parse().ok());
    Ok(Some(
        number.with_context(|| format!("`{line}` is not `N{UNIT}`"))?,
    ))
}

/// What a kernel goes through between two ends of its hot loop, by its name.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Work {
    format: WeightFormat,
    /// Weights of a record.
    weights: usize,
    /// Vectors that they are multiplied with.
    vectors: usize,
}

impl Work {
    fn of(kernel: &str) -> Option<Self> {
        let (operation, rest) = kernel.split_once('_')?;
        let vectors = match operation {
            "gemv" => 1,
            "gemm" => TILE,
            _ => return None,
        };
        let of_name = |format: &WeightFormat| {
            let name = format.name().to_lowercase();
            rest.strip_prefix(&name)
                .is_some_and(|rest| rest.starts_with('_'))
        };
        let format = WeightFormat::ALL.into_iter().find(of_name)?;
        Some(Self {
            format,
            weights: 8 * format.block_len(),
            vectors,
        })
    }

    /// Products of a weight and an activation.
    fn products(self) -> usize {
        self.weights * self.vectors
    }

    /// What a product may cost in a kernel that is tuned for the core.
    fn bound(self) -> Option<f64> {
        let row = BOUNDS.iter().find(|row| row.0 == self.format.name())?;
        Some(if self.vectors == 1 { row.1 } else { row.2 })
    }
}

/// Whether a kernel is in the order that the core likes best.
fn is_tuned(kernel: &str) -> bool {
    kernel.ends_with(CORE) || kernel.starts_with("gemm_") && kernel.ends_with(SDOT)
}

/// Cycles for each weight and vector, where a record has weights to count.
pub fn per_weight(kernel: &str, cycles: f64) -> Option<f64> {
    Work::of(kernel).map(|work| cycles / work.products() as f64)
}

/// What of `budget` and of the bounds `measured` does not keep, a line each.
pub fn failures(budget: &Budget, measured: &Measured) -> Vec<String> {
    let Budget { kernel, cycles } = budget;
    let mut failures = Vec::new();
    // Loops settle into a period of one or a few iterations: a hundredth is no cycle.
    let taken = (measured.cycles - 0.01).ceil() as u64;
    if taken > *cycles {
        failures.push(format!(
            "{kernel}: {taken} cycles a record, of {cycles} at most"
        ));
    } else if taken < *cycles {
        failures.push(format!(
            "{kernel}: {taken} cycles a record; its budget says {cycles}"
        ));
    }
    let work = Work::of(kernel);
    let uses_dots = kernel.ends_with(SDOT) || kernel.ends_with(CORE);
    if let Some(work) = work.filter(|_| uses_dots)
        && 16 * measured.dots < work.products()
    {
        let dots = measured.dots;
        failures.push(format!(
            "{kernel}: {dots} dot products are less than a record"
        ));
    }
    if !is_tuned(kernel) {
        return failures;
    }
    if measured.wide_loads > 0 {
        let count = measured.wide_loads;
        failures.push(format!("{kernel}: 128-bit loads in the loop: {count}"));
    }
    if (measured.cycles - measured.forwarded).abs() > FORWARDING_SHARE * measured.cycles {
        let (slow, fast) = (measured.cycles, measured.forwarded);
        failures.push(format!(
            "{kernel}: {slow} cycles, but {fast} if sums are forwarded: give sums more rest"
        ));
    }
    if let Some(work) = work {
        let share = measured.cycles / work.products() as f64;
        if let Some(bound) = work.bound().filter(|&bound| share > bound) {
            failures.push(format!(
                "{kernel}: {share:.4} cycles a weight and vector, of {bound} at most"
            ));
        }
    }
    failures
}

/// The function of a kernel.
///
/// # Errors
/// The program has none of that name.
pub fn function<'f>(functions: &'f [Function], kernel: &str) -> Result<&'f Function> {
    let found = functions.iter().find(|function| function.name == kernel);
    found.with_context(|| format!("the program has no function {kernel}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Measured = Measured {
        cycles: 317.0,
        forwarded: 317.0,
        dots: 136,
        wide_loads: 0,
    };

    fn failures_of(kernel: &str, measured: Measured) -> String {
        let kernel = kernel.to_owned();
        failures(
            &Budget {
                kernel,
                cycles: 317,
            },
            &measured,
        )
        .join("\n")
    }

    fn a55(measured: Measured) -> String {
        failures_of("gemv_q4_k_neon_dotprod_cortex_a55", measured)
    }

    #[test]
    fn kernel_within_its_budget_and_bounds_passes() {
        assert_eq!(a55(GOOD), "");
    }

    #[test]
    fn kernel_above_or_below_its_budget_fails() {
        let with = |cycles| Measured {
            cycles,
            forwarded: cycles,
            ..GOOD
        };
        assert!(a55(with(318.0)).contains("318 cycles a record, of 317 at most"));
        assert!(a55(with(317.2)).contains("318 cycles"));
        assert!(a55(with(300.0)).contains("its budget says 317"));
        assert_eq!(a55(with(316.5)), "");
    }

    #[test]
    fn bounds_hold_for_what_is_tuned_for_the_core_alone() {
        let slow = Measured {
            forwarded: 300.0,
            wide_loads: 2,
            ..GOOD
        };
        let told = a55(slow);
        for expected in ["128-bit loads in the loop: 2", "forwarded"] {
            assert!(told.contains(expected), "{told}");
        }
        assert_eq!(failures_of("gemv_q4_k_neon", slow), "");
        assert_eq!(failures_of("gemv_q4_k_neon_dotprod", slow), "");
        let told = failures_of("gemv_q4_0_neon_dotprod_cortex_a55", GOOD);
        let expected = "1.2383 cycles a weight and vector, of 0.168";
        assert!(told.contains(expected), "{told}");
    }

    #[test]
    fn gemm_of_all_cores_with_sdot_is_held_to_bounds_for_each_of_four_vectors() {
        let (name, work) = ("gemm_q4_k_neon_dotprod", 2048.0 * 4.0);
        let with = |cycles: f64| {
            let measured = Measured {
                cycles,
                forwarded: cycles,
                dots: 512,
                wide_loads: 0,
            };
            let budget = Budget {
                kernel: name.to_owned(),
                cycles: cycles.ceil() as u64,
            };
            failures(&budget, &measured).join("\n")
        };
        assert_eq!(with(0.11 * work), "");
        let told = with(0.11 * work + 1.0);
        assert!(
            told.contains("0.1101 cycles a weight and vector, of 0.11"),
            "{told}"
        );
        let told = failures_of(name, GOOD);
        assert!(
            told.contains("136 dot products are less than a record"),
            "{told}"
        );
    }

    #[test]
    fn part_of_a_record_is_not_taken_for_the_whole() {
        let part = Measured { dots: 127, ..GOOD };
        for name in [
            "gemv_q4_k_neon_dotprod",
            "gemv_q4_k_neon_dotprod_cortex_a55",
        ] {
            let told = failures_of(name, part);
            assert!(told.contains("127 dot products"), "{told}");
        }
        assert_eq!(failures_of("gemv_q4_k_neon", part), "");
    }

    #[test]
    fn kernel_without_a_budget_is_named_unless_the_core_lacks_its_instructions() {
        let folder = std::env::temp_dir().join(format!("budgets-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("gemm_q4_k_neon_i8mm.S"), "    ret\n").unwrap();
        fs::write(folder.join("gemm.inc"), "    ret\n").unwrap();
        let none = budgets(&folder);
        fs::write(folder.join("gemv_q4_k_neon.S"), "    ret\n").unwrap();
        let missing = budgets(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert!(none.unwrap().is_empty());
        let error = missing.unwrap_err().to_string();
        assert!(error.contains("gemv_q4_k_neon has no line"), "{error}");
    }

    #[test]
    fn budget_line_is_found_or_refused() {
        let line = "// one\n// budget: 41 cycles a record (cortex-a55)\n    ret\n";
        assert_eq!(budget(line).unwrap(), Some(41));
        assert_eq!(budget("// no such line\n").unwrap(), None);
        assert!(budget("// budget: 41 cycles\n").is_err());
        assert!(budget(&line.repeat(2)).is_err());
    }

    #[test]
    fn work_on_a_record_follows_from_the_name() {
        let work = |name| Work::of(name).map(|work| (work.format, work.weights, work.vectors));
        assert_eq!(work("gemv_q4_k_neon"), Some((WeightFormat::Q4_K, 2048, 1)));
        assert_eq!(
            work("gemm_q8_0_neon_dotprod"),
            Some((WeightFormat::Q8_0, 256, 4))
        );
        assert_eq!(work("vector_neon"), None);
    }
}
