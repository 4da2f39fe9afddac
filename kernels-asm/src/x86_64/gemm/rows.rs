//! Sixteen rows in registers: two of AVX2 or one of AVX-512.

use super::panel::{Line, ROWS};
use core::arch::x86_64::*;

/// What the end of a record needs of sixteen lanes. Every function demands the features that its
/// registers do; pointers are to what the name says, at any alignment.
#[allow(clippy::missing_safety_doc)] // said above, once for all
pub(super) trait Rows {
    /// i32, or pairs of i16.
    type Ints: Copy;
    /// f32.
    type Floats: Copy;
    /// No sums.
    const ZERO: Self::Ints;

    /// Pairs of i16 of a line.
    unsafe fn load(line: &Line) -> Self::Ints;
    /// A pair of i16 for every row.
    unsafe fn repeat(pair: *const u8) -> Self::Ints;
    /// `sums` and the products of two pairs.
    unsafe fn add_pairs(sums: Self::Ints, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// i32 to f32, rounded.
    unsafe fn to_floats(ints: Self::Ints) -> Self::Floats;
    /// Floats of sixteen rows.
    unsafe fn load_floats(floats: &[f32; ROWS]) -> Self::Floats;
    /// And back.
    unsafe fn store_floats(values: Self::Floats, floats: &mut [f32; ROWS]);
    /// A float for every row.
    unsafe fn repeat_float(float: *const u8) -> Self::Floats;
    /// `a * b`.
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `fma(a, b, c)`.
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// `fma(-a, b, c)`.
    unsafe fn fnma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}

/// Two registers of eight rows.
pub(super) struct Ymm;

impl Rows for Ymm {
    type Ints = [__m256i; 2];
    type Floats = [__m256; 2];
    // SAFETY: any bits are integers.
    const ZERO: Self::Ints = unsafe { core::mem::zeroed() };

    #[inline(always)]
    unsafe fn load(line: &Line) -> Self::Ints {
        // SAFETY: a line is two times 32 bytes; the features are the caller's promise.
        unsafe {
            let at = line.as_ptr().cast::<__m256i>();
            [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))]
        }
    }
    #[inline(always)]
    unsafe fn repeat(pair: *const u8) -> Self::Ints {
        // SAFETY: the caller's four bytes, and features.
        unsafe { [_mm256_set1_epi32(pair.cast::<i32>().read_unaligned()); 2] }
    }
    #[inline(always)]
    unsafe fn add_pairs(sums: Self::Ints, a: Self::Ints, b: Self::Ints) -> Self::Ints {
        // SAFETY: the features are the caller's promise.
        unsafe {
            [
                _mm256_add_epi32(sums[0], _mm256_madd_epi16(a[0], b[0])),
                _mm256_add_epi32(sums[1], _mm256_madd_epi16(a[1], b[1])),
            ]
        }
    }
    #[inline(always)]
    unsafe fn to_floats(ints: Self::Ints) -> Self::Floats {
        // SAFETY: the features are the caller's promise.
        unsafe { [_mm256_cvtepi32_ps(ints[0]), _mm256_cvtepi32_ps(ints[1])] }
    }
    #[inline(always)]
    unsafe fn load_floats(floats: &[f32; ROWS]) -> Self::Floats {
        // SAFETY: two times eight floats; the features are the caller's promise.
        unsafe { [_mm256_loadu_ps(&floats[0]), _mm256_loadu_ps(&floats[8])] }
    }
    #[inline(always)]
    unsafe fn store_floats(values: Self::Floats, floats: &mut [f32; ROWS]) {
        // SAFETY: two times eight floats; the features are the caller's promise.
        unsafe {
            _mm256_storeu_ps(&mut floats[0], values[0]);
            _mm256_storeu_ps(&mut floats[8], values[1]);
        }
    }
    #[inline(always)]
    unsafe fn repeat_float(float: *const u8) -> Self::Floats {
        // SAFETY: the caller's four bytes, and features.
        unsafe { [_mm256_set1_ps(float.cast::<f32>().read_unaligned()); 2] }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        // SAFETY: the features are the caller's promise.
        unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        // SAFETY: the features are the caller's promise.
        unsafe {
            [
                _mm256_fmadd_ps(a[0], b[0], c[0]),
                _mm256_fmadd_ps(a[1], b[1], c[1]),
            ]
        }
    }
    #[inline(always)]
    unsafe fn fnma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        // SAFETY: the features are the caller's promise.
        unsafe {
            [
                _mm256_fnmadd_ps(a[0], b[0], c[0]),
                _mm256_fnmadd_ps(a[1], b[1], c[1]),
            ]
        }
    }
}

/// One register of sixteen rows.
pub(super) struct Zmm;

impl Rows for Zmm {
    type Ints = __m512i;
    type Floats = __m512;
    // SAFETY: any bits are integers.
    const ZERO: Self::Ints = unsafe { core::mem::zeroed() };

    #[inline(always)]
    unsafe fn load(line: &Line) -> Self::Ints {
        // SAFETY: a line is 64 bytes; the features are the caller's promise.
        unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
    }
    #[inline(always)]
    unsafe fn repeat(pair: *const u8) -> Self::Ints {
        // SAFETY: the caller's four bytes, and features.
        unsafe { _mm512_set1_epi32(pair.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn add_pairs(sums: Self::Ints, a: Self::Ints, b: Self::Ints) -> Self::Ints {
        // SAFETY: the features are the caller's promise.
        unsafe { _mm512_dpwssd_epi32(sums, a, b) }
    }
    #[inline(always)]
    unsafe fn to_floats(ints: Self::Ints) -> Self::Floats {
        // SAFETY: the features are the caller's promise.
        unsafe { _mm512_cvtepi32_ps(ints) }
    }
    #[inline(always)]
    unsafe fn load_floats(floats: &[f32; ROWS]) -> Self::Floats {
        // SAFETY: sixteen floats; the features are the caller's promise.
        unsafe { _mm512_loadu_ps(floats.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn store_floats(values: Self::Floats, floats: &mut [f32; ROWS]) {
        // SAFETY: sixteen floats; the features are the caller's promise.
        unsafe { _mm512_storeu_ps(floats.as_mut_ptr(), values) }
    }
    #[inline(always)]
    unsafe fn repeat_float(float: *const u8) -> Self::Floats {
        // SAFETY: the caller's four bytes, and features.
        unsafe { _mm512_set1_ps(float.cast::<f32>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        // SAFETY: the features are the caller's promise.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        // SAFETY: the features are the caller's promise.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn fnma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        // SAFETY: the features are the caller's promise.
        unsafe { _mm512_fnmadd_ps(a, b, c) }
    }
}
