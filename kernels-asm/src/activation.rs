//! Activation records: a float vector as int8 with one scale per 32 or per 256 values, or as it is.
//!
//! Quantisation is symmetric: `d = amax / 127`, `q = round(x * (127 / amax))` with ties to even,
//! so `q` is in -127..=127 and -128 never occurs; an all-zero block has `d = 0`. Block sums ride
//! along, because formats with a minimum or an offset need them.
//!
//! | record | bytes | content |
//! |---|---|---|
//! | floats | 32 | f32\[8\], as they are |
//! | per 32 | 48 | q i8\[32\]; 32: d f32; 36: d*sum f32; 40: sum i32; 44: zero |
//! | per 256 | 336 | q i8\[256\]; 256: lo i8\[8\]; 264: hi i8\[8\]; 272: d f32; 276: zero; 280: s32 i16\[8\]; 296: s16 i16\[16\]; 328: zero |
//!
//! `s32[j]` and `s16[j]` are sums of 32 and of 16 successive `q`; `128*hi + lo = s32` with
//! `hi = (s32 + 64) >> 7`, which lets a minimum be folded in by int8 dot products.

/// Which of the records a kernel reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActivationFormat {
    /// One scale per 32 values: block formats.
    Per32,
    /// One scale per 256 values: K-quants.
    Per256,
    /// No integers and no scale: float formats.
    Floats,
}

impl ActivationFormat {
    /// Values in one record.
    pub const fn block_len(self) -> usize {
        match self {
            Self::Per32 => 32,
            Self::Per256 => 256,
            Self::Floats => 8,
        }
    }

    /// Bytes of one record.
    pub const fn record_bytes(self) -> usize {
        match self {
            Self::Per32 => 48,
            Self::Per256 => 336,
            Self::Floats => 32,
        }
    }

    /// Bytes of a vector of `len` values; `len` is a multiple of the block length.
    pub const fn bytes(self, len: usize) -> usize {
        len / self.block_len() * self.record_bytes()
    }
}

impl ActivationFormat {
    /// Takes from `x` what its records stand for, `q * d`: what is left is what rounding lost.
    /// Nothing is lost in [`Floats`](Self::Floats), of which zeros are left.
    ///
    /// # Panics
    /// If `records` are not those of `x.len()` values.
    pub fn subtract(self, records: &[u8], x: &mut [f32]) {
        assert_eq!(records.len(), self.bytes(x.len()), "bytes of records");
        let scale_at = match self {
            Self::Per32 => 32,
            Self::Per256 => 272,
            Self::Floats => return x.fill(0.0),
        };
        let blocks = x.chunks_exact_mut(self.block_len());
        for (record, block) in records.chunks_exact(self.record_bytes()).zip(blocks) {
            let scale = record[scale_at..]
                .first_chunk()
                .expect("a record holds its scale");
            let scale = f32::from_le_bytes(*scale);
            for (x, &q) in block.iter_mut().zip(record) {
                *x -= f32::from(q as i8) * scale;
            }
        }
    }
}

/// Floats to [`Floats`](ActivationFormat::Floats) records.
pub(crate) fn copy(x: &[f32], out: &mut [u8]) {
    assert_eq!(
        out.len(),
        ActivationFormat::Floats.bytes(x.len()),
        "bytes of records"
    );
    for (x, out) in x.iter().zip(out.as_chunks_mut().0) {
        *out = x.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::ActivationFormat::{Per32, Per256};

    #[test]
    fn subtract_leaves_what_the_records_do_not_hold() {
        for (format, len, scale_at) in [(Per32, 32, 32), (Per256, 256, 272)] {
            let mut records = [0; 2 * 336];
            let records = &mut records[..2 * format.record_bytes()];
            let second = &mut records[format.record_bytes()..];
            second[0] = -3i8 as u8;
            second[len - 1] = 100;
            second[scale_at..scale_at + 4].copy_from_slice(&0.5f32.to_le_bytes());
            let mut x = [1.0; 2 * 256];
            let x = &mut x[..2 * len];
            format.subtract(records, x);
            assert!(x[..len].iter().all(|&x| x == 1.0));
            assert_eq!((x[len], x[len + 1], x[2 * len - 1]), (2.5, 1.0, -49.0));
        }
    }
}
