//! The float operations of a tier against those of the reference, bit for bit.
//!
//! `tests/vector` holds the reference to f64; here it is many sizes and values, in buffers that end
//! at unmapped pages. The calls are Rust's, so no trampoline goes with them.
#![allow(unsafe_code)] // calls tiers that the caller may, and takes guarded bytes as numbers

use crate::guard::{Guarded, Place};
use crate::options::Options;
use kernels_asm::activation::ActivationFormat::{self, Per32, Per256};
use kernels_asm::half::f32_to_f16;
use kernels_asm::samples::{Rng, Values};
use kernels_asm::vector::{KvView, Q8Tile, REFERENCE, VectorOps, score_stride};
use std::marker::PhantomData;

/// An operation: its name, and a run of it on some input, which gives the result as bits. All that
/// is a NaN has the same bits.
pub type Operation = (&'static str, fn(&VectorOps, &mut Input) -> Bits);

/// The bits of a result, or what went wrong.
type Bits = Result<Vec<u32>, String>;

/// Every float operation.
pub const OPERATIONS: [Operation; 18] = [
    ("rms_norm", rms_norm),
    ("rms_norm_in_place", rms_norm_in_place),
    ("rope", |ops, input| rope(ops.rope, 8, input)),
    ("rope_halves", |ops, input| rope(ops.rope_halves, 16, input)),
    ("silu_mul", |ops, input| gate(ops.silu_mul, input)),
    ("gelu_mul", |ops, input| gate(ops.gelu_mul, input)),
    ("soft_cap", soft_cap),
    ("add", add),
    ("softmax", softmax),
    ("quantize_per_32", |ops, input| {
        quantize(ops.quantize_per_32, Per32, input)
    }),
    ("quantize_per_256", |ops, input| {
        quantize(ops.quantize_per_256, Per256, input)
    }),
    ("score_f32", |ops, input| score(ops.score_f32, input)),
    ("score_f16", |ops, input| score(ops.score_f16, input)),
    ("score_q8_0", |ops, input| score(ops.score_q8_0, input)),
    ("weigh_f32", |ops, input| weigh(ops.weigh_f32, input)),
    ("weigh_f16", |ops, input| weigh(ops.weigh_f16, input)),
    ("weigh_q8_0", |ops, input| weigh(ops.weigh_q8_0, input)),
    ("to_f16", to_f16),
];

/// Cases of a round: as many as a GEMV has.
pub const CASES: usize = 400;

/// Compares an operation with the reference; returns how many cases it passed.
pub fn check(
    (_, run): Operation,
    operations: &VectorOps,
    options: &Options,
    set_running: impl Fn(&str),
) -> Result<usize, String> {
    let mut rng = Rng(options.seed);
    let cases = (0..options.rounds * CASES).step_by(options.every);
    let count = cases.len();
    for case in cases {
        let kind = Values::ALL[case % Values::ALL.len()];
        let seed = rng.bits();
        let what = format!("{kind:?} seed {seed}");
        set_running(&what);
        let run = |ops| run(ops, &mut Input::new(kind, seed)).map_err(|e| format!("{e}; {what}"));
        let expected = run(&REFERENCE)?;
        if std::ptr::eq(operations, &REFERENCE) {
            continue; // it kept to its buffers, which is all that there is to see
        }
        let found = run(operations)?;
        if expected.len() != found.len() {
            return Err(format!("{} and {} results", expected.len(), found.len()));
        }
        if let Some(i) = (0..found.len()).find(|&i| expected[i] != found[i]) {
            let (found, expected) = (found[i], expected[i]);
            return Err(format!(
                "result {i} is {found:#010x}, the reference has {expected:#010x}; {what}"
            ));
        }
    }
    Ok(count)
}

/// Where a case takes its sizes and values from.
pub struct Input {
    kind: Values,
    rng: Rng,
}

impl Input {
    fn new(kind: Values, seed: u64) -> Self {
        let rng = Rng(seed);
        Self { kind, rng }
    }

    fn f32(&mut self) -> f32 {
        self.kind.f32(&mut self.rng)
    }

    fn f32s(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.f32()).collect()
    }

    /// A number of items, mostly few; now and then as many as a model has.
    fn count(&mut self, few: usize, many: usize) -> usize {
        match self.rng.below(16) {
            0 => many,
            _ => 1 + self.rng.below(few),
        }
    }

    /// Directly at an unmapped page half the time, at some distance with any alignment else.
    fn place<T>(&mut self) -> Place {
        let distance = self.rng.pick(&[0, 1]) * self.rng.below(16) * align_of::<T>();
        match self.rng.below(2) {
            0 => Place::Front(distance),
            _ => Place::Back(distance),
        }
    }

    /// These numbers, not to be written to.
    fn fixed<T: Copy>(&mut self, values: &[T]) -> Buffer<T> {
        let place = self.place::<T>();
        Buffer(Guarded::read_only(bytes_of(values), place), PhantomData)
    }

    /// These numbers, to be worked on in place.
    fn changed<T: Copy>(&mut self, values: &[T]) -> Buffer<T> {
        let place = self.place::<T>();
        let mut buffer = Guarded::new(size_of_val(values), place);
        buffer.bytes_mut().copy_from_slice(bytes_of(values));
        Buffer(buffer, PhantomData)
    }

    /// Room for a result.
    fn room<T: Copy>(&mut self, len: usize) -> Buffer<T> {
        let place = self.place::<T>();
        Buffer(Guarded::new(len * size_of::<T>(), place), PhantomData)
    }
}

/// Guarded numbers: of a type that has no padding and for which all bits are a value.
struct Buffer<T>(Guarded, PhantomData<T>);

impl<T: Copy> Buffer<T> {
    fn get(&self) -> &[T] {
        let bytes = self.0.bytes();
        // SAFETY: the buffer was made of so many `T`, at a distance from a page that is a multiple
        // of their alignment, and every bit pattern is a `T`.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }

    fn get_mut(&mut self) -> &mut [T] {
        let bytes = self.0.bytes_mut();
        let len = bytes.len() / size_of::<T>();
        // SAFETY: as in `get`, and it is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) }
    }

    /// The result in it, each number by `bits`, if nothing around it was written.
    fn result(&self, bits: impl Fn(T) -> u32) -> Bits {
        if self.0.is_intact() {
            Ok(self.get().iter().map(|&value| bits(value)).collect())
        } else {
            Err("wrote outside of its output".into())
        }
    }
}

fn bytes_of<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: `Buffer` is for types without padding, all of whose bytes have a value.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bits of a float, the same for every NaN: its sign and payload are no one's promise.
fn bits(value: f32) -> u32 {
    if value.is_nan() { f32::NAN } else { value }.to_bits()
}

fn rms_norm(ops: &VectorOps, input: &mut Input) -> Bits {
    let len = 8 * input.count(40, 256);
    let (x, weight) = (input.f32s(len), input.f32s(len));
    let epsilon = input.rng.pick(&[0.0, 1e-6, 1e-5]);
    let (x, weight, mut out) = (input.fixed(&x), input.fixed(&weight), input.room(len));
    // SAFETY: the caller runs tiers of this CPU only, here and below.
    unsafe { (ops.rms_norm)(x.get(), weight.get(), epsilon, out.get_mut()) };
    out.result(bits)
}

fn rms_norm_in_place(ops: &VectorOps, input: &mut Input) -> Bits {
    let len = 8 * input.count(40, 256);
    let (x, weight) = (input.f32s(len), input.f32s(len));
    let epsilon = input.rng.pick(&[0.0, 1e-6, 1e-5]);
    let (mut x, weight) = (input.changed(&x), input.fixed(&weight));
    // SAFETY: as in `rms_norm`.
    unsafe { (ops.rms_norm_in_place)(x.get_mut(), weight.get(), epsilon) };
    x.result(bits)
}

/// Heads are a multiple of `whole`.
fn rope(rope: unsafe fn(&mut [f32], &[f32]), whole: usize, input: &mut Input) -> Bits {
    let dim = whole * input.count(128 / whole, 256 / whole);
    let heads = input.count(9, 36);
    let (x, table) = (input.f32s(heads * dim), input.f32s(dim));
    let (mut x, table) = (input.changed(&x), input.fixed(&table));
    // SAFETY: as in `rms_norm`.
    unsafe { rope(x.get_mut(), table.get()) };
    x.result(bits)
}

fn gate(activate: unsafe fn(&mut [f32], &[f32]), input: &mut Input) -> Bits {
    let len = 8 * input.count(40, 704);
    let (gate, up) = (input.f32s(len), input.f32s(len));
    let (mut gate, up) = (input.changed(&gate), input.fixed(&up));
    // SAFETY: as in `rms_norm`.
    unsafe { activate(gate.get_mut(), up.get()) };
    gate.result(bits)
}

fn soft_cap(ops: &VectorOps, input: &mut Input) -> Bits {
    let len = 8 * input.count(40, 256);
    let x = input.f32s(len);
    let cap = input.rng.pick(&[1.0, 30.0, 50.0]);
    let mut x = input.changed(&x);
    // SAFETY: as in `rms_norm`.
    unsafe { (ops.soft_cap)(x.get_mut(), cap) };
    x.result(bits)
}

fn add(ops: &VectorOps, input: &mut Input) -> Bits {
    let len = 8 * input.count(40, 256);
    let (x, y) = (input.f32s(len), input.f32s(len));
    let (mut x, y) = (input.changed(&x), input.fixed(&y));
    // SAFETY: as in `rms_norm`.
    unsafe { (ops.add)(x.get_mut(), y.get()) };
    x.result(bits)
}

fn softmax(ops: &VectorOps, input: &mut Input) -> Bits {
    let len = input.count(300, 2048);
    let mut x = input.f32s(len);
    if input.rng.below(2) == 0 {
        // Masked, as a sampler leaves them.
        for _ in 0..len / 2 {
            x[input.rng.below(len)] = f32::NEG_INFINITY;
        }
    }
    let mut x = input.changed(&x);
    // SAFETY: as in `rms_norm`.
    unsafe { (ops.softmax)(x.get_mut()) };
    x.result(bits)
}

fn quantize(
    quantize: unsafe fn(&[f32], &mut [u8]),
    format: ActivationFormat,
    input: &mut Input,
) -> Bits {
    let len = format.block_len() * input.count(6, 8);
    let mut x = input.f32s(len);
    for block in x.chunks_mut(format.block_len()) {
        // Of a block with a NaN or an infinity nothing is left, so most have none.
        if input.rng.below(4) > 0 {
            for x in block {
                *x = if x.is_finite() { *x } else { 1.0 };
            }
        }
    }
    let (x, mut out) = (input.fixed(&x), input.room(format.bytes(len)));
    // SAFETY: as in `rms_norm`.
    unsafe { quantize(x.get(), out.get_mut()) };
    out.result(u32::from)
}

fn to_f16(ops: &VectorOps, input: &mut Input) -> Bits {
    let len = input.count(100, 2048);
    let x = input.f32s(len);
    let (x, mut out) = (input.fixed(&x), input.room::<u16>(len));
    // SAFETY: as in `rms_norm`.
    unsafe { (ops.to_f16)(x.get(), out.get_mut()) };
    let canonical = |half: u16| if half & 0x7fff > 0x7c00 { 0x7e00 } else { half };
    out.result(|half| canonical(half).into())
}

/// How keys and values are stored.
trait Cached: Copy {
    /// Positions and dimensions of one.
    const POSITIONS: usize;
    const DIMENSIONS: usize;

    /// One with any numbers, but NaN at positions, counted in it, that are not `live`: those must
    /// not be used.
    fn random(input: &mut Input, live: impl Fn(usize) -> bool) -> Self;
}

impl Cached for f32 {
    const POSITIONS: usize = 1;
    const DIMENSIONS: usize = 1;

    fn random(input: &mut Input, live: impl Fn(usize) -> bool) -> Self {
        let value = input.f32();
        if live(0) { value } else { f32::NAN }
    }
}

impl Cached for u16 {
    const POSITIONS: usize = 1;
    const DIMENSIONS: usize = 1;

    fn random(input: &mut Input, live: impl Fn(usize) -> bool) -> Self {
        let value = f32::random(input, live);
        f32_to_f16(value)
    }
}

impl Cached for Q8Tile {
    const POSITIONS: usize = 8;
    const DIMENSIONS: usize = 32;

    fn random(input: &mut Input, live: impl Fn(usize) -> bool) -> Self {
        let scale = |p| {
            if live(p) {
                input.f32() / 127.0
            } else {
                f32::NAN
            }
        };
        let scales = std::array::from_fn(scale).map(f32_to_f16);
        let digits = std::array::from_fn(|_| input.rng.bits().to_le_bytes().map(|q| q as i8));
        Self { scales, digits }
    }
}

/// Rows, room for positions, positions and dimensions of a case of attention.
struct Shape {
    rows: usize,
    capacity: usize,
    first: usize,
    len: usize,
    dim: usize,
}

impl Shape {
    fn new<T: Cached>(input: &mut Input) -> Self {
        let capacity = 8 * input.count(20, 40);
        let whole = T::DIMENSIONS.max(8);
        let len = 1 + input.rng.below(capacity);
        Self {
            rows: 1 + input.rng.below(17),
            capacity,
            // Half the time a window.
            first: input.rng.below(2) * (input.rng.below(len) / 8 * 8),
            len,
            dim: whole * (1 + input.rng.below(128 / whole)),
        }
    }

    /// A cache of which place `i` holds the position `position(i)`, or from there on.
    fn cache<T: Cached>(&self, input: &mut Input, position: impl Fn(usize) -> usize) -> Buffer<T> {
        let count = self.capacity / T::POSITIONS * (self.dim / T::DIMENSIONS);
        let live = self.first..self.len;
        let one = |i| T::random(input, |p| live.contains(&(position(i) + p)));
        let stored: Vec<T> = (0..count).map(one).collect();
        input.fixed(&stored)
    }

    fn view<'a, T>(&self, stored: &'a [T]) -> KvView<'a, T> {
        let &Self {
            capacity,
            first,
            len,
            dim,
            ..
        } = self;
        KvView {
            stored,
            capacity,
            first,
            len,
            dim,
        }
    }
}

type Score<T> = unsafe fn(KvView<'_, T>, &[f32], f32, &mut [f32]);
type Weigh<T> = unsafe fn(KvView<'_, T>, &[f32], usize, &mut [f32]);

fn score<T: Cached>(score: Score<T>, input: &mut Input) -> Bits {
    let shape = Shape::new::<T>(input);
    let row = shape.dim / T::DIMENSIONS * (8 / T::POSITIONS);
    let keys = shape.cache::<T>(input, |i| i / row * 8 + i % (8 / T::POSITIONS));
    let queries = input.f32s(shape.rows * shape.dim);
    let queries = input.fixed(&queries);
    let view = shape.view(keys.get());
    let stride = score_stride(view.count());
    let mut scores = input.room(shape.rows * stride);
    // SAFETY: as in `rms_norm`.
    unsafe { score(view, queries.get(), 0.125, scores.get_mut()) };
    // What a row has past its length is of no meaning.
    let rows = scores.result(bits)?;
    let rows = rows.chunks(stride).flat_map(|row| &row[..view.count()]);
    Ok(rows.copied().collect())
}

fn weigh<T: Cached>(weigh: Weigh<T>, input: &mut Input) -> Bits {
    let shape = Shape::new::<T>(input);
    let places = 8 / T::POSITIONS;
    let per_chunk = shape.capacity / T::POSITIONS;
    let values = shape.cache::<T>(input, |i| match places {
        1 => i % per_chunk * 8,
        _ => i / 8 % per_chunk,
    });
    let view = shape.view(values.get());
    // Part of the positions as a rule, so the last row ends where these do.
    let stride = view.count() + 8 * input.rng.below(20);
    let weights = input.f32s((shape.rows - 1) * stride + view.count());
    let weights = input.fixed(&weights);
    let out = input.f32s(shape.rows * shape.dim);
    let mut out = input.changed(&out);
    // SAFETY: as in `rms_norm`.
    unsafe { weigh(view, weights.get(), stride, out.get_mut()) };
    out.result(bits)
}
