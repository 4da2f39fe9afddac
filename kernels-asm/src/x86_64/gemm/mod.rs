//! Matrix times several vectors: one driver for all formats and tiers.
//!
//! Sixteen rows (two groups) by 128 or 256 k are unpacked once, into a [`Panel`] that stays in the
//! L1 cache: unsigned bytes, [`ROWS`] rows by four k in 64 of them. Tiles of a few vectors then go
//! over it; a tile loads each 64 bytes of weights once, and its sums stay in registers. The float
//! results of all vectors wait beside the panel for the next k.
//!
//! A lane is a row all the time, as in the GEMVs, and each row and vector goes through the records
//! in order, so the chain of float operations is that of the GEMV: only the exact integer sums in
//! between are formed otherwise.
//!
//! A format says how to unpack a record and which float operations end it ([`Format`]); a tier says
//! what sixteen rows are made of and how products are added up ([`Tier`]).

mod panel;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_k;
mod q6_k;
mod q8_0;
mod records;
mod rows;
mod tier;

use super::prefetch_line;
use core::mem::MaybeUninit;
use panel::{Half, Panel, ROWS};
use q4_0::Q4_0;
use q4_1::Q4_1;
use q4_k::Q4_K;
use q5_0::Q5_0;
use q5_k::Q5_K;
use q6_k::Q6_K;
use q8_0::{Q8_0, Q8_0InNibbles};
use rows::Rows;
use tier::{Avx2, Avx512Vnni, AvxVnni, Tier};

/// A weight format: how a record gets into a panel, and what its sums become.
///
/// A record has `SUBS` sub-blocks of `QUADS` times four k. The products of a sub-block are summed
/// up, multiplied with its scale if it is `SCALED`, and these are summed up in turn.
trait Format {
    /// Bytes of a record of weights.
    const RECORD: usize;
    /// Bytes of a record of activations.
    const ACTIVATION: usize;
    /// Records side by side in a panel, at most.
    const RECORDS: usize;
    /// Sub-blocks of a record.
    const SUBS: usize;
    /// Fours of k in a sub-block.
    const QUADS: usize;
    /// Bytes of activations from one sub-block to the next.
    const SUB_STRIDE: usize = 4 * Self::QUADS;
    /// Quads that an i16 can take: `LIMIT * 2 * (greatest weight) * 127` is below 2^15.
    const LIMIT: usize;
    /// Whether the sub-blocks have scales.
    const SCALED: bool;

    /// Puts the record at `record` into its half of a panel.
    ///
    /// # Safety
    /// There is such a record, and the CPU has the features of the tier.
    unsafe fn unpack<T: Tier>(record: *const u8, half: Half<'_>);

    /// The float operations that end record `index` of a panel, for the vector with its record at
    /// `x`; `sums` are those of the sub-blocks.
    ///
    /// # Safety
    /// There is such a record, and the CPU has the features of the rows.
    unsafe fn finish<R: Rows>(
        panel: &Panel,
        index: usize,
        x: *const u8,
        sums: R::Ints,
        acc: R::Floats,
    ) -> R::Floats;
}

/// The arguments of a GEMM.
struct Arguments {
    weights: *const u8,
    groups: usize,
    records: usize,
    activations: *const u8,
    activation_stride: usize,
    tokens: usize,
    out: *mut f32,
    out_stride: usize,
}

impl Arguments {
    /// All rows and vectors.
    ///
    /// # Safety
    /// The contract of [`Gemm`](crate::registry::Gemm) for the format and the tier.
    #[inline(always)]
    unsafe fn run<F: Format, T: Tier, const TILE: usize>(self) {
        const { assert!(TOKENS.is_multiple_of(TILE)) };
        let (mut panel, mut results) = (MaybeUninit::zeroed(), MaybeUninit::zeroed());
        // SAFETY: zeros are numbers. Made where they stay: as values they would be copied there.
        let (panel, results): (&mut Panel, &mut Results) =
            unsafe { (panel.assume_init_mut(), results.assume_init_mut()) };
        for first in (0..self.tokens).step_by(TOKENS) {
            let tokens = (self.tokens - first).min(TOKENS);
            // A tile that is not full repeats the last vector; there are results for that.
            let vectors: [*const u8; TOKENS] = core::array::from_fn(|token| {
                let at = (first + token.min(tokens - 1)) * self.activation_stride;
                self.activations.wrapping_add(at)
            });
            for group in (0..self.groups).step_by(2) {
                let results = &mut results.0[..tokens.next_multiple_of(TILE)];
                results.fill([0.0; ROWS]);
                for record in (0..self.records).step_by(F::RECORDS) {
                    let records = (self.records - record).min(F::RECORDS);
                    // SAFETY: the group, the records and the vectors are among the caller's.
                    unsafe {
                        self.unpack::<F, T>(panel, group, record, records);
                        let next = self.behind::<F>(group, record);
                        self.multiply::<F, T, TILE>(
                            panel, results, &vectors, record, records, next,
                        );
                    }
                }
                // SAFETY: likewise.
                unsafe { self.store(&results[..tokens], group, first) };
            }
        }
    }

    /// Some records of a group and the next one. The last group is its own next one; what becomes
    /// of that is not stored.
    #[inline(always)]
    unsafe fn unpack<F: Format, T: Tier>(
        &self,
        panel: &mut Panel,
        group: usize,
        record: usize,
        records: usize,
    ) {
        for half in 0..2 {
            let group = (group + half).min(self.groups - 1);
            for index in 0..records {
                let at = (group * self.records + record + index) * F::RECORD;
                let first_quad = index * F::SUBS * F::QUADS;
                let half = Half::new(panel, half, index, first_quad);
                // SAFETY: the caller's group and records.
                unsafe { F::unpack::<T>(self.weights.add(at), half) };
            }
        }
    }

    /// Where the records of the panel behind the one at `group` and `record` start, in its two
    /// groups: only to be prefetched, since after the last one there is none.
    #[inline(always)]
    fn behind<F: Format>(&self, group: usize, record: usize) -> [*const u8; 2] {
        let (group, record) = match record + F::RECORDS {
            record if record < self.records => (group, record),
            _ => (group + 2, 0),
        };
        [group, group + 1].map(|group| {
            let at = (group * self.records + record) * F::RECORD;
            self.weights.wrapping_add(at)
        })
    }

    /// Adds to the results of the vectors a panel that starts at `record`, and prefetches the one
    /// that starts at `next`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // inlined
    unsafe fn multiply<F: Format, T: Tier, const TILE: usize>(
        &self,
        panel: &Panel,
        results: &mut [[f32; ROWS]],
        vectors: &[*const u8; TOKENS],
        record: usize,
        records: usize,
        next: [*const u8; 2],
    ) {
        let (tiles, _) = results.as_chunks_mut::<TILE>();
        let (vectors, _) = vectors.as_chunks::<TILE>();
        let lines = (F::RECORDS * F::RECORD).div_ceil(LINE);
        let share = lines.div_ceil(tiles.len());
        for (index, (results, x)) in tiles.iter_mut().zip(vectors).enumerate() {
            for line in share * index..lines.min(share * (index + 1)) {
                for group in next {
                    // SAFETY: the features are the caller's promise.
                    unsafe { prefetch_line(group.wrapping_add(LINE * line)) };
                }
            }
            let x = x.map(|x| x.wrapping_add(record * F::ACTIVATION));
            // SAFETY: the caller's vectors and records.
            unsafe { tile::<F, T, TILE>(panel, records, x, results) };
        }
    }

    /// The results for a group and, if there is one, the next.
    #[inline(always)]
    unsafe fn store(&self, results: &[[f32; ROWS]], group: usize, first: usize) {
        let groups = (self.groups - group).min(2);
        for (token, result) in results.iter().enumerate() {
            let at = (first + token) * self.out_stride + 8 * group;
            let (result, _) = result.as_chunks::<8>();
            for (half, result) in result[..groups].iter().enumerate() {
                // SAFETY: the caller vouches for these floats of the row of this vector.
                unsafe {
                    self.out
                        .add(at + 8 * half)
                        .cast::<[f32; 8]>()
                        .write(*result)
                };
            }
        }
    }
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Vectors whose results wait for the next k: enough that unpacking costs little, 8 KiB.
const TOKENS: usize = 128;

/// The results of sixteen rows.
#[repr(align(64))]
struct Results([[f32; ROWS]; TOKENS]);

/// Sixteen rows by `TILE` vectors by the records of a panel.
///
/// # Safety
/// So many activation records are at each of `x`, and the CPU has the features of the tier.
#[inline(always)]
unsafe fn tile<F: Format, T: Tier, const TILE: usize>(
    panel: &Panel,
    records: usize,
    x: [*const u8; TILE],
    results: &mut [[f32; ROWS]; TILE],
) {
    for index in 0..records {
        // SAFETY: the caller's records and features; the panel holds as many records.
        unsafe {
            let x = x.map(|x| x.add(index * F::ACTIVATION));
            let mut sums = [T::Rows::ZERO; TILE];
            for sub in 0..F::SUBS {
                let quants = panel
                    .quants
                    .as_ptr()
                    .add((index * F::SUBS + sub) * F::QUADS);
                let x = x.map(|x| x.add(sub * F::SUB_STRIDE));
                T::dot::<F, TILE>(quants, &panel.scales[sub], x, &mut sums);
            }
            for ((x, sums), result) in x.into_iter().zip(sums).zip(&mut *results) {
                let acc = T::Rows::load_floats(result);
                let acc = F::finish::<T::Rows>(panel, index, x, sums, acc);
                T::Rows::store_floats(acc, result);
            }
        }
    }
}

/// Stamps out the kernels of a tier: for each format a driver, compiled with the tier's features.
/// The number is the vectors that go over a panel together: as many as registers hold the sums of.
macro_rules! kernels {
    ($tier:ty, $tile:literal, $features:literal: $($name:ident $format:ty,)*) => { $(
        /// The kernel; see [`Gemm`](crate::registry::Gemm).
        ///
        /// # Safety
        /// As for every [`Gemm`](crate::registry::Gemm).
        #[allow(clippy::too_many_arguments)] // as the type has them
        #[target_feature(enable = $features)]
        pub unsafe extern "C" fn $name(
            weights: *const u8,
            groups: usize,
            records: usize,
            activations: *const u8,
            activation_stride: usize,
            tokens: usize,
            out: *mut f32,
            out_stride: usize,
        ) {
            let arguments = Arguments {
                weights,
                groups,
                records,
                activations,
                activation_stride,
                tokens,
                out,
                out_stride,
            };
            // SAFETY: the caller keeps the contract of `Gemm`, and with it that the CPU has the
            // features of the tier, which are those of this function.
            unsafe { arguments.run::<$format, $tier, $tile>() }
        }
    )* };
}

kernels! {
    Avx2, 4, "avx2,fma,f16c":
    gemm_q4_0_avx2 Q4_0,
    gemm_q4_1_avx2 Q4_1,
    gemm_q5_0_avx2 Q5_0,
    gemm_q8_0_avx2 Q8_0InNibbles,
    gemm_q4_k_avx2 Q4_K,
    gemm_q5_k_avx2 Q5_K,
    gemm_q6_k_avx2 Q6_K,
}

kernels! {
    AvxVnni, 4, "avx2,fma,f16c,avxvnni":
    gemm_q4_0_avx_vnni Q4_0,
    gemm_q4_1_avx_vnni Q4_1,
    gemm_q5_0_avx_vnni Q5_0,
    gemm_q8_0_avx_vnni Q8_0,
    gemm_q4_k_avx_vnni Q4_K,
    gemm_q5_k_avx_vnni Q5_K,
    gemm_q6_k_avx_vnni Q6_K,
}

kernels! {
    Avx512Vnni, 8, "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni":
    gemm_q4_0_avx512_vnni Q4_0,
    gemm_q4_1_avx512_vnni Q4_1,
    gemm_q5_0_avx512_vnni Q5_0,
    gemm_q8_0_avx512_vnni Q8_0,
    gemm_q4_k_avx512_vnni Q4_K,
    gemm_q5_k_avx512_vnni Q5_K,
    gemm_q6_k_avx512_vnni Q6_K,
}
