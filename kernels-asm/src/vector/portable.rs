//! The reference tier: eight floats in an array, one operation at a time.
//!
//! Runs on anything and defines what the other tiers must give. Not written for speed: the fused
//! multiply-add is software.

use super::lanes::Lanes;
use super::{KvView, Q8Tile, VectorOps, attention, ops, quantize};
use crate::fused::mul_add;
use crate::half::{f16_to_f32, f32_to_f16};

/// Eight floats.
#[derive(Clone, Copy)]
pub(super) struct Portable(pub(super) [f32; 8]);

impl Portable {
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        Self(self.0.map(f))
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(core::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    /// Halves the lanes three times, as the reduction tree says.
    #[inline(always)]
    fn reduce(self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let x = self.0;
        let quad: [f32; 4] = core::array::from_fn(|i| f(x[i], x[i + 4]));
        f(f(quad[0], quad[2]), f(quad[1], quad[3]))
    }
}

impl Lanes for Portable {
    const TILED: bool = false;

    #[inline(always)]
    fn load(from: &[f32; 8]) -> Self {
        Self(*from)
    }

    #[inline(always)]
    fn load_f16(from: &[u16; 8]) -> Self {
        Self(from.map(f16_to_f32))
    }

    #[inline(always)]
    fn load_bf16(from: &[u16; 8]) -> Self {
        Self(from.map(|bits| f32::from_bits(u32::from(bits) << 16)))
    }

    #[inline(always)]
    fn load_i8(from: &[i8; 8]) -> Self {
        Self(from.map(f32::from))
    }

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([value; 8])
    }

    #[inline(always)]
    fn pairs(from: &[f32; 4]) -> Self {
        Self(core::array::from_fn(|i| from[i / 2]))
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; 8]) {
        *to = self.0;
    }

    #[inline(always)]
    fn store_f16(self, to: &mut [u16; 8]) {
        *to = self.0.map(f32_to_f16);
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        self.map(libm::sqrtf)
    }

    #[inline(always)]
    fn fma(self, factor: Self, addend: Self) -> Self {
        Self(core::array::from_fn(|i| {
            mul_add(self.0[i], factor.0[i], addend.0[i])
        }))
    }

    #[inline(always)]
    fn fnma(self, factor: Self, addend: Self) -> Self {
        Self(core::array::from_fn(|i| {
            mul_add(-self.0[i], factor.0[i], addend.0[i])
        }))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn max_magnitude(self, other: Self) -> Self {
        self.zip(other, |a, b| {
            f32::from_bits(a.to_bits().max(b.abs().to_bits()))
        })
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        self.map(|x| f32::from_bits((x.to_bits() << 23).wrapping_add(1.0f32.to_bits())))
    }

    #[inline(always)]
    fn swap_pairs(self) -> Self {
        Self(core::array::from_fn(|i| self.0[i ^ 1]))
    }

    #[inline(always)]
    fn negate_even(self) -> Self {
        Self(core::array::from_fn(|i| {
            if i % 2 == 0 { -self.0[i] } else { self.0[i] }
        }))
    }

    #[inline(always)]
    fn sum_lanes(self) -> f32 {
        self.reduce(|a, b| a + b)
    }

    #[inline(always)]
    fn max_lane(self) -> f32 {
        self.reduce(|a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn max_magnitude_lane(self) -> f32 {
        self.reduce(|a, b| f32::from_bits(a.to_bits().max(b.to_bits())))
    }

    #[inline(always)]
    fn round_to_i8(vectors: [Self; 4], to: &mut [u8; 32]) -> [i32; 2] {
        let mut sums = [0; 2];
        for (i, to) in to.iter_mut().enumerate() {
            let q = libm::rintf(vectors[i / 8].0[i % 8]) as i8;
            *to = q as u8;
            sums[i / 16] += i32::from(q);
        }
        sums
    }

    #[inline(always)]
    fn prefetch<T>(_: *const T) {}
}

tier! {
    /// The operations in plain Rust; they need nothing of the CPU.
    REFERENCE, Portable
}
