//! The eight-lane vector that every float operation is written over.
//!
//! A tier of the vector operations is one implementation of [`Lanes`]. Each method names exact
//! IEEE 754 binary32 arithmetic, rounded to nearest with ties to even and with subnormals kept, so
//! two implementations can differ only in speed. What a NaN looks like (sign and payload) is the
//! one thing left open: processors disagree, and nothing here depends on it.

/// A vector of eight floats.
///
/// The methods are safe because the trait is private to `vector`: the only callers are the generic
/// operations, and the only code that picks a tier for those is the tier's own `unsafe` functions,
/// which carry its `#[target_feature]`. All methods are `#[inline(always)]` down to that function.
pub(super) trait Lanes: Copy {
    /// Whether work on several vectors at once is faster; a matter of registers, not of results.
    const TILED: bool;

    /// Eight successive floats.
    fn load(from: &[f32; 8]) -> Self;
    /// Eight successive binary16 values, widened exactly; a signalling NaN becomes quiet.
    fn load_f16(from: &[u16; 8]) -> Self;
    /// Eight successive bfloat16 values, which are upper halves of floats.
    fn load_bf16(from: &[u16; 8]) -> Self;
    /// Eight successive int8, exactly.
    fn load_i8(from: &[i8; 8]) -> Self;
    /// `value` in every lane.
    fn splat(value: f32) -> Self;
    /// Each of four floats twice: `(a, a, b, b, c, c, d, d)`.
    fn pairs(from: &[f32; 4]) -> Self;

    /// The lanes, in order.
    fn store(self, to: &mut [f32; 8]);
    /// The lanes as binary16: nearest, ties to even, overflow to infinity, a NaN stays one.
    fn store_f16(self, to: &mut [u16; 8]);

    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self / other`.
    fn div(self, other: Self) -> Self;
    /// The square root, rounded once.
    fn sqrt(self) -> Self;
    /// `self * factor + addend`, rounded once.
    fn fma(self, factor: Self, addend: Self) -> Self;
    /// `addend - self * factor`, rounded once.
    fn fnma(self, factor: Self, addend: Self) -> Self;
    /// `if self > other { self } else { other }`: `other` when either is a NaN.
    fn max(self, other: Self) -> Self;
    /// `if self < other { self } else { other }`: `other` when either is a NaN.
    fn min(self, other: Self) -> Self;
    /// The greater of `self` and `|other|` as bit patterns, where a NaN is greater than infinity
    /// and so cannot hide. `self` has no sign bits.
    fn max_magnitude(self, other: Self) -> Self;
    /// The bits of each lane shifted left by 23 places, plus those of 1.0, as integers. With
    /// `self = 1.5 * 2^23 + n` that is `2^n`: zero at `n = -127`, infinity at `n = 128`.
    fn power_of_two(self) -> Self;

    /// The lanes of each pair exchanged: `(1, 0, 3, 2, 5, 4, 7, 6)`.
    fn swap_pairs(self) -> Self;
    /// The signs of lanes 0, 2, 4 and 6 flipped.
    fn negate_even(self) -> Self;

    /// The sum of the lanes, as `(0+4, 1+5, 2+6, 3+7)`, then `(02, 13)`, then one.
    fn sum_lanes(self) -> f32;
    /// The greatest lane; without NaNs the order does not matter.
    fn max_lane(self) -> f32;
    /// The greatest lane as a bit pattern, of lanes without sign bits.
    fn max_magnitude_lane(self) -> f32;

    /// 32 lanes, each of magnitude below 127.5, as int8 in order, rounded with ties to even;
    /// returns the sums of the first and of the last 16.
    fn round_to_i8(vectors: [Self; 4], to: &mut [u8; 32]) -> [i32; 2];

    /// Hints that the cache line at `at`, valid or not, will be read soon.
    fn prefetch<T>(at: *const T);
}

/// A number of a cache of keys and values that stands for itself.
pub(super) trait Element: Copy {
    /// Eight successive elements as floats.
    fn load<L: Lanes>(from: &[Self; 8]) -> L;
}

impl Element for f32 {
    #[inline(always)]
    fn load<L: Lanes>(from: &[f32; 8]) -> L {
        L::load(from)
    }
}

/// Binary16 bits.
impl Element for u16 {
    #[inline(always)]
    fn load<L: Lanes>(from: &[u16; 8]) -> L {
        L::load_f16(from)
    }
}
