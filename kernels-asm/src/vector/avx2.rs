//! The x86-64 tier: one 256-bit register, with AVX2, FMA and F16C.
//!
//! Relies on the rounding mode that the ABI promises, to nearest, and on subnormals being kept
//! (neither FTZ nor DAZ).

use core::arch::x86_64::*;

use super::lanes::Lanes;
use super::{KvView, Q8Tile, VectorOps, attention, ops, quantize};

/// Eight floats in a register.
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256);

/// Calls an intrinsic that works on registers only.
macro_rules! avx2 {
    ($($call:tt)*) => {
        // SAFETY: the CPU has AVX2, FMA and F16C: the caller of the functions of `AVX2` or of the
        // GEMVs below, which are the only ways into this file, has promised it.
        unsafe { $($call)* }
    };
}

impl Lanes for Avx2 {
    const TILED: bool = true;

    #[inline(always)]
    fn load(from: &[f32; 8]) -> Self {
        // SAFETY: AVX2 as promised for `avx2!`; the array is 32 bytes that can be read.
        Self(unsafe { _mm256_loadu_ps(from.as_ptr()) })
    }

    #[inline(always)]
    fn load_f16(from: &[u16; 8]) -> Self {
        // SAFETY: F16C as promised for `avx2!`; the array is 16 bytes that can be read.
        Self(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) })
    }

    #[inline(always)]
    fn load_bf16(from: &[u16; 8]) -> Self {
        // SAFETY: AVX2 as promised for `avx2!`; the array is 16 bytes that can be read.
        let bits = unsafe { _mm_loadu_si128(from.as_ptr().cast()) };
        let wide = avx2!(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)));
        Self(avx2!(_mm256_castsi256_ps(wide)))
    }

    #[inline(always)]
    fn load_i8(from: &[i8; 8]) -> Self {
        // SAFETY: AVX2 as promised for `avx2!`; the array is 8 bytes that can be read.
        let bytes = unsafe { _mm_loadl_epi64(from.as_ptr().cast()) };
        Self(avx2!(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))))
    }

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self(avx2!(_mm256_set1_ps(value)))
    }

    #[inline(always)]
    fn pairs(from: &[f32; 4]) -> Self {
        // SAFETY: AVX2 as promised for `avx2!`; the array is 16 bytes that can be read.
        let from = unsafe { _mm256_castps128_ps256(_mm_loadu_ps(from.as_ptr())) };
        let twice = avx2!(_mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
        Self(avx2!(_mm256_permutevar8x32_ps(from, twice)))
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; 8]) {
        // SAFETY: AVX2 as promised for `avx2!`; the array is 32 bytes that can be written.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn store_f16(self, to: &mut [u16; 8]) {
        let bits = avx2!(_mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(self.0));
        // SAFETY: AVX2 as promised for `avx2!`; the array is 16 bytes that can be written.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), bits) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(avx2!(_mm256_add_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(avx2!(_mm256_sub_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(avx2!(_mm256_mul_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(avx2!(_mm256_div_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(avx2!(_mm256_sqrt_ps(self.0)))
    }

    #[inline(always)]
    fn fma(self, factor: Self, addend: Self) -> Self {
        Self(avx2!(_mm256_fmadd_ps(self.0, factor.0, addend.0)))
    }

    #[inline(always)]
    fn fnma(self, factor: Self, addend: Self) -> Self {
        Self(avx2!(_mm256_fnmadd_ps(self.0, factor.0, addend.0)))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(avx2!(_mm256_max_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(avx2!(_mm256_min_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn max_magnitude(self, other: Self) -> Self {
        let other = avx2!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), other.0));
        let max = avx2!(_mm256_max_epi32(
            _mm256_castps_si256(self.0),
            _mm256_castps_si256(other)
        ));
        Self(avx2!(_mm256_castsi256_ps(max)))
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        let n = avx2!(_mm256_slli_epi32::<23>(_mm256_castps_si256(self.0)));
        let one = avx2!(_mm256_castps_si256(_mm256_set1_ps(1.0)));
        Self(avx2!(_mm256_castsi256_ps(_mm256_add_epi32(n, one))))
    }

    #[inline(always)]
    fn swap_pairs(self) -> Self {
        Self(avx2!(_mm256_permute_ps::<0b10_11_00_01>(self.0)))
    }

    #[inline(always)]
    fn negate_even(self) -> Self {
        let even = avx2!(_mm256_setr_ps(-0.0, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0));
        Self(avx2!(_mm256_xor_ps(self.0, even)))
    }

    #[inline(always)]
    fn sum_lanes(self) -> f32 {
        let (low, high) = halves(self.0);
        let quad = avx2!(_mm_add_ps(low, high));
        let pair = avx2!(_mm_add_ps(quad, _mm_movehl_ps(quad, quad)));
        avx2!(_mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair))))
    }

    #[inline(always)]
    fn max_lane(self) -> f32 {
        let (low, high) = halves(self.0);
        let quad = avx2!(_mm_max_ps(low, high));
        let pair = avx2!(_mm_max_ps(quad, _mm_movehl_ps(quad, quad)));
        avx2!(_mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair))))
    }

    #[inline(always)]
    fn max_magnitude_lane(self) -> f32 {
        let (low, high) = halves(self.0);
        let quad = avx2!(_mm_max_epi32(_mm_castps_si128(low), _mm_castps_si128(high)));
        let pair = avx2!(_mm_max_epi32(
            quad,
            _mm_shuffle_epi32::<0b01_00_11_10>(quad)
        ));
        let one = avx2!(_mm_max_epi32(
            pair,
            _mm_shuffle_epi32::<0b10_11_00_01>(pair)
        ));
        avx2!(_mm_cvtss_f32(_mm_castsi128_ps(one)))
    }

    #[inline(always)]
    fn round_to_i8([a, b, c, d]: [Self; 4], to: &mut [u8; 32]) -> [i32; 2] {
        let q = avx2!(round_to_i8(a.0, b.0, c.0, d.0));
        // SAFETY: AVX2 as promised for `avx2!`; the array is 32 bytes that can be written.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), q) };
        avx2!(sums_of_16(q))
    }

    #[inline(always)]
    fn prefetch<T>(at: *const T) {
        // SAFETY: a prefetch of any address is a hint and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

/// Lanes 0 to 3 and lanes 4 to 7.
#[inline(always)]
fn halves(x: __m256) -> (__m128, __m128) {
    avx2!((_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x)))
}

/// 32 floats, rounded, as int8 in order.
#[inline]
#[target_feature(enable = "avx2")]
fn round_to_i8(a: __m256, b: __m256, c: __m256, d: __m256) -> __m256i {
    let ab = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    let cd = _mm256_packs_epi32(_mm256_cvtps_epi32(c), _mm256_cvtps_epi32(d));
    // The packs work on each half of the register; what is in order now is groups of four.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order)
}

/// The sums of the first and of the last 16 int8.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of_16(q: __m256i) -> [i32; 2] {
    let by_2 = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    let by_4 = _mm256_madd_epi16(by_2, _mm256_set1_epi16(1));
    let by_8 = _mm256_add_epi32(by_4, _mm256_shuffle_epi32::<0b01_00_11_10>(by_4));
    let by_16 = _mm256_add_epi32(by_8, _mm256_shuffle_epi32::<0b10_11_00_01>(by_8));
    [
        _mm256_extract_epi32::<0>(by_16),
        _mm256_extract_epi32::<4>(by_16),
    ]
}

tier! {
    /// The operations with AVX2, FMA and F16C.
    AVX2, Avx2, #[target_feature(enable = "avx2,fma,f16c")]
}

float_gemv! { gemv_f32_avx2: Avx2, F32, #[target_feature(enable = "avx2,fma,f16c")] }
float_gemv! { gemv_f16_avx2: Avx2, F16, #[target_feature(enable = "avx2,fma,f16c")] }
float_gemv! { gemv_bf16_avx2: Avx2, Bf16, #[target_feature(enable = "avx2,fma,f16c")] }
