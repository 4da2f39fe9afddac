//! A matrix times one vector, or several.

use super::{SEED, Stopped, bits, compare, compare_known};
use crate::arena::{ArenaError, Columns, Forward, Open, Region};
use kernels_asm::format::WeightFormat;
use kernels_asm::pack::pack_group;
use kernels_asm::registry::Kernels;
use kernels_asm::samples::{Integers, Rng, Scales, fill_blocks};
use xxhash_rust::xxh64::Xxh64;

/// XXH64 (seed 0) of the bits of all results of the reference, little-endian, in the order of the
/// cases; by the order of [`WeightFormat::ALL`]. `rushlight selftest` tells one that is another.
#[rustfmt::skip] // a table
const KNOWN: [u64; WeightFormat::ALL.len()] = [
    0xeb08_8084_9ef8_c138, 0xc1e4_f581_03e7_329e,
    0xdcd2_1761_ad7f_687c, 0x754b_19f6_16e4_6a36,
    0xc604_eb31_9283_0d3f, 0xf1d1_9cc0_71aa_2fc5,
    0xe6f4_eb9a_e462_f98b, 0x11d6_31a4_16ad_0081,
    0x8c4a_4a5f_a9a6_06c4, 0x252f_0e6a_373f_d8ec,
    0x6cda_c4b2_1ff6_f483, 0x3b33_1b0b_0b90_bbf1,
    0x4e31_d365_e0cf_7eb0, 0x353e_da37_77af_b23a,
    0x7420_6073_c6f6_ddae, 0x13c5_2916_2bfa_f8d1,
];

/// A matrix and vectors, as the kernels read them.
struct Input<'s> {
    columns: usize,
    /// Rows with those that fill up the last group.
    rows: usize,
    weights: &'s [u8],
    activations: &'s [u8],
    vectors: usize,
}

/// Compares the second with the first, which is the reference; and that one with what is known, if
/// it is meant itself.
pub fn check(
    format: WeightFormat,
    [reference, kernel]: [&Kernels; 2],
    vectors: &[usize],
    is_reference: bool,
    scope: &mut Region<'_, Forward>,
) -> Result<(), Stopped> {
    let mut rng = Rng(SEED);
    let mut hash = Xxh64::new(0);
    for (case, kind) in kinds().enumerate() {
        let scratch = scope.open();
        let input = Input::new(format, &mut rng, kind, vectors, reference, &scratch)?;
        let expected = input.product(format, reference, &scratch)?;
        if is_reference {
            expected
                .iter()
                .for_each(|bits| hash.update(&bits.to_le_bytes()));
            continue; // with nothing else to be compared with
        }
        let found = input.product(format, kernel, &scratch)?;
        compare(format.name(), case, expected, found)?;
    }
    match is_reference {
        true => Ok(compare_known(
            format.name(),
            hash.digest(),
            KNOWN[format as usize],
        )?),
        false => Ok(()),
    }
}

/// Every kind of weights, with kinds of activations in turns.
fn kinds() -> impl Iterator<Item = [(Integers, Scales); 2]> {
    let all = || {
        let scales = |integers| Scales::ALL.map(|scales| (integers, scales));
        Integers::ALL.into_iter().flat_map(scales)
    };
    // Three and twenty have no common divisor, so the kinds of one meet others each time.
    all()
        .zip(all().cycle().step_by(3))
        .map(|(weights, activations)| [weights, activations])
}

impl<'s> Input<'s> {
    fn new(
        format: WeightFormat,
        rng: &mut Rng,
        [weights, activations]: [(Integers, Scales); 2],
        vectors: &[usize],
        reference: &Kernels,
        scratch: &Open<'s, Forward>,
    ) -> Result<Self, ArenaError> {
        let columns = rng.pick(&[1, 2, 3, 5]) * format.block_len();
        let (groups, last_rows) = (1 + rng.below(3), 1 + rng.below(8));
        let vectors = rng.pick(vectors);
        let (row_bytes, group_bytes) = (format.row_bytes(columns), format.group_bytes(columns));
        let blocks = scratch.alloc::<u8>(8 * row_bytes)?;
        let packed = scratch.alloc::<u8>(groups * group_bytes)?;
        for (index, group) in packed.chunks_exact_mut(group_bytes).enumerate() {
            fill_blocks(rng, format, weights.0, weights.1, blocks);
            let rows = if index + 1 == groups { last_rows } else { 8 };
            let mut rows = blocks.chunks_exact(row_bytes).take(rows);
            pack_group(
                format,
                core::array::from_fn(|_| rows.next()),
                columns,
                group,
            );
        }
        let kind = format.activation();
        let floats = scratch.alloc::<f32>(columns)?;
        let records = scratch.alloc::<u8>(vectors * kind.bytes(columns))?;
        for vector in records.chunks_exact_mut(kind.bytes(columns)) {
            for block in floats.chunks_exact_mut(8) {
                let scale = activations.1.f32(rng);
                block.fill_with(|| scale * f32::from(activations.0.byte(rng, 0x81, 0x7f) as i8));
            }
            reference.quantize(kind, floats, vector);
        }
        Ok(Input {
            columns,
            rows: 8 * groups,
            weights: packed,
            activations: records,
            vectors,
        })
    }

    /// The bits of the products, vector by vector.
    fn product(
        &self,
        format: WeightFormat,
        kernels: &Kernels,
        scratch: &Open<'s, Forward>,
    ) -> Result<&'s [u32], ArenaError> {
        let out = scratch.alloc::<f32>(self.vectors * self.rows)?;
        let columns = Columns::new(out, self.rows, self.rows);
        if let Some(mut all) = columns.claim() {
            let block = all.block(self.vectors);
            kernels.gemm(format, self.weights, self.columns, self.activations, block);
        }
        let product = scratch.alloc::<u32>(out.len())?;
        for (bits_of, &value) in product.iter_mut().zip(&*out) {
            *bits_of = bits(value);
        }
        Ok(product)
    }
}
