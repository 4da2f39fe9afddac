//! Attention over the keys and values of one KV head, for any tier.
//!
//! Its first pass and its third: the scores of all positions, and the weighted sum of the values.
//! The softmax of each row lies between them. A row is a query head of one token. Each score is one
//! chain of fused multiply-adds over the dimensions in order, each output one chain over the
//! positions in order. How many of the chains run side by side cannot be seen in the result, nor
//! how a number is stored: the chain takes its exact value.

use core::ops::Range;

use super::lanes::{Element, Lanes};
use super::{KvView, Q8Tile, score_stride};

/// Positions that all rows pass over before the next ones: in binary16 their keys, or values, of 64
/// dimensions take 16 KiB and stay in the L1 cache, with 3 KiB of weights of six rows.
const STRETCH: usize = 128;
/// Vectors of values between the one in use and the one prefetched.
const AHEAD: usize = 64;

/// What keys and values are stored in.
pub(super) trait Stored: Copy {
    /// How many of it hold `capacity` positions of a head of `dim` numbers.
    fn count(capacity: usize, dim: usize) -> usize;

    /// Adds to `sums[h][b]` the products of `queries[h]` with the keys of `blocks[b]`, which is
    /// eight positions.
    fn add_keys<L: Lanes, const H: usize, const B: usize>(
        sums: [[L; B]; H],
        queries: [&[f32]; H],
        keys: KvView<'_, Self>,
        blocks: [usize; B],
    ) -> [[L; B]; H];

    /// Adds to `sums[h][b]` the products of `weights[h]` with the values of `chunks[b]`, which is
    /// eight dimensions, at as many positions from `start` on.
    fn add_values<L: Lanes, const H: usize, const B: usize>(
        sums: [[L; B]; H],
        weights: [&[f32]; H],
        values: KvView<'_, Self>,
        chunks: [usize; B],
        start: usize,
    ) -> [[L; B]; H];
}

impl<T: Element> Stored for T {
    #[inline(always)]
    fn count(capacity: usize, dim: usize) -> usize {
        capacity * dim
    }

    #[inline(always)]
    fn add_keys<L: Lanes, const H: usize, const B: usize>(
        sums: [[L; B]; H],
        queries: [&[f32]; H],
        keys: KvView<'_, Self>,
        blocks: [usize; B],
    ) -> [[L; B]; H] {
        let vectors = keys.stored.as_chunks::<8>().0;
        let vectors = slices(vectors, blocks, keys.dim, 0, keys.dim);
        accumulate(sums, queries, vectors, B * keys.dim)
    }

    #[inline(always)]
    fn add_values<L: Lanes, const H: usize, const B: usize>(
        sums: [[L; B]; H],
        weights: [&[f32]; H],
        values: KvView<'_, Self>,
        chunks: [usize; B],
        start: usize,
    ) -> [[L; B]; H] {
        let vectors = values.stored.as_chunks::<8>().0;
        let vectors = slices(vectors, chunks, values.capacity, start, weights[0].len());
        accumulate(sums, weights, vectors, AHEAD)
    }
}

impl Stored for Q8Tile {
    #[inline(always)]
    fn count(capacity: usize, dim: usize) -> usize {
        assert!(dim.is_multiple_of(32), "whole blocks of 32");
        capacity / 8 * (dim / 32)
    }

    #[inline(always)]
    fn add_keys<L: Lanes, const H: usize, const B: usize>(
        mut sums: [[L; B]; H],
        queries: [&[f32]; H],
        keys: KvView<'_, Self>,
        blocks: [usize; B],
    ) -> [[L; B]; H] {
        let count = keys.dim / 32;
        let rows = slices(keys.stored, blocks, count, 0, count);
        // A line of digits at a time, eight dimensions: enough to hide the latency of its
        // conversions, and a quarter of the code that a tile at a time becomes.
        for line in 0..keys.dim / 8 {
            let queries = part(queries, 8 * line, 8);
            let (t, line) = (line / 4, line % 4);
            let mut scales = [L::splat(0.0); B];
            for b in 0..B {
                prefetch::<L>(rows[b], t + B * count, line);
                scales[b] = L::load_f16(&rows[b][t].scales);
            }
            for i in 0..8 {
                let mut v = scales;
                for b in 0..B {
                    v[b] = L::load_i8(&rows[b][t].digits[8 * line + i]).mul(scales[b]);
                }
                sums = add_products(sums, queries, i, v);
            }
        }
        sums
    }

    #[inline(always)]
    fn add_values<L: Lanes, const H: usize, const B: usize>(
        mut sums: [[L; B]; H],
        weights: [&[f32]; H],
        values: KvView<'_, Self>,
        chunks: [usize; B],
        start: usize,
    ) -> [[L; B]; H] {
        // Four chunks make a block, and one, two or four of them are asked for: they share it.
        let (stride, len) = (values.capacity / 8, weights[0].len());
        let [row] = slices(
            values.stored,
            [chunks[0] / 4],
            stride,
            start / 8,
            len.div_ceil(8),
        );
        let mut lines = [0; B];
        for b in 0..B {
            lines[b] = chunks[b] % 4;
        }
        for t in 0..len / 8 {
            for line in lines {
                prefetch::<L>(row, t + AHEAD / 8, line);
            }
            sums = add_tile(sums, part(weights, 8 * t, 8), &row[t], lines);
        }
        if let Some(last) = row.get(len / 8) {
            let rest = part(weights, len / 8 * 8, len % 8);
            sums = add_tile(sums, rest, last, lines);
        }
        sums
    }
}

/// Adds to `sums[h][b]` the products of `weights[h]`, at most eight, with the values of a tile in
/// its line `lines[b]` of eight dimensions.
#[inline(always)]
fn add_tile<L: Lanes, const H: usize, const B: usize>(
    mut sums: [[L; B]; H],
    weights: [&[f32]; H],
    tile: &Q8Tile,
    lines: [usize; B],
) -> [[L; B]; H] {
    let mut scales = [0.0; 8];
    L::load_f16(&tile.scales).store(&mut scales);
    for (p, scale) in scales.iter().take(weights[0].len()).enumerate() {
        let mut v = [L::splat(*scale); B];
        for b in 0..B {
            v[b] = L::load_i8(&tile.digits[8 * lines[b] + p]).mul(v[b]);
        }
        sums = add_products(sums, weights, p, v);
    }
    sums
}

/// Prefetches a line of the digits of tile `t`, which may lie past the end.
#[inline(always)]
fn prefetch<L: Lanes>(row: &[Q8Tile], t: usize, line: usize) {
    L::prefetch(
        row.as_ptr()
            .wrapping_add(t)
            .cast::<[u8; 64]>()
            .wrapping_add(line),
    );
}

/// Runs a tile for each of successive groups of rows: `$tile` with `$arguments`, which see the
/// group's first row as `$row` and the number of its rows as `$count`.
///
/// A group is rows and vectors at once: about eight to twelve accumulators, which hide the latency
/// of an addition and fit the registers beside what they are made from.
macro_rules! each_group {
    ($lanes:ty, $stored:ty, $rows:expr, |$row:ident, $count:ident| $tile:ident($($argument:expr),*)) => {
        let (rows, mut $row) = ($rows, 0);
        while $row < rows {
            let $count = match rows - $row {
                _ if !<$lanes>::TILED => 1,
                7 | 8 => 4, // and 3 or 4 more
                left => left.min(6),
            };
            match $count {
                _ if !<$lanes>::TILED => $tile::<$lanes, $stored, 1, 1>($($argument),*),
                1 => $tile::<$lanes, $stored, 1, 4>($($argument),*),
                2 => $tile::<$lanes, $stored, 2, 4>($($argument),*),
                3 => $tile::<$lanes, $stored, 3, 2>($($argument),*),
                4 => $tile::<$lanes, $stored, 4, 2>($($argument),*),
                _ => $tile::<$lanes, $stored, 6, 2>($($argument),*),
            }
            $row += $count;
        }
    };
}

/// See [`super::VectorOps::score_f32`]. For whole blocks of eight positions.
#[inline(always)]
pub(super) fn score<L: Lanes, T: Stored>(
    keys: KvView<'_, T>,
    queries: &[f32],
    scale: f32,
    scores: &mut [f32],
) {
    check(keys);
    assert!(queries.len().is_multiple_of(keys.dim));
    let (dim, stride) = (keys.dim, score_stride(keys.count()));

    for first in (keys.first..keys.len).step_by(STRETCH) {
        let blocks = first / 8..(first + STRETCH).min(keys.len).div_ceil(8);
        each_group!(L, T, queries.len() / dim, |row, count| score_tile(
            keys,
            &queries[row * dim..][..count * dim],
            scale,
            &mut scores[row * stride..][..count * stride],
            blocks.clone()
        ));
    }
}

/// The scores of at most `H` rows at `blocks`, `B` blocks of each at a time.
#[inline(always)]
fn score_tile<L: Lanes, T: Stored, const H: usize, const B: usize>(
    keys: KvView<'_, T>,
    queries: &[f32],
    scale: f32,
    scores: &mut [f32],
    blocks: Range<usize>,
) {
    let (dim, stride) = (keys.dim, score_stride(keys.count()));
    let scores = scores.as_chunks_mut::<8>().0;
    let rows = tile::<H>(0, queries.len() / dim);
    let queries = slices(queries, rows, dim, 0, dim);

    for first in blocks.clone().step_by(B) {
        let at = tile::<B>(first, blocks.end);
        let sums = T::add_keys([[L::splat(0.0); B]; H], queries, keys, at);
        for (sums, row) in sums.into_iter().zip(rows) {
            for (sum, block) in sums.into_iter().zip(at) {
                sum.mul(L::splat(scale))
                    .store(&mut scores[row * (stride / 8) + block - keys.first / 8]);
            }
        }
    }
}

/// See [`super::VectorOps::weigh_f32`].
#[inline(always)]
pub(super) fn weigh<L: Lanes, T: Stored>(
    values: KvView<'_, T>,
    weights: &[f32],
    stride: usize,
    out: &mut [f32],
) {
    check(values);
    assert!(out.len().is_multiple_of(values.dim) && stride >= values.count());
    let dim = values.dim;

    for start in (values.first..values.len).step_by(STRETCH) {
        let positions = start..(start + STRETCH).min(values.len);
        each_group!(L, T, out.len() / dim, |row, count| weigh_tile(
            values,
            &weights[row * stride + start - values.first..],
            stride,
            &mut out[row * dim..][..count * dim],
            positions.clone()
        ));
    }
}

/// Adds what `positions` give to the sums of at most `H` rows, eight dimensions to a vector, `B`
/// vectors of each at a time. The weights are those from the first of the positions on.
#[inline(always)]
fn weigh_tile<L: Lanes, T: Stored, const H: usize, const B: usize>(
    values: KvView<'_, T>,
    weights: &[f32],
    stride: usize,
    out: &mut [f32],
    positions: Range<usize>,
) {
    let chunks = values.dim / 8;
    let rows = tile::<H>(0, out.len() / values.dim);
    let out = out.as_chunks_mut::<8>().0;
    let weights = slices(weights, rows, stride, 0, positions.len());

    for first in (0..chunks).step_by(B) {
        let at = tile::<B>(first, chunks);
        let mut sums = [[L::splat(0.0); B]; H];
        for (sums, row) in sums.iter_mut().zip(rows) {
            for (sum, chunk) in sums.iter_mut().zip(at) {
                *sum = L::load(&out[row * chunks + chunk]);
            }
        }
        let sums = T::add_values(sums, weights, values, at, positions.start);
        for (sums, row) in sums.into_iter().zip(rows) {
            for (sum, chunk) in sums.into_iter().zip(at) {
                sum.store(&mut out[row * chunks + chunk]);
            }
        }
    }
}

/// What [`KvView`] asks of its parts.
#[inline(always)]
fn check<T: Stored>(view: KvView<'_, T>) {
    let (capacity, dim) = (view.capacity, view.dim);
    assert!(dim > 0 && dim.is_multiple_of(8) && capacity.is_multiple_of(8));
    assert!(view.first.is_multiple_of(8) && view.first < view.len && view.len <= capacity);
    assert!(view.stored.len() == T::count(capacity, dim));
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
        sums = add_products(sums, factors, i, v);
    }
    sums
}

/// `sums[h][b] + factors[h][i] * v[b]`.
#[inline(always)]
fn add_products<L: Lanes, const H: usize, const B: usize>(
    mut sums: [[L; B]; H],
    factors: [&[f32]; H],
    i: usize,
    v: [L; B],
) -> [[L; B]; H] {
    for h in 0..H {
        let factor = L::splat(factors[h][i]);
        for b in 0..B {
            sums[h][b] = v[b].fma(factor, sums[h][b]);
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

/// `len` elements of each row, from `start` on.
#[inline(always)]
fn part<const N: usize>(mut rows: [&[f32]; N], start: usize, len: usize) -> [&[f32]; N] {
    for row in &mut rows {
        *row = &row[start..][..len];
    }
    rows
}
