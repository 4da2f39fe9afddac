//! The vector operations: every tier against the reference with `==`, and the reference against
//! the same mathematics in f64. Run on each architecture, natively or under QEMU.
#![allow(unsafe_code)] // tiers are unsafe to call; each is listed only where the CPU has it

use kernels_asm::activation::ActivationFormat;
use kernels_asm::vector::{Attention, KvView, REFERENCE, VectorOps, exp, score_stride};

/// The tiers of this CPU beyond the reference.
fn fast_tiers() -> Vec<(&'static str, &'static VectorOps)> {
    let mut tiers: Vec<(&'static str, &'static VectorOps)> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
    {
        tiers.push(("avx2", &kernels_asm::vector::AVX2));
    }
    #[cfg(target_arch = "aarch64")]
    tiers.push(("neon", &kernels_asm::vector::NEON));
    tiers
}

fn tiers() -> impl Iterator<Item = (&'static str, &'static VectorOps)> {
    fast_tiers().into_iter().chain([("reference", &REFERENCE)])
}

/// Calls an operation of a tier.
macro_rules! call {
    ($ops:expr, $op:ident($($argument:expr),*)) => {
        // SAFETY: `fast_tiers` lists what the CPU has; the reference needs nothing.
        unsafe { ($ops.$op)($($argument),*) }
    };
}

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    fn below(&mut self, n: usize) -> usize {
        self.bits() as usize % n
    }

    /// Uniform in -1 .. 1.
    fn unit(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    fn units(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.unit() * scale).collect()
    }

    /// Any finite value, the edges often.
    fn finite(&mut self) -> f32 {
        const EDGES: [f32; 12] = [
            0.0,
            -0.0,
            1e-45,
            -1e-45,
            f32::MIN_POSITIVE,
            -1.1e-38,
            f32::MAX,
            f32::MIN,
            1.0,
            -88.0,
            65504.0,
            65520.0,
        ];
        match self.below(4) {
            0 => EDGES[self.below(EDGES.len())],
            1 => self.unit() * 100.0,
            2 => self.unit(),
            _ => {
                let x = f32::from_bits(self.bits());
                if x.is_finite() { x } else { self.unit() }
            }
        }
    }

    /// Any value at all, now and then an infinity or a NaN.
    fn any(&mut self) -> f32 {
        match self.below(24) {
            0 => f32::INFINITY,
            1 => f32::NEG_INFINITY,
            2 => f32::NAN,
            _ => self.finite(),
        }
    }

    /// Vectors of one kind each: tame, finite, anything.
    fn vector(&mut self, kind: usize, len: usize) -> Vec<f32> {
        match kind % 3 {
            0 => self.units(len, 4.0),
            1 => (0..len).map(|_| self.finite()).collect(),
            _ => (0..len).map(|_| self.any()).collect(),
        }
    }
}

/// Equal bits, or NaN on both sides.
#[track_caller]
fn assert_same(tier: &str, expected: &[f32], found: &[f32]) {
    assert_eq!(expected.len(), found.len());
    for (i, (e, f)) in expected.iter().zip(found).enumerate() {
        let same = e.to_bits() == f.to_bits() || (e.is_nan() && f.is_nan());
        assert!(
            same,
            "{tier}: at {i} of {}: {f:e} for {e:e}",
            expected.len()
        );
    }
}

/// Lengths of 8 ..= 2048, with every count of vectors modulo four.
fn lengths() -> impl Iterator<Item = usize> {
    (8..=136)
        .step_by(8)
        .chain([576, 640, 896, 1024, 2040, 2048])
}

fn kinds_and_lengths() -> impl Iterator<Item = (usize, usize)> {
    (0..9).flat_map(|kind| lengths().map(move |len| (kind, len)))
}

#[test]
fn rms_norm_is_the_same_on_every_tier() {
    let mut random = Random(1);
    for (kind, len) in kinds_and_lengths() {
        let (x, weight) = (random.vector(kind, len), random.vector(kind / 3, len));
        let epsilon = if kind == 1 { 0.0 } else { 1e-5 };
        let mut expected = vec![0.0; len];
        call!(REFERENCE, rms_norm(&x, &weight, epsilon, &mut expected));
        for (tier, ops) in fast_tiers() {
            let mut found = vec![0.0; len];
            call!(ops, rms_norm(&x, &weight, epsilon, &mut found));
            assert_same(tier, &expected, &found);
        }
    }
}

#[test]
fn rms_norm_is_near_f64_and_shows_a_nan() {
    let mut random = Random(2);
    for len in lengths() {
        let (mut x, weight) = (random.units(len, 3.0), random.units(len, 2.0));
        let mut out = vec![0.0; len];
        call!(REFERENCE, rms_norm(&x, &weight, 1e-5, &mut out));
        let mean = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / len as f64;
        let factor = 1.0 / (mean + f64::from(1e-5f32)).sqrt();
        for i in 0..len {
            let exact = f64::from(x[i]) * factor * f64::from(weight[i]);
            assert!((f64::from(out[i]) - exact).abs() <= 5e-7 * exact.abs() + 1e-40);
        }
        x[random.below(len)] = f32::NAN;
        call!(REFERENCE, rms_norm(&x, &weight, 1e-5, &mut out));
        assert!(out.iter().all(|v| v.is_nan()));
    }
}

#[test]
fn rope_is_the_same_on_every_tier_and_near_f64() {
    let mut random = Random(3);
    for (dim, heads) in [8, 16, 24, 64, 80, 96, 128]
        .into_iter()
        .flat_map(|d| [(d, 1), (d, 9)])
    {
        let angles: Vec<f64> = (0..dim / 2)
            .map(|_| f64::from(random.unit()) * 9.0)
            .collect();
        let cos = angles.iter().map(|a| a.cos() as f32);
        let table: Vec<f32> = cos.chain(angles.iter().map(|a| a.sin() as f32)).collect();
        for kind in 0..3 {
            let x = random.vector(kind, heads * dim);
            let mut expected = x.clone();
            call!(REFERENCE, rope(&mut expected, &table));
            for (tier, ops) in fast_tiers() {
                let mut found = x.clone();
                call!(ops, rope(&mut found, &table));
                assert_same(tier, &expected, &found);
            }
            for i in (0..x.len()).step_by(2).filter(|_| kind == 0) {
                let (x0, x1) = (f64::from(x[i]), f64::from(x[i + 1]));
                let (s, c) = angles[i % dim / 2].sin_cos();
                assert!((f64::from(expected[i]) - (x0 * c - x1 * s)).abs() < 2e-6);
                assert!((f64::from(expected[i + 1]) - (x0 * s + x1 * c)).abs() < 2e-6);
            }
        }
    }
}

#[test]
fn silu_mul_is_the_same_on_every_tier() {
    let mut random = Random(4);
    for (kind, len) in kinds_and_lengths() {
        let (gate, up) = (random.vector(kind, len), random.vector(kind / 3, len));
        let mut expected = gate.clone();
        call!(REFERENCE, silu_mul(&mut expected, &up));
        for (tier, ops) in fast_tiers() {
            let mut found = gate.clone();
            call!(ops, silu_mul(&mut found, &up));
            assert_same(tier, &expected, &found);
        }
    }
}

#[test]
fn silu_mul_is_near_f64() {
    let x: Vec<f32> = (-8000..8000).map(|i| i as f32 * 0.01).collect();
    let mut out = x.clone();
    call!(REFERENCE, silu_mul(&mut out, &vec![1.0; x.len()]));
    for (&x, &found) in x.iter().zip(&out) {
        let exact = f64::from(x) / (1.0 + f64::from(-x).exp());
        assert!(
            (f64::from(found) - exact).abs() <= 4e-7 * exact.abs(),
            "{x}: {found}"
        );
    }
}

#[test]
fn exp_is_within_its_stated_error() {
    let mut worst = 0.0f64;
    let mut x = -87.3f32;
    while x < 88.37 {
        let exact = f64::from(x).exp();
        worst = worst.max(((f64::from(exp(x)) - exact) / exact).abs());
        x += 0.000_731;
    }
    println!("exp: greatest relative error {worst:.3e}");
    assert!(worst < 1.2e-7, "{worst:e}");
}

#[test]
fn exp_has_exact_ends() {
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(-0.0), 1.0);
    for zero in [-87.7, -88.0, -1e4, f32::MIN, f32::NEG_INFINITY] {
        assert_eq!(exp(zero).to_bits(), 0, "{zero}");
    }
    for infinity in [88.4, 89.0, 1e4, f32::MAX, f32::INFINITY] {
        assert_eq!(exp(infinity), f32::INFINITY, "{infinity}");
    }
    assert!(exp(-87.68) > 0.0 && exp(88.37).is_finite());
    assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
}

#[test]
fn add_is_the_same_on_every_tier() {
    let mut random = Random(5);
    for (kind, len) in kinds_and_lengths() {
        let (x, y) = (random.vector(kind, len), random.vector(kind, len));
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        for (tier, ops) in tiers() {
            let mut found = x.clone();
            call!(ops, add(&mut found, &y));
            assert_same(tier, &expected, &found);
        }
    }
}

#[test]
fn softmax_is_the_same_on_every_tier() {
    let mut random = Random(6);
    let lengths = (1..70).chain([255, 2047, 2048]);
    for (kind, len) in (0..6).flat_map(|kind| lengths.clone().map(move |len| (kind, len))) {
        let mut x = random.vector(kind, len);
        if kind > 2 {
            // Masked positions, as a sampler leaves them.
            x = random.units(len, 60.0);
            for _ in 0..len / 2 {
                x[random.below(len)] = f32::NEG_INFINITY;
            }
        }
        let mut expected = x.clone();
        call!(REFERENCE, softmax(&mut expected));
        for (tier, ops) in fast_tiers() {
            let mut found = x.clone();
            call!(ops, softmax(&mut found));
            assert_same(tier, &expected, &found);
        }
    }
}

#[test]
fn softmax_sums_to_one_and_is_near_f64() {
    let mut random = Random(7);
    for len in (1..70).chain([2048, 32_001]) {
        let x = random.units(len, 20.0);
        let mut out = x.clone();
        call!(REFERENCE, softmax(&mut out));
        let sum: f64 = out.iter().map(|&p| f64::from(p)).sum();
        assert!((sum - 1.0).abs() < 2e-6, "{sum}");
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> = x
            .iter()
            .map(|&v| (f64::from(v) - f64::from(max)).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        for (found, weight) in out.iter().zip(weights) {
            // Most of it is the rounding of x - max: half a unit in the last place of 40.
            let exact = weight / total;
            assert!(
                (f64::from(*found) - exact).abs() <= 4e-6 * exact,
                "{found} {exact}"
            );
        }
    }
}

#[test]
fn softmax_gives_masked_values_nothing_and_shows_a_nan() {
    for (tier, ops) in tiers() {
        let mut x = [1.0, f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY, 1.0];
        call!(ops, softmax(&mut x));
        assert_eq!(
            x.map(|p| p == 0.0),
            [false, true, false, true, false],
            "{tier}"
        );
        for (bad, len) in [f32::NAN, f32::INFINITY]
            .iter()
            .flat_map(|b| (1..70).map(move |l| (b, l)))
        {
            let mut x = vec![0.5; len];
            x[len / 2] = *bad;
            call!(ops, softmax(&mut x));
            assert!(x.iter().all(|p| p.is_nan()), "{tier}");
        }
    }
}

/// Blocks at the edges: zero, too small for digits, greatest, ties, and each non-finite value.
fn blocks(random: &mut Random, len: usize) -> Vec<Vec<f32>> {
    let mut blocks: Vec<Vec<f32>> = (0..30).map(|kind| random.vector(kind, len)).collect();
    for scale in [
        0.0,
        -0.0,
        1e-45,
        1e-38,
        3.7e-37,
        3.8e-37,
        1e-36,
        1e30,
        f32::MAX,
    ] {
        blocks.push(random.units(len, scale));
        blocks.push(vec![scale; len]);
        blocks.push(vec![-scale; len]);
    }
    // With a greatest magnitude of 127 each value is its own digit: these are the ties.
    let tie = |i: usize| {
        if i == 0 {
            127.0
        } else {
            i as f32 % 254.0 - 126.5
        }
    };
    blocks.push((0..len).map(tie).collect());
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut block = random.units(len, 1.0);
        block[random.below(len)] = bad;
        blocks.push(block);
    }
    blocks
}

/// The digits and the scale of a block, from the rule.
fn digits(block: &[f32]) -> (Vec<i8>, f32) {
    let amax = block.iter().fold(0.0f32, |amax, x| amax.max(x.abs()));
    if block.iter().any(|x| !x.is_finite()) {
        (vec![0; block.len()], f32::NAN)
    } else if (127.0 / amax).is_infinite() {
        (vec![0; block.len()], 0.0)
    } else {
        let q = |x: &f32| (x * (127.0 / amax)).round_ties_even();
        assert!(block.iter().all(|x| q(x).abs() <= 127.0));
        (block.iter().map(|x| q(x) as i8).collect(), amax / 127.0)
    }
}

fn sum(q: &[i8]) -> i32 {
    q.iter().map(|&q| i32::from(q)).sum()
}

fn i16_at(record: &[u8], at: usize) -> i32 {
    i32::from(i16::from_le_bytes([record[at], record[at + 1]]))
}

fn f32_at(record: &[u8], at: usize) -> f32 {
    f32::from_le_bytes(record[at..at + 4].try_into().unwrap())
}

fn check_per_32(block: &[f32], record: &[u8]) {
    let (q, d) = digits(block);
    assert!(
        q.iter().zip(record).all(|(&q, &byte)| q == byte as i8),
        "{block:?} {record:?}"
    );
    let product = d * sum(&q) as f32;
    assert_same(
        "record",
        &[d, product],
        &[f32_at(record, 32), f32_at(record, 36)],
    );
    assert_eq!(record[40..44], sum(&q).to_le_bytes());
    assert_eq!(record[44..], [0; 4]);
}

fn check_per_256(block: &[f32], record: &[u8]) {
    let (q, d) = digits(block);
    assert!(q.iter().zip(record).all(|(&q, &byte)| q == byte as i8));
    assert_same("record", &[d], &[f32_at(record, 272)]);
    for (j, q) in q.chunks(16).enumerate() {
        assert_eq!(i16_at(record, 296 + 2 * j), sum(q));
    }
    for (j, q) in q.chunks(32).enumerate() {
        let (lo, hi) = (
            i32::from(record[256 + j] as i8),
            i32::from(record[264 + j] as i8),
        );
        assert_eq!(i16_at(record, 280 + 2 * j), sum(q));
        assert_eq!(128 * hi + lo, sum(q));
    }
    assert_eq!(
        (&record[276..280], &record[328..]),
        (&[0; 4][..], &[0; 8][..])
    );
}

#[test]
fn activations_follow_the_rule_on_every_tier() {
    let mut random = Random(8);
    for (tier, ops) in tiers() {
        println!("{tier}");
        let x = blocks(&mut random, 32).concat();
        let mut out = vec![0xa5; ActivationFormat::Per32.bytes(x.len())];
        call!(ops, quantize_per_32(&x, &mut out));
        x.chunks(32)
            .zip(out.chunks(48))
            .for_each(|(x, record)| check_per_32(x, record));

        let x = blocks(&mut random, 256).concat();
        let mut out = vec![0xa5; ActivationFormat::Per256.bytes(x.len())];
        call!(ops, quantize_per_256(&x, &mut out));
        x.chunks(256)
            .zip(out.chunks(336))
            .for_each(|(x, record)| check_per_256(x, record));
    }
}

/// Binary16 to float, by its definition.
fn f32_of_f16(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 0x3ff) / 1024.0);
    match exponent {
        0 => sign * fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction) * 2f32.powi(exponent - 15),
    }
}

/// The exponent of a float's steps as binary16: at least that of the subnormals.
fn exponent_of(x: f32) -> i32 {
    ((x.abs().to_bits() >> 23) as i32 - 127).clamp(-14, 16)
}

/// A number to binary16, by its definition.
fn f16_of_f32(x: f32) -> u16 {
    let exponent = exponent_of(x);
    let steps = (f64::from(x.abs()) * 2f64.powi(10 - exponent)).round_ties_even();
    let bits = (steps + f64::from((exponent + 14) << 10)).min(f64::from(0x7c00));
    bits as u16 | if x.is_sign_negative() { 0x8000 } else { 0 }
}

#[test]
fn to_f16_rounds_to_nearest_on_every_tier() {
    let mut random = Random(9);
    let mut x: Vec<f32> = vec![f32::INFINITY, f32::NEG_INFINITY, 1e-45];
    for h in (0..0x7c00).map(f32_of_f16) {
        let middle = h + 2f32.powi(exponent_of(h) - 11);
        for x0 in [h, middle, middle.next_up(), middle.next_down()] {
            x.extend([x0, -x0]);
        }
    }
    x.extend((0..20_000).map(|_| random.finite()));
    for (tier, ops) in tiers() {
        let mut out = vec![0; x.len()];
        call!(ops, to_f16(&x, &mut out));
        for (&x, &found) in x.iter().zip(&out) {
            assert_eq!(found, f16_of_f32(x), "{tier}: {x:e}");
        }
        for len in 0..20 {
            let mut out = vec![7; len];
            call!(ops, to_f16(&x[100..100 + len], &mut out));
            assert!(out.iter().zip(&x[100..]).all(|(&h, &x)| h == f16_of_f32(x)));
        }
        let mut nan = [0; 3];
        call!(
            ops,
            to_f16(
                &[f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)],
                &mut nan
            )
        );
        assert!(nan.iter().all(|bits| bits & 0x7fff > 0x7c00));
    }
}

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
