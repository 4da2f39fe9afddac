//! The float operations of a tier.
//!
//! What all of them use is kept from standing in the program once for each (`inline(never)`): it
//! runs but a few times.

use super::{SEED, Stopped, bits, compare, compare_known};
use crate::arena::{ArenaError, Forward, Open, Region};
use kernels_asm::activation::ActivationFormat::{self, Per32, Per256};
use kernels_asm::half::f32_to_f16;
use kernels_asm::registry::Kernels;
use kernels_asm::samples::{Rng, Values};
use kernels_asm::vector::{KvView, Q8Tile, score_stride};
use xxhash_rust::xxh64::Xxh64;

/// Cases of an operation.
const CASES: usize = 64;

/// The bits of a result.
type Bits<'s> = Result<&'s [u32], ArenaError>;

/// An operation on two rows that writes a third.
type IntoThird<'r> = &'r dyn Fn(&[f32], &[f32], &mut [f32]);

/// A tier's scores over a kind of cache.
type Score<'r, T> = &'r dyn Fn(KvView<'_, T>, &[f32], &mut [f32]);

/// A tier's weighted sums over a kind of cache.
type Weigh<'r, T> = &'r dyn Fn(KvView<'_, T>, &[f32], usize, &mut [f32]);

/// An operation: its name, a run of it on some input, and the XXH64 (seed 0) of the bits of the
/// reference's results, little-endian, in the order of the cases. `rushlight selftest` tells one that
/// is another.
type Operation = (
    &'static str,
    for<'s> fn(&Kernels, &mut Input<'_, 's>) -> Bits<'s>,
    u64,
);

#[rustfmt::skip] // a table
static OPERATIONS: [Operation; 18] = [
    ("rms_norm", |k, i| i.into(&|x, y, out| k.rms_norm(x, y, 1e-5, out)), 0x2482_ad20_19bf_acfb),
    ("rms_norm_in_place", |k, i| i.with(&|x, y| k.rms_norm_in_place(x, y, 1e-5)), 0x2482_ad20_19bf_acfb),
    ("rope", |k, i| i.heads(&|x, table| k.rope(x, table)), 0xe334_b1c5_921d_7487),
    ("rope_halves", |k, i| i.heads(&|x, table| k.rope_halves(x, table)), 0xa26a_f226_2ebd_c7b6),
    ("silu_mul", |k, i| i.with(&|gate, up| k.silu_mul(gate, up)), 0x4bd5_b3c3_f9bc_e091),
    ("gelu_mul", |k, i| i.with(&|gate, up| k.gelu_mul(gate, up)), 0xb1ff_c0a0_0050_65d6),
    ("soft_cap", |k, i| i.with(&|x, _| k.soft_cap(x, 30.0)), 0x71ce_2f8a_5fd1_0dfd),
    ("add", |k, i| i.with(&|x, y| k.add(x, y)), 0xae74_f876_c380_8e5d),
    ("softmax", |k, i| i.with(&|x, _| k.softmax(x)), 0x29d2_39f4_d7eb_c5e0),
    ("quantize_per_32", |k, i| quantize(k, i, Per32), 0xc799_57f2_71b7_be66),
    ("quantize_per_256", |k, i| quantize(k, i, Per256), 0x5029_5bb0_9aad_30d9),
    ("score_f32", |k, i| score(i, &|keys, q, out| k.score_f32(keys, q, 0.125, out)), 0x6a4f_8fca_87d5_396b),
    ("score_f16", |k, i| score(i, &|keys, q, out| k.score_f16(keys, q, 0.125, out)), 0x05a7_0c8f_9bc1_4f66),
    ("score_q8_0", |k, i| score(i, &|keys, q, out| k.score_q8_0(keys, q, 0.125, out)), 0x54ad_3e62_aeb8_8bb4),
    ("weigh_f32", |k, i| weigh(i, &|values, w, s, out| k.weigh_f32(values, w, s, out)), 0x8501_819c_7895_64b7),
    ("weigh_f16", |k, i| weigh(i, &|values, w, s, out| k.weigh_f16(values, w, s, out)), 0xfb0d_996a_d3e5_27f7),
    ("weigh_q8_0", |k, i| weigh(i, &|values, w, s, out| k.weigh_q8_0(values, w, s, out)), 0xfd07_ea34_d942_f230),
    ("to_f16", |k, i| to_f16(k, i), 0x068c_c8f3_0584_6baf),
];

/// Compares the second with the first, which is the reference; and that one with what is known, if
/// it is meant itself.
pub fn check(
    [reference, tier]: [&Kernels; 2],
    is_reference: bool,
    scope: &mut Region<'_, Forward>,
) -> Result<(), Stopped> {
    for &(name, run, known) in &OPERATIONS {
        let mut hash = Xxh64::new(0);
        for case in 0..CASES {
            let scratch = scope.open();
            let expected = run(reference, &mut Input::new(case, &scratch))?;
            if is_reference {
                expected
                    .iter()
                    .for_each(|bits| hash.update(&bits.to_le_bytes()));
                continue; // with nothing else to be compared with
            }
            let found = run(tier, &mut Input::new(case, &scratch))?;
            compare(name, case, expected, found)?;
        }
        if is_reference {
            compare_known(name, hash.digest(), known)?;
        }
    }
    Ok(())
}

/// Where a case takes its sizes and values from.
struct Input<'o, 's> {
    kind: Values,
    rng: Rng,
    scratch: &'o Open<'s, Forward>,
}

impl<'s> Input<'_, 's> {
    fn new<'o>(case: usize, scratch: &'o Open<'s, Forward>) -> Input<'o, 's> {
        Input {
            kind: Values::ALL[case % Values::ALL.len()],
            rng: Rng(SEED + case as u64),
            scratch,
        }
    }

    /// One of so many.
    fn count(&mut self, most: usize) -> usize {
        1 + self.rng.below(most)
    }

    #[inline(never)]
    fn floats(&mut self, len: usize) -> Result<&'s mut [f32], ArenaError> {
        let floats = self.scratch.alloc::<f32>(len)?;
        floats.fill_with(|| self.kind.f32(&mut self.rng));
        Ok(floats)
    }

    /// Of whatever can be told in 32 bits.
    fn result<T: Copy>(&self, values: &[T], bits: impl Fn(T) -> u32) -> Bits<'s> {
        let result = self.scratch.alloc::<u32>(values.len())?;
        for (result, &value) in result.iter_mut().zip(values) {
            *result = bits(value);
        }
        Ok(result)
    }

    /// An operation on two rows that writes a third.
    #[inline(never)]
    fn into(&mut self, run: IntoThird<'_>) -> Bits<'s> {
        let len = 8 * self.count(40);
        let (x, y, out) = (
            self.floats(len)?,
            self.floats(len)?,
            self.scratch.alloc(len)?,
        );
        run(x, y, out);
        self.result(out, bits)
    }

    /// An operation on a row, with another one.
    #[inline(never)]
    fn with(&mut self, run: &dyn Fn(&mut [f32], &[f32])) -> Bits<'s> {
        let len = 8 * self.count(40);
        let (x, y) = (self.floats(len)?, self.floats(len)?);
        run(x, y);
        self.result(x, bits)
    }

    /// An operation on heads, with a table of angles.
    #[inline(never)]
    fn heads(&mut self, run: &dyn Fn(&mut [f32], &[f32])) -> Bits<'s> {
        let (dim, heads) = (16 * self.count(8), self.count(5));
        let (x, table) = (self.floats(heads * dim)?, self.floats(dim)?);
        run(x, table);
        self.result(x, bits)
    }
}

#[inline(never)]
fn quantize<'s>(
    kernels: &Kernels,
    input: &mut Input<'_, 's>,
    format: ActivationFormat,
) -> Bits<'s> {
    let len = format.block_len() * input.count(3);
    let (x, out) = (
        input.floats(len)?,
        input.scratch.alloc::<u8>(format.bytes(len))?,
    );
    // Of a block with a NaN or an infinity nothing is left.
    for x in x.iter_mut().filter(|x| !x.is_finite()) {
        *x = 1.0;
    }
    kernels.quantize(format, x, out);
    input.result(out, u32::from)
}

fn to_f16<'s>(kernels: &Kernels, input: &mut Input<'_, 's>) -> Bits<'s> {
    let len = input.count(100);
    let (x, out) = (input.floats(len)?, input.scratch.alloc::<u16>(len)?);
    kernels.to_f16(x, out);
    let is_nan = |half: u16| half & 0x7fff > 0x7c00;
    input.result(out, |half| if is_nan(half) { 0x7e00 } else { half.into() })
}

/// How keys and values are stored.
trait Cached: crate::arena::Number {
    /// Positions and dimensions of one.
    const SHAPE: [usize; 2];

    fn random(input: &mut Input<'_, '_>) -> Self;
}

impl Cached for f32 {
    const SHAPE: [usize; 2] = [1, 1];

    fn random(input: &mut Input<'_, '_>) -> Self {
        input.kind.f32(&mut input.rng)
    }
}

impl Cached for u16 {
    const SHAPE: [usize; 2] = [1, 1];

    fn random(input: &mut Input<'_, '_>) -> Self {
        f32_to_f16(f32::random(input))
    }
}

impl Cached for Q8Tile {
    const SHAPE: [usize; 2] = [8, 32];

    fn random(input: &mut Input<'_, '_>) -> Self {
        let scales = core::array::from_fn(|_| f32_to_f16(f32::random(input) / 127.0));
        let digits = core::array::from_fn(|_| input.rng.bits().to_le_bytes().map(|q| q as i8));
        Q8Tile { scales, digits }
    }
}

/// What is attended to, in a cache in which some positions are not, and the number of rows that
/// attend to it.
fn attended<'s, T: Cached>(
    input: &mut Input<'_, 's>,
) -> Result<(KvView<'s, T>, usize), ArenaError> {
    let capacity = 8 * input.count(6);
    let len = input.count(capacity);
    let first = input.rng.below(2) * (input.rng.below(len) / 8 * 8);
    let dim = 32 * input.count(3);
    let stored = input
        .scratch
        .alloc::<T>(capacity / T::SHAPE[0] * (dim / T::SHAPE[1]))?;
    stored.fill_with(|| T::random(input));
    let view = KvView {
        stored: &*stored,
        capacity,
        first,
        len,
        dim,
    };
    Ok((view, input.count(9)))
}

#[inline(never)]
fn score<'s, T: Cached>(input: &mut Input<'_, 's>, run: Score<'_, T>) -> Bits<'s> {
    let (keys, rows) = attended::<T>(input)?;
    let queries = input.floats(rows * keys.dim)?;
    let stride = score_stride(keys.count());
    let scores = input.scratch.alloc::<f32>(rows * stride)?;
    run(keys, queries, scores);
    for row in scores.chunks_exact_mut(stride) {
        row[keys.count()..].fill(0.0); // of no meaning
    }
    input.result(scores, bits)
}

#[inline(never)]
fn weigh<'s, T: Cached>(input: &mut Input<'_, 's>, run: Weigh<'_, T>) -> Bits<'s> {
    let (values, rows) = attended::<T>(input)?;
    let stride = score_stride(values.count());
    let weights = input.floats(rows * stride)?;
    let out = input.floats(rows * values.dim)?;
    run(values, weights, stride, out);
    input.result(out, bits)
}
