//! The x86-64 tiers, in intrinsics. One file for each kernel, and here what they share.
//!
//! An AVX2 register holds four k of the eight rows of a group, so a lane is a row from the first
//! load to the last store and nothing is ever shuffled across lanes. `vpmaddubsw` multiplies
//! *unsigned* weights with signed activations and adds pairs into i16; formats with signed weights
//! are made unsigned by an offset, which is taken off again with the activations' sums. How many
//! such pairs an i16 can take before it must widen is said at each use, with activations within
//! -127 ..= 127 as their records promise.
//!
//! Memory decides the speed. Each call walks *two* far-apart halves of its groups at once, which
//! gives the memory system two streams to follow and uses each activation twice, and asks for
//! the lines ahead one by one, spread over the work on the record at hand: in a burst the
//! requests would queue up.
#![allow(unsafe_code)] // loads through pointers; the contract is `registry::Gemv`

use crate::pack::q4_k;
use core::arch::x86_64::*;

mod gemm;
mod gemv_q4_0_avx2;
mod gemv_q4_1_avx2;
mod gemv_q4_k_avx2;
mod gemv_q5_0_avx2;
mod gemv_q5_k_avx2;
mod gemv_q6_k_avx2;
mod gemv_q8_0_avx2;

pub use gemm::*;
pub use gemv_q4_0_avx2::gemv_q4_0_avx2;
pub use gemv_q4_1_avx2::gemv_q4_1_avx2;
pub use gemv_q4_k_avx2::gemv_q4_k_avx2;
pub use gemv_q5_0_avx2::gemv_q5_0_avx2;
pub use gemv_q5_k_avx2::gemv_q5_k_avx2;
pub use gemv_q6_k_avx2::gemv_q6_k_avx2;
use gemv_q6_k_avx2::load_six_bits;
pub use gemv_q8_0_avx2::gemv_q8_0_avx2;

/// How far ahead to ask for weights, in bytes. The best differs: 1 to 1.3 KiB on a Zen 3, 2.5 to
/// 5 KiB on a Xeon with AVX-512, which at this distance loses 2 to 5 % (`docs/kernels.md`).
const AHEAD: usize = 1792;

/// The products of `N` groups with a vector: `records` records from each of `weights` on.
type Rows<const N: usize> =
    unsafe fn(weights: [*const u8; N], records: usize, activations: *const u8) -> [__m256; N];

/// The arguments of a GEMV.
struct Arguments {
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    out: *mut f32,
}

impl Arguments {
    /// All groups: pairs from the two halves, then the last one if their number is odd.
    ///
    /// # Safety
    /// The contract of [`Gemv`](crate::registry::Gemv) for records of `record_bytes`, and AVX2.
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn run(self, record_bytes: usize, pair: Rows<2>, single: Rows<1>) {
        let Self {
            weights,
            groups,
            records,
            activations,
            out,
        } = self;
        let half = groups / 2;
        // SAFETY: the caller vouches for `groups` groups of `records` records at `weights`, for
        // the activations and for `8 * groups` floats at `out`; every index is below `groups`.
        unsafe {
            let group = |index: usize| weights.add(index * records * record_bytes);
            let store = |index: usize, rows: __m256| _mm256_storeu_ps(out.add(8 * index), rows);
            for index in 0..half {
                let [first, second] =
                    pair([group(index), group(half + index)], records, activations);
                store(index, first);
                store(half + index, second);
            }
            if groups % 2 == 1 {
                let [last] = single([group(groups - 1)], records, activations);
                store(groups - 1, last);
            }
        }
    }
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
    _mm_prefetch(at.wrapping_add(AHEAD).cast(), _MM_HINT_T0);
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

/// `sums` and the products of unsigned `weights` with signed `x`, added in pairs in i16.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_products(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
    _mm256_add_epi16(sums, _mm256_maddubs_epi16(weights, x))
}

/// The two i16 of every lane, added in i32.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen(sums: __m256i) -> __m256i {
    _mm256_madd_epi16(sums, _mm256_set1_epi16(1))
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

/// Eight unsigned bytes, one a row, as a pair of equal i16 in each lane.
///
/// # Safety
/// Eight bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_scales(at: *const u8) -> __m256i {
    const ZERO: i8 = -1;
    let places = _mm256_setr_epi8(
        0, ZERO, 0, ZERO, 1, ZERO, 1, ZERO, 2, ZERO, 2, ZERO, 3, ZERO, 3, ZERO, //
        4, ZERO, 4, ZERO, 5, ZERO, 5, ZERO, 6, ZERO, 6, ZERO, 7, ZERO, 7, ZERO,
    );
    // SAFETY: the caller's eight bytes.
    let bytes = unsafe { at.cast::<i64>().read_unaligned() };
    _mm256_shuffle_epi8(_mm256_set1_epi64x(bytes), places)
}

/// The end of a record of Q4_K and Q5_K, after `scaled`, the products with the scales folded in:
/// `t = d * scaled`, `t = fma(-dmin, M, t)`, `acc = fma(t, da, acc)`.
///
/// # Safety
/// `w` and `x` are records of Q4_K or Q5_K and of the activations.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn finish_k(w: *const u8, x: *const u8, scaled: __m256i, acc: __m256) -> __m256 {
    // SAFETY: the offsets are those of the header and of the activation record's sums.
    unsafe {
        // The minima lie as weights do, four sub-blocks to a lane. The activation sums of the
        // sub-blocks are 128 * hi + lo, and 4 * 63 * 128 fits i16.
        let [first, second] = [load(w.add(q4_k::MINS)), load(w.add(q4_k::MINS + 32))];
        let fold = |sums: *const u8| {
            let products = _mm256_maddubs_epi16(first, repeat(sums));
            add_products(products, second, repeat(sums.add(4)))
        };
        let (low, high) = (fold(x.add(256)), fold(x.add(264)));
        let minima = _mm256_madd_epi16(high, _mm256_set1_epi16(128));
        let minima = _mm256_cvtepi32_ps(_mm256_add_epi32(minima, widen(low)));

        let t = _mm256_mul_ps(load_f16(w.add(q4_k::D)), _mm256_cvtepi32_ps(scaled));
        let t = _mm256_fnmadd_ps(load_f16(w.add(q4_k::DMIN)), minima, t);
        _mm256_fmadd_ps(t, repeat_f32(x.add(272)), acc)
    }
}
