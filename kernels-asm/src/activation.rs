//! Activation records: a float vector as int8 with one scale per 32 or per 256 values.
//!
//! Quantisation is symmetric: `d = amax / 127`, `q = round(x * (127 / amax))` with ties to even,
//! so `q` is in -127..=127 and -128 never occurs; an all-zero block has `d = 0`. Block sums ride
//! along, because formats with a minimum or an offset need them.
//!
//! | record | bytes | content |
//! |---|---|---|
//! | per 32 | 48 | q i8\[32\]; 32: d f32; 36: d*sum f32; 40: sum i32; 44: zero |
//! | per 256 | 336 | q i8\[256\]; 256: lo i8\[8\]; 264: hi i8\[8\]; 272: d f32; 276: zero; 280: s32 i16\[8\]; 296: s16 i16\[16\]; 328: zero |
//!
//! `s32[j]` and `s16[j]` are sums of 32 and of 16 successive `q`; `128*hi + lo = s32` with
//! `hi = (s32 + 64) >> 7`, which lets a minimum be folded in by int8 dot products.

/// Which of the two records a kernel reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActivationFormat {
    /// One scale per 32 values: block formats.
    Per32,
    /// One scale per 256 values: K-quants.
    Per256,
}

impl ActivationFormat {
    /// Values in one record.
    pub const fn block_len(self) -> usize {
        match self {
            Self::Per32 => 32,
            Self::Per256 => 256,
        }
    }

    /// Bytes of one record.
    pub const fn record_bytes(self) -> usize {
        match self {
            Self::Per32 => 48,
            Self::Per256 => 336,
        }
    }

    /// Bytes of a vector of `len` values; `len` is a multiple of the block length.
    pub const fn bytes(self, len: usize) -> usize {
        len / self.block_len() * self.record_bytes()
    }
}
