//! The AArch64 tiers, in assembly: one `.S` file for each kernel, the symbol its stem.
//!
//! # How the kernels are written
//!
//! A vector of a record is `[8 rows][4 k]`, so its halves are two registers of four rows, and
//! their quarters of two. A lane belongs to one row from the first load to the last store.
//! - `neon_dotprod`: SDOT by element multiplies a register with four activations that all rows
//!   share, and adds the products up in the lane of the row.
//! - `neon`, for cores without SDOT: SMULL multiplies two rows with the four activations, repeated
//!   by LD1R, and sums stay in i16 for as long as the format allows. Each file says why they fit.
//!
//! Cores that reorder by themselves get a plain loop of few instructions, `neon_dotprod`: loads of
//! two and four registers that move their base on, one vector pair after the other, a prefetch for
//! each cache line, 1 KiB ahead. Hardware that follows a stream may do without the prefetches; no
//! board has shown that yet. They take slots of the load pipes, of which the loops leave most idle:
//! by `llvm-mca -mcpu=neoverse-n1` it is the two vector pipes that they wait for.
//!
//! The others are in the order of the Cortex-A55, the first target: in order, two instructions a
//! cycle, of which one may be a 128-bit vector operation. So most lines hold two instructions, and
//! a line is a cycle: in the left column the vector pipe, in the right what issues beside it. Five
//! things follow from that.
//! - Rows 0-3 and 4-7 take turns, which leaves every accumulator three cycles of rest.
//! - A 128-bit load would block both columns for two cycles. Weights are loaded as `ldr d` and
//!   `ldr x` and joined by `ins`, each of which fits beside a vector operation; activations, which
//!   are used by element, as `ldr d` alone.
//! - `fmov d, xzr` clears a register in the right column.
//! - A load stands three lines before its use, four if its value goes through `ins`.
//! - `prfm` asks for each cache line 2 KiB ahead. That may lie past the end, where a prefetch does
//!   no harm; a load never does.
//!
//! Each file but those with SMMLA states the cycles of its loop as a budget, which `cargo xtask
//! cycles` holds it to; `neon` and `neon_dotprod` for comparison, as the cores that they are for
//! have no model here.
//! Nothing but the speed depends on the order.
//!
//! # Several vectors
//!
//! A GEMM unpacks a register of weights once for four vectors, whose products take turns, so that
//! no register waits for its last sum. `gemm.inc` has the loops over groups and tiles of four,
//! keeps the callee-saved registers on the stack and calls the GEMV for one or two vectors that are
//! left; a kernel's file has the tile. Float sums of eight rows take eight registers and the
//! integer ones as many again, so most tiles go through a record twice, four rows at a time.
//!
//! `neon_i8mm` has SMMLA multiply two rows with two vectors; `gemm_i8mm.inc` says how that lies.
//! Its cores reorder by themselves or have no model here, so nothing is arranged by cycles.
//!
//! # Registers
//!
//! Of a GEMV; a GEMM's file says its own.
//!
//! | | |
//! |---|---|
//! | x0 | weights: the record at hand |
//! | x1 | groups left |
//! | x2 | records of a group |
//! | x3 | activations |
//! | x4 | where the next eight results go |
//! | x5 | activations: the record at hand |
//! | x6 | records left |
//! | x7, x8, ... | upper halves of vectors on their way to `ins`, and what each file says |
//! | v0, v1 | float sums of rows 0-3 and 4-7 |
//! | v4, v5, ... | activations |
//! | v16 - v31 | weights, and what each file says |
//!
//! Labels are `1` for a group, `2` for a record, `3` for the way out, `9` for a table. The
//! GEMVs are leaves and do not touch the stack, x13 - x18 or a register that is the caller's. No
//! kernel reads anything outside its records. Macros are purged and the architecture extension is
//! taken back at the end of a file: the assembler would carry both into the next.
#![allow(unsafe_code)] // assembly; the contract is `registry::Gemv`

use core::arch::global_asm;

global_asm!(include_str!("gemv_q4_0_neon.S"), options(raw));
global_asm!(include_str!("gemv_q4_1_neon.S"), options(raw));
global_asm!(include_str!("gemv_q5_0_neon.S"), options(raw));
global_asm!(include_str!("gemv_q8_0_neon.S"), options(raw));
global_asm!(include_str!("gemv_q4_k_neon.S"), options(raw));
global_asm!(include_str!("gemv_q5_k_neon.S"), options(raw));
global_asm!(include_str!("gemv_q6_k_neon.S"), options(raw));

global_asm!(include_str!("gemv_q4_0_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q4_1_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q5_0_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q8_0_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q4_k_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q5_k_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q6_k_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q5_1_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_iq4_nl_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q2_k_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_q3_k_neon_dotprod.S"), options(raw));
global_asm!(include_str!("gemv_tq2_0_neon_dotprod.S"), options(raw));

global_asm!(
    include_str!("gemv_q4_0_neon_dotprod_cortex_a55.S"),
    options(raw)
);
global_asm!(
    include_str!("gemv_q4_1_neon_dotprod_cortex_a55.S"),
    options(raw)
);
global_asm!(
    include_str!("gemv_q5_0_neon_dotprod_cortex_a55.S"),
    options(raw)
);
global_asm!(
    include_str!("gemv_q8_0_neon_dotprod_cortex_a55.S"),
    options(raw)
);
global_asm!(
    include_str!("gemv_q4_k_neon_dotprod_cortex_a55.S"),
    options(raw)
);
global_asm!(
    include_str!("gemv_q5_k_neon_dotprod_cortex_a55.S"),
    options(raw)
);
global_asm!(
    include_str!("gemv_q6_k_neon_dotprod_cortex_a55.S"),
    options(raw)
);
global_asm!(
    include_str!("gemv_q5_1_neon_dotprod_cortex_a55.S"),
    options(raw)
);
global_asm!(
    include_str!("gemv_iq4_nl_neon_dotprod_cortex_a55.S"),
    options(raw)
);

/// A GEMM's file behind the loops that all of them share.
macro_rules! gemm_asm {
    ($file:literal) => {
        global_asm!(
            concat!(include_str!("gemm.inc"), include_str!($file)),
            options(raw)
        );
    };
    (i8mm, $file:literal) => {
        global_asm!(
            concat!(
                include_str!("gemm.inc"),
                include_str!("gemm_i8mm.inc"),
                include_str!($file)
            ),
            options(raw)
        );
    };
}

gemm_asm!("gemm_q4_0_neon_dotprod.S");
gemm_asm!("gemm_q4_1_neon_dotprod.S");
gemm_asm!("gemm_q5_0_neon_dotprod.S");
gemm_asm!("gemm_q8_0_neon_dotprod.S");
gemm_asm!("gemm_q4_k_neon_dotprod.S");
gemm_asm!("gemm_q5_k_neon_dotprod.S");
gemm_asm!("gemm_q6_k_neon_dotprod.S");

gemm_asm!(i8mm, "gemm_q4_0_neon_i8mm.S");
gemm_asm!(i8mm, "gemm_q4_1_neon_i8mm.S");
gemm_asm!(i8mm, "gemm_q8_0_neon_i8mm.S");
gemm_asm!(i8mm, "gemm_q4_k_neon_i8mm.S");
gemm_asm!(i8mm, "gemm_q5_k_neon_i8mm.S");

/// Declares kernels with the signature and the contract of [`Gemv`](crate::registry::Gemv).
macro_rules! gemv {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(
                /// The kernel of that file; see [`Gemv`](crate::registry::Gemv).
                ///
                /// # Safety
                /// As for every [`Gemv`](crate::registry::Gemv).
                pub fn $name(
                    weights: *const u8,
                    groups: usize,
                    records: usize,
                    activations: *const u8,
                    out: *mut f32,
                );
            )*
        }
    };
}

gemv! {
    gemv_q4_0_neon
    gemv_q4_1_neon
    gemv_q5_0_neon
    gemv_q8_0_neon
    gemv_q4_k_neon
    gemv_q5_k_neon
    gemv_q6_k_neon

    gemv_q4_0_neon_dotprod
    gemv_q4_1_neon_dotprod
    gemv_q5_0_neon_dotprod
    gemv_q8_0_neon_dotprod
    gemv_q4_k_neon_dotprod
    gemv_q5_k_neon_dotprod
    gemv_q6_k_neon_dotprod
    gemv_q5_1_neon_dotprod
    gemv_iq4_nl_neon_dotprod
    gemv_q2_k_neon_dotprod
    gemv_q3_k_neon_dotprod
    gemv_tq2_0_neon_dotprod

    gemv_q4_0_neon_dotprod_cortex_a55
    gemv_q4_1_neon_dotprod_cortex_a55
    gemv_q5_0_neon_dotprod_cortex_a55
    gemv_q8_0_neon_dotprod_cortex_a55
    gemv_q4_k_neon_dotprod_cortex_a55
    gemv_q5_k_neon_dotprod_cortex_a55
    gemv_q6_k_neon_dotprod_cortex_a55
    gemv_q5_1_neon_dotprod_cortex_a55
    gemv_iq4_nl_neon_dotprod_cortex_a55
}

/// Declares kernels with the signature and the contract of [`Gemm`](crate::registry::Gemm).
macro_rules! gemm {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(
                /// The kernel of that file; see [`Gemm`](crate::registry::Gemm).
                ///
                /// # Safety
                /// As for every [`Gemm`](crate::registry::Gemm).
                pub fn $name(
                    weights: *const u8,
                    groups: usize,
                    records: usize,
                    activations: *const u8,
                    activation_stride: usize,
                    tokens: usize,
                    out: *mut f32,
                    out_stride: usize,
                );
            )*
        }
    };
}

gemm! {
    gemm_q4_0_neon_dotprod
    gemm_q4_1_neon_dotprod
    gemm_q5_0_neon_dotprod
    gemm_q8_0_neon_dotprod
    gemm_q4_k_neon_dotprod
    gemm_q5_k_neon_dotprod
    gemm_q6_k_neon_dotprod

    gemm_q4_0_neon_i8mm
    gemm_q4_1_neon_i8mm
    gemm_q8_0_neon_i8mm
    gemm_q4_k_neon_i8mm
    gemm_q5_k_neon_i8mm
}
