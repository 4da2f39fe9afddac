//! Whether this CPU and this build compute what they must: each kernel that the CPU can run, on a
//! few inputs from a seed, against the reference in the same binary, bit for bit; and the reference
//! against what it computed where it was checked (`KNOWN`).
//!
//! `tests/kernelcheck` does this at length, with guards around the buffers and an oracle for the
//! reference. Here it takes a moment and a scope of fixed size, so that it can be asked of a board.

mod float;
mod matrix;

use crate::arena::{self, ArenaError, Forward, Region};
use crate::error::Error;
use crate::sys;
use core::fmt;
use kernels_asm::features::{Features, Isa};
use kernels_asm::format::WeightFormat;
use kernels_asm::registry::{KERNELS, Kernel, Kernels, Operation, ResolveError};

/// Bytes of the scope that a case has.
const SCOPE_BYTES: usize = 256 * 1024;

/// Seed of all inputs.
const SEED: u64 = 1;

/// Where a result is not what it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// A kernel's from the reference's.
    Value {
        /// Which of the float operations; of a matrix kernel its name says it.
        operation: &'static str,
        /// Number of the case.
        case: usize,
        /// Place in its result.
        at: usize,
        /// The kernel's bits.
        found: u32,
        /// The reference's bits.
        expected: u32,
    },
    /// All of the reference's results, as a checksum, from what is known.
    Known {
        /// Which of the float operations.
        operation: &'static str,
        /// The reference's.
        found: u64,
        /// What is known.
        expected: u64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Difference::Value {
                operation,
                case,
                at,
                found,
                expected,
            } => write!(
                f,
                "{operation} case {case}, result {at}: {found:#010x}, the reference has {expected:#010x}"
            ),
            Difference::Known {
                operation,
                found,
                expected,
            } => write!(
                f,
                "{operation} results have checksum {found:#018x}, {expected:#018x} is known"
            ),
        }
    }
}

/// Why a check came to no end.
enum Stopped {
    Difference(Difference),
    Error(Error),
}

impl From<Difference> for Stopped {
    fn from(difference: Difference) -> Self {
        Stopped::Difference(difference)
    }
}

impl From<ArenaError> for Stopped {
    fn from(error: ArenaError) -> Self {
        Stopped::Error(error.into())
    }
}

impl From<ResolveError> for Stopped {
    fn from(error: ResolveError) -> Self {
        Stopped::Error(error.into())
    }
}

/// The checks, with the memory that they share.
pub struct Checks {
    scope: Region<'static, Forward>,
    reference: Kernels,
    have: Features,
}

impl Checks {
    /// Of a CPU that has these features, or is to be taken for one.
    ///
    /// # Errors
    /// The kernel gives no memory.
    pub fn new(have: Features) -> Result<Self, Error> {
        let bytes = SCOPE_BYTES;
        let block = sys::reserve(bytes).map_err(|errno| Error::Memory { bytes, errno })?;
        let (.., scope) = arena::split(block, 0, 0)?;
        Ok(Checks {
            scope,
            reference: Kernels::resolve(Features::NONE, None, &[])?,
            have,
        })
    }

    /// The kernels that the CPU can run.
    pub fn kernels(&self) -> impl Iterator<Item = &'static Kernel> + use<> {
        let have = self.have;
        let kernels = KERNELS.iter();
        kernels.filter(move |kernel| have.has(kernel.isa.needs()))
    }

    /// Checks one of [`kernels`](Self::kernels); what differs, if something does.
    ///
    /// # Errors
    /// The scope is too small: the check is wrong.
    pub fn check(&mut self, kernel: &Kernel) -> Result<Option<Difference>, Error> {
        match self.check_all(kernel) {
            Ok(()) => Ok(None),
            Err(Stopped::Difference(difference)) => Ok(Some(difference)),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    fn check_all(&mut self, kernel: &Kernel) -> Result<(), Stopped> {
        let forced = |format: WeightFormat| {
            Kernels::resolve(self.have, kernel.core, &[(format, kernel.name)])
        };
        let is_reference = kernel.isa == Isa::Reference;
        match kernel.operation {
            Operation::Gemv(format, _) | Operation::Gemm(format, _) => {
                let vectors = match kernel.operation {
                    Operation::Gemv(..) => &[1][..],
                    _ => &[2, 3, 4, 5, 7, 9],
                };
                let pair = [&self.reference, &forced(format)?];
                matrix::check(format, pair, vectors, is_reference, &mut self.scope)
            }
            Operation::Vector(_) => {
                // The float operations of a tier are the strongest of what the tier needs.
                let tier = Kernels::resolve(kernel.isa.needs(), None, &[])?;
                float::check([&self.reference, &tier], is_reference, &mut self.scope)
            }
        }
    }
}

/// The first place where bits differ.
fn compare(
    operation: &'static str,
    case: usize,
    expected: &[u32],
    found: &[u32],
) -> Result<(), Difference> {
    let mut pairs = expected.iter().zip(found).enumerate();
    match pairs.find(|(_, (expected, found))| expected != found) {
        None => Ok(()),
        Some((at, (&expected, &found))) => Err(Difference::Value {
            operation,
            case,
            at,
            found,
            expected,
        }),
    }
}

/// Holds a checksum of the reference against what is known.
fn compare_known(operation: &'static str, found: u64, expected: u64) -> Result<(), Difference> {
    match found == expected {
        true => Ok(()),
        false => Err(Difference::Known {
            operation,
            found,
            expected,
        }),
    }
}

/// The bits of a float, the same for every NaN: its sign and payload are no one's promise.
fn bits(value: f32) -> u32 {
    if value.is_nan() { f32::NAN } else { value }.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_place_that_differs_is_told() {
        assert_eq!(compare("add", 0, &[1, 2], &[1, 2]), Ok(()));
        let difference = Difference::Value {
            operation: "add",
            case: 3,
            at: 1,
            found: 7,
            expected: 2,
        };
        assert_eq!(compare("add", 3, &[1, 2, 3], &[1, 7, 4]), Err(difference));
    }

    #[test]
    fn reference_is_held_to_what_is_known() {
        assert_eq!(compare_known("add", 5, 5), Ok(()));
        assert!(compare_known("add", 5, 6).is_err());
    }

    #[test]
    fn every_kernel_of_a_machine_without_features_is_as_known() {
        let mut checks = Checks::new(Features::NONE).expect("a scope");
        let mut count = 0;
        for kernel in checks.kernels() {
            let difference = checks.check(kernel).expect("it is large enough");
            assert_eq!(difference, None, "{}", kernel.name);
            count += 1;
        }
        assert_eq!(count, WeightFormat::ALL.len() + 1);
    }
}
