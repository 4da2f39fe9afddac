//! Attention on every tier, against the reference and against f64.

use kernels_asm::vector::{Attention, KvView, REFERENCE, VectorOps, score_stride};

use crate::convert::{f16_of_f32, f32_of_f16};
use crate::{Random, assert_same, fast_tiers, tiers};

#[test]
fn attention_reads_every_f16_on_every_tier() {
    let (dim, capacity) = (1 << 16, 8);
    // One position, whose weight is exactly 1, so its values come back.
    let mut values = vec![0u16; dim * capacity];
    for d in 0..dim {
        values[value_at(capacity, 0, d)] = d as u16;
    }
    let (keys, queries) = (vec![0u16; dim * capacity], vec![0.0; dim]);
    let kv = KvView {
        keys: &keys,
        values: &values,
        capacity,
        len: 1,
        dim,
    };
    // The sum starts from +0, which takes the sign of a zero away.
    let expected: Vec<f32> = (0..=u16::MAX).map(|bits| f32_of_f16(bits) + 0.0).collect();
    for (tier, ops) in tiers() {
        let (mut scores, mut found) = (vec![0.0; score_stride(1)], vec![0.0; dim]);
        let (queries, scores, out) = (&queries, &mut scores, &mut found);
        call!(
            ops,
            attend_f16(
                kv,
                Attention {
                    queries,
                    heads: 1,
                    scale: 1.0,
                    scores,
                    out
                }
            )
        );
        assert_same(tier, &expected, &found);
    }
}

/// A cache of random numbers, with NaN where no position lies, and its queries.
struct Case {
    dim: usize,
    heads: usize,
    capacity: usize,
    len: usize,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

fn key_at(dim: usize, p: usize, d: usize) -> usize {
    p / 8 * dim * 8 + d * 8 + p % 8
}

fn value_at(capacity: usize, p: usize, d: usize) -> usize {
    d / 8 * capacity * 8 + p * 8 + d % 8
}

impl Case {
    fn new(random: &mut Random, dim: usize, heads: usize, capacity: usize, len: usize) -> Self {
        let mut keys = random.units(capacity * dim, 2.0);
        let mut values = random.units(capacity * dim, 1.0);
        for (p, d) in (len..capacity).flat_map(|p| (0..dim).map(move |d| (p, d))) {
            keys[key_at(dim, p, d)] = f32::NAN;
            values[value_at(capacity, p, d)] = f32::NAN;
        }
        let queries = random.units(heads * dim, 2.0);
        Self {
            dim,
            heads,
            capacity,
            len,
            queries,
            keys,
            values,
        }
    }

    fn view<'a, T>(&self, keys: &'a [T], values: &'a [T]) -> KvView<'a, T> {
        KvView {
            keys,
            values,
            capacity: self.capacity,
            len: self.len,
            dim: self.dim,
        }
    }

    /// The results with a cache of floats and with one of binary16.
    fn run(&self, ops: &VectorOps) -> [Vec<f32>; 2] {
        let f16 = |x: &[f32]| -> Vec<u16> {
            x.iter()
                .map(|&x| if x.is_nan() { 0x7e00 } else { f16_of_f32(x) })
                .collect()
        };
        let (keys, values) = (f16(&self.keys), f16(&self.values));
        let mut results = [(); 2].map(|()| vec![f32::NAN; self.heads * self.dim]);
        let mut scratch = vec![f32::NAN; self.heads * score_stride(self.len)];
        for (i, out) in results.iter_mut().enumerate() {
            let (queries, heads, scores) = (&self.queries, self.heads, &mut scratch);
            let attention = Attention {
                queries,
                heads,
                scale: self.scale(),
                scores,
                out,
            };
            if i == 0 {
                call!(
                    ops,
                    attend_f32(self.view(&self.keys, &self.values), attention)
                );
            } else {
                call!(ops, attend_f16(self.view(&keys, &values), attention));
            }
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
                let key = |d| f64::from(self.keys[key_at(self.dim, p, d)]);
                let query = &self.queries[h * self.dim..][..self.dim];
                let dot: f64 = query
                    .iter()
                    .enumerate()
                    .map(|(d, &q)| f64::from(q) * key(d))
                    .sum();
                dot * f64::from(self.scale())
            };
            let scores: Vec<f64> = (0..self.len).map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..self.dim {
                let value = |p| f64::from(self.values[value_at(self.capacity, p, d)]);
                let sum: f64 = weights.iter().enumerate().map(|(p, w)| w * value(p)).sum();
                let error = (f64::from(out[h * self.dim + d]) - sum / total).abs();
                assert!(error < 1e-5, "{error}");
            }
        }
    }
}

#[test]
fn attention_is_the_same_on_every_tier_and_near_f64() {
    let mut random = Random(10);
    let mut cases = vec![(64, 8, 2048, 2048)];
    for (dim, heads) in [8, 24, 64, 80, 128]
        .into_iter()
        .flat_map(|d| (1..=9).map(move |h| (d, h)))
    {
        let capacity = 8 * (1 + random.below(30));
        cases.push((dim, heads, capacity, 1 + random.below(capacity)));
    }
    for heads in [1, 2, 3, 8, 17] {
        cases.extend((1..=24).map(|len| (16, heads, 24, len)));
    }
    for (dim, heads, capacity, len) in cases {
        let case = Case::new(&mut random, dim, heads, capacity, len);
        let expected = case.run(&REFERENCE);
        case.check(&expected[0]);
        for (tier, ops) in fast_tiers() {
            let found = case.run(ops);
            assert_same(tier, &expected[0], &found[0]);
            assert_same(tier, &expected[1], &found[1]);
        }
    }
}

#[test]
fn attention_shows_a_nan() {
    let mut random = Random(11);
    for (tier, ops) in tiers() {
        let mut case = Case::new(&mut random, 16, 3, 32, 21);
        case.queries[20] = f32::NAN; // in the second head
        let [out, _] = case.run(ops);
        let heads: Vec<bool> = out
            .chunks(16)
            .map(|o| o.iter().all(|x| x.is_nan()))
            .collect();
        assert_eq!(heads, [false, true, false], "{tier}");
    }
}
