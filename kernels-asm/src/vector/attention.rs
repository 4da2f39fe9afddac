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
    let keys = kv.keys.as_chunks::<8>().0;
    let heads = tile::<H>(0, queries.len() / dim);
    let queries = slices(queries, heads, dim, 0, dim);

    for first in (0..blocks).step_by(B) {
        let at = tile::<B>(first, blocks);
        let keys = slices(keys, at, dim, 0, dim);
        let sums = accumulate([[L::splat(0.0); B]; H], queries, keys, B * dim);
        for (sums, head) in sums.into_iter().zip(heads) {
            for (sum, block) in sums.into_iter().zip(at) {
                sum.mul(L::splat(scale))
                    .store(vector_at(scores, head * stride + 8 * block));
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
    let dim = kv.dim;
    let values = kv.values.as_chunks::<8>().0;
    let heads = tile::<H>(0, out.len() / dim);

    out.fill(0.0);
    for start in (0..kv.len).step_by(STRETCH) {
        let len = STRETCH.min(kv.len - start);
        let weights = slices(weights, heads, score_stride(kv.len), start, len);
        for first in (0..dim / 8).step_by(B) {
            let at = tile::<B>(first, dim / 8);
            let values = slices(values, at, kv.capacity, start, len);
            let mut sums = [[L::splat(0.0); B]; H];
            for (sums, head) in sums.iter_mut().zip(heads) {
                for (sum, chunk) in sums.iter_mut().zip(at) {
                    *sum = L::load(vector_at(out, head * dim + 8 * chunk));
                }
            }
            let sums = accumulate(sums, weights, values, AHEAD);
            for (sums, head) in sums.into_iter().zip(heads) {
                for (sum, chunk) in sums.into_iter().zip(at) {
                    sum.store(vector_at(out, head * dim + 8 * chunk));
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
    sums
}

/// `N` indices from `first` on, below `count`; the last stands in for those beyond.
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
