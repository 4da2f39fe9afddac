//! GEMV of F32: the chains are [`run_floats`](GemvArguments::run_floats).

use super::GemvArguments;
use crate::pack::float;

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// As for every [`Gemv`](crate::registry::Gemv).
pub unsafe extern "C" fn gemv_f32(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    // SAFETY: the caller keeps the contract of `Gemv`, with the record sizes of this format.
    unsafe { GemvArguments::new(weights, groups, records, activations, out) }
        .run_floats(float::f32);
}
