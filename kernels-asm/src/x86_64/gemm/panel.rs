//! Sixteen rows, unpacked: what the tiles of all vectors read.

use core::arch::x86_64::*;

/// Rows of a panel: two groups.
pub(super) const ROWS: usize = 16;

/// Some bytes of each of the sixteen rows.
pub(super) type Line = [u8; 64];

/// Records of two groups. A line holds four bytes of each row.
#[repr(C, align(64))]
pub(super) struct Panel {
    /// Weights, unsigned: four k to a line, in the order of the records.
    pub quants: [Line; 64],
    /// The scale of a sub-block, as the tier multiplies with it.
    pub scales: [Line; 16],
    /// Pairs of i16, to be multiplied with pairs of the activations' sums.
    pub pairs: [Line; 8],
    /// The binary16 scale of a record, widened.
    pub d: [[f32; ROWS]; 8],
    /// Its minimum.
    pub m: [[f32; ROWS]; 8],
}

/// The place of one record of one group in a panel.
pub(super) struct Half<'a> {
    panel: &'a mut Panel,
    half: usize,
    index: usize,
    first_quad: usize,
}

impl<'a> Half<'a> {
    /// `half` is 0 or 1; the record is the `index`th, and its weights start at `first_quad`.
    pub(super) fn new(panel: &'a mut Panel, half: usize, index: usize, first_quad: usize) -> Self {
        Self {
            panel,
            half,
            index,
            first_quad,
        }
    }

    /// Puts quad `quad` of the record.
    #[inline(always)]
    pub(super) fn put_quad(&mut self, quad: usize, bytes: __m256i) {
        put(
            &mut self.panel.quants[self.first_quad + quad],
            self.half,
            bytes,
        );
    }

    /// Puts the scales of sub-block `sub`.
    #[inline(always)]
    pub(super) fn put_scales(&mut self, sub: usize, scales: __m256i) {
        put(&mut self.panel.scales[sub], self.half, scales);
    }

    /// Puts what the `pair`th pair of sums is multiplied with.
    #[inline(always)]
    pub(super) fn put_pairs(&mut self, pair: usize, factors: __m256i) {
        put(&mut self.panel.pairs[pair], self.half, factors);
    }

    /// Puts the record's scales.
    #[inline(always)]
    pub(super) fn put_d(&mut self, d: __m256) {
        put_floats(&mut self.panel.d[self.index], self.half, d);
    }

    /// Puts the record's minima.
    #[inline(always)]
    pub(super) fn put_m(&mut self, m: __m256) {
        put_floats(&mut self.panel.m[self.index], self.half, m);
    }
}

#[inline(always)]
fn put(line: &mut Line, half: usize, bytes: __m256i) {
    let half = &mut line[32 * half..][..32];
    // SAFETY: 32 bytes, as the slice says.
    unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), bytes) }
}

#[inline(always)]
fn put_floats(row: &mut [f32; ROWS], half: usize, floats: __m256) {
    let half = &mut row[8 * half..][..8];
    // SAFETY: eight floats, as the slice says.
    unsafe { _mm256_storeu_ps(half.as_mut_ptr(), floats) }
}
