//! Floats to activation records and to binary16, against the rules they follow.

use kernels_asm::activation::ActivationFormat;

use crate::{Random, assert_same, tiers};

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
pub fn f32_of_f16(bits: u16) -> f32 {
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
pub fn f16_of_f32(x: f32) -> u16 {
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
