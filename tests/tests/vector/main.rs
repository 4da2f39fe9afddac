//! The vector operations: every tier against the reference with `==`, and the reference against
//! the same mathematics in f64. Run on each architecture, natively or under QEMU.
#![allow(unsafe_code)] // tiers are unsafe to call; each is listed only where the CPU has it

use kernels_asm::vector::{REFERENCE, VectorOps, exp};

/// Calls an operation of a tier.
macro_rules! call {
    ($ops:expr, $op:ident($($argument:expr),*)) => {
        // SAFETY: `fast_tiers` lists what the CPU has; the reference needs nothing.
        unsafe { ($ops.$op)($($argument),*) }
    };
}

mod attention;
mod convert;

type Tier = (&'static str, &'static VectorOps);

/// The tiers of this CPU beyond the reference.
#[cfg(target_arch = "x86_64")]
fn fast_tiers() -> Vec<Tier> {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    if avx2 && is_x86_feature_detected!("f16c") {
        vec![("avx2", &kernels_asm::vector::AVX2)]
    } else {
        vec![]
    }
}

/// The tiers of this CPU beyond the reference.
#[cfg(target_arch = "aarch64")]
fn fast_tiers() -> Vec<Tier> {
    vec![("neon", &kernels_asm::vector::NEON)]
}

fn tiers() -> impl Iterator<Item = Tier> {
    fast_tiers().into_iter().chain([("reference", &REFERENCE)])
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
fn rms_norm_in_place_is_the_one_beside_it() {
    let mut random = Random(16);
    for (kind, len) in kinds_and_lengths() {
        let (x, weight) = (random.vector(kind, len), random.vector(kind / 3, len));
        let mut expected = vec![0.0; len];
        call!(REFERENCE, rms_norm(&x, &weight, 1e-6, &mut expected));
        for (tier, ops) in tiers() {
            let mut found = x.clone();
            call!(ops, rms_norm_in_place(&mut found, &weight, 1e-6));
            assert_same(tier, &expected, &found);
        }
    }
}

/// Adjacent pairs brought to the halves of each head.
fn halves(x: &[f32], dim: usize) -> Vec<f32> {
    let even = |head: &[f32]| head.iter().copied().step_by(2).collect::<Vec<_>>();
    x.chunks(dim)
        .flat_map(|head| [even(head), even(&head[1..])].concat())
        .collect()
}

#[test]
fn rope_of_halves_is_rope_of_the_same_pairs_on_every_tier() {
    let mut random = Random(17);
    for dim in [16, 32, 64, 80, 96, 128, 256] {
        let table = random.units(dim, 1.0);
        for (kind, heads) in (0..3).flat_map(|kind| [(kind, 1), (kind, 9)]) {
            let x = random.vector(kind, heads * dim);
            let mut pairs = x.clone();
            call!(REFERENCE, rope(&mut pairs, &table));
            let expected = halves(&pairs, dim);
            for (tier, ops) in tiers() {
                let mut found = halves(&x, dim);
                call!(ops, rope_halves(&mut found, &table));
                assert_same(tier, &expected, &found);
            }
        }
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
fn gelu_mul_is_the_same_on_every_tier() {
    let mut random = Random(18);
    for (kind, len) in kinds_and_lengths() {
        let (gate, up) = (random.vector(kind, len), random.vector(kind / 3, len));
        let mut expected = gate.clone();
        call!(REFERENCE, gelu_mul(&mut expected, &up));
        for (tier, ops) in fast_tiers() {
            let mut found = gate.clone();
            call!(ops, gelu_mul(&mut found, &up));
            assert_same(tier, &expected, &found);
        }
    }
}

/// Most of the error is that of the argument of the exponential, five roundings of `2u`.
#[test]
fn gelu_mul_is_near_f64() {
    let x: Vec<f32> = (-800..800).map(|i| i as f32 * 0.01).collect();
    let mut out = x.clone();
    call!(REFERENCE, gelu_mul(&mut out, &vec![1.0; x.len()]));
    for (&x, &found) in x.iter().zip(&out) {
        let wide = f64::from(x);
        let u = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
        // (1 + tanh(u)) / 2 without its cancellation.
        let exact = wide / (1.0 + (-2.0 * u).exp());
        let bound = (3e-7 + 4.5e-7 * u.abs()) * exact.abs();
        assert!(
            (f64::from(found) - exact).abs() <= bound,
            "{x}: {found} for {exact}"
        );
    }
}

#[test]
fn soft_cap_is_the_same_on_every_tier() {
    let mut random = Random(19);
    for (kind, len) in kinds_and_lengths() {
        let x = random.vector(kind, len);
        for cap in [0.5, 30.0, 50.0] {
            let mut expected = x.clone();
            call!(REFERENCE, soft_cap(&mut expected, cap));
            for (tier, ops) in fast_tiers() {
                let mut found = x.clone();
                call!(ops, soft_cap(&mut found, cap));
                assert_same(tier, &expected, &found);
            }
        }
    }
}

#[test]
fn soft_cap_is_near_f64_and_hides_no_infinity() {
    for cap in [2.0f32, 30.0, 50.0] {
        let x: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.1).collect();
        let mut out = x.clone();
        call!(REFERENCE, soft_cap(&mut out, cap));
        for (&x, &found) in x.iter().zip(&out) {
            let exact = f64::from(cap) * (f64::from(x) / f64::from(cap)).tanh();
            let error = (f64::from(found) - exact).abs() / f64::from(cap);
            assert!(error <= 2.5e-7, "{x}: {found}, {error:e}");
        }
    }
    for (tier, ops) in tiers() {
        let mut x = [
            0.0,
            -0.0,
            f32::MAX,
            f32::MIN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            1e9,
        ];
        call!(ops, soft_cap(&mut x, 30.0));
        assert_eq!(&x[..4], &[0.0, 0.0, 30.0, -30.0], "{tier}");
        assert!(x[4..7].iter().all(|x| x.is_nan()), "{tier}");
        assert_eq!(x[7], 30.0, "{tier}");
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

/// FNV-1a over the bits, so that one number stands for many.
fn hash(values: &[f32], so_far: u64) -> u64 {
    values
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .fold(so_far, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

#[test]
fn results_are_the_same_on_every_architecture() {
    let mut random = Random(12);
    let (x, y) = (random.units(2048, 4.0), random.units(2048, 1.0));
    let table = random.units(64, 1.0);
    for (tier, ops) in tiers() {
        let mut out = vec![0.0; 2048];
        call!(ops, rms_norm(&x, &y, 1e-5, &mut out));
        let mut all = hash(&out, 0xcbf2_9ce4_8422_2325);
        call!(ops, rope(&mut out, &table));
        all = hash(&out, all);
        call!(ops, silu_mul(&mut out, &x));
        all = hash(&out, all);
        call!(ops, softmax(&mut out[..2045]));
        all = hash(&out, all);
        call!(ops, rms_norm_in_place(&mut out, &y, 1e-5));
        call!(ops, rope_halves(&mut out, &table));
        all = hash(&out, all);
        call!(ops, gelu_mul(&mut out, &x));
        call!(ops, soft_cap(&mut out, 3.0));
        all = hash(&out, all);
        assert_eq!(all, 0x2cf5_249b_baf1_50c6, "{tier}: {all:#018x}");
    }
}
