//! Holds the quantisers to the records that the GEMVs are checked with.
//!
//! What they must round to is for `tests/vector` to check, and that all tiers agree for `vector`. Here
//! it is the contract between the two: the sums fit the digits, and no digit is -128.
#![allow(unsafe_code)] // calls tiers that the caller may

use crate::inputs::Activations;
use crate::options::Options;
use crate::vector::CASES;
use kernels_asm::activation::ActivationFormat;
use kernels_asm::samples::Rng;
use kernels_asm::vector::VectorOps;

/// Values of one vector: blocks of either kind, whole.
const LEN: usize = 1024;

/// What the greatest values of vectors are near.
const MAGNITUDES: [f32; 4] = [0.0, 1e-30, 1.0, 1e30];

/// Checks the quantisers of a tier that this CPU can run; returns how many vectors they passed.
pub fn check(operations: &VectorOps, options: &Options) -> Result<usize, String> {
    let formats = [
        (ActivationFormat::Per32, operations.quantize_per_32),
        (ActivationFormat::Per256, operations.quantize_per_256),
    ];
    let mut rng = Rng(options.seed);
    let cases = (0..options.rounds * CASES).step_by(options.every);
    let count = cases.len();
    for case in cases {
        let (format, quantize) = formats[case % 2];
        let magnitude = MAGNITUDES[case / 2 % 4];
        let value = |_| magnitude * (rng.bits() as i32) as f32 / i32::MAX as f32;
        let x: Vec<f32> = (0..LEN).map(value).collect();
        let mut records = vec![0xff; format.bytes(LEN)];
        // SAFETY: the caller runs tiers of this CPU only.
        unsafe { quantize(&x, &mut records) };
        let digits = Activations::from_records(format, &records);
        if digits.quants.contains(&-128) || digits.records(format) != records {
            return Err(format!("{format:?} records of values up to {magnitude:e}"));
        }
    }
    Ok(count)
}
