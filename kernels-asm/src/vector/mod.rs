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
            unsafe fn rope(x: &mut [f32], table: &[f32]) {
                ops::rope::<$lanes>(x, table);
            }
            $(#[$features])?
            unsafe fn silu_mul(gate: &mut [f32], up: &[f32]) {
                ops::silu_mul::<$lanes>(gate, up);
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
            unsafe fn attend_f32(kv: KvView<'_, f32>, attention: Attention<'_>) {
                attention::attend::<$lanes, f32>(kv, attention);
            }
            $(#[$features])?
            unsafe fn attend_f16(kv: KvView<'_, u16>, attention: Attention<'_>) {
                attention::attend::<$lanes, u16>(kv, attention);
            }
            $(#[$features])?
            unsafe fn to_f16(x: &[f32], out: &mut [u16]) {
                ops::to_f16::<$lanes>(x, out);
            }
            VectorOps {
                rms_norm,
                rope,
                silu_mul,
                add,
                softmax,
                quantize_per_32,
                quantize_per_256,
                attend_f32,
                attend_f16,
                to_f16,
            }
        };
    };
}

mod attention;
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
pub use avx2::AVX2;
#[cfg(target_arch = "aarch64")]
pub use neon::NEON;
pub use portable::REFERENCE;

/// Where the keys and values of one KV head lie, for attention of one position.
#[derive(Clone, Copy)]
pub struct KvView<'a, T> {
    /// Keys, `[capacity / 8][dim][8 positions]`.
    pub keys: &'a [T],
    /// Values, `[dim / 8][capacity][8 dims]`.
    pub values: &'a [T],
    /// Positions that the cache has room for, a multiple of eight.
    pub capacity: usize,
    /// Positions to attend to, 1 ..= capacity.
    pub len: usize,
    /// Size of a head, a multiple of eight.
    pub dim: usize,
}

/// Queries, scratch and result of attention for the query heads that share one KV head.
pub struct Attention<'a> {
    /// Query heads, `[heads][dim]`.
    pub queries: &'a [f32],
    /// How many query heads.
    pub heads: usize,
    /// Factor on each score, `1 / sqrt(dim)`.
    pub scale: f32,
    /// Scratch: `heads * score_stride(len)` floats.
    pub scores: &'a mut [f32],
    /// Result, `[heads][dim]`.
    pub out: &'a mut [f32],
}

/// Floats between the score rows of two heads: whole vectors, and never a power of two, which
/// would put every head's row into one set of the L1 cache.
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
    /// Rotary embedding of heads laid end to end, adjacent pairs, in place:
    /// `(x0, x1) -> (x0 c - x1 s, x0 s + x1 c)`. `table` holds `cos` then `sin` of one position,
    /// each `[dim / 2]`; `x` is `[heads][dim]` (RoPE, Su et al. 2021; the order of GGUF `llama`).
    pub rope: unsafe fn(x: &mut [f32], table: &[f32]),
    /// `gate = gate / (1 + exp(-gate)) * up` (SwiGLU, Shazeer 2020).
    pub silu_mul: unsafe fn(gate: &mut [f32], up: &[f32]),
    /// `x += y`.
    pub add: unsafe fn(x: &mut [f32], y: &[f32]),
    /// `x = exp(x - max(x)) / sum`, in place; any length from 1.
    pub softmax: unsafe fn(x: &mut [f32]),
    /// Floats to per-32 activation records; the length is a multiple of 32.
    pub quantize_per_32: unsafe fn(x: &[f32], out: &mut [u8]),
    /// Floats to per-256 activation records; the length is a multiple of 256.
    pub quantize_per_256: unsafe fn(x: &[f32], out: &mut [u8]),
    /// Attention of one position over an f32 cache.
    pub attend_f32: unsafe fn(kv: KvView<'_, f32>, attention: Attention<'_>),
    /// Attention of one position over an f16 cache (IEEE binary16 bits).
    pub attend_f16: unsafe fn(kv: KvView<'_, u16>, attention: Attention<'_>),
    /// Floats to binary16 bits, ties to even, overflow to infinity; any length.
    pub to_f16: unsafe fn(x: &[f32], out: &mut [u16]),
}

/// `e^x` as every lane of every tier computes it: zero up to -87.69, infinity from 88.38 on.
pub fn exp(x: f32) -> f32 {
    ops::exp(portable::Portable([x; 8])).0[0]
}
