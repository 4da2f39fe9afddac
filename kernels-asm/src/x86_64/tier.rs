//! What the tiers do in different ways: products of bytes, and their sums.
//!
//! Every method is `#[inline(always)]`, down to a kernel that is compiled with the features of the
//! tier; for the same reason the formats have loops where closures would do, since a closure is a
//! function of its own, without those features.

use core::arch::x86_64::*;

/// The integer arithmetic of a tier, on eight lanes. Sums start from zero bits.
///
/// # Safety
/// Every method needs the features of the tier, and the bytes that it reads.
pub(super) trait Tier {
    /// `sums` and the products of four unsigned `weights` with four signed `x` in each lane. Sums
    /// are i32 or, in AVX2, pairs of i16 that must not overflow.
    unsafe fn add_products(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i;

    /// Where sums of [`add_signed_products`](Self::add_signed_products) start, given the sum of
    /// all `x`.
    unsafe fn signed_start(sum: __m256i) -> __m256i;

    /// `sums`, which are i32 in every tier, and the products of signed `weights` with signed `x`.
    /// Any weight may be -128; no `x` is.
    unsafe fn add_signed_products(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i;

    /// Several sums of [`add_products`](Self::add_products) in one, as i32.
    unsafe fn total<const S: usize>(sums: [__m256i; S]) -> __m256i;

    /// Eight unsigned bytes from `at` on, a lane each, as `add_scaled` takes them.
    unsafe fn scales(at: *const u8) -> __m256i;

    /// Eight signed bytes.
    unsafe fn signed_scales(at: *const u8) -> __m256i;

    /// `scaled` and the total of `sums` times `scales`.
    unsafe fn add_scaled<const S: usize>(
        scaled: __m256i,
        sums: [__m256i; S],
        scales: __m256i,
    ) -> __m256i;

    /// `scaled` and the products of two scales with the low and the high i16 of `x`.
    unsafe fn add_scaled_pair(scaled: __m256i, scales: [__m256i; 2], x: __m256i) -> __m256i;
}

/// AVX2: `vpmaddubsw` adds products in pairs of i16, `vpmaddwd` those in i32. A scale is a pair of
/// equal i16.
pub(super) struct Avx2;

impl Tier for Avx2 {
    #[inline(always)]
    unsafe fn add_products(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller vouches for AVX2.
        unsafe { _mm256_add_epi16(sums, _mm256_maddubs_epi16(weights, x)) }
    }

    #[inline(always)]
    unsafe fn signed_start(_: __m256i) -> __m256i {
        // SAFETY: the caller vouches for AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn add_signed_products(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller vouches for AVX2.
        unsafe {
            // The sign of a weight moves to `x`, which has a negative for each of its values, as
            // -128 would not. The magnitude of a weight of -128 is 128, an unsigned byte. One pair is all that an i16 takes: 2 * 128 * 127.
            let x = _mm256_sign_epi8(x, weights);
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), x);
            _mm256_add_epi32(sums, Self::total([pairs]))
        }
    }

    #[inline(always)]
    unsafe fn total<const S: usize>(sums: [__m256i; S]) -> __m256i {
        // SAFETY: the caller vouches for AVX2.
        unsafe { Self::add_scaled(_mm256_setzero_si256(), sums, _mm256_set1_epi16(1)) }
    }

    #[inline(always)]
    unsafe fn scales(at: *const u8) -> __m256i {
        const ZERO: i8 = -1;
        // SAFETY: the caller vouches for AVX2 and for eight bytes.
        unsafe {
            let places = _mm256_setr_epi8(
                0, ZERO, 0, ZERO, 1, ZERO, 1, ZERO, 2, ZERO, 2, ZERO, 3, ZERO, 3, ZERO, //
                4, ZERO, 4, ZERO, 5, ZERO, 5, ZERO, 6, ZERO, 6, ZERO, 7, ZERO, 7, ZERO,
            );
            let bytes = _mm256_set1_epi64x(at.cast::<i64>().read_unaligned());
            _mm256_shuffle_epi8(bytes, places)
        }
    }

    #[inline(always)]
    unsafe fn signed_scales(at: *const u8) -> __m256i {
        // SAFETY: the caller vouches for AVX2 and for eight bytes.
        unsafe {
            // Into the high bytes, from where a shift brings them down with their sign.
            let places = _mm256_setr_epi8(
                -1, 0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, //
                -1, 4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7,
            );
            let bytes = _mm256_set1_epi64x(at.cast::<i64>().read_unaligned());
            _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, places), 8)
        }
    }

    #[inline(always)]
    unsafe fn add_scaled<const S: usize>(
        mut scaled: __m256i,
        sums: [__m256i; S],
        scales: __m256i,
    ) -> __m256i {
        for sums in sums {
            // SAFETY: the caller vouches for AVX2.
            scaled = unsafe { _mm256_add_epi32(scaled, _mm256_madd_epi16(sums, scales)) };
        }
        scaled
    }

    #[inline(always)]
    unsafe fn add_scaled_pair(scaled: __m256i, scales: [__m256i; 2], x: __m256i) -> __m256i {
        // SAFETY: the caller vouches for AVX2.
        unsafe {
            let scales = _mm256_blend_epi16(scales[0], scales[1], 0b1010_1010);
            _mm256_add_epi32(scaled, _mm256_madd_epi16(scales, x))
        }
    }
}

/// Stamps out a tier with `vpdpbusd`, which adds four products to an i32 without a step between,
/// and `vpdpwssd`, which adds two of i16. A scale is an i32.
macro_rules! vnni {
    ($(#[$doc:meta])* $name:ident, $bytes:ident, $words:ident) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl Tier for $name {
            #[inline(always)]
            unsafe fn signed_start(sum: __m256i) -> __m256i {
                // SAFETY: the caller vouches for the features.
                unsafe {
                    let too_much = _mm256_slli_epi32(sum, 7);
                    _mm256_sub_epi32(_mm256_setzero_si256(), too_much)
                }
            }

            #[inline(always)]
            unsafe fn add_products(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
                // SAFETY: the caller vouches for the features.
                unsafe { $bytes(sums, weights, x) }
            }

            #[inline(always)]
            unsafe fn add_signed_products(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
                // SAFETY: the caller vouches for the features.
                unsafe {
                    // Two's complement to offset 128.
                    let weights = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
                    $bytes(sums, weights, x)
                }
            }

            #[inline(always)]
            unsafe fn total<const S: usize>(sums: [__m256i; S]) -> __m256i {
                let mut total = sums[0];
                for sums in &sums[1..] {
                    // SAFETY: the caller vouches for the features.
                    total = unsafe { _mm256_add_epi32(total, *sums) };
                }
                total
            }

            #[inline(always)]
            unsafe fn scales(at: *const u8) -> __m256i {
                // SAFETY: the caller vouches for the features and for eight bytes.
                unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast())) }
            }

            #[inline(always)]
            unsafe fn signed_scales(at: *const u8) -> __m256i {
                // SAFETY: the caller vouches for the features and for eight bytes.
                unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast())) }
            }

            #[inline(always)]
            unsafe fn add_scaled<const S: usize>(
                scaled: __m256i,
                sums: [__m256i; S],
                scales: __m256i,
            ) -> __m256i {
                // SAFETY: the caller vouches for the features.
                unsafe {
                    let total = Self::total(sums);
                    _mm256_add_epi32(scaled, _mm256_mullo_epi32(total, scales))
                }
            }

            #[inline(always)]
            unsafe fn add_scaled_pair(
                scaled: __m256i,
                [low, high]: [__m256i; 2],
                x: __m256i,
            ) -> __m256i {
                // SAFETY: the caller vouches for the features.
                unsafe {
                    let high = _mm256_slli_epi32(high, 16);
                    $words(scaled, _mm256_blend_epi16(low, high, 0b1010_1010), x)
                }
            }
        }
    };
}

vnni! {
    /// AVX-VNNI.
    AvxVnni, _mm256_dpbusd_avx_epi32, _mm256_dpwssd_avx_epi32
}

vnni! {
    /// AVX-512 VNNI, in 256-bit registers.
    Avx512Vnni, _mm256_dpbusd_epi32, _mm256_dpwssd_epi32
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::is_x86_feature_detected as detected;

    /// `vpmaddubsw` on the magnitudes of `a` and on `b` with the signs of `a`: the first pair.
    #[target_feature(enable = "avx2")]
    fn with_sign_moved(a: i8, b: i8) -> i16 {
        let (a, b) = (_mm256_set1_epi8(a), _mm256_set1_epi8(b));
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
        _mm256_extract_epi16::<0>(pairs) as i16
    }

    /// Every weight with every activation, four of each to a lane, and the start that is due.
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn check_signed<T: Tier>() {
        for (weight, x) in
            (i8::MIN..=i8::MAX).flat_map(|weight| (-127..=127).map(move |x| (weight, x)))
        {
            // SAFETY: the caller has asked the CPU for the features of the tier.
            let sums = unsafe {
                let start = T::signed_start(_mm256_set1_epi32(4 * i32::from(x)));
                let (weights, x) = (_mm256_set1_epi8(weight), _mm256_set1_epi8(x));
                T::add_signed_products(start, weights, x)
            };
            let exact = 4 * i32::from(weight) * i32::from(x);
            assert_eq!(_mm256_extract_epi32::<0>(sums), exact, "{weight} * {x}");
        }
    }

    #[test]
    fn sign_moved_to_minus_128_is_lost() {
        if !detected!("avx2") {
            return;
        }
        // SAFETY: the CPU has AVX2.
        let with_sign_moved = |a, b| unsafe { with_sign_moved(a, b) };
        // 2 * (-3 * -127) and 2 * (-128 * -127), the sign moving from the first to the second.
        assert_eq!(with_sign_moved(-3, -127), 762);
        assert_eq!(with_sign_moved(-128, -127), 32512);
        // 2 * (-1 * -128) is 256: -128 has no negative in a byte. So it may move from a weight to
        // an activation, which is never -128, and not the other way.
        assert_eq!(with_sign_moved(-1, -128), -256);
        assert_eq!(with_sign_moved(-127, -128), -32512);
    }

    #[test]
    fn signed_products_are_exact_for_every_weight_on_every_tier() {
        let avx2 = detected!("avx2") && detected!("fma") && detected!("f16c");
        let avx512 = detected!("avx512f") && detected!("avx512bw") && detected!("avx512vl");
        // SAFETY: each only where the CPU has the features of its tier.
        unsafe {
            if avx2 {
                check_signed::<Avx2>();
            }
            if avx2 && detected!("avxvnni") {
                check_signed::<AvxVnni>();
            }
            if avx2 && avx512 && detected!("avx512vnni") {
                check_signed::<Avx512Vnni>();
            }
        }
    }
}
