//! Attention on every tier, against the reference and against f64.

use kernels_asm::vector::{KvView, Q8Tile, REFERENCE, VectorOps, score_stride};

use crate::convert::{f16_of_f32, f32_of_f16};
use crate::{Random, assert_same, fast_tiers, tiers};

/// A view of values of one position, whose weight is exactly 1, so they come back.
fn one_position<T>(stored: &[T], dim: usize) -> KvView<'_, T> {
    KvView {
        stored,
        capacity: 8,
        first: 0,
        len: 1,
        dim,
    }
}

#[test]
fn values_have_every_f16_on_every_tier() {
    let (dim, capacity) = (1 << 16, 8);
    let mut values = vec![0u16; dim * capacity];
    for d in 0..dim {
        values[value_at(capacity, 0, d)] = d as u16;
    }
    // The sum starts from +0, which takes the sign of a zero away.
    let expected: Vec<f32> = (0..=u16::MAX).map(|bits| f32_of_f16(bits) + 0.0).collect();
    for (tier, ops) in tiers() {
        let mut found = vec![0.0; dim];
        let weights = vec![1.0; score_stride(1)];
        call!(
            ops,
            weigh_f16(
                one_position(&values, dim),
                &weights,
                weights.len(),
                &mut found
            )
        );
        assert_same(tier, &expected, &found);
    }
}

#[test]
fn values_have_every_q8_0_scale_on_every_tier() {
    let tile = |scale: u16| {
        let mut tile = empty_tile();
        tile.scales[0] = scale;
        for i in 0..32 {
            tile.digits[i / 8 * 8][i % 8] = digit_of(scale, i);
        }
        tile
    };
    let values: Vec<Q8Tile> = (0..=u16::MAX).map(tile).collect();
    let value = |scale: u16, i: usize| f32_of_f16(scale) * f32::from(digit_of(scale, i)) + 0.0;
    let expected: Vec<f32> = (0..=u16::MAX)
        .flat_map(|scale| (0..32).map(move |i| value(scale, i)))
        .collect();
    let dim = expected.len();
    for (tier, ops) in tiers() {
        let mut found = vec![0.0; dim];
        let weights = vec![1.0; score_stride(1)];
        call!(
            ops,
            weigh_q8_0(
                one_position(&values, dim),
                &weights,
                weights.len(),
                &mut found
            )
        );
        assert_same(tier, &expected, &found);
    }
}

/// Every digit, over the blocks of some scales.
fn digit_of(scale: u16, i: usize) -> i8 {
    ((usize::from(scale) * 32 + i) % 256) as u8 as i8
}

fn empty_tile() -> Q8Tile {
    Q8Tile {
        scales: [0; 8],
        digits: [[0; 8]; 32],
    }
}

fn key_at(dim: usize, p: usize, d: usize) -> usize {
    p / 8 * dim * 8 + d * 8 + p % 8
}

fn value_at(capacity: usize, p: usize, d: usize) -> usize {
    d / 8 * capacity * 8 + p * 8 + d % 8
}

/// Random keys or values in each format, with NaN where no position lies.
struct Half {
    f32: Vec<f32>,
    f16: Vec<u16>,
    /// Empty if the head is no whole blocks.
    q8_0: Vec<Q8Tile>,
    /// The numbers of `q8_0`.
    f32_of_q8_0: Vec<f32>,
}

impl Half {
    /// `at` tells where a float lies, and `tile_at` the tile of position and dimension with the
    /// digit in it.
    fn new(
        random: &mut Random,
        [dim, capacity, len]: [usize; 3],
        scale: f32,
        at: impl Fn(usize, usize) -> usize,
        tile_at: impl Fn(usize, usize) -> (usize, usize, usize),
    ) -> Self {
        let mut f32 = random.units(capacity * dim, scale);
        let mut f32_of_q8_0 = vec![f32::NAN; capacity * dim];
        let mut q8_0 = vec![empty_tile(); capacity / 8 * (dim / 32)];
        for (p, d) in (0..capacity).flat_map(|p| (0..dim).map(move |d| (p, d))) {
            if p >= len {
                f32[at(p, d)] = f32::NAN;
            }
            if dim.is_multiple_of(32) {
                let (tile, line, lane) = tile_at(p, d);
                let tile = &mut q8_0[tile];
                if d % 32 == 0 {
                    let scale = f16_of_f32(random.unit() * scale / 127.0);
                    tile.scales[p % 8] = if p < len { scale } else { 0x7e00 };
                }
                tile.digits[line][lane] = (random.below(255) as i32 - 127) as i8;
                let digit = f32::from(tile.digits[line][lane]);
                f32_of_q8_0[at(p, d)] = f32_of_f16(tile.scales[p % 8]) * digit;
            }
        }
        let half = |&x: &f32| if x.is_nan() { 0x7e00 } else { f16_of_f32(x) };
        let f16 = f32.iter().map(half).collect();
        Self {
            f32,
            f16,
            q8_0,
            f32_of_q8_0,
        }
    }
}

/// Random keys, values and queries.
struct Case {
    dim: usize,
    heads: usize,
    capacity: usize,
    first: usize,
    len: usize,
    queries: Vec<f32>,
    keys: Half,
    values: Half,
}

/// Scores, with what lies past the last position gone, and the result of attention.
type Attended = [Vec<f32>; 2];

impl Case {
    fn new(random: &mut Random, dim: usize, heads: usize, capacity: usize, len: usize) -> Self {
        let size = [dim, capacity, len];
        let key = |p, d| key_at(dim, p, d);
        let key_tile = |p, d| (p / 8 * (dim / 32) + d / 32, d % 32, p % 8);
        let value = |p, d| value_at(capacity, p, d);
        let value_tile = |p, d| {
            (
                d / 32 * (capacity / 8) + p / 8,
                d % 32 / 8 * 8 + p % 8,
                d % 8,
            )
        };
        Self {
            dim,
            heads,
            capacity,
            first: 0,
            len,
            queries: random.units(heads * dim, 2.0),
            keys: Half::new(random, size, 2.0, key, key_tile),
            values: Half::new(random, size, 1.0, value, value_tile),
        }
    }

    fn view<'a, T>(&self, stored: &'a [T]) -> KvView<'a, T> {
        KvView {
            stored,
            capacity: self.capacity,
            first: self.first,
            len: self.len,
            dim: self.dim,
        }
    }

    /// Attention in three steps.
    fn attend(
        &self,
        ops: &VectorOps,
        score: impl Fn(&[f32], f32, &mut [f32]),
        weigh: impl Fn(&[f32], usize, &mut [f32]),
    ) -> Attended {
        let count = self.len - self.first;
        let stride = score_stride(count);
        let mut scores = vec![f32::NAN; self.heads * stride];
        let mut out = vec![0.0; self.heads * self.dim];
        score(&self.queries, self.scale(), &mut scores);
        let rows = scores.chunks(stride).flat_map(|row| &row[..count]);
        let first = rows.copied().collect();
        for row in scores.chunks_mut(stride) {
            call!(ops, softmax(&mut row[..count]));
        }
        weigh(&scores, stride, &mut out);
        [first, out]
    }

    fn run_f32(&self, ops: &VectorOps, keys: &[f32], values: &[f32]) -> Attended {
        let (keys, values) = (self.view(keys), self.view(values));
        self.attend(
            ops,
            |queries, scale, scores| call!(ops, score_f32(keys, queries, scale, scores)),
            |weights, stride, out| call!(ops, weigh_f32(values, weights, stride, out)),
        )
    }

    fn run_f16(&self, ops: &VectorOps) -> Attended {
        let (keys, values) = (self.view(&self.keys.f16), self.view(&self.values.f16));
        self.attend(
            ops,
            |queries, scale, scores| call!(ops, score_f16(keys, queries, scale, scores)),
            |weights, stride, out| call!(ops, weigh_f16(values, weights, stride, out)),
        )
    }

    fn run_q8_0(&self, ops: &VectorOps) -> Attended {
        let (keys, values) = (self.view(&self.keys.q8_0), self.view(&self.values.q8_0));
        self.attend(
            ops,
            |queries, scale, scores| call!(ops, score_q8_0(keys, queries, scale, scores)),
            |weights, stride, out| call!(ops, weigh_q8_0(values, weights, stride, out)),
        )
    }

    /// On floats, on binary16, and, of whole blocks, on q8_0.
    fn run(&self, ops: &VectorOps) -> Vec<Attended> {
        let mut results = vec![
            self.run_f32(ops, &self.keys.f32, &self.values.f32),
            self.run_f16(ops),
        ];
        if self.dim.is_multiple_of(32) {
            results.push(self.run_q8_0(ops));
        }
        results
    }

    fn scale(&self) -> f32 {
        1.0 / (self.dim as f32).sqrt()
    }

    /// The first head and the last, in f64.
    fn check(&self, out: &[f32]) {
        for h in [0, self.heads - 1] {
            let score = |p: usize| -> f64 {
                let key = |d| f64::from(self.keys.f32[key_at(self.dim, p, d)]);
                let query = &self.queries[h * self.dim..][..self.dim];
                let dot: f64 = query
                    .iter()
                    .enumerate()
                    .map(|(d, &q)| f64::from(q) * key(d))
                    .sum();
                dot * f64::from(self.scale())
            };
            let positions = self.first..self.len;
            let scores: Vec<f64> = positions.clone().map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..self.dim {
                let value = |p| f64::from(self.values.f32[value_at(self.capacity, p, d)]);
                let weighed = positions.clone().zip(&weights);
                let sum: f64 = weighed.map(|(p, w)| w * value(p)).sum();
                let error = (f64::from(out[h * self.dim + d]) - sum / total).abs();
                assert!(error < 1e-5, "{error}");
            }
        }
    }
}

/// Heads of every size class, every count of heads, and every end of the positions.
fn cases(random: &mut Random) -> Vec<Case> {
    let mut sizes = vec![(64, 8, 2048, 2048), (64, 3, 600, 531)];
    for (dim, heads) in [8, 24, 32, 64, 80, 96, 128]
        .into_iter()
        .flat_map(|d| (1..=9).chain([12, 16]).map(move |h| (d, h)))
    {
        let capacity = 8 * (1 + random.below(30));
        sizes.push((dim, heads, capacity, 1 + random.below(capacity)));
    }
    for (dim, heads) in [16, 32]
        .into_iter()
        .flat_map(|d| [1, 2, 3, 8, 17].map(|h| (d, h)))
    {
        sizes.extend((1..=24).map(|len| (dim, heads, 24, len)));
    }
    sizes
        .into_iter()
        .map(|(dim, heads, capacity, len)| Case::new(random, dim, heads, capacity, len))
        .collect()
}

#[test]
fn attention_is_the_same_on_every_tier_and_near_f64() {
    for case in cases(&mut Random(10)) {
        let expected = case.run(&REFERENCE);
        case.check(&expected[0][1]);
        for (tier, ops) in fast_tiers() {
            for (expected, found) in expected.iter().zip(case.run(ops)) {
                assert_same(tier, &expected[0], &found[0]);
                assert_same(tier, &expected[1], &found[1]);
            }
        }
    }
}

#[test]
fn attention_under_a_window_is_the_same_on_every_tier_and_near_f64() {
    let mut random = Random(15);
    for mut case in cases(&mut random) {
        case.first = random.below(case.len) / 8 * 8;
        let expected = case.run(&REFERENCE);
        case.check(&expected[0][1]);
        for (tier, ops) in fast_tiers() {
            for (expected, found) in expected.iter().zip(case.run(ops)) {
                assert_same(tier, &expected[0], &found[0]);
                assert_same(tier, &expected[1], &found[1]);
            }
        }
    }
}

#[test]
fn attention_over_q8_0_is_that_over_its_numbers_as_floats() {
    for case in cases(&mut Random(13)) {
        if !case.dim.is_multiple_of(32) {
            continue;
        }
        for (tier, ops) in tiers() {
            let (keys, values) = (&case.keys.f32_of_q8_0, &case.values.f32_of_q8_0);
            let expected = case.run_f32(ops, keys, values);
            let found = case.run_q8_0(ops);
            assert_same(tier, &expected[0], &found[0]);
            assert_same(tier, &expected[1], &found[1]);
        }
    }
}

#[test]
fn attention_shows_a_nan() {
    let mut random = Random(11);
    for (tier, ops) in tiers() {
        let mut case = Case::new(&mut random, 32, 3, 32, 21);
        case.queries[40] = f32::NAN; // in the second head
        for [_, out] in case.run(ops) {
            let all_nan = |out: &[f32]| out.iter().all(|x| x.is_nan());
            let heads: Vec<bool> = out.chunks(32).map(all_nan).collect();
            assert_eq!(heads, [false, true, false], "{tier}");
        }
    }
}

#[test]
fn scale_of_q8_0_that_is_no_number_reaches_the_result() {
    let mut random = Random(14);
    for (tier, ops) in tiers() {
        let mut case = Case::new(&mut random, 64, 3, 32, 21);
        case.values.q8_0[4 + 2].scales[4] = 0x7e00; // position 20, the last 32 dimensions
        let [_, out] = case.run_q8_0(ops);
        let is_nan = |i: usize| out[i].is_nan() == (i % 64 >= 32);
        assert!((0..out.len()).all(is_nan), "{tier}");
        case.keys.q8_0[3].scales[1] = 0x7e00; // position 9, the last 32 dimensions
        let [_, out] = case.run_q8_0(ops);
        assert!(out.iter().all(|x| x.is_nan()), "{tier}");
    }
}
