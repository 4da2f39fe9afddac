//! The one list of kernels.
//!
//! [`KERNELS`] is data: it names everything that can be run, weakest first, so it reads as a list
//! of preferences. [`Kernels::resolve`] takes the strongest entry for each operation that the CPU
//! has the features for, and that is tuned for its core or for none; `tests/kernelcheck` walks the
//! same list.

#[cfg(target_arch = "aarch64")]
use crate::aarch64;
pub use crate::dispatch::{Kernels, OutBlock, ResolveError};
use crate::features::{Core, Isa};
use crate::format::WeightFormat;
use crate::reference;
use crate::vector::{self, VectorOps};
#[cfg(target_arch = "x86_64")]
use crate::x86_64;

/// Matrix times vector: `out[8g + r]` becomes the product of row `r` of group `g` with the vector.
///
/// `extern "C"`, so that assembly can stand in the list as it is.
///
/// # Safety
/// - The CPU has the features of the kernel's tier.
/// - `weights` points to `groups * records` packed records, at any alignment.
/// - `activations` points to `records` activation records of the format's kind, at any alignment.
/// - `out` points to `8 * groups` floats that nothing else refers to.
/// - `records` is at least one.
///
/// The result is that of the reference where each weight record was packed from GGUF blocks and
/// the activations keep their contract (see [`activation`](crate::activation)). Other bytes give
/// other numbers, and no more than that.
pub type Gemv = unsafe extern "C" fn(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
);

/// Matrix times several vectors: a [`Gemv`] for each of `tokens` vectors, with the same bits, that
/// unpacks the weights once for several of them.
///
/// Vector `t` starts `t * activation_stride` bytes after the first, its results start
/// `t * out_stride` floats after those of the first.
///
/// # Safety
/// As for [`Gemv`], for every vector and its results; `tokens` is at least one.
pub type Gemm = unsafe extern "C" fn(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    activation_stride: usize,
    tokens: usize,
    out: *mut f32,
    out_stride: usize,
);

/// What a kernel computes, and the functions that do.
#[derive(Clone, Copy)]
pub enum Operation {
    /// Matrix times vector over packed weights of one format.
    Gemv(WeightFormat, Gemv),
    /// Matrix times several vectors over packed weights of one format. Where a CPU has none, a
    /// GEMV for each vector is as good, and slower.
    Gemm(WeightFormat, Gemm),
    /// All the float operations: they share a tier.
    Vector(&'static VectorOps),
}

/// One entry of the list.
pub struct Kernel {
    /// Operation, format, instructions and, if tuned for one, core (`docs/kernels.md`).
    pub name: &'static str,
    /// The tier: what the CPU must have.
    pub isa: Isa,
    /// The core that it is tuned for, if any: others can run it, and have better ones.
    pub core: Option<Core>,
    /// Among the kernels of one operation that can run, the highest is taken.
    pub priority: u8,
    /// What it computes.
    pub operation: Operation,
}

use Isa::*;
use WeightFormat::*;

/// Every kernel of this build, weakest first.
#[rustfmt::skip] // a table: one entry, one line
pub static KERNELS: &[Kernel] = &[
    vector("vector_reference", Reference, 0, &vector::REFERENCE),
    gemv("gemv_q4_0_reference", Reference, 0, Q4_0, reference::gemv_q4_0),
    gemv("gemv_q4_1_reference", Reference, 0, Q4_1, reference::gemv_q4_1),
    gemv("gemv_q5_0_reference", Reference, 0, Q5_0, reference::gemv_q5_0),
    gemv("gemv_q8_0_reference", Reference, 0, Q8_0, reference::gemv_q8_0),
    gemv("gemv_q4_k_reference", Reference, 0, Q4_K, reference::gemv_q4_k),
    gemv("gemv_q5_k_reference", Reference, 0, Q5_K, reference::gemv_q5_k),
    gemv("gemv_q6_k_reference", Reference, 0, Q6_K, reference::gemv_q6_k),
    gemv("gemv_q5_1_reference", Reference, 0, Q5_1, reference::gemv_q5_1),
    gemv("gemv_iq4_nl_reference", Reference, 0, IQ4_NL, reference::gemv_iq4_nl),
    gemv("gemv_q2_k_reference", Reference, 0, Q2_K, reference::gemv_q2_k),
    gemv("gemv_q3_k_reference", Reference, 0, Q3_K, reference::gemv_q3_k),
    gemv("gemv_tq1_0_reference", Reference, 0, TQ1_0, reference::gemv_tq2_0),
    gemv("gemv_tq2_0_reference", Reference, 0, TQ2_0, reference::gemv_tq2_0),
    gemv("gemv_f32_reference", Reference, 0, F32, reference::gemv_f32),
    gemv("gemv_f16_reference", Reference, 0, F16, reference::gemv_f16),
    gemv("gemv_bf16_reference", Reference, 0, BF16, reference::gemv_bf16),

    #[cfg(target_arch = "x86_64")]
    vector("vector_avx2", Avx2, 20, &vector::AVX2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_0_avx2", Avx2, 20, Q4_0, x86_64::gemv_q4_0_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_1_avx2", Avx2, 20, Q4_1, x86_64::gemv_q4_1_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_0_avx2", Avx2, 20, Q5_0, x86_64::gemv_q5_0_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q8_0_avx2", Avx2, 20, Q8_0, x86_64::gemv_q8_0_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_k_avx2", Avx2, 20, Q4_K, x86_64::gemv_q4_k_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_k_avx2", Avx2, 20, Q5_K, x86_64::gemv_q5_k_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q6_k_avx2", Avx2, 20, Q6_K, x86_64::gemv_q6_k_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_1_avx2", Avx2, 20, Q5_1, x86_64::gemv_q5_1_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_iq4_nl_avx2", Avx2, 20, IQ4_NL, x86_64::gemv_iq4_nl_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q2_k_avx2", Avx2, 20, Q2_K, x86_64::gemv_q2_k_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q3_k_avx2", Avx2, 20, Q3_K, x86_64::gemv_q3_k_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_tq1_0_avx2", Avx2, 20, TQ1_0, x86_64::gemv_tq2_0_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_tq2_0_avx2", Avx2, 20, TQ2_0, x86_64::gemv_tq2_0_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_f32_avx2", Avx2, 20, F32, vector::gemv_f32_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_f16_avx2", Avx2, 20, F16, vector::gemv_f16_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_bf16_avx2", Avx2, 20, BF16, vector::gemv_bf16_avx2),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_0_avx2", Avx2, 20, Q4_0, x86_64::gemm_q4_0_avx2),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_1_avx2", Avx2, 20, Q4_1, x86_64::gemm_q4_1_avx2),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q5_0_avx2", Avx2, 20, Q5_0, x86_64::gemm_q5_0_avx2),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q8_0_avx2", Avx2, 20, Q8_0, x86_64::gemm_q8_0_avx2),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_k_avx2", Avx2, 20, Q4_K, x86_64::gemm_q4_k_avx2),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q5_k_avx2", Avx2, 20, Q5_K, x86_64::gemm_q5_k_avx2),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q6_k_avx2", Avx2, 20, Q6_K, x86_64::gemm_q6_k_avx2),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_0_avx_vnni", AvxVnni, 30, Q4_0, x86_64::gemv_q4_0_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_1_avx_vnni", AvxVnni, 30, Q4_1, x86_64::gemv_q4_1_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_0_avx_vnni", AvxVnni, 30, Q5_0, x86_64::gemv_q5_0_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    // Not the choice: from memory it is slower than AVX2 by up to 3 % (`docs/kernels.md`).
    gemv("gemv_q8_0_avx_vnni", AvxVnni, 19, Q8_0, x86_64::gemv_q8_0_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_k_avx_vnni", AvxVnni, 30, Q4_K, x86_64::gemv_q4_k_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_k_avx_vnni", AvxVnni, 30, Q5_K, x86_64::gemv_q5_k_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q6_k_avx_vnni", AvxVnni, 30, Q6_K, x86_64::gemv_q6_k_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_1_avx_vnni", AvxVnni, 30, Q5_1, x86_64::gemv_q5_1_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_iq4_nl_avx_vnni", AvxVnni, 30, IQ4_NL, x86_64::gemv_iq4_nl_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q2_k_avx_vnni", AvxVnni, 30, Q2_K, x86_64::gemv_q2_k_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q3_k_avx_vnni", AvxVnni, 30, Q3_K, x86_64::gemv_q3_k_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_tq1_0_avx_vnni", AvxVnni, 30, TQ1_0, x86_64::gemv_tq2_0_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_tq2_0_avx_vnni", AvxVnni, 30, TQ2_0, x86_64::gemv_tq2_0_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_0_avx_vnni", AvxVnni, 30, Q4_0, x86_64::gemm_q4_0_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_1_avx_vnni", AvxVnni, 30, Q4_1, x86_64::gemm_q4_1_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q5_0_avx_vnni", AvxVnni, 30, Q5_0, x86_64::gemm_q5_0_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q8_0_avx_vnni", AvxVnni, 30, Q8_0, x86_64::gemm_q8_0_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_k_avx_vnni", AvxVnni, 30, Q4_K, x86_64::gemm_q4_k_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q5_k_avx_vnni", AvxVnni, 30, Q5_K, x86_64::gemm_q5_k_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q6_k_avx_vnni", AvxVnni, 30, Q6_K, x86_64::gemm_q6_k_avx_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_0_avx512_vnni", Avx512Vnni, 40, Q4_0, x86_64::gemv_q4_0_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_1_avx512_vnni", Avx512Vnni, 40, Q4_1, x86_64::gemv_q4_1_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_0_avx512_vnni", Avx512Vnni, 40, Q5_0, x86_64::gemv_q5_0_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    // Nor this one.
    gemv("gemv_q8_0_avx512_vnni", Avx512Vnni, 19, Q8_0, x86_64::gemv_q8_0_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q4_k_avx512_vnni", Avx512Vnni, 40, Q4_K, x86_64::gemv_q4_k_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_k_avx512_vnni", Avx512Vnni, 40, Q5_K, x86_64::gemv_q5_k_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q6_k_avx512_vnni", Avx512Vnni, 40, Q6_K, x86_64::gemv_q6_k_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q5_1_avx512_vnni", Avx512Vnni, 40, Q5_1, x86_64::gemv_q5_1_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_iq4_nl_avx512_vnni", Avx512Vnni, 40, IQ4_NL, x86_64::gemv_iq4_nl_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q2_k_avx512_vnni", Avx512Vnni, 40, Q2_K, x86_64::gemv_q2_k_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_q3_k_avx512_vnni", Avx512Vnni, 40, Q3_K, x86_64::gemv_q3_k_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_tq1_0_avx512_vnni", Avx512Vnni, 40, TQ1_0, x86_64::gemv_tq2_0_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemv("gemv_tq2_0_avx512_vnni", Avx512Vnni, 40, TQ2_0, x86_64::gemv_tq2_0_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_0_avx512_vnni", Avx512Vnni, 40, Q4_0, x86_64::gemm_q4_0_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_1_avx512_vnni", Avx512Vnni, 40, Q4_1, x86_64::gemm_q4_1_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q5_0_avx512_vnni", Avx512Vnni, 40, Q5_0, x86_64::gemm_q5_0_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q8_0_avx512_vnni", Avx512Vnni, 40, Q8_0, x86_64::gemm_q8_0_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q4_k_avx512_vnni", Avx512Vnni, 40, Q4_K, x86_64::gemm_q4_k_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q5_k_avx512_vnni", Avx512Vnni, 40, Q5_K, x86_64::gemm_q5_k_avx512_vnni),
    #[cfg(target_arch = "x86_64")]
    gemm("gemm_q6_k_avx512_vnni", Avx512Vnni, 40, Q6_K, x86_64::gemm_q6_k_avx512_vnni),

    #[cfg(target_arch = "aarch64")]
    vector("vector_neon", Neon, 20, &vector::NEON),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q4_0_neon", Neon, 20, Q4_0, aarch64::gemv_q4_0_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q4_1_neon", Neon, 20, Q4_1, aarch64::gemv_q4_1_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q5_0_neon", Neon, 20, Q5_0, aarch64::gemv_q5_0_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q8_0_neon", Neon, 20, Q8_0, aarch64::gemv_q8_0_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q4_k_neon", Neon, 20, Q4_K, aarch64::gemv_q4_k_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q5_k_neon", Neon, 20, Q5_K, aarch64::gemv_q5_k_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q6_k_neon", Neon, 20, Q6_K, aarch64::gemv_q6_k_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_f32_neon", Neon, 20, F32, vector::gemv_f32_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_f16_neon", Neon, 20, F16, vector::gemv_f16_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_bf16_neon", Neon, 20, BF16, vector::gemv_bf16_neon),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q4_0_neon_dotprod", Dotprod, 30, Q4_0, aarch64::gemv_q4_0_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q4_1_neon_dotprod", Dotprod, 30, Q4_1, aarch64::gemv_q4_1_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q5_0_neon_dotprod", Dotprod, 30, Q5_0, aarch64::gemv_q5_0_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q8_0_neon_dotprod", Dotprod, 30, Q8_0, aarch64::gemv_q8_0_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q4_k_neon_dotprod", Dotprod, 30, Q4_K, aarch64::gemv_q4_k_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q5_k_neon_dotprod", Dotprod, 30, Q5_K, aarch64::gemv_q5_k_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q6_k_neon_dotprod", Dotprod, 30, Q6_K, aarch64::gemv_q6_k_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_q4_0_neon_dotprod_cortex_a55", Q4_0, aarch64::gemv_q4_0_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_q4_1_neon_dotprod_cortex_a55", Q4_1, aarch64::gemv_q4_1_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_q5_0_neon_dotprod_cortex_a55", Q5_0, aarch64::gemv_q5_0_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_q8_0_neon_dotprod_cortex_a55", Q8_0, aarch64::gemv_q8_0_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_q4_k_neon_dotprod_cortex_a55", Q4_K, aarch64::gemv_q4_k_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_q5_k_neon_dotprod_cortex_a55", Q5_K, aarch64::gemv_q5_k_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_q6_k_neon_dotprod_cortex_a55", Q6_K, aarch64::gemv_q6_k_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_q5_1_neon_dotprod_cortex_a55", Q5_1, aarch64::gemv_q5_1_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    a55("gemv_iq4_nl_neon_dotprod_cortex_a55", IQ4_NL, aarch64::gemv_iq4_nl_neon_dotprod_cortex_a55),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q5_1_neon_dotprod", Dotprod, 30, Q5_1, aarch64::gemv_q5_1_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_iq4_nl_neon_dotprod", Dotprod, 30, IQ4_NL, aarch64::gemv_iq4_nl_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q2_k_neon_dotprod", Dotprod, 30, Q2_K, aarch64::gemv_q2_k_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_q3_k_neon_dotprod", Dotprod, 30, Q3_K, aarch64::gemv_q3_k_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_tq1_0_neon_dotprod", Dotprod, 30, TQ1_0, aarch64::gemv_tq2_0_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemv("gemv_tq2_0_neon_dotprod", Dotprod, 30, TQ2_0, aarch64::gemv_tq2_0_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q4_0_neon_dotprod", Dotprod, 30, Q4_0, aarch64::gemm_q4_0_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q4_1_neon_dotprod", Dotprod, 30, Q4_1, aarch64::gemm_q4_1_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q5_0_neon_dotprod", Dotprod, 30, Q5_0, aarch64::gemm_q5_0_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q8_0_neon_dotprod", Dotprod, 30, Q8_0, aarch64::gemm_q8_0_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q4_k_neon_dotprod", Dotprod, 30, Q4_K, aarch64::gemm_q4_k_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q5_k_neon_dotprod", Dotprod, 30, Q5_K, aarch64::gemm_q5_k_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q6_k_neon_dotprod", Dotprod, 30, Q6_K, aarch64::gemm_q6_k_neon_dotprod),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q4_0_neon_i8mm", I8mm, 40, Q4_0, aarch64::gemm_q4_0_neon_i8mm),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q4_1_neon_i8mm", I8mm, 40, Q4_1, aarch64::gemm_q4_1_neon_i8mm),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q8_0_neon_i8mm", I8mm, 40, Q8_0, aarch64::gemm_q8_0_neon_i8mm),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q4_k_neon_i8mm", I8mm, 40, Q4_K, aarch64::gemm_q4_k_neon_i8mm),
    #[cfg(target_arch = "aarch64")]
    gemm("gemm_q5_k_neon_i8mm", I8mm, 40, Q5_K, aarch64::gemm_q5_k_neon_i8mm),
];

const fn gemv(
    name: &'static str,
    isa: Isa,
    priority: u8,
    format: WeightFormat,
    function: Gemv,
) -> Kernel {
    Kernel {
        name,
        isa,
        priority,
        core: None,
        operation: Operation::Gemv(format, function),
    }
}

/// A GEMV with SDOT, in the order that in-order cores like best.
#[cfg(target_arch = "aarch64")]
const fn a55(name: &'static str, format: WeightFormat, function: Gemv) -> Kernel {
    Kernel {
        core: Some(Core::CortexA55),
        ..gemv(name, Dotprod, 31, format, function)
    }
}

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
const fn gemm(
    name: &'static str,
    isa: Isa,
    priority: u8,
    format: WeightFormat,
    function: Gemm,
) -> Kernel {
    Kernel {
        name,
        isa,
        priority,
        core: None,
        operation: Operation::Gemm(format, function),
    }
}

const fn vector(
    name: &'static str,
    isa: Isa,
    priority: u8,
    operations: &'static VectorOps,
) -> Kernel {
    Kernel {
        name,
        isa,
        priority,
        core: None,
        operation: Operation::Vector(operations),
    }
}
