//! Attention of one position over the keys and values of one KV head, for any tier.
//!
//! Three passes over scores that stay in the cache: scores of all positions, softmax of each
//! head's row, weighted sum of the values. Each score is one chain of fused multiply-adds over the
//! dimensions in order, each output one chain over the positions in order. How many of the chains
//! run side by side cannot be seen in the result.

use super::lanes::{Element, Lanes};
use super::{Attention, KvView, ops, score_stride};

/// Query heads that share one pass over the cache.
const HEADS: usize = 8;
/// Positions whose weights, of all these heads, take 8 KiB.
const STRETCH: usize = 256;

/// See [`super::VectorOps::attend_f32`].
#[inline(always)]
pub(super) fn attend<L: Lanes, T: Element>(kv: KvView<'_, T>, attention: Attention<'_>) {
    let Attention {
        queries,
        heads,
        scale,
        scores,
        out,
    } = attention;
    let (dim, stride) = (kv.dim, score_stride(kv.len));
    assert!(dim > 0 && dim.is_multiple_of(8) && kv.capacity.is_multiple_of(8));
    assert!(1 <= kv.len && kv.len <= kv.capacity);
    assert!(kv.keys.len() == kv.capacity * dim && kv.values.len() == kv.capacity * dim);
    assert!(queries.len() == heads * dim && out.len() == heads * dim);
    assert!(scores.len() >= heads * stride);

    let at_once = if L::TILED { HEADS } else { 1 };
    let groups = queries
        .chunks(at_once * dim)
        .zip(out.chunks_mut(at_once * dim));
    for ((queries, out), scores) in groups.zip(scores.chunks_mut(at_once * stride)) {
        // Eight accumulators each: as many as hide the latency and fit the registers.
        match queries.len() / dim {
            1 if !L::TILED => attend_heads::<L, T, 1, 1>(kv, queries, scale, scores, out),
            1 => attend_heads::<L, T, 1, 4>(kv, queries, scale, scores, out),
            2 => attend_heads::<L, T, 2, 4>(kv, queries, scale, scores, out),
            3 | 4 => attend_heads::<L, T, 4, 2>(kv, queries, scale, scores, out),
            _ => attend_heads::<L, T, HEADS, 1>(kv, queries, scale, scores, out),
        }
    }
}

/// At most `H` heads, `B` vectors of each at a time. In a tile that is not full the last head or
/// the last vector stands in for those missing: they are computed, and written, twice.
#[inline(always)]
fn attend_heads<L: Lanes, T: Element, const H: usize, const B: usize>(
    kv: KvView<'_, T>,
    queries: &[f32],
    scale: f32,
    scores: &mut [f32],
    out: &mut [f32],
) {
    let stride = score_stride(kv.len);
    score::<L, T, H, B>(kv, queries, scale, scores);
    for row in scores.chunks_mut(stride).take(queries.len() / kv.dim) {
        ops::softmax::<L>(&mut row[..kv.len]);
    }
    weigh::<L, T, H, B>(kv, scores, out);
}

/// `scores[h][p] = (queries[h] . keys[p]) * scale`, for whole blocks of eight positions.
#[inline(always)]
fn score<L: Lanes, T: Element, const H: usize, const B: usize>(
    kv: KvView<'_, T>,
    queries: &[f32],
    scale: f32,
    scores: &mut [f32],
) {
    let (dim, stride) = (kv.dim, score_stride(kv.len));
    let blocks = kv.len.div_ceil(8);
    let last_head = queries.len() / dim - 1;
    let keys = kv.keys.as_chunks::<8>().0;
    let queries: [&[f32]; H] = core::array::from_fn(|h| &queries[h.min(last_head) * dim..][..dim]);

    for first in (0..blocks).step_by(B) {
        let at: [usize; B] = core::array::from_fn(|b| (first + b).min(blocks - 1));
        let keys: [&[[T; 8]]; B] = core::array::from_fn(|b| &keys[at[b] * dim..][..dim]);
        let mut sums = [[L::splat(0.0); B]; H];
        accumulate(&mut sums, queries, keys, B * dim);
        for (h, sums) in sums.into_iter().enumerate() {
            for (sum, at) in sums.into_iter().zip(at) {
                let score = sum.mul(L::splat(scale));
                score.store(vector_at(scores, h.min(last_head) * stride + 8 * at));
            }
        }
    }
}

/// `out[h] = sum over p of weights[h][p] * values[p]`, eight dimensions at a time.
///
/// Goes over the positions in stretches whose weights stay in the L1 cache while all dimensions
/// pass; between stretches the sums wait in `out`.
#[inline(always)]
fn weigh<L: Lanes, T: Element, const H: usize, const B: usize>(
    kv: KvView<'_, T>,
    weights: &[f32],
    out: &mut [f32],
) {
    let (dim, stride) = (kv.dim, score_stride(kv.len));
    let chunks = dim / 8;
    let last_head = out.len() / dim - 1;
    let values = kv.values.as_chunks::<8>().0;

    out.fill(0.0);
    for start in (0..kv.len).step_by(STRETCH) {
        let len = STRETCH.min(kv.len - start);
        let weights: [&[f32]; H] =
            core::array::from_fn(|h| &weights[h.min(last_head) * stride + start..][..len]);
        for first in (0..chunks).step_by(B) {
            let at: [usize; B] = core::array::from_fn(|b| (first + b).min(chunks - 1));
            let values: [&[[T; 8]]; B] =
                core::array::from_fn(|b| &values[at[b] * kv.capacity + start..][..len]);
            let mut sums = [[L::splat(0.0); B]; H];
            for (h, sums) in sums.iter_mut().enumerate() {
                for (sum, at) in sums.iter_mut().zip(at) {
                    *sum = L::load(vector_at(out, h.min(last_head) * dim + 8 * at));
                }
            }
            accumulate(&mut sums, weights, values, 64);
            for (h, sums) in sums.into_iter().enumerate() {
                for (sum, at) in sums.into_iter().zip(at) {
                    sum.store(vector_at(out, h.min(last_head) * dim + 8 * at));
                }
            }
        }
    }
}

/// `sums[h][b] += sum over i of factors[h][i] * vectors[b][i]`, in order, all slices of one length.
/// Prefetches what lies `distance` vectors on.
#[inline(always)]
fn accumulate<L: Lanes, T: Element, const H: usize, const B: usize>(
    sums: &mut [[L; B]; H],
    factors: [&[f32]; H],
    vectors: [&[[T; 8]]; B],
    distance: usize,
) {
    for i in 0..factors[0].len() {
        let mut v = [L::splat(0.0); B];
        for b in 0..B {
            ahead::<L, T>(vectors[b], i, distance);
            v[b] = T::load(&vectors[b][i]);
        }
        for h in 0..H {
            let factor = L::splat(factors[h][i]);
            for b in 0..B {
                sums[h][b] = v[b].fma(factor, sums[h][b]);
            }
        }
    }
}

/// Prefetches what lies `distance` vectors on from vector `i`, once per cache line.
#[inline(always)]
fn ahead<L: Lanes, T: Element>(vectors: &[[T; 8]], i: usize, distance: usize) {
    const LINE: usize = 64;
    if i.is_multiple_of(LINE / size_of::<[T; 8]>()) {
        L::prefetch(vectors.as_ptr().wrapping_add(i + distance));
    }
}

#[inline(always)]
fn vector_at(x: &mut [f32], at: usize) -> &mut [f32; 8] {
    x[at..].first_chunk_mut().expect("whole vectors")
}
