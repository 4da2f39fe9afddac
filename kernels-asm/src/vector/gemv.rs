//! GEMVs of the float formats, over any tier's vector.
//!
//! A vector is a column of eight rows, so a lane is a row. Column `k` goes to chain `k % 4`, the
//! result is `(0 + 1) + (2 + 3)`: four chains, since one would wait for each multiply-add in turn.
//! As with the integer formats, two far-apart halves of the groups are walked at once and the
//! lines ahead are asked for one by one (`x86_64` says why).

use super::lanes::Lanes;
use crate::pack::float::{RECORD_F16, RECORD_F32};

/// How far ahead to ask for weights, in bytes.
const AHEAD: usize = 2048;

/// Float weights as records have them.
pub(super) trait FloatWeights {
    /// Bytes of a record.
    const RECORD: usize;
    /// Eight rows of a column.
    ///
    /// # Safety
    /// An eighth of a record can be read at `at`, at any alignment.
    unsafe fn load<L: Lanes>(at: *const u8) -> L;
}

/// See [`WeightFormat`](crate::format::WeightFormat).
pub(super) struct F32;
/// See [`WeightFormat`](crate::format::WeightFormat).
pub(super) struct F16;
/// See [`WeightFormat`](crate::format::WeightFormat).
pub(super) struct Bf16;

impl FloatWeights for F32 {
    const RECORD: usize = RECORD_F32;
    #[inline(always)]
    unsafe fn load<L: Lanes>(at: *const u8) -> L {
        // SAFETY: the caller's 32 bytes; every bit pattern is a float.
        L::load(&unsafe { at.cast::<[f32; 8]>().read_unaligned() })
    }
}

impl FloatWeights for F16 {
    const RECORD: usize = RECORD_F16;
    #[inline(always)]
    unsafe fn load<L: Lanes>(at: *const u8) -> L {
        // SAFETY: the caller's 16 bytes.
        L::load_f16(&unsafe { at.cast::<[u16; 8]>().read_unaligned() })
    }
}

impl FloatWeights for Bf16 {
    const RECORD: usize = RECORD_F16;
    #[inline(always)]
    unsafe fn load<L: Lanes>(at: *const u8) -> L {
        // SAFETY: the caller's 16 bytes.
        L::load_bf16(&unsafe { at.cast::<[u16; 8]>().read_unaligned() })
    }
}

/// The kernel; see [`Gemv`](crate::registry::Gemv).
///
/// # Safety
/// The contract of [`Gemv`](crate::registry::Gemv) for records of `W`; `L`'s CPU features.
#[inline(always)]
pub(super) unsafe fn gemv<L: Lanes, W: FloatWeights>(
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
        let group = |index: usize| weights.add(index * records * W::RECORD);
        let store = |index: usize, rows: L| rows.store(&mut *out.cast::<[f32; 8]>().add(index));
        for index in 0..half {
            let pair = [group(index), group(half + index)];
            let [first, second] = rows::<L, W, 2>(pair, records, activations);
            store(index, first);
            store(half + index, second);
        }
        if groups % 2 == 1 {
            let [last] = rows::<L, W, 1>([group(groups - 1)], records, activations);
            store(groups - 1, last);
        }
    }
}

/// The products of `N` groups with a vector.
///
/// # Safety
/// `records` records can be read at each of `weights` and at `activations`.
#[inline(always)]
unsafe fn rows<L: Lanes, W: FloatWeights, const N: usize>(
    weights: [*const u8; N],
    records: usize,
    activations: *const u8,
) -> [L; N] {
    const LINE: usize = 64;
    let column = W::RECORD / 8;
    let mut sums = [[L::splat(0.0); 4]; N];
    for record in 0..records {
        for k in 0..8 {
            // SAFETY: `record` is below `records` and `k` a column of it.
            unsafe {
                let x = activations.add(32 * record + 4 * k).cast::<f32>();
                let x = L::splat(x.read_unaligned());
                for (weights, sums) in weights.iter().zip(&mut sums) {
                    let at = weights.add(W::RECORD * record + column * k);
                    if (column * k).is_multiple_of(LINE) {
                        L::prefetch(at.wrapping_add(AHEAD));
                    }
                    sums[k % 4] = W::load::<L>(at).fma(x, sums[k % 4]);
                }
            }
        }
    }
    sums.map(|[a, b, c, d]| a.add(b).add(c.add(d)))
}
