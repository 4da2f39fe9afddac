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
    /// Where the buffers lie.
    pub place: Place,
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
        // A float needs its alignment; the distance is for the other buffers' sake.
        let distance = rng.below(32);
        let place = if rng.below(2) == 0 {
            Place::Front(distance)
        } else {
            Place::Back(distance)
        };
        let groups = 1 + rng.below(7);
        Self {
            weights,
            activations,
            groups,
            records,
            place,
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
    for group in packed.chunks_exact_mut(format.group_bytes(columns)) {
        let (integers, scales) = case.weights;
        let rows: [Vec<u8>; 8] =
            std::array::from_fn(|_| gguf_blocks(&mut rng, format, case.records, integers, scales));
        pack_group(
            format,
            rows.each_ref().map(|row| Some(row.as_slice())),
            columns,
            group,
        );
    }
    let (integers, scales) = case.activations;
    let activations = Activations::new(&mut rng, format.activation(), columns, integers, scales);
    let activations = activations.records(format.activation());

    let run = |gemv: Gemv| -> Result<Guarded, String> {
        let weights = Guarded::read_only(&packed, case.place);
        let activations = Guarded::read_only(&activations, case.place);
        let out = Guarded::new(32 * case.groups, floats(case.place));
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

/// The nearest place at which floats are aligned.
fn floats(place: Place) -> Place {
    match place {
        Place::Front(distance) => Place::Front(distance & !3),
        Place::Back(distance) => Place::Back(distance & !3),
    }
}
