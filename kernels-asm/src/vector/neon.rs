//! The AArch64 tier: two 128-bit registers, with the Advanced SIMD of Armv8.0.
//!
//! Relies on the floating-point mode that the ABI promises: to nearest, subnormals kept, NaNs
//! propagated, IEEE binary16.

use core::arch::{aarch64::*, asm};

use super::lanes::Lanes;
use super::{KvView, Q8Tile, VectorOps, attention, ops, quantize};

/// Lanes 0 to 3 and lanes 4 to 7.
#[derive(Clone, Copy)]
pub(super) struct Neon(float32x4_t, float32x4_t);

/// Calls an intrinsic that works on registers only.
macro_rules! neon {
    ($($call:tt)*) => {
        // SAFETY: Advanced SIMD is in the baseline of every target that this file is built for.
        unsafe { $($call)* }
    };
}

impl Lanes for Neon {
    const TILED: bool = true;

    #[inline(always)]
    fn load(from: &[f32; 8]) -> Self {
        // SAFETY: the array is 32 bytes that can be read.
        unsafe { Self(vld1q_f32(from.as_ptr()), vld1q_f32(from.as_ptr().add(4))) }
    }

    #[inline(always)]
    fn load_f16(from: &[u16; 8]) -> Self {
        let (low, high);
        // SAFETY: the array is 16 bytes that can be read; the instructions touch registers only.
        unsafe {
            let bits = vld1q_u16(from.as_ptr());
            asm!(
                "fcvtl {low:v}.4s, {bits:v}.4h",
                "fcvtl2 {high:v}.4s, {bits:v}.8h",
                low = out(vreg) low, high = lateout(vreg) high, bits = in(vreg) bits,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        Self(low, high)
    }

    #[inline(always)]
    fn load_bf16(from: &[u16; 8]) -> Self {
        // SAFETY: the array is 16 bytes that can be read.
        let bits = unsafe { vld1q_u16(from.as_ptr()) };
        neon!(Self(
            vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(bits))),
            vreinterpretq_f32_u32(vshll_high_n_u16::<16>(bits))
        ))
    }

    #[inline(always)]
    fn load_i8(from: &[i8; 8]) -> Self {
        // SAFETY: the array is 8 bytes that can be read.
        let wide = unsafe { vmovl_s8(vld1_s8(from.as_ptr())) };
        neon!(Self(
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))),
            vcvtq_f32_s32(vmovl_high_s16(wide))
        ))
    }

    #[inline(always)]
    fn splat(value: f32) -> Self {
        neon!(Self(vdupq_n_f32(value), vdupq_n_f32(value)))
    }

    #[inline(always)]
    fn pairs(from: &[f32; 4]) -> Self {
        // SAFETY: the array is 16 bytes that can be read.
        let from = unsafe { vld1q_f32(from.as_ptr()) };
        neon!(Self(vzip1q_f32(from, from), vzip2q_f32(from, from)))
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; 8]) {
        // SAFETY: the array is 32 bytes that can be written.
        unsafe {
            vst1q_f32(to.as_mut_ptr(), self.0);
            vst1q_f32(to.as_mut_ptr().add(4), self.1);
        }
    }

    #[inline(always)]
    fn store_f16(self, to: &mut [u16; 8]) {
        // SAFETY: the instructions touch registers only; the array is 16 bytes that can be
        // written.
        unsafe {
            let bits;
            asm!(
                "fcvtn {bits:v}.4h, {low:v}.4s",
                "fcvtn2 {bits:v}.8h, {high:v}.4s",
                bits = out(vreg) bits, low = in(vreg) self.0, high = in(vreg) self.1,
                options(pure, nomem, nostack, preserves_flags),
            );
            vst1q_u16(to.as_mut_ptr(), bits);
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        neon!(Self(vaddq_f32(self.0, other.0), vaddq_f32(self.1, other.1)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        neon!(Self(vsubq_f32(self.0, other.0), vsubq_f32(self.1, other.1)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        neon!(Self(vmulq_f32(self.0, other.0), vmulq_f32(self.1, other.1)))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        neon!(Self(vdivq_f32(self.0, other.0), vdivq_f32(self.1, other.1)))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        neon!(Self(vsqrtq_f32(self.0), vsqrtq_f32(self.1)))
    }

    #[inline(always)]
    fn fma(self, factor: Self, addend: Self) -> Self {
        neon!(Self(
            vfmaq_f32(addend.0, self.0, factor.0),
            vfmaq_f32(addend.1, self.1, factor.1)
        ))
    }

    #[inline(always)]
    fn fnma(self, factor: Self, addend: Self) -> Self {
        neon!(Self(
            vfmsq_f32(addend.0, self.0, factor.0),
            vfmsq_f32(addend.1, self.1, factor.1)
        ))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // Not FMAX, which returns a NaN from either side.
        neon!(Self(greater(self.0, other.0), greater(self.1, other.1)))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        neon!(Self(less(self.0, other.0), less(self.1, other.1)))
    }

    #[inline(always)]
    fn max_magnitude(self, other: Self) -> Self {
        neon!(Self(
            greater_magnitude(self.0, other.0),
            greater_magnitude(self.1, other.1)
        ))
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        neon!(Self(power_of_two(self.0), power_of_two(self.1)))
    }

    #[inline(always)]
    fn swap_pairs(self) -> Self {
        neon!(Self(vrev64q_f32(self.0), vrev64q_f32(self.1)))
    }

    #[inline(always)]
    fn negate_even(self) -> Self {
        let even = neon!(vreinterpretq_u32_u64(vdupq_n_u64(1 << 31)));
        neon!(Self(flip(self.0, even), flip(self.1, even)))
    }

    #[inline(always)]
    fn sum_lanes(self) -> f32 {
        let quad = neon!(vaddq_f32(self.0, self.1));
        neon!(vaddv_f32(vadd_f32(vget_low_f32(quad), vget_high_f32(quad))))
    }

    #[inline(always)]
    fn max_lane(self) -> f32 {
        let quad = neon!(greater(self.0, self.1));
        let pair = neon!(greater(quad, vextq_f32::<2>(quad, quad)));
        neon!(vgetq_lane_f32::<0>(greater(pair, vrev64q_f32(pair))))
    }

    #[inline(always)]
    fn max_magnitude_lane(self) -> f32 {
        let (low, high) = neon!((vreinterpretq_u32_f32(self.0), vreinterpretq_u32_f32(self.1)));
        f32::from_bits(neon!(vmaxvq_u32(vmaxq_u32(low, high))))
    }

    #[inline(always)]
    fn round_to_i8([a, b, c, d]: [Self; 4], to: &mut [u8; 32]) -> [i32; 2] {
        let (first, last) = neon!((round_16(a, b), round_16(c, d)));
        // SAFETY: the array is 32 bytes that can be written.
        unsafe {
            vst1q_s8(to.as_mut_ptr().cast(), first);
            vst1q_s8(to.as_mut_ptr().cast::<i8>().add(16), last);
        }
        neon!([i32::from(vaddlvq_s8(first)), i32::from(vaddlvq_s8(last))])
    }

    #[inline(always)]
    fn prefetch<T>(at: *const T) {
        // SAFETY: a prefetch of any address is a hint and cannot fault.
        unsafe { asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags)) }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn greater(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    vbslq_f32(vcgtq_f32(a, b), a, b)
}

#[inline]
#[target_feature(enable = "neon")]
fn less(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    vbslq_f32(vcltq_f32(a, b), a, b)
}

#[inline]
#[target_feature(enable = "neon")]
fn greater_magnitude(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    let (a, b) = (
        vreinterpretq_u32_f32(a),
        vreinterpretq_u32_f32(vabsq_f32(b)),
    );
    vreinterpretq_f32_u32(vmaxq_u32(a, b))
}

#[inline]
#[target_feature(enable = "neon")]
fn power_of_two(x: float32x4_t) -> float32x4_t {
    let n = vshlq_n_u32::<23>(vreinterpretq_u32_f32(x));
    vreinterpretq_f32_u32(vaddq_u32(n, vdupq_n_u32(1.0f32.to_bits())))
}

#[inline]
#[target_feature(enable = "neon")]
fn flip(x: float32x4_t, signs: uint32x4_t) -> float32x4_t {
    vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), signs))
}

/// 16 floats, rounded, as int8 in order.
#[inline]
#[target_feature(enable = "neon")]
fn round_16(a: Neon, b: Neon) -> int8x16_t {
    vcombine_s8(round_8(a), round_8(b))
}

#[inline]
#[target_feature(enable = "neon")]
fn round_8(x: Neon) -> int8x8_t {
    let (low, high) = (
        vmovn_s32(vcvtnq_s32_f32(x.0)),
        vmovn_s32(vcvtnq_s32_f32(x.1)),
    );
    vmovn_s16(vcombine_s16(low, high))
}

tier! {
    /// The operations with Advanced SIMD.
    NEON, Neon, #[target_feature(enable = "neon")]
}

float_gemv! { gemv_f32_neon: Neon, F32 }
float_gemv! { gemv_f16_neon: Neon, F16 }
float_gemv! { gemv_bf16_neon: Neon, Bf16 }
