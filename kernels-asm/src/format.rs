//! Weight formats: blocks as GGUF stores them, records as the kernels read them.
//!
//! A packed matrix is cut into groups of eight rows, and a group into records: eight rows by one
//! block of the format (32 or 256 weights). Records of a group follow one another along the row,
//! groups follow one another down the matrix, so a kernel reads memory strictly in order. A matrix
//! whose row count is no multiple of eight is filled up with zero rows.
//!
//! Inside a record a 32-byte vector is `[8 rows][4 k]`. One AVX2 register holds it whole; its
//! halves are the NEON registers of rows 0-3 and 4-7. With `r` the row (0..8), `c` the place in a
//! group of four k (0..4) and `v` the group:
//!
//! | format | bytes | content |
//! |---|---|---|
//! | Q4_0 | 144 | `v*32 + r*4 + c`, v 0..4: two's-complement nibbles, low k = 4v+c, high k = 16+4v+c; 128: d f16\[8\] |
//! | Q4_1 | 160 | as Q4_0, unsigned; 128: d f16\[8\]; 144: m f16\[8\] |
//! | Q5_0 | 176 | `v*32 + r*4 + c`, v 0..5; low 5 bits: u_v = q+16 of k = 4v+c; high 3 bits by v: u5>>2; (u5&3)<<1 \| u7>>1&1; u6>>2; (u6&3)<<1 \| u7&1; u7>>2 (same c); 160: d f16\[8\] |
//! | Q8_0 | 272 | `v*32 + r*4 + c`, v 0..8: i8 of k = 4v+c; 256: d f16\[8\] |
//! | Q4_K | 1184 | 0: scale u8 at 8j+r (j 0..8); 64: min u8 at (j/4)*32 + r*4 + j%4; 128: d f16\[8\]; 144: dmin f16\[8\]; 160: `j*128 + v*32 + r*4 + c`, v 0..4: low nibble k = 32j+4v+c, high k = 32j+16+4v+c |
//! | Q5_K | 1440 | 0..160 as Q4_K; 160: `j*160 + v*32 + r*4 + c`, v 0..5: 8 weights in 5 bytes as Q5_0, u = q (0..32), k = 32j + 4v + c |
//! | Q6_K | 1680 | 0: scale i8 at 8j+r (j 0..16); 128: d f16\[8\]; 144: `j*96 + v*32 + r*4 + c`, v 0..3: (q&63)<<2 of k = 16j+4v+c (q two's complement, -32..32), low two bits = digit v, high first, of q&63 of k = 16j+12+c |
//!
//! The K-quants carry their header in front: a kernel that met its scales behind the weights
//! would break the hardware prefetcher's stream once a record.

use crate::activation::ActivationFormat;

/// Number of the layouts above, for files of packed weights. It counts up whenever one of them
/// changes; `tests/tests/packed_image.rs` notices when it should have.
pub const LAYOUT: u32 = 1;

/// A quantised format of GGUF that has kernels here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(non_camel_case_types, missing_docs)] // the names of the GGUF specification
pub enum WeightFormat {
    Q4_0,
    Q4_1,
    Q5_0,
    Q8_0,
    Q4_K,
    Q5_K,
    Q6_K,
}

use WeightFormat::*;

impl WeightFormat {
    /// Every format, in the order of its discriminant.
    pub const ALL: [WeightFormat; 7] = [Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K];

    /// The format of a `ggml_type` number (GGUF specification, `ggml_type`).
    pub const fn from_ggml_type(number: u32) -> Option<Self> {
        Some(match number {
            2 => Q4_0,
            3 => Q4_1,
            6 => Q5_0,
            8 => Q8_0,
            12 => Q4_K,
            13 => Q5_K,
            14 => Q6_K,
            _ => return None,
        })
    }

    /// The name as the GGUF specification spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Q4_0 => "Q4_0",
            Q4_1 => "Q4_1",
            Q5_0 => "Q5_0",
            Q8_0 => "Q8_0",
            Q4_K => "Q4_K",
            Q5_K => "Q5_K",
            Q6_K => "Q6_K",
        }
    }

    /// Weights of one row in a block, and so in a record: 32 or 256.
    pub const fn block_len(self) -> usize {
        match self {
            Q4_0 | Q4_1 | Q5_0 | Q8_0 => 32,
            Q4_K | Q5_K | Q6_K => 256,
        }
    }

    /// Bytes of one block in a GGUF file.
    pub const fn block_bytes(self) -> usize {
        match self {
            Q4_0 => 18,
            Q4_1 => 20,
            Q5_0 => 22,
            Q8_0 => 34,
            Q4_K => 144,
            Q5_K => 176,
            Q6_K => 210,
        }
    }

    /// Bytes of one row of `columns` weights in a GGUF file.
    pub const fn row_bytes(self, columns: usize) -> usize {
        columns / self.block_len() * self.block_bytes()
    }

    /// Bytes of one packed record: eight rows by [`block_len`](Self::block_len) weights.
    pub const fn record_bytes(self) -> usize {
        match self {
            Q4_0 => 144,
            Q4_1 => 160,
            Q5_0 => 176,
            Q8_0 => 272,
            Q4_K => 1184,
            Q5_K => 1440,
            Q6_K => 1680,
        }
    }

    /// Bytes of one group of eight packed rows of `columns` weights.
    pub const fn group_bytes(self, columns: usize) -> usize {
        columns / self.block_len() * self.record_bytes()
    }

    /// Bytes of a packed matrix of `rows` by `columns`.
    pub const fn packed_bytes(self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(8) * self.group_bytes(columns)
    }

    /// The activation records that this format's GEMV reads.
    pub const fn activation(self) -> ActivationFormat {
        match self.block_len() {
            256 => ActivationFormat::Per256,
            _ => ActivationFormat::Per32,
        }
    }
}
