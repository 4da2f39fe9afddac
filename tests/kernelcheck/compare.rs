//! One kernel against the reference of its format, on one input, bit for bit.
#![allow(unsafe_code)] // calls kernels, as their contract allows

use crate::guard::{Guarded, Place};
use crate::inputs::{Activations, Integers, Rng, Scales, gguf_blocks};
use crate::trampoline;
use kernels_asm::format::WeightFormat;
use kernels_asm::pack::pack_group;
use kernels_asm::registry::Gemv;

/// What the input of a comparison is.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The weights' integers and scales.
    pub weights: (Integers, Scales),
    /// The activations' integers and scales.
    pub activations: (Integers, Scales),
    /// Groups of eight rows.
    pub groups: usize,
    /// Records in a row.
    pub records: usize,
    /// Rows of the last group; the others of it are filled up.
    pub last_rows: usize,
    /// Where weights, activations and output lie.
    pub places: [Place; 3],
    /// Seed of the generator.
    pub seed: u64,
}

impl Case {
    /// A case of these kinds, the rest at random.
    pub fn random(
        rng: &mut Rng,
        weights: (Integers, Scales),
        activations: (Integers, Scales),
    ) -> Self {
        // Mostly short rows, where the ends are; some as long as a model's.
        let records = rng.pick(&[1, 2, 3, 3, 4, 5, 8, 22]);
        let groups = 1 + rng.below(7);
        let some = 1 + rng.below(8);
        let last_rows = rng.pick(&[some, 8]);
        Self {
            weights,
            activations,
            groups,
            records,
            last_rows,
            places: [place(rng), place(rng), floats(place(rng))],
            seed: rng.bits(),
        }
    }
}

/// Runs both and compares; the error says what differs.
pub fn compare(
    format: WeightFormat,
    reference: Gemv,
    kernel: Gemv,
    case: &Case,
) -> Result<(), String> {
    let mut rng = Rng(case.seed);
    let columns = case.records * format.block_len();
    let mut packed = vec![0; case.groups * format.group_bytes(columns)];
    let groups = packed.chunks_exact_mut(format.group_bytes(columns));
    for (index, group) in groups.enumerate() {
        let (integers, scales) = case.weights;
        let rows: [Vec<u8>; 8] =
            std::array::from_fn(|_| gguf_blocks(&mut rng, format, case.records, integers, scales));
        let count = if index + 1 == case.groups {
            case.last_rows
        } else {
            8
        };
        let row = |r: usize| rows[..count].get(r).map(Vec::as_slice);
        pack_group(format, std::array::from_fn(row), columns, group);
    }
    let (integers, scales) = case.activations;
    let activations = Activations::new(&mut rng, format.activation(), columns, integers, scales);
    let activations = activations.records(format.activation());

    let run = |gemv: Gemv| -> Result<Guarded, String> {
        let weights = Guarded::read_only(&packed, case.places[0]);
        let activations = Guarded::read_only(&activations, case.places[1]);
        let out = Guarded::new(32 * case.groups, case.places[2]);
        let (weights, activations) = (weights.address(), activations.address());
        // SAFETY: the caller runs only kernels that this CPU has the features for, and the
        // buffers are as long as `groups` and `records` make them.
        unsafe {
            let out = out.address().cast();
            trampoline::call(gemv, weights, case.groups, case.records, activations, out)?;
        }
        if out.is_intact() {
            Ok(out)
        } else {
            Err("wrote outside of its output".into())
        }
    };
    let (expected, found) = (run(reference)?, run(kernel)?);
    let floats = |buffer: &Guarded| -> Vec<f32> {
        let (floats, _) = buffer.bytes().as_chunks();
        floats
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect()
    };
    for (i, (expected, found)) in floats(&expected)
        .into_iter()
        .zip(floats(&found))
        .enumerate()
    {
        if expected.to_bits() != found.to_bits() {
            return Err(format!(
                "out[{i}] is {found:e}, the reference has {expected:e}"
            ));
        }
        if !expected.is_finite() {
            return Err(format!(
                "out[{i}] is {expected:e}: the inputs were to prevent that"
            ));
        }
    }
    Ok(())
}

/// Directly at an unmapped page half the time, at some distance with any alignment else.
fn place(rng: &mut Rng) -> Place {
    let distance = rng.pick(&[0, 1]) * rng.below(32);
    match rng.below(2) {
        0 => Place::Front(distance),
        _ => Place::Back(distance),
    }
}

/// The nearest place at which floats are aligned.
fn floats(place: Place) -> Place {
    match place {
        Place::Front(distance) => Place::Front(distance & !3),
        Place::Back(distance) => Place::Back(distance & !3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels_asm::reference::gemv_q8_0;

    /// The reference, and one float too many.
    unsafe extern "C" fn too_much(
        weights: *const u8,
        groups: usize,
        records: usize,
        activations: *const u8,
        out: *mut f32,
    ) {
        // SAFETY: the contract of the reference; behind `out` the test has room.
        unsafe {
            gemv_q8_0(weights, groups, records, activations, out);
            out.add(8 * groups).write(0.0);
        }
    }

    /// The reference, with the last bit of the last result flipped.
    unsafe extern "C" fn off_by_a_bit(
        weights: *const u8,
        groups: usize,
        records: usize,
        activations: *const u8,
        out: *mut f32,
    ) {
        // SAFETY: the contract of the reference, which `out` is written by that contract, too.
        unsafe {
            gemv_q8_0(weights, groups, records, activations, out);
            let last = out.add(8 * groups - 1);
            last.write(f32::from_bits(last.read().to_bits() ^ 1));
        }
    }

    #[test]
    fn kernel_that_writes_or_computes_wrongly_is_told_so() {
        let kinds = (Integers::Random, Scales::Ordinary);
        let case = Case {
            last_rows: 8,
            places: [Place::Front(3), Place::Back(0), Place::Back(16)],
            ..Case::random(&mut Rng(1), kinds, kinds)
        };
        let format = WeightFormat::Q8_0;
        let against = |kernel| compare(format, gemv_q8_0, kernel, &case);
        assert_eq!(against(gemv_q8_0), Ok(()));
        assert_eq!(against(too_much), Err("wrote outside of its output".into()));
        let error = against(off_by_a_bit).unwrap_err();
        assert!(error.contains("the reference has"), "{error}");
    }
}
