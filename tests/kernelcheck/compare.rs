//! One kernel against the reference of its format, on one input, bit for bit.
#![allow(unsafe_code)] // calls kernels, as their contract allows

use crate::guard::{Guarded, Place};
use crate::inputs::{Activations, gguf_blocks};
use crate::trampoline;
use kernels_asm::format::WeightFormat;
use kernels_asm::pack::pack_group;
use kernels_asm::registry::{Gemm, Gemv};
use kernels_asm::samples::{Integers, Rng, Scales};

/// What the input of a comparison is: a matrix, and a vector or several.
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

/// The vectors of a GEMM, and what lies between them.
#[derive(Clone, Copy, Debug)]
pub struct Vectors {
    /// How many.
    pub tokens: usize,
    /// Bytes between the records of two of them.
    pub activation_gap: usize,
    /// Floats between the results of two of them.
    pub out_gap: usize,
}

impl Vectors {
    /// A number around that of a kernel's tile, any gaps.
    pub fn random(rng: &mut Rng) -> Self {
        Self {
            tokens: rng.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 13, 16, 23, 67]),
            activation_gap: rng.pick(&[0, 0, 1, 16, 51]),
            out_gap: rng.pick(&[0, 0, 1, 8, 27]),
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
    let packed = weights(&mut rng, format, case);
    let activations = activations(&mut rng, format, case);
    let expected = product(reference, &packed, &activations, case)?;
    let found = product(kernel, &packed, &activations, case)?;
    equal(expected.bytes(), found.bytes())
}

/// Runs a GEMM, and the reference for each of its vectors.
pub fn compare_several(
    format: WeightFormat,
    reference: Gemv,
    kernel: Gemm,
    case: &Case,
    vectors: &Vectors,
) -> Result<(), String> {
    let mut rng = Rng(case.seed);
    let packed = weights(&mut rng, format, case);
    let columns = case.records * format.block_len();
    let record_bytes = format.activation().bytes(columns);
    let activation_stride = record_bytes + vectors.activation_gap;
    let out_stride = 8 * case.groups + vectors.out_gap;
    let last = vectors.tokens - 1;

    let out = Guarded::new(4 * (last * out_stride + 8 * case.groups), case.places[2]);
    // Everything starts out as canaries; the gaps are to end so.
    let mut expected = out.bytes().to_vec();
    let mut records = vec![0x5a; last * activation_stride + record_bytes];
    for token in 0..vectors.tokens {
        let activations = activations(&mut rng, format, case);
        records[token * activation_stride..][..record_bytes].copy_from_slice(&activations);
        let product = product(reference, &packed, &activations, case)?;
        expected[4 * token * out_stride..][..32 * case.groups].copy_from_slice(product.bytes());
    }
    let weights = Guarded::read_only(&packed, case.places[0]);
    let records = Guarded::read_only(&records, case.places[1]);
    // SAFETY: the caller runs only kernels that this CPU has the features for, and the buffers
    // are as long as the numbers and the strides make them.
    unsafe {
        trampoline::call_gemm(
            kernel,
            weights.address(),
            case.groups,
            case.records,
            records.address(),
            activation_stride,
            vectors.tokens,
            out.address().cast(),
            out_stride,
        )?;
    }
    if !out.is_intact() {
        return Err("wrote outside of its output".into());
    }
    for (token, found) in out.bytes().chunks(4 * out_stride).enumerate() {
        let expected = &expected[4 * token * out_stride..][..found.len()];
        let (found, found_gap) = found.split_at(32 * case.groups);
        let (expected, expected_gap) = expected.split_at(32 * case.groups);
        equal(expected, found).map_err(|error| format!("vector {token}: {error}"))?;
        if found_gap != expected_gap {
            return Err(format!("wrote behind the results of vector {token}"));
        }
    }
    Ok(())
}

/// A packed matrix.
fn weights(rng: &mut Rng, format: WeightFormat, case: &Case) -> Vec<u8> {
    let columns = case.records * format.block_len();
    let (integers, scales) = case.weights;
    let mut packed = vec![0; case.groups * format.group_bytes(columns)];
    let groups = packed.chunks_exact_mut(format.group_bytes(columns));
    for (index, group) in groups.enumerate() {
        let rows: [Vec<u8>; 8] =
            std::array::from_fn(|_| gguf_blocks(rng, format, case.records, integers, scales));
        let count = if index + 1 == case.groups {
            case.last_rows
        } else {
            8
        };
        let row = |r: usize| rows[..count].get(r).map(Vec::as_slice);
        pack_group(format, std::array::from_fn(row), columns, group);
    }
    packed
}

/// The records of a vector.
fn activations(rng: &mut Rng, format: WeightFormat, case: &Case) -> Vec<u8> {
    let (integers, scales) = case.activations;
    let columns = case.records * format.block_len();
    let activations = Activations::new(rng, format.activation(), columns, integers, scales);
    activations.records(format.activation())
}

/// What a GEMV makes of buffers that stand where the case says.
fn product(gemv: Gemv, weights: &[u8], activations: &[u8], case: &Case) -> Result<Guarded, String> {
    let weights = Guarded::read_only(weights, case.places[0]);
    let activations = Guarded::read_only(activations, case.places[1]);
    let out = Guarded::new(32 * case.groups, case.places[2]);
    let (weights, activations) = (weights.address(), activations.address());
    // SAFETY: the caller runs only kernels that this CPU has the features for, and the buffers
    // are as long as `groups` and `records` make them.
    unsafe {
        let out = out.address().cast();
        trampoline::call_gemv(gemv, weights, case.groups, case.records, activations, out)?;
    }
    if out.is_intact() {
        Ok(out)
    } else {
        Err("wrote outside of its output".into())
    }
}

/// Compares floats bit by bit.
fn equal(expected: &[u8], found: &[u8]) -> Result<(), String> {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let (floats, _) = bytes.as_chunks();
        floats
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect()
    };
    for (i, (expected, found)) in floats(expected).into_iter().zip(floats(found)).enumerate() {
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

    /// A GEMM of the reference, with a float more for each vector if `EXTRA` is not 0.
    #[allow(clippy::too_many_arguments)]
    unsafe extern "C" fn looped<const EXTRA: usize>(
        weights: *const u8,
        groups: usize,
        records: usize,
        activations: *const u8,
        activation_stride: usize,
        tokens: usize,
        out: *mut f32,
        out_stride: usize,
    ) {
        for token in 0..tokens {
            // SAFETY: the caller vouches for these vectors and, where there is one, for a gap.
            unsafe {
                let activations = activations.add(token * activation_stride);
                let out = out.add(token * out_stride);
                gemv_q8_0(weights, groups, records, activations, out);
                if EXTRA > 0 && token + 1 < tokens {
                    *out.add(8 * groups) = 0.0;
                }
            }
        }
    }

    fn check(kernel: Gemm) -> Result<(), String> {
        let mut rng = Rng(1);
        let kinds = (Integers::Random, Scales::Ordinary);
        let vectors = Vectors {
            tokens: 5,
            activation_gap: 3,
            out_gap: 1,
        };
        let case = Case::random(&mut rng, kinds, kinds);
        compare_several(WeightFormat::Q8_0, gemv_q8_0, kernel, &case, &vectors)
    }

    #[test]
    fn gemm_that_loops_over_the_reference_is_accepted() {
        assert_eq!(check(looped::<0>), Ok(()));
    }

    #[test]
    fn gemm_that_writes_between_its_results_is_refused() {
        let error = check(looped::<1>).unwrap_err();
        assert!(error.contains("behind the results of vector 0"), "{error}");
    }
}
