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
//! | F32 | 256 | `k*32 + 4r`: f32 of k 0..8 |
//! | F16, BF16 | 128 | `k*16 + 2r`: binary16, bfloat16 of k 0..8 |
//! | Q4_0 | 144 | `v*32 + r*4 + c`, v 0..4: two's-complement nibbles, low k = 4v+c, high k = 16+4v+c; 128: d f16\[8\] |
//! | Q4_1 | 160 | as Q4_0, unsigned; 128: d f16\[8\]; 144: m f16\[8\] |
//! | Q5_0 | 176 | `v*32 + r*4 + c`, v 0..5; low 5 bits: u_v = q+16 of k = 4v+c; high 3 bits by v: u5>>2; (u5&3)<<1 \| u7>>1&1; u6>>2; (u6&3)<<1 \| u7&1; u7>>2 (same c); 160: d f16\[8\] |
//! | Q5_1 | 192 | 0..160 as Q5_0, u = q (0..32); 160: d f16\[8\]; 176: m f16\[8\] |
//! | Q8_0 | 272 | `v*32 + r*4 + c`, v 0..8: i8 of k = 4v+c; 256: d f16\[8\] |
//! | IQ4_NL | 144 | `v*32 + r*4 + c`, v 0..4: indices into a table of 16 weights, low nibble k = 4v+c, high k = 16+4v+c; 128: d f16\[8\] |
//! | Q2_K | 672 | 0: scale \| min << 4 at 8j+r (j 0..16); 128: d f16\[8\]; 144: dmin f16\[8\]; 160: `j*32 + r*4 + c`, j 0..16: in bits 2v and 2v+1 q of k = 16j+4v+c, v 0..4 |
//! | Q3_K | 912 | 0: scale i8 at 8j+r (j 0..16); 128: d f16\[8\]; 144: `j*96 + i*32 + r*4 + c`, j 0..8, i 0..3: bits 0-2 u_2i, bits 3-5 u_(2i+1); bits 6, 7 by i: u6&3; u7&3; u6>>2 \| u7>>2<<1; u_v = q+4 of k = 32j+4v+c, v 0..8 |
//! | TQ1_0, TQ2_0 | 528 | 0: d f16\[8\]; 16: `j*32 + r*4 + c`, j 0..16: in bits 2v and 2v+1 q+1 of k = 16j+4v+c, v 0..4 |
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

/// A format of GGUF that has kernels here.
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
    Q5_1,
    IQ4_NL,
    Q2_K,
    Q3_K,
    TQ1_0,
    TQ2_0,
    F32,
    F16,
    BF16,
}

use WeightFormat::*;

impl WeightFormat {
    /// Every format, in the order of its discriminant.
    pub const ALL: [WeightFormat; 16] = [
        Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K, Q5_1, IQ4_NL, Q2_K, Q3_K, TQ1_0, TQ2_0, F32, F16,
        BF16,
    ];

    /// The format of a `ggml_type` number (GGUF specification, `ggml_type`).
    pub const fn from_ggml_type(number: u32) -> Option<Self> {
        Some(match number {
            0 => F32,
            1 => F16,
            2 => Q4_0,
            3 => Q4_1,
            6 => Q5_0,
            7 => Q5_1,
            8 => Q8_0,
            10 => Q2_K,
            11 => Q3_K,
            12 => Q4_K,
            13 => Q5_K,
            14 => Q6_K,
            20 => IQ4_NL,
            30 => BF16,
            34 => TQ1_0,
            35 => TQ2_0,
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
            Q5_1 => "Q5_1",
            IQ4_NL => "IQ4_NL",
            Q2_K => "Q2_K",
            Q3_K => "Q3_K",
            TQ1_0 => "TQ1_0",
            TQ2_0 => "TQ2_0",
            F32 => "F32",
            F16 => "F16",
            BF16 => "BF16",
        }
    }

    /// Weights of one row in a block, and so in a record: 8, 32 or 256.
    pub const fn block_len(self) -> usize {
        match self {
            F32 | F16 | BF16 => 8,
            Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | IQ4_NL => 32,
            Q2_K | Q3_K | Q4_K | Q5_K | Q6_K | TQ1_0 | TQ2_0 => 256,
        }
    }

    /// Bytes of one block in a GGUF file; of the float formats, of eight weights.
    pub const fn block_bytes(self) -> usize {
        match self {
            Q4_0 => 18,
            Q4_1 => 20,
            Q5_0 => 22,
            Q8_0 => 34,
            Q4_K => 144,
            Q5_K => 176,
            Q6_K => 210,
            Q5_1 => 24,
            IQ4_NL => 18,
            Q2_K => 84,
            Q3_K => 110,
            TQ1_0 => 54,
            TQ2_0 => 66,
            F32 => 32,
            F16 | BF16 => 16,
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
            Q5_1 => 192,
            IQ4_NL => 144,
            Q2_K => 672,
            Q3_K => 912,
            TQ1_0 | TQ2_0 => 528,
            F32 => 256,
            F16 | BF16 => 128,
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
            32 => ActivationFormat::Per32,
            _ => ActivationFormat::Floats,
        }
    }
}
