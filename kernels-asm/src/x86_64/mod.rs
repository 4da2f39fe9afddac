//! The x86-64 tiers, in intrinsics: one file for each format, which all tiers are compiled from,
//! and here what the formats share.
//!
//! A 256-bit register holds four k of the eight rows of a group, so a lane is a row from the first
//! load to the last store and nothing is ever shuffled across lanes. The instructions of every
//! tier multiply *unsigned* weights with signed activations; formats with signed weights are made
//! unsigned by an offset, which is taken off again with the activations' sums. What a tier adds
//! products up in is its own affair (`tier`); how many an i16 of the weakest can take is said at
//! each use, with activations within -127 ..= 127 as their records promise.
//!
//! Memory decides the speed. Each call walks *two* far-apart halves of its groups at once, which
//! gives the memory system two streams to follow and uses each activation twice, and asks for
//! the lines ahead one by one, spread over the work on the record at hand: in a burst the
//! requests would queue up.
#![allow(unsafe_code)] // loads through pointers; the contract is `registry::Gemv`

use crate::pack::q4_k;
use core::arch::x86_64::*;

mod gemm;
mod gemv_iq4_nl;
mod gemv_q2_k;
mod gemv_q3_k;
mod gemv_q4_0;
mod gemv_q4_1;
mod gemv_q4_k;
mod gemv_q5_0;
mod gemv_q5_1;
mod gemv_q5_k;
mod gemv_q6_k;
mod gemv_q8_0;
mod gemv_tq2_0;
mod tier;

pub use gemm::*;
use gemv_iq4_nl::IQ4_NL;
use gemv_q2_k::Q2_K;
use gemv_q3_k::Q3_K;
use gemv_q4_0::Q4_0;
use gemv_q4_1::Q4_1;
use gemv_q4_k::Q4_K;
use gemv_q5_0::Q5_0;
use gemv_q5_1::Q5_1;
use gemv_q5_k::Q5_K;
use gemv_q6_k::{Q6_K, load_six_bits};
use gemv_q8_0::Q8_0;
use gemv_tq2_0::TQ2_0;
use tier::{Avx2, Avx512Vnni, AvxVnni, Tier};

/// How far ahead to ask for weights, in bytes. The best differs: 1 to 1.3 KiB on a Zen 3, 2.5 to
/// 5 KiB on a Xeon with AVX-512, which at this distance loses 2 to 5 % (`docs/kernels.md`).
const AHEAD: usize = 1792;

/// A weight format: what is to be done with one record.
trait Format {
    /// Bytes of a record of weights.
    const RECORD: usize;
    /// Bytes of a record of activations.
    const ACTIVATION: usize;

    /// `acc` and the products of the record at each of `weights` with that at `x`.
    ///
    /// # Safety
    /// There are such records, and the CPU has the features of the tier.
    unsafe fn step<T: Tier, const N: usize>(
        weights: [*const u8; N],
        x: *const u8,
        acc: [__m256; N],
    ) -> [__m256; N];
}

/// All groups: pairs from the two halves, then the last one if their number is odd.
///
/// # Safety
/// The contract of [`Gemv`](crate::registry::Gemv) for the format and the tier.
#[inline(always)]
unsafe fn gemv<F: Format, T: Tier>(
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
) {
    let half = groups / 2;
    // SAFETY: the caller vouches for `groups` groups of `records` records at `weights`, for the
    // activations and for `8 * groups` floats at `out`; every index is below `groups`.
    unsafe {
        let group = weights;
        let bytes = records * F::RECORD;
        for index in 0..half {
            let pair = [group.add(index * bytes), group.add((half + index) * bytes)];
            let [first, second] = rows::<F, T, 2>(pair, records, activations);
            _mm256_storeu_ps(out.add(8 * index), first);
            _mm256_storeu_ps(out.add(8 * (half + index)), second);
        }
        if groups % 2 == 1 {
            let last = [group.add((groups - 1) * bytes)];
            let [last] = rows::<F, T, 1>(last, records, activations);
            _mm256_storeu_ps(out.add(8 * (groups - 1)), last);
        }
    }
}

/// The products of `N` groups with a vector: `records` records from each of `weights` on.
///
/// # Safety
/// There are such records and as many of activations, and the CPU has the features of the tier.
#[inline(always)]
unsafe fn rows<F: Format, T: Tier, const N: usize>(
    mut weights: [*const u8; N],
    records: usize,
    activations: *const u8,
) -> [__m256; N] {
    // SAFETY: every record below `records` is there; the features are the caller's promise.
    unsafe {
        let mut acc = [_mm256_setzero_ps(); N];
        for record in 0..records {
            acc = F::step::<T, N>(weights, activations.add(F::ACTIVATION * record), acc);
            for w in &mut weights {
                *w = w.add(F::RECORD);
            }
        }
        acc
    }
}

/// Stamps out the kernels of a tier: for each format a [`gemv`], compiled with the tier's features.
macro_rules! kernels {
    ($tier:ty, $features:literal: $($name:ident $format:ty,)*) => { $(
        /// The kernel; see [`Gemv`](crate::registry::Gemv).
        ///
        /// # Safety
        /// As for every [`Gemv`](crate::registry::Gemv).
        #[target_feature(enable = $features)]
        pub unsafe extern "C" fn $name(
            weights: *const u8,
            groups: usize,
            records: usize,
            activations: *const u8,
            out: *mut f32,
        ) {
            // SAFETY: the caller keeps the contract of `Gemv`, and with it that the CPU has the
            // features of the tier, which are those of this function.
            unsafe { gemv::<$format, $tier>(weights, groups, records, activations, out) }
        }
    )* };
}

kernels! {
    Avx2, "avx2,fma,f16c":
    gemv_q4_0_avx2 Q4_0,
    gemv_q4_1_avx2 Q4_1,
    gemv_q5_0_avx2 Q5_0,
    gemv_q8_0_avx2 Q8_0,
    gemv_q4_k_avx2 Q4_K,
    gemv_q5_k_avx2 Q5_K,
    gemv_q6_k_avx2 Q6_K,
    gemv_q5_1_avx2 Q5_1,
    gemv_iq4_nl_avx2 IQ4_NL,
    gemv_q2_k_avx2 Q2_K,
    gemv_q3_k_avx2 Q3_K,
    gemv_tq2_0_avx2 TQ2_0,
}

kernels! {
    AvxVnni, "avx2,fma,f16c,avxvnni":
    gemv_q4_0_avx_vnni Q4_0,
    gemv_q4_1_avx_vnni Q4_1,
    gemv_q5_0_avx_vnni Q5_0,
    gemv_q8_0_avx_vnni Q8_0,
    gemv_q4_k_avx_vnni Q4_K,
    gemv_q5_k_avx_vnni Q5_K,
    gemv_q6_k_avx_vnni Q6_K,
    gemv_q5_1_avx_vnni Q5_1,
    gemv_iq4_nl_avx_vnni IQ4_NL,
    gemv_q2_k_avx_vnni Q2_K,
    gemv_q3_k_avx_vnni Q3_K,
    gemv_tq2_0_avx_vnni TQ2_0,
}

kernels! {
    Avx512Vnni, "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni":
    gemv_q4_0_avx512_vnni Q4_0,
    gemv_q4_1_avx512_vnni Q4_1,
    gemv_q5_0_avx512_vnni Q5_0,
    gemv_q8_0_avx512_vnni Q8_0,
    gemv_q4_k_avx512_vnni Q4_K,
    gemv_q5_k_avx512_vnni Q5_K,
    gemv_q6_k_avx512_vnni Q6_K,
    gemv_q5_1_avx512_vnni Q5_1,
    gemv_iq4_nl_avx512_vnni IQ4_NL,
    gemv_q2_k_avx512_vnni Q2_K,
    gemv_q3_k_avx512_vnni Q3_K,
    gemv_tq2_0_avx512_vnni TQ2_0,
}

/// Four k of eight rows.
///
/// # Safety
/// 32 bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load(at: *const u8) -> __m256i {
    // SAFETY: the caller's 32 bytes.
    unsafe { _mm256_loadu_si256(at.cast()) }
}

/// Four bytes, such as activations of four k, in every lane.
///
/// # Safety
/// Four bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn repeat(at: *const u8) -> __m256i {
    // SAFETY: the caller's four bytes.
    _mm256_set1_epi32(unsafe { at.cast::<i32>().read_unaligned() })
}

/// An f32 in every lane.
///
/// # Safety
/// Four bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn repeat_f32(at: *const u8) -> __m256 {
    // SAFETY: the caller's four bytes.
    _mm256_set1_ps(unsafe { at.cast::<f32>().read_unaligned() })
}

/// A binary16 for each of eight rows.
///
/// # Safety
/// 16 bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_f16(at: *const u8) -> __m256 {
    // SAFETY: the caller's 16 bytes.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(at.cast()) })
}

/// Asks for the cache line that lies a while ahead of `at`. It need not exist.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn prefetch(at: *const u8) {
    prefetch_line(at.wrapping_add(AHEAD));
}

/// Asks for the line at `at` itself.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn prefetch_line(at: *const u8) {
    _mm_prefetch(at.cast(), _MM_HINT_T0);
}

/// The low nibble of every byte.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn low_nibbles(bytes: __m256i) -> __m256i {
    _mm256_and_si256(bytes, _mm256_set1_epi8(15))
}

/// The high nibble of every byte.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn high_nibbles(bytes: __m256i) -> __m256i {
    low_nibbles(_mm256_srli_epi16(bytes, 4))
}

/// Eight vectors of weights 0 ..= 31 from the five that hold them (`format`, Q5_0 and Q5_K).
///
/// # Safety
/// 160 bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_five_bits(at: *const u8) -> [__m256i; 8] {
    // SAFETY: five times 32 of the caller's 160 bytes.
    let bytes: [__m256i; 5] = unsafe {
        [
            load(at),
            load(at.add(32)),
            load(at.add(64)),
            load(at.add(96)),
            load(at.add(128)),
        ]
    };
    let masked = |bytes: __m256i, mask: i8| _mm256_and_si256(bytes, _mm256_set1_epi8(mask));
    // Shifts of i16 carry bits across the bytes; the masks drop them.
    let or = |a: __m256i, b: __m256i| _mm256_or_si256(a, b);
    let bits_4_to_2 = |bytes: __m256i| masked(_mm256_srli_epi16::<3>(bytes), 0b11100);
    let bits_1_to_0 = |bytes: __m256i| masked(_mm256_srli_epi16::<6>(bytes), 0b00011);
    let bit_1 = masked(_mm256_srli_epi16::<4>(bytes[1]), 0b00010);
    let bit_0 = masked(_mm256_srli_epi16::<5>(bytes[3]), 0b00001);
    [
        masked(bytes[0], 31),
        masked(bytes[1], 31),
        masked(bytes[2], 31),
        masked(bytes[3], 31),
        masked(bytes[4], 31),
        or(bits_4_to_2(bytes[0]), bits_1_to_0(bytes[1])),
        or(bits_4_to_2(bytes[2]), bits_1_to_0(bytes[3])),
        or(bits_4_to_2(bytes[4]), or(bit_1, bit_0)),
    ]
}

/// `sums` and the products of the four two-bit weights of every byte with 16 activations.
///
/// # Safety
/// 16 bytes can be read at `x`, and the CPU has the features of the tier.
#[inline(always)]
unsafe fn add_digits<T: Tier>(mut sums: __m256i, digits: __m256i, x: *const u8) -> __m256i {
    // SAFETY: the caller's promises; every index is below 16.
    unsafe {
        // Shifts of i16 carry bits across the bytes; the mask drops them.
        let digits = [
            digits,
            _mm256_srli_epi16::<2>(digits),
            _mm256_srli_epi16::<4>(digits),
            _mm256_srli_epi16::<6>(digits),
        ];
        for (v, digits) in digits.into_iter().enumerate() {
            let digits = _mm256_and_si256(digits, _mm256_set1_epi8(3));
            sums = T::add_products(sums, digits, repeat(x.add(4 * v)));
        }
        sums
    }
}

/// `acc` and the end of a record of a block format: `acc = fma(P, d * da, acc)`.
///
/// # Safety
/// There are eight binary16 at `d`, and `x` is a record of activations.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn finish_block(d: *const u8, x: *const u8, products: __m256i, acc: __m256) -> __m256 {
    // SAFETY: the caller's scales; 32 is where the activation record has its own.
    let scale = unsafe { _mm256_mul_ps(load_f16(d), repeat_f32(x.add(32))) };
    _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scale, acc)
}

/// `acc` and the end of a record of Q4_K and Q5_K, after `scaled`, the products with the scales
/// folded in: `t = d * scaled`, `t = fma(-dmin, M, t)`, `acc = fma(t, da, acc)`.
///
/// # Safety
/// `w` and `x` are records of Q4_K or Q5_K and of the activations.
#[inline(always)]
unsafe fn finish_k<T: Tier>(w: *const u8, x: *const u8, scaled: __m256i, acc: __m256) -> __m256 {
    // SAFETY: the offsets are those of the header and of the activation record's sums.
    unsafe {
        // The minima lie as weights do, four sub-blocks to a lane. The activation sums of the
        // sub-blocks are 128 * hi + lo, and 4 * 63 * 128 fits i16.
        let [first, second] = [load(w.add(q4_k::MINS)), load(w.add(q4_k::MINS + 32))];
        let zero = _mm256_setzero_si256();
        let low = T::add_products(zero, first, repeat(x.add(256)));
        let low = T::add_products(low, second, repeat(x.add(260)));
        let high = T::add_products(zero, first, repeat(x.add(264)));
        let high = T::add_products(high, second, repeat(x.add(268)));
        let high = _mm256_slli_epi32(T::total([high]), 7);
        let minima = _mm256_cvtepi32_ps(_mm256_add_epi32(high, T::total([low])));

        let t = _mm256_mul_ps(load_f16(w.add(q4_k::D)), _mm256_cvtepi32_ps(scaled));
        let t = _mm256_fnmadd_ps(load_f16(w.add(q4_k::DMIN)), minima, t);
        _mm256_fmadd_ps(t, repeat_f32(x.add(272)), acc)
    }
}
