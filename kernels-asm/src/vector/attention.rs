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
/// Vectors of values between the one in use and the one prefetched.
const AHEAD: usize = 64;

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
    let scores = &mut scores[..heads * stride];

    let group = if L::TILED { HEADS } else { 1 };
    for (queries, scores) in queries
        .chunks(group * dim)
        .zip(scores.chunks_mut(group * stride))
    {
        // Heads and vectors at once: eight accumulators or so, which hide the latency of an
        // addition and fit the registers.
        match queries.len() / dim {
            _ if !L::TILED => score::<L, T, 1, 1>(kv, queries, scale, scores),
            1 => score::<L, T, 1, 4>(kv, queries, scale, scores),
            2 => score::<L, T, 2, 4>(kv, queries, scale, scores),
            3 | 4 => score::<L, T, 4, 2>(kv, queries, scale, scores),
            _ => score::<L, T, HEADS, 1>(kv, queries, scale, scores),
        }
    }
    for row in scores.chunks_mut(stride) {
        ops::softmax::<L>(&mut row[..kv.len]);
    }
    for (weights, out) in scores
        .chunks(group * stride)
        .zip(out.chunks_mut(group * dim))
    {
        match out.len() / dim {
            _ if !L::TILED => weigh::<L, T, 1, 1>(kv, weights, out),
            1 => weigh::<L, T, 1, 4>(kv, weights, out),
            2 => weigh::<L, T, 2, 4>(kv, weights, out),
            3 | 4 => weigh::<L, T, 4, 2>(kv, weights, out),
            _ => weigh::<L, T, HEADS, 1>(kv, weights, out),
        }
    }
}

/// `scores[h][p] = (queries[h] . keys[p]) * scale`, for whole blocks of eight positions: at most
/// `H` heads, `B` blocks of each at a time.
#[inline(always)]
fn score<L: Lanes, T: Element, const H: usize, const B: usize>(
    kv: KvView<'_, T>,
    queries: &[f32],
    scale: f32,
    scores: &mut [f32],
) {
    let (dim, stride) = (kv.dim, score_stride(kv.len));
    let blocks = kv.len.div_ceil(8);
    let keys = kv.keys.as_chunks::<8>().0;
    let scores = scores.as_chunks_mut::<8>().0;
    let heads = tile::<H>(0, queries.len() / dim);
    let queries = slices(queries, heads, dim, 0, dim);

    for first in (0..blocks).step_by(B) {
        let at = tile::<B>(first, blocks);
        let keys = slices(keys, at, dim, 0, dim);
        let sums = accumulate([[L::splat(0.0); B]; H], queries, keys, B * dim);
        for (sums, head) in sums.into_iter().zip(heads) {
            for (sum, block) in sums.into_iter().zip(at) {
                sum.mul(L::splat(scale))
                    .store(&mut scores[head * (stride / 8) + block]);
            }
        }
    }
}

/// `out[h] = sum over p of weights[h][p] * values[p]`, eight dimensions to a vector: at most `H`
/// heads, `B` vectors of each at a time.
///
/// Goes over the positions in stretches whose weights stay in the L1 cache while all dimensions
/// pass; between stretches the sums wait in `out`.
#[inline(always)]
fn weigh<L: Lanes, T: Element, const H: usize, const B: usize>(
    kv: KvView<'_, T>,
    weights: &[f32],
    out: &mut [f32],
) {
    let chunks = kv.dim / 8;
    let values = kv.values.as_chunks::<8>().0;
    let heads = tile::<H>(0, out.len() / kv.dim);
    let out = out.as_chunks_mut::<8>().0;

    out.fill([0.0; 8]);
    for start in (0..kv.len).step_by(STRETCH) {
        let len = STRETCH.min(kv.len - start);
        let weights = slices(weights, heads, score_stride(kv.len), start, len);
        for first in (0..chunks).step_by(B) {
            let at = tile::<B>(first, chunks);
            let values = slices(values, at, kv.capacity, start, len);
            let mut sums = [[L::splat(0.0); B]; H];
            for (sums, head) in sums.iter_mut().zip(heads) {
                for (sum, chunk) in sums.iter_mut().zip(at) {
                    *sum = L::load(&out[head * chunks + chunk]);
                }
            }
            let sums = accumulate(sums, weights, values, AHEAD);
            for (sums, head) in sums.into_iter().zip(heads) {
                for (sum, chunk) in sums.into_iter().zip(at) {
                    sum.store(&mut out[head * chunks + chunk]);
                }
            }
        }
    }
}

/// `sums[h][b] + sum over i of factors[h][i] * vectors[b][i]`, in order; slices of one length.
/// Prefetches what lies `distance` vectors on.
#[inline(always)]
fn accumulate<L: Lanes, T: Element, const H: usize, const B: usize>(
    mut sums: [[L; B]; H],
    factors: [&[f32]; H],
    vectors: [&[[T; 8]]; B],
    distance: usize,
) -> [[L; B]; H] {
    let len = factors[0].len();
    // True of every caller, and said here so that the loop needs no bounds checks.
    assert!(factors.iter().all(|f| f.len() == len) && vectors.iter().all(|v| v.len() == len));
    for i in 0..len {
        let mut v = [L::splat(0.0); B];
        for b in 0..B {
            L::prefetch(vectors[b].as_ptr().wrapping_add(i + distance));
            v[b] = T::load(&vectors[b][i]);
        }
        for h in 0..H {
            let factor = L::splat(factors[h][i]);
            for b in 0..B {
                sums[h][b] = v[b].fma(factor, sums[h][b]);
            }
        }
    }
    sums
}

/// `N` indices from `first` on, below `count`; the last stands in for those beyond. What belongs to
/// it is then computed, and written, more than once.
#[inline(always)]
fn tile<const N: usize>(first: usize, count: usize) -> [usize; N] {
    let mut tile = [first; N];
    for (i, index) in tile.iter_mut().enumerate() {
        *index = (first + i).min(count - 1);
    }
    tile
}

/// `len` elements of each of the rows named, from `start` on.
#[inline(always)]
fn slices<T, const N: usize>(
    matrix: &[T],
    rows: [usize; N],
    stride: usize,
    start: usize,
    len: usize,
) -> [&[T]; N] {
    let mut slices = [&matrix[..0]; N];
    for (slice, row) in slices.iter_mut().zip(rows) {
        *slice = &matrix[row * stride + start..][..len];
    }
    slices
}
