//! The one list of kernels, and the choice among them.
//!
//! [`KERNELS`] is data: it names everything that can be run, weakest first, so it reads as a list
//! of preferences. [`Kernels::resolve`] takes the strongest entry for each operation that the CPU
//! has the features for. A [`Kernels`] cannot be had otherwise, so holding one is the proof that
//! its kernels can be called, and its methods are safe: they check the sizes and call.

#[cfg(target_arch = "aarch64")]
use crate::aarch64;
use crate::features::{Features, Isa};
use crate::format::WeightFormat;
use crate::reference;
#[cfg(target_arch = "x86_64")]
use crate::x86_64;

/// Matrix times vector: `out[8g + r]` becomes the product of row `r` of group `g` with the vector.
///
/// `extern "C"`, so that assembly can stand in the list as it is.
///
/// # Safety
/// - The CPU has the features of the kernel's tier.
/// - `weights` points to `groups * records` packed records, at any alignment.
/// - `activations` points to `records` activation records of the format's kind that keep the
///   contract of [`activation`](crate::activation), at any alignment.
/// - `out` points to `8 * groups` floats that nothing else refers to.
/// - `records` is at least one.
pub type Gemv = unsafe extern "C" fn(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
);

/// What a kernel computes, and the function that does.
#[derive(Clone, Copy)]
pub enum Operation {
    /// Matrix times vector over packed weights of one format.
    Gemv(WeightFormat, Gemv),
}

/// One entry of the list.
pub struct Kernel {
    /// Operation, format, tier and, if tuned for one, core: the stem of its file.
    pub name: &'static str,
    /// The tier: what the CPU must have.
    pub isa: Isa,
    /// Among the kernels of one operation that can run, the highest is taken.
    pub priority: u8,
    /// What it computes.
    pub operation: Operation,
}

impl Kernel {
    const fn gemv(
        name: &'static str,
        isa: Isa,
        priority: u8,
        format: WeightFormat,
        function: Gemv,
    ) -> Self {
        Self {
            name,
            isa,
            priority,
            operation: Operation::Gemv(format, function),
        }
    }
}

use WeightFormat::*;

/// Every kernel of this build, weakest first.
pub static KERNELS: &[Kernel] = &[
    Kernel::gemv("gemv_q4_0", Isa::Reference, 0, Q4_0, reference::gemv_q4_0),
    Kernel::gemv("gemv_q4_1", Isa::Reference, 0, Q4_1, reference::gemv_q4_1),
    Kernel::gemv("gemv_q5_0", Isa::Reference, 0, Q5_0, reference::gemv_q5_0),
    Kernel::gemv("gemv_q8_0", Isa::Reference, 0, Q8_0, reference::gemv_q8_0),
    Kernel::gemv("gemv_q4_k", Isa::Reference, 0, Q4_K, reference::gemv_q4_k),
    Kernel::gemv("gemv_q5_k", Isa::Reference, 0, Q5_K, reference::gemv_q5_k),
    Kernel::gemv("gemv_q6_k", Isa::Reference, 0, Q6_K, reference::gemv_q6_k),
    #[cfg(target_arch = "x86_64")]
    Kernel::gemv(
        "gemv_q4_0_avx2",
        Isa::Avx2,
        20,
        Q4_0,
        x86_64::gemv_q4_0_avx2,
    ),
    #[cfg(target_arch = "x86_64")]
    Kernel::gemv(
        "gemv_q4_1_avx2",
        Isa::Avx2,
        20,
        Q4_1,
        x86_64::gemv_q4_1_avx2,
    ),
    #[cfg(target_arch = "x86_64")]
    Kernel::gemv(
        "gemv_q5_0_avx2",
        Isa::Avx2,
        20,
        Q5_0,
        x86_64::gemv_q5_0_avx2,
    ),
    #[cfg(target_arch = "x86_64")]
    Kernel::gemv(
        "gemv_q8_0_avx2",
        Isa::Avx2,
        20,
        Q8_0,
        x86_64::gemv_q8_0_avx2,
    ),
    #[cfg(target_arch = "x86_64")]
    Kernel::gemv(
        "gemv_q4_k_avx2",
        Isa::Avx2,
        20,
        Q4_K,
        x86_64::gemv_q4_k_avx2,
    ),
    #[cfg(target_arch = "x86_64")]
    Kernel::gemv(
        "gemv_q5_k_avx2",
        Isa::Avx2,
        20,
        Q5_K,
        x86_64::gemv_q5_k_avx2,
    ),
    #[cfg(target_arch = "x86_64")]
    Kernel::gemv(
        "gemv_q6_k_avx2",
        Isa::Avx2,
        20,
        Q6_K,
        x86_64::gemv_q6_k_avx2,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q4_0_neon",
        Isa::Neon,
        10,
        Q4_0,
        aarch64::gemv_q4_0_neon,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q4_1_neon",
        Isa::Neon,
        10,
        Q4_1,
        aarch64::gemv_q4_1_neon,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q5_0_neon",
        Isa::Neon,
        10,
        Q5_0,
        aarch64::gemv_q5_0_neon,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q8_0_neon",
        Isa::Neon,
        10,
        Q8_0,
        aarch64::gemv_q8_0_neon,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q4_k_neon",
        Isa::Neon,
        10,
        Q4_K,
        aarch64::gemv_q4_k_neon,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q5_k_neon",
        Isa::Neon,
        10,
        Q5_K,
        aarch64::gemv_q5_k_neon,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q6_k_neon",
        Isa::Neon,
        10,
        Q6_K,
        aarch64::gemv_q6_k_neon,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q4_0_neon_dotprod",
        Isa::Dotprod,
        20,
        Q4_0,
        aarch64::gemv_q4_0_neon_dotprod,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q4_1_neon_dotprod",
        Isa::Dotprod,
        20,
        Q4_1,
        aarch64::gemv_q4_1_neon_dotprod,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q5_0_neon_dotprod",
        Isa::Dotprod,
        20,
        Q5_0,
        aarch64::gemv_q5_0_neon_dotprod,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q8_0_neon_dotprod",
        Isa::Dotprod,
        20,
        Q8_0,
        aarch64::gemv_q8_0_neon_dotprod,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q4_k_neon_dotprod",
        Isa::Dotprod,
        20,
        Q4_K,
        aarch64::gemv_q4_k_neon_dotprod,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q5_k_neon_dotprod",
        Isa::Dotprod,
        20,
        Q5_K,
        aarch64::gemv_q5_k_neon_dotprod,
    ),
    #[cfg(target_arch = "aarch64")]
    Kernel::gemv(
        "gemv_q6_k_neon_dotprod",
        Isa::Dotprod,
        20,
        Q6_K,
        aarch64::gemv_q6_k_neon_dotprod,
    ),
];

/// Why there are no [`Kernels`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolveError {
    /// A forced kernel is not in the list, or not one for that format.
    UnknownKernel {
        /// The format that it was wanted for.
        format: WeightFormat,
    },
    /// A forced kernel needs what the CPU lacks.
    KernelNeeds {
        /// The kernel.
        kernel: &'static str,
        /// What is lacking.
        missing: Features,
    },
}

/// One kernel for each operation, all of which this CPU can run.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// In the order of [`WeightFormat::ALL`], each an `Operation::Gemv` of that format.
    gemv: [&'static Kernel; WeightFormat::ALL.len()],
}

impl Kernels {
    /// The strongest kernel for each operation that a CPU with `have` can run, except where
    /// `forced` names one for a format.
    ///
    /// `have` is what was detected, less what the user masks: it must not claim more.
    pub fn resolve(have: Features, forced: &[(WeightFormat, &str)]) -> Result<Self, ResolveError> {
        let mut gemv = WeightFormat::ALL.map(|format| strongest_gemv(format, have));
        for &(format, name) in forced {
            let kernel = gemv_kernels(format)
                .find(|kernel| kernel.name == name)
                .ok_or(ResolveError::UnknownKernel { format })?;
            let missing = kernel.isa.needs().without(have);
            if missing != Features::NONE {
                return Err(ResolveError::KernelNeeds {
                    kernel: kernel.name,
                    missing,
                });
            }
            gemv[format as usize] = kernel;
        }
        Ok(Self { gemv })
    }

    /// The kernel chosen for a format.
    pub fn gemv_kernel(&self, format: WeightFormat) -> &'static Kernel {
        self.gemv[format as usize]
    }

    /// Whether something faster than the reference serves a format.
    pub fn has_fast_gemv(&self, format: WeightFormat) -> bool {
        self.gemv_kernel(format).isa != Isa::Reference
    }

    /// Matrix times vector: `out[i]` becomes the product of row `i` of the packed `weights` with
    /// the quantised `activations`.
    ///
    /// # Panics
    /// If `columns` is zero or not whole blocks, `out` not whole groups, or a buffer has not
    /// exactly the bytes that these make.
    #[allow(unsafe_code)] // the call for which this type is the proof
    pub fn gemv(
        &self,
        format: WeightFormat,
        weights: &[u8],
        columns: usize,
        activations: &[u8],
        out: &mut [f32],
    ) {
        let records = columns / format.block_len();
        assert!(
            records > 0 && columns.is_multiple_of(format.block_len()),
            "whole blocks"
        );
        assert!(out.len().is_multiple_of(8), "whole groups");
        assert_eq!(
            weights.len(),
            format.packed_bytes(out.len(), columns),
            "bytes of weights"
        );
        assert_eq!(
            activations.len(),
            format.activation().bytes(columns),
            "bytes of activations"
        );
        let Operation::Gemv(_, gemv) = self.gemv_kernel(format).operation;
        // SAFETY: `resolve` checked the CPU against `have`, and the asserts the sizes; `out` is
        // borrowed for writing. That activations keep their contract no one can check here for
        // nothing: a kernel that is given others computes nonsense, inside its buffers.
        unsafe {
            let out_start = out.as_mut_ptr();
            gemv(
                weights.as_ptr(),
                out.len() / 8,
                records,
                activations.as_ptr(),
                out_start,
            );
        }
    }
}

/// The kernels for one format, weakest first.
fn gemv_kernels(format: WeightFormat) -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter().filter(move |kernel| {
        let Operation::Gemv(of, _) = kernel.operation;
        of == format
    })
}

fn strongest_gemv(format: WeightFormat, have: Features) -> &'static Kernel {
    gemv_kernels(format)
        .filter(|kernel| have.has(kernel.isa.needs()))
        .max_by_key(|kernel| kernel.priority)
        .expect("the reference has a kernel for every format and needs nothing")
}
