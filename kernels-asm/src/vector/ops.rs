//! The operations that work through a vector from front to back, for any tier.
//!
//! Each is `#[inline(always)]` so that it is compiled inside the tier's function, with the
//! features of that tier; for the same reason there are loops here where closures would do, since
//! a closure is a function of its own. `docs/numerics.md` fixes the results that depend on order.

use super::lanes::Lanes;

/// 1.5 * 2^23: a float added to it is rounded to an integer, which its low bits then hold.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts. The first has nine significant bits, so its product with `n` is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Coefficients of `r^6` down to `r^3`, near-minimax for `e^r` on |r| <= 0.3467 with those below at
/// their Taylor values: relative error 4e-9 before rounding.
const C6: f32 = 1.386_377_7e-3;
const C5: f32 = 8.367_502e-3;
const C4: f32 = 4.166_723_8e-2;
const C3: f32 = 1.666_653_5e-1;

/// `e^x`: zero up to -87.69, infinity from 88.38 on, NaN for NaN.
///
/// `x = n ln 2 + r` with the integer `n` nearest, a polynomial in `r`, and `2^n` made from bits.
/// The limits are where `2^n` stops being a normal number, so they need no test.
#[inline(always)]
pub(super) fn exp<L: Lanes>(x: L) -> L {
    // In this order a NaN passes: both return their argument when it is one.
    let x = L::splat(-88.0).max(L::splat(89.0).min(x));
    let shifted = x.fma(L::splat(core::f32::consts::LOG2_E), L::splat(ROUND));
    let n = shifted.sub(L::splat(ROUND));
    let r = n.fnma(L::splat(LN_2_LOW), n.fnma(L::splat(LN_2_HIGH), x));
    let p = L::splat(C6).fma(r, L::splat(C5)).fma(r, L::splat(C4));
    let p = p.fma(r, L::splat(C3)).fma(r, L::splat(0.5));
    let p = p.fma(r, L::splat(1.0)).fma(r, L::splat(1.0));
    p.mul(shifted.power_of_two())
}

/// -2 sqrt(2 / pi), and that times the 0.044715 of GELU's tanh form.
const GELU_LINEAR: f32 = -1.595_769_2;
const GELU_CUBIC: f32 = -0.071_354_814;

/// See [`super::VectorOps::rms_norm`].
#[inline(always)]
pub(super) fn rms_norm<L: Lanes>(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    assert!(weight.len() == x.len() && out.len() == x.len());
    let factor: L = norm_factor(x, epsilon);
    for ((x, weight), out) in vectors(x).iter().zip(vectors(weight)).zip(vectors_mut(out)) {
        L::load(x).mul(factor).mul(L::load(weight)).store(out);
    }
}

/// See [`super::VectorOps::rms_norm_in_place`].
#[inline(always)]
pub(super) fn rms_norm_in_place<L: Lanes>(x: &mut [f32], weight: &[f32], epsilon: f32) {
    assert!(weight.len() == x.len());
    let factor: L = norm_factor(x, epsilon);
    for (x, weight) in vectors_mut(x).iter_mut().zip(vectors(weight)) {
        L::load(x).mul(factor).mul(L::load(weight)).store(x);
    }
}

/// `1 / sqrt(mean(x^2) + epsilon)`, in every lane.
#[inline(always)]
fn norm_factor<L: Lanes>(x: &[f32], epsilon: f32) -> L {
    let mean = sum_of_squares::<L>(x) / x.len() as f32;
    L::splat(1.0).div(L::splat(mean + epsilon).sqrt())
}

#[inline(always)]
fn sum_of_squares<L: Lanes>(x: &[f32]) -> f32 {
    let (groups, rest) = x.as_chunks();
    let mut sums = [L::splat(0.0); 4];
    for group in groups.iter().chain([&padded(rest, 0.0)]) {
        for (sum, x) in sums.iter_mut().zip(group.as_chunks::<8>().0) {
            let x = L::load(x);
            *sum = x.fma(x, *sum);
        }
    }
    total(sums)
}

/// See [`super::VectorOps::rope`].
///
/// Four pairs of every head before the next four, so that their angles are spread over a vector
/// once. The products: `x0 c`, then minus `x1 s` fused; `x1 c`, then plus `x0 s` fused.
#[inline(always)]
pub(super) fn rope<L: Lanes>(x: &mut [f32], table: &[f32]) {
    let dim = table.len();
    assert!(dim > 0 && dim.is_multiple_of(8) && x.len().is_multiple_of(dim));
    let (cos, sin) = table.split_at(dim / 2);
    let (cos, sin) = (cos.as_chunks::<4>().0, sin.as_chunks::<4>().0);
    for (i, (cos, sin)) in cos.iter().zip(sin).enumerate() {
        let (cos, sin) = (L::pairs(cos), L::pairs(sin).negate_even());
        for head in vectors_mut(x).chunks_exact_mut(dim / 8) {
            let pairs = L::load(&head[i]);
            pairs
                .swap_pairs()
                .fma(sin, pairs.mul(cos))
                .store(&mut head[i]);
        }
    }
}

/// See [`super::VectorOps::rope_halves`]. The products are those of [`rope`].
#[inline(always)]
pub(super) fn rope_halves<L: Lanes>(x: &mut [f32], table: &[f32]) {
    let dim = table.len();
    assert!(dim > 0 && dim.is_multiple_of(16) && x.len().is_multiple_of(dim));
    let (cos, sin) = table.split_at(dim / 2);
    for head in x.chunks_exact_mut(dim) {
        let (first, second) = head.split_at_mut(dim / 2);
        let pairs = vectors_mut(first).iter_mut().zip(vectors_mut(second));
        let angles = vectors(cos).iter().zip(vectors(sin));
        for ((x0, x1), (cos, sin)) in pairs.zip(angles) {
            let (a, b) = (L::load(x0), L::load(x1));
            let (cos, sin) = (L::load(cos), L::load(sin));
            b.fnma(sin, a.mul(cos)).store(x0);
            a.fma(sin, b.mul(cos)).store(x1);
        }
    }
}

/// See [`super::VectorOps::silu_mul`].
#[inline(always)]
pub(super) fn silu_mul<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    assert!(gate.len() == up.len());
    for (gate, up) in vectors_mut(gate).iter_mut().zip(vectors(up)) {
        let x = L::load(gate);
        let silu = x.div(L::splat(1.0).add(exp(L::splat(0.0).sub(x))));
        silu.mul(L::load(up)).store(gate);
    }
}

/// See [`super::VectorOps::gelu_mul`].
///
/// `(1 + tanh(u)) / 2` is `1 / (1 + exp(-2u))`, so GELU is `x` by the same quotient as SiLU.
#[inline(always)]
pub(super) fn gelu_mul<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    assert!(gate.len() == up.len());
    for (gate, up) in vectors_mut(gate).iter_mut().zip(vectors(up)) {
        let x = L::load(gate);
        let slope = x.mul(x).fma(L::splat(GELU_CUBIC), L::splat(GELU_LINEAR));
        let gelu = x.div(L::splat(1.0).add(exp(x.mul(slope))));
        gelu.mul(L::load(up)).store(gate);
    }
}

/// See [`super::VectorOps::soft_cap`].
///
/// `tanh(u)` as `1 - 2 / (1 + exp(2u))`, whose error is that of a number near one, also where `x`
/// is small: below 2.5e-7 of `cap`.
#[inline(always)]
pub(super) fn soft_cap<L: Lanes>(x: &mut [f32], cap: f32) {
    let twice_inverse = L::splat(2.0 / cap);
    for x in vectors_mut(x) {
        let score = L::load(x);
        let below = L::splat(2.0 * cap).div(L::splat(1.0).add(exp(score.mul(twice_inverse))));
        let nothing = score.sub(score); // NaN for an infinity
        L::splat(cap).sub(below).add(nothing).store(x);
    }
}

/// See [`super::VectorOps::add`].
#[inline(always)]
pub(super) fn add<L: Lanes>(x: &mut [f32], y: &[f32]) {
    assert!(x.len() == y.len());
    for (x, y) in vectors_mut(x).iter_mut().zip(vectors(y)) {
        L::load(x).add(L::load(y)).store(x);
    }
}

/// See [`super::VectorOps::softmax`].
///
/// The row is filled up with minus infinity, whose exponential is exactly zero, so it gives what
/// the same values give in a longer row that ends in zeros.
#[inline(always)]
pub(super) fn softmax<L: Lanes>(x: &mut [f32]) {
    assert!(!x.is_empty());
    let (groups, rest) = x.as_chunks_mut();
    let mut last = padded(rest, f32::NEG_INFINITY);

    let max = max::<L>(groups, &last);
    let mut sums = [L::splat(0.0); 4];
    for group in groups.iter_mut().chain([&mut last]) {
        for (sum, x) in sums.iter_mut().zip(group.as_chunks_mut::<8>().0) {
            let e = exp(L::load(x).sub(max));
            e.store(x);
            *sum = sum.add(e);
        }
    }

    let factor = L::splat(1.0 / total(sums));
    for group in groups.iter_mut().chain([&mut last]) {
        for x in group.as_chunks_mut::<8>().0 {
            L::load(x).mul(factor).store(x);
        }
    }
    rest.copy_from_slice(&last[..rest.len()]);
}

/// The greatest value, in every lane. A NaN may be passed over: the exponentials will show it.
#[inline(always)]
fn max<L: Lanes>(groups: &[Group], last: &Group) -> L {
    let mut max = [L::splat(f32::NEG_INFINITY); 4];
    for group in groups.iter().chain([last]) {
        for (max, x) in max.iter_mut().zip(group.as_chunks::<8>().0) {
            *max = max.max(L::load(x));
        }
    }
    L::splat(max[0].max(max[1]).max(max[2].max(max[3])).max_lane())
}

/// What a reduction takes at a time: a vector for each of four accumulators.
type Group = [f32; 32];

/// The end of a row as a group, filled up with what does not change the result.
#[inline(always)]
fn padded(rest: &[f32], fill: f32) -> Group {
    let mut group = [fill; 32];
    group[..rest.len()].copy_from_slice(rest);
    group
}

/// The sum of four accumulators.
#[inline(always)]
fn total<L: Lanes>(sums: [L; 4]) -> f32 {
    sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum_lanes()
}

/// See [`super::VectorOps::to_f16`].
#[inline(always)]
pub(super) fn to_f16<L: Lanes>(x: &[f32], out: &mut [u16]) {
    assert!(x.len() == out.len());
    let (x, x_rest) = x.as_chunks::<8>();
    let (out, out_rest) = out.as_chunks_mut::<8>();
    for (x, out) in x.iter().zip(out) {
        L::load(x).store_f16(out);
    }
    let (mut last, mut bits) = ([0.0; 8], [0; 8]);
    last[..x_rest.len()].copy_from_slice(x_rest);
    L::load(&last).store_f16(&mut bits);
    out_rest.copy_from_slice(&bits[..x_rest.len()]);
}

/// The whole vectors of a slice that has nothing else.
#[inline(always)]
fn vectors(x: &[f32]) -> &[[f32; 8]] {
    let (vectors, rest) = x.as_chunks();
    assert!(rest.is_empty(), "the length is not a multiple of eight");
    vectors
}

/// As [`vectors`], to write to.
#[inline(always)]
fn vectors_mut(x: &mut [f32]) -> &mut [[f32; 8]] {
    let (vectors, rest) = x.as_chunks_mut();
    assert!(rest.is_empty(), "the length is not a multiple of eight");
    vectors
}
