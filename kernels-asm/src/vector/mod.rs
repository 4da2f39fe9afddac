//! The float operations around the GEMVs, written once over an eight-lane vector.
//!
//! Every tier runs the same source, so the order of operations cannot differ between them. Lane
//! `i` of vector `v` holds element `8v + i`; a reduction adds vector `v` to accumulator `v % 4`, in
//! order, then the accumulators as `(0+1) + (2+3)`, then the lanes as `(0+4, 1+5, 2+6, 3+7)`,
//! `(02, 13)`, sum. Every multiply-add is fused.
//! `docs/numerics.md` is the full contract.
//!
//! - `lanes`: the vector, as a trait
//! - `ops`, `quantize`, `attention`: the operations, over any such vector
//! - `gemv`: the matrices of float formats, for the fast tiers; their definition is `reference`
//! - `portable`, `avx2`, `neon`: the tiers, each one implementation of the trait

/// Stamps out the table of a tier: each operation over the tier's vector, compiled with its CPU
/// features, which are a precondition of calling it.
macro_rules! tier {
    ($(#[$doc:meta])* $name:ident, $lanes:ty $(, #[$features:meta])?) => {
        $(#[$doc])*
        pub static $name: VectorOps = {
            $(#[$features])?
            unsafe fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
                ops::rms_norm::<$lanes>(x, weight, epsilon, out);
            }
            $(#[$features])?
            unsafe fn rms_norm_in_place(x: &mut [f32], weight: &[f32], epsilon: f32) {
                ops::rms_norm_in_place::<$lanes>(x, weight, epsilon);
            }
            $(#[$features])?
            unsafe fn rope(x: &mut [f32], table: &[f32]) {
                ops::rope::<$lanes>(x, table);
            }
            $(#[$features])?
            unsafe fn rope_halves(x: &mut [f32], table: &[f32]) {
                ops::rope_halves::<$lanes>(x, table);
            }
            $(#[$features])?
            unsafe fn silu_mul(gate: &mut [f32], up: &[f32]) {
                ops::silu_mul::<$lanes>(gate, up);
            }
            $(#[$features])?
            unsafe fn gelu_mul(gate: &mut [f32], up: &[f32]) {
                ops::gelu_mul::<$lanes>(gate, up);
            }
            $(#[$features])?
            unsafe fn soft_cap(x: &mut [f32], cap: f32) {
                ops::soft_cap::<$lanes>(x, cap);
            }
            $(#[$features])?
            unsafe fn add(x: &mut [f32], y: &[f32]) {
                ops::add::<$lanes>(x, y);
            }
            $(#[$features])?
            unsafe fn softmax(x: &mut [f32]) {
                ops::softmax::<$lanes>(x);
            }
            $(#[$features])?
            unsafe fn quantize_per_32(x: &[f32], out: &mut [u8]) {
                quantize::quantize_per_32::<$lanes>(x, out);
            }
            $(#[$features])?
            unsafe fn quantize_per_256(x: &[f32], out: &mut [u8]) {
                quantize::quantize_per_256::<$lanes>(x, out);
            }
            $(#[$features])?
            unsafe fn score_f32(
                keys: KvView<'_, f32>,
                queries: &[f32],
                scale: f32,
                scores: &mut [f32],
            ) {
                attention::score::<$lanes, f32>(keys, queries, scale, scores);
            }
            $(#[$features])?
            unsafe fn score_f16(
                keys: KvView<'_, u16>,
                queries: &[f32],
                scale: f32,
                scores: &mut [f32],
            ) {
                attention::score::<$lanes, u16>(keys, queries, scale, scores);
            }
            $(#[$features])?
            unsafe fn score_q8_0(
                keys: KvView<'_, Q8Tile>,
                queries: &[f32],
                scale: f32,
                scores: &mut [f32],
            ) {
                attention::score::<$lanes, Q8Tile>(keys, queries, scale, scores);
            }
            $(#[$features])?
            unsafe fn weigh_f32(
                values: KvView<'_, f32>,
                weights: &[f32],
                stride: usize,
                out: &mut [f32],
            ) {
                attention::weigh::<$lanes, f32>(values, weights, stride, out);
            }
            $(#[$features])?
            unsafe fn weigh_f16(
                values: KvView<'_, u16>,
                weights: &[f32],
                stride: usize,
                out: &mut [f32],
            ) {
                attention::weigh::<$lanes, u16>(values, weights, stride, out);
            }
            $(#[$features])?
            unsafe fn weigh_q8_0(
                values: KvView<'_, Q8Tile>,
                weights: &[f32],
                stride: usize,
                out: &mut [f32],
            ) {
                attention::weigh::<$lanes, Q8Tile>(values, weights, stride, out);
            }
            $(#[$features])?
            unsafe fn to_f16(x: &[f32], out: &mut [u16]) {
                ops::to_f16::<$lanes>(x, out);
            }
            VectorOps {
                rms_norm,
                rms_norm_in_place,
                rope,
                rope_halves,
                silu_mul,
                gelu_mul,
                soft_cap,
                add,
                softmax,
                quantize_per_32,
                quantize_per_256,
                score_f32,
                score_f16,
                score_q8_0,
                weigh_f32,
                weigh_f16,
                weigh_q8_0,
                to_f16,
            }
        };
    };
}

/// Defines a tier's GEMV of a float format, compiled with its CPU features.
macro_rules! float_gemv {
    ($name:ident: $lanes:ty, $weights:ident $(, #[$features:meta])?) => {
        /// See [`Gemv`](crate::registry::Gemv).
        ///
        /// # Safety
        /// As for every [`Gemv`](crate::registry::Gemv).
        $(#[$features])?
        pub unsafe extern "C" fn $name(
            weights: *const u8,
            groups: usize,
            records: usize,
            activations: *const u8,
            out: *mut f32,
        ) {
            use super::gemv::{$weights, gemv};
            // SAFETY: the caller keeps the contract of `Gemv`, of which the tier's CPU features
            // are part.
            unsafe { gemv::<$lanes, $weights>(weights, groups, records, activations, out) }
        }
    };
}

mod attention;
#[allow(unsafe_code)] // loads through pointers; the contract is `registry::Gemv`
mod gemv;
mod lanes;
mod ops;
mod quantize;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // vector loads and stores, and functions that need CPU features
mod avx2;
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)] // vector loads and stores, and two instructions without an intrinsic
mod neon;
#[allow(unsafe_code)] // the functions of every tier are unsafe to call, those of this one too
mod portable;

#[cfg(target_arch = "x86_64")]
pub use avx2::{AVX2, gemv_bf16_avx2, gemv_f16_avx2, gemv_f32_avx2};
#[cfg(target_arch = "aarch64")]
pub use neon::{NEON, gemv_bf16_neon, gemv_f16_neon, gemv_f32_neon};
pub use portable::REFERENCE;

/// Keys or values of one KV head, at the positions that are attended to.
#[derive(Clone, Copy)]
pub struct KvView<'a, T> {
    /// Keys as `[capacity / 8][dim][8 positions]`, values as `[dim / 8][capacity][8 dims]`; in
    /// [`Q8Tile`]s keys as `[capacity / 8][dim / 32]`, values as `[dim / 32][capacity / 8]`.
    pub stored: &'a [T],
    /// Positions that there is room for, a multiple of eight.
    pub capacity: usize,
    /// Position to attend from, a multiple of eight.
    pub first: usize,
    /// Position to attend up to, itself left out: first + 1 ..= capacity.
    pub len: usize,
    /// Size of a head: a multiple of eight, in tiles of 32.
    pub dim: usize,
}

impl<T> KvView<'_, T> {
    /// Positions to attend to.
    pub fn count(&self) -> usize {
        self.len - self.first
    }
}

/// Eight positions of 32 dimensions in GGML's q8_0: each position is a block, with one scale.
///
/// A number is `scale * digit`, which a float holds exactly: 11 bits by 7. A block that had a NaN
/// or an infinity in it has a scale of NaN, one beyond what binary16 holds a scale of infinity.
///
/// Keys and values share the tile, so either is one stream of whole vectors, with the scales in
/// front of what they scale: apart, they would be another stream to keep on its way, for the 17th
/// part of the bytes. A vector of keys is multiplied with the vector of scales, one of values with
/// one scale. Where fewer than 32 dimensions of values are added up at a time, the tiles of some
/// positions are passed over again, in the L1 cache.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Q8Tile {
    /// The scale of each position, as binary16 bits.
    pub scales: [u16; 8],
    /// Keys as `[32 dims][8 positions]`, values as `[4][8 positions][8 dims]`.
    pub digits: [[i8; 8]; 32],
}

/// Floats from one score row to the next: whole vectors, and never a power of two, which would put
/// every row into one set of the L1 cache.
pub const fn score_stride(len: usize) -> usize {
    len.next_multiple_of(8) + 24
}

/// The float operations of one tier. Lengths are multiples of eight unless said otherwise.
///
/// # Safety
/// Every function needs the CPU features of the tier it stands in; none has another precondition
/// that it does not assert.
#[derive(Clone, Copy)]
pub struct VectorOps {
    /// `out = x / sqrt(mean(x^2) + epsilon) * weight` (RMSNorm, Zhang and Sennrich 2019).
    pub rms_norm: unsafe fn(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]),
    /// The same, in place.
    pub rms_norm_in_place: unsafe fn(x: &mut [f32], weight: &[f32], epsilon: f32),
    /// Rotary embedding of heads laid end to end, adjacent pairs, in place:
    /// `(x0, x1) -> (x0 c - x1 s, x0 s + x1 c)`. `table` holds `cos` then `sin` of one position,
    /// each `[dim / 2]`; `x` is `[heads][dim]` (RoPE, Su et al. 2021; the order of GGUF `llama`).
    pub rope: unsafe fn(x: &mut [f32], table: &[f32]),
    /// The same for pairs of a number in the first half of a head and the one at its place in the
    /// second (the order of GPT-NeoX); heads are of whole sixteens.
    pub rope_halves: unsafe fn(x: &mut [f32], table: &[f32]),
    /// `gate = gate / (1 + exp(-gate)) * up` (SwiGLU, Shazeer 2020).
    pub silu_mul: unsafe fn(gate: &mut [f32], up: &[f32]),
    /// `gate = gate / 2 * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 gate^3))) * up` (GEGLU, Shazeer
    /// 2020, with the tanh form of GELU, Hendrycks and Gimpel 2016).
    pub gelu_mul: unsafe fn(gate: &mut [f32], up: &[f32]),
    /// `x = cap * tanh(x / cap)`; an infinity becomes a NaN, so that no cap hides it.
    pub soft_cap: unsafe fn(x: &mut [f32], cap: f32),
    /// `x += y`.
    pub add: unsafe fn(x: &mut [f32], y: &[f32]),
    /// `x = exp(x - max(x)) / sum`, in place; any length from 1.
    pub softmax: unsafe fn(x: &mut [f32]),
    /// Floats to per-32 activation records; the length is a multiple of 32.
    pub quantize_per_32: unsafe fn(x: &[f32], out: &mut [u8]),
    /// Floats to per-256 activation records; the length is a multiple of 256.
    pub quantize_per_256: unsafe fn(x: &[f32], out: &mut [u8]),
    /// Scores: `scores[r][p] = (queries[r] . keys[first + p]) * scale`, where `queries` is
    /// `[rows][dim]` and the rows of `scores` are [`score_stride`] of [`KvView::count`] apart. What
    /// a row has past that is of no meaning.
    pub score_f32:
        unsafe fn(keys: KvView<'_, f32>, queries: &[f32], scale: f32, scores: &mut [f32]),
    /// The same over binary16 bits.
    pub score_f16:
        unsafe fn(keys: KvView<'_, u16>, queries: &[f32], scale: f32, scores: &mut [f32]),
    /// The same over q8_0.
    pub score_q8_0:
        unsafe fn(keys: KvView<'_, Q8Tile>, queries: &[f32], scale: f32, scores: &mut [f32]),
    /// Part of the result of attention: `out[r] += weights[r][p] * values[first + p]`, over `p` in
    /// order, where `out` is `[rows][dim]` and `weights` what `softmax` made of the scores, its rows
    /// `stride` apart. `out` starts as zeros; parts that follow one another make the same chains
    /// as all positions at once.
    pub weigh_f32:
        unsafe fn(values: KvView<'_, f32>, weights: &[f32], stride: usize, out: &mut [f32]),
    /// The same over binary16 bits.
    pub weigh_f16:
        unsafe fn(values: KvView<'_, u16>, weights: &[f32], stride: usize, out: &mut [f32]),
    /// The same over q8_0.
    pub weigh_q8_0:
        unsafe fn(values: KvView<'_, Q8Tile>, weights: &[f32], stride: usize, out: &mut [f32]),
    /// Floats to binary16 bits, ties to even, overflow to infinity; any length.
    pub to_f16: unsafe fn(x: &[f32], out: &mut [u16]),
}

/// `e^x` as every lane of every tier computes it: zero up to -87.69, infinity from 88.38 on.
pub fn exp(x: f32) -> f32 {
    ops::exp(portable::Portable([x; 8])).0[0]
}
