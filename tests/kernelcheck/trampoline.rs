//! Calls a kernel with junk in every register that it may not rely on, and checks that those that
//! it must preserve come back.
#![allow(unsafe_code)] // assembly around a call through a pointer

use kernels_asm::registry::{Gemm, Gemv};

// kernelcheck_call(kernel, arguments) -> bit set of what was lost, in the order of PRESERVED.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(include_str!("trampoline_x86_64.S"));
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(include_str!("trampoline_aarch64.S"), options(raw));

/// What the calling convention has a function preserve.
#[cfg(target_arch = "x86_64")]
const PRESERVED: &[&str] = &[
    "rbx",
    "rbp",
    "r12",
    "r13",
    "r14",
    "r15",
    "stack",
    "direction flag",
    "mxcsr",
];
#[cfg(target_arch = "aarch64")]
const PRESERVED: &[&str] = &[
    "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "d8", "d9", "d10", "d11",
    "d12", "d13", "d14", "d15", "stack", "fpcr",
];

/// What a kernel finds where it has no argument.
const JUNK: usize = 0x6b65_726e_656c_0000;

unsafe extern "C" {
    fn kernelcheck_call(kernel: *const (), arguments: &[usize; 8]) -> u32;
}

/// Calls a GEMV and names the state that it failed to preserve.
///
/// # Safety
/// As for [`Gemv`].
pub unsafe fn call_gemv(
    kernel: Gemv,
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) -> Result<(), String> {
    let [weights, activations, out] = [weights as usize, activations as usize, out as usize];
    let arguments = [weights, groups, records, activations, out, JUNK, JUNK, JUNK];
    // SAFETY: the trampoline passes the arguments on; the caller keeps the contract of `Gemv`.
    lost(unsafe { kernelcheck_call(kernel as *const (), &arguments) })
}

/// Calls a GEMM and names the state that it failed to preserve.
///
/// # Safety
/// As for [`Gemm`].
#[allow(clippy::too_many_arguments)] // as the type has them
pub unsafe fn call_gemm(
    kernel: Gemm,
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    activation_stride: usize,
    tokens: usize,
    out: *mut f32,
    out_stride: usize,
) -> Result<(), String> {
    let arguments = [
        weights as usize,
        groups,
        records,
        activations as usize,
        activation_stride,
        tokens,
        out as usize,
        out_stride,
    ];
    // SAFETY: the trampoline passes the arguments on; the caller keeps the contract of `Gemm`.
    lost(unsafe { kernelcheck_call(kernel as *const (), &arguments) })
}

fn lost(bits: u32) -> Result<(), String> {
    let lost: Vec<&str> = (0..)
        .zip(PRESERVED)
        .filter(|(bit, _)| bits >> bit & 1 == 1)
        .map(|(_, name)| *name)
        .collect();
    if lost.is_empty() {
        Ok(())
    } else {
        Err(format!("not preserved: {}", lost.join(", ")))
    }
}
