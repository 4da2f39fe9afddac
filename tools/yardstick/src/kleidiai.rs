//! Arm's side: kernels of KleidiAI for one vector, with weights in blocks of 32 symmetric
//! 4-bit integers.
//!
//! All four multiply the numbers of the same Q4_0 matrix: its scales have eight significant bits,
//! so that those kernels which want bfloat16 lose nothing of them.
#![allow(unsafe_code)] // calls of KleidiAI

use crate::contestant::{Contestant, Packed};
use crate::weights::Matrix;
use kernels_asm::format::WeightFormat;
use kernels_asm::half::f16_to_f32;
use std::ffi::c_void;
use std::ops::Range;
use std::{mem, ptr};

/// Weights with one scale.
const BLOCK: usize = 32;
/// Bytes of a Q4_0 block: a scale, and two weights in each byte.
const BLOCK_BYTES: usize = WeightFormat::Q4_0.block_bytes();

/// `kai_rhs_pack_qs4cxs1s0_param`, for scales in binary16.
#[repr(C)]
struct PackF16 {
    lhs_zero_point: i8,
    rhs_zero_point: u8,
}

/// `kai_rhs_pack_nxk_qsi4c32p_qsu4c32s1s0_params`, for scales in bfloat16.
#[repr(C)]
struct PackBf16 {
    lhs_zero_point: i8,
    rhs_zero_point: u8,
    scale_type: u32,
}

/// `kai_dt_bf16`.
const BF16: u32 = 0x0213;

unsafe extern "C" {
    safe fn kai_get_lhs_packed_size_lhs_quant_pack_qsi8d32p_f32(
        m: usize,
        k: usize,
        bl: usize,
        mr: usize,
        kr: usize,
        sr: usize,
    ) -> usize;
    fn kai_run_lhs_quant_pack_qsi8d32p_f32(
        m: usize,
        k: usize,
        bl: usize,
        mr: usize,
        kr: usize,
        sr: usize,
        m_idx_start: usize,
        lhs: *const f32,
        lhs_stride: usize,
        lhs_packed: *mut c_void,
    );
    safe fn kai_get_lhs_packed_size_lhs_quant_pack_qai8dxp_f32(
        m: usize,
        k: usize,
        mr: usize,
        kr: usize,
        sr: usize,
    ) -> usize;
    fn kai_run_lhs_quant_pack_qai8dxp_f32(
        m: usize,
        k: usize,
        mr: usize,
        kr: usize,
        sr: usize,
        m_idx_start: usize,
        lhs: *const f32,
        lhs_stride: usize,
        lhs_packed: *mut c_void,
    );
    safe fn kai_get_rhs_packed_size_rhs_pack_nxk_qsi4c32pscalef16_qsu4c32s16s0(
        n: usize,
        k: usize,
        nr: usize,
        kr: usize,
        bl: usize,
    ) -> usize;
    fn kai_run_rhs_pack_nxk_qsi4c32pscalef16_qsu4c32s16s0(
        num_groups: usize,
        n: usize,
        k: usize,
        nr: usize,
        kr: usize,
        sr: usize,
        bl: usize,
        rhs: *const u8,
        bias: *const f32,
        rhs_packed: *mut c_void,
        extra_bytes: usize,
        params: *const PackF16,
    );
    safe fn kai_get_rhs_packed_size_rhs_pack_nxk_qsi4c32p_qsu4c32s1s0(
        n: usize,
        k: usize,
        nr: usize,
        kr: usize,
        sr: usize,
        bl: usize,
        scale_dt: u32,
    ) -> usize;
    fn kai_run_rhs_pack_nxk_qsi4c32p_qsu4c32s1s0(
        num_groups: usize,
        n: usize,
        k: usize,
        nr: usize,
        kr: usize,
        sr: usize,
        bl: usize,
        rhs: *const u8,
        rhs_stride: usize,
        bias: *const f32,
        scale: *const c_void,
        scale_stride: usize,
        rhs_packed: *mut c_void,
        extra_bytes: usize,
        params: *const PackBf16,
    );
}

/// A kernel's entry: all four have the same.
type Run = unsafe extern "C" fn(
    m: usize,
    n: usize,
    k: usize,
    bl: usize,
    lhs_packed: *const c_void,
    rhs_packed: *const c_void,
    dst: *mut f32,
    dst_stride_row: usize,
    dst_stride_col: usize,
    scalar_min: f32,
    scalar_max: f32,
);
type Get = extern "C" fn() -> usize;

/// How a kernel wants its vector, and with it, its weights.
#[derive(Clone, Copy, PartialEq)]
enum Vector {
    /// `qsi8d32p`: symmetric, a binary16 scale for each block; weights with binary16 scales.
    PerBlock,
    /// `qai8dxp`: asymmetric, one scale and zero point; weights with bfloat16 scales and sums.
    PerRow,
}

/// One kernel.
struct Kernel {
    name: &'static str,
    vector: Vector,
    /// Rows of the vector side, rows and columns of the weights that are packed together, and
    /// how the columns are split.
    mr: Get,
    nr: Get,
    kr: Get,
    sr: Get,
    /// Where a row of the packed weights starts.
    offset: extern "C" fn(n_idx: usize, k: usize, bl: usize) -> usize,
    run: Run,
}

/// What KleidiAI calls a function of a kernel.
macro_rules! symbol {
    ($function:literal, $name:literal) => {
        concat!(
            "kai_",
            $function,
            "_matmul_clamp_f32_",
            $name,
            "_neon_dotprod"
        )
    };
}

/// The functions of one kernel, whose names differ in their end only.
macro_rules! kernel {
    ($name:literal, $vector:ident) => {{
        unsafe extern "C" {
            #[link_name = symbol!("get_mr", $name)]
            safe fn mr() -> usize;
            #[link_name = symbol!("get_nr", $name)]
            safe fn nr() -> usize;
            #[link_name = symbol!("get_kr", $name)]
            safe fn kr() -> usize;
            #[link_name = symbol!("get_sr", $name)]
            safe fn sr() -> usize;
            #[link_name = symbol!("get_rhs_packed_offset", $name)]
            safe fn offset(n_idx: usize, k: usize, bl: usize) -> usize;
            #[link_name = symbol!("run", $name)]
            fn run(
                m: usize,
                n: usize,
                k: usize,
                bl: usize,
                lhs_packed: *const c_void,
                rhs_packed: *const c_void,
                dst: *mut f32,
                dst_stride_row: usize,
                dst_stride_col: usize,
                scalar_min: f32,
                scalar_max: f32,
            );
        }
        Kernel {
            name: concat!("kleidiai ", $name),
            vector: Vector::$vector,
            mr,
            nr,
            kr,
            sr,
            offset,
            run,
        }
    }};
}

/// Those for one vector, for blocks of 32 and for SDOT without more than that.
static KERNELS: [Kernel; 4] = [
    kernel!("qsi8d32p1x4_qsi4c32p4x4_1x4", PerBlock),
    kernel!("qsi8d32p1x8_qsi4c32p4x8_1x4x32", PerBlock),
    kernel!("qai8dxp1x4_qsi4c32p8x4_1x8", PerRow),
    kernel!("qai8dxp1x8_qsi4c32p8x8_1x8x32", PerRow),
];

/// A matrix and a vector for one of the kernels.
pub struct KleidiAi {
    kernel: &'static Kernel,
    columns: usize,
    rows: usize,
    packed: Packed,
    vector: Vec<u8>,
}

/// Every kernel whose name contains `only`, with a Q4_0 matrix and `x`.
pub fn all(
    matrix: &Matrix,
    x: &[f32],
    only: &str,
    copies: &dyn Fn(usize) -> usize,
) -> Result<Vec<KleidiAi>, String> {
    let chosen = || KERNELS.iter().filter(|kernel| kernel.name.contains(only));
    if chosen().next().is_some() && !std::arch::is_aarch64_feature_detected!("dotprod") {
        return Err("this CPU has no SDOT, which KleidiAI's kernels need".to_owned());
    }
    Ok(chosen()
        .map(|kernel| KleidiAi::new(kernel, matrix, x, copies))
        .collect())
}

impl KleidiAi {
    fn new(
        kernel: &'static Kernel,
        matrix: &Matrix,
        x: &[f32],
        copies: &dyn Fn(usize) -> usize,
    ) -> Self {
        assert_eq!(
            matrix.format,
            WeightFormat::Q4_0,
            "the one that it can hold"
        );
        let (rows, columns) = (matrix.shape.rows, matrix.shape.columns);
        let (mr, nr, kr, sr) = kernel.geometry();
        assert!(rows.is_multiple_of(nr) && columns.is_multiple_of(BLOCK));
        let (packed, vector_bytes) = match kernel.vector {
            Vector::PerBlock => (
                pack_f16(kernel, matrix, copies),
                kai_get_lhs_packed_size_lhs_quant_pack_qsi8d32p_f32(1, columns, BLOCK, mr, kr, sr),
            ),
            Vector::PerRow => (
                pack_bf16(kernel, matrix, copies),
                kai_get_lhs_packed_size_lhs_quant_pack_qai8dxp_f32(1, columns, mr, kr, sr),
            ),
        };
        let mut all = Self {
            kernel,
            columns,
            rows,
            packed,
            vector: vec![0; vector_bytes],
        };
        all.quantise(x);
        all
    }
}

impl Kernel {
    fn geometry(&self) -> (usize, usize, usize, usize) {
        ((self.mr)(), (self.nr)(), (self.kr)(), (self.sr)())
    }
}

impl Contestant for KleidiAi {
    fn name(&self) -> &str {
        self.kernel.name
    }

    fn packed(&self) -> &Packed {
        &self.packed
    }

    fn quantise(&mut self, x: &[f32]) {
        assert_eq!(x.len(), self.columns);
        let (mr, _, kr, sr) = self.kernel.geometry();
        let (k, stride) = (self.columns, mem::size_of_val(x));
        let (x, out) = (x.as_ptr(), self.vector.as_mut_ptr().cast());
        match self.kernel.vector {
            // SAFETY: `x` has `k` floats, whole blocks; `vector` has the bytes that KleidiAI
            // asked for with the same arguments, and is borrowed for writing.
            Vector::PerBlock => unsafe {
                kai_run_lhs_quant_pack_qsi8d32p_f32(1, k, BLOCK, mr, kr, sr, 0, x, stride, out);
            },
            // SAFETY: as above.
            Vector::PerRow => unsafe {
                kai_run_lhs_quant_pack_qai8dxp_f32(1, k, mr, kr, sr, 0, x, stride, out);
            },
        }
    }

    fn multiply(&self, copy: usize, rows: Range<usize>, out: &mut [f32]) {
        assert!(rows.start.is_multiple_of(8) && rows.end <= self.rows);
        assert_eq!(out.len(), rows.len(), "one for each row");
        let offset = (self.kernel.offset)(rows.start, self.columns, BLOCK);
        let weights = &self.packed.copy(copy)[offset..];
        // SAFETY: `all` made sure of SDOT; the vector and the weights were packed by KleidiAI for
        // this kernel's geometry, with these columns and blocks, and from `offset` on there are
        // at least `rows.len()` rows; `out` has room for them and is borrowed for writing.
        unsafe {
            (self.kernel.run)(
                1,
                rows.len(),
                self.columns,
                BLOCK,
                self.vector.as_ptr().cast(),
                weights.as_ptr().cast(),
                out.as_mut_ptr(),
                mem::size_of_val(out),
                mem::size_of::<f32>(),
                f32::MIN,
                f32::MAX,
            );
        }
    }
}

/// Packs the blocks of Q4_0 as they are: this packer reads what GGUF has.
fn pack_f16(kernel: &Kernel, matrix: &Matrix, copies: &dyn Fn(usize) -> usize) -> Packed {
    let (n, k) = (matrix.shape.rows, matrix.shape.columns);
    let (_, nr, kr, sr) = kernel.geometry();
    let size =
        kai_get_rhs_packed_size_rhs_pack_nxk_qsi4c32pscalef16_qsu4c32s16s0(n, k, nr, kr, BLOCK);
    let params = PackF16 {
        lhs_zero_point: 1,
        rhs_zero_point: 8,
    };
    Packed::new(size, copies(size), |out| {
        // SAFETY: the matrix has `n` rows of `k` weights in blocks of 18 bytes; `out` has the
        // bytes that KleidiAI asked for with the same arguments; there is no bias.
        unsafe {
            kai_run_rhs_pack_nxk_qsi4c32pscalef16_qsu4c32s16s0(
                1,
                n,
                k,
                nr,
                kr,
                sr,
                BLOCK,
                matrix.gguf.as_ptr(),
                ptr::null(),
                out.as_mut_ptr().cast(),
                0,
                &raw const params,
            );
        }
    })
}

/// Takes scales and weights apart first: this packer reads bfloat16, and neighbours in a byte.
fn pack_bf16(kernel: &Kernel, matrix: &Matrix, copies: &dyn Fn(usize) -> usize) -> Packed {
    let (n, k) = (matrix.shape.rows, matrix.shape.columns);
    let (_, nr, kr, sr) = kernel.geometry();
    let (mut scales, mut nibbles) = (Vec::<u16>::new(), Vec::<u8>::new());
    for block in matrix.gguf.chunks_exact(BLOCK_BYTES) {
        let scale = f16_to_f32(u16::from_le_bytes([block[0], block[1]]));
        scales.push((scale.to_bits() >> 16) as u16);
        // Low nibbles are weights 0 to 15, high ones 16 to 31; then even ones and odd ones.
        let pairs = block[2..].chunks_exact(2);
        nibbles.extend(pairs.clone().map(|pair| pair[0] & 15 | pair[1] << 4));
        nibbles.extend(pairs.map(|pair| pair[0] >> 4 | pair[1] & 0xf0));
    }
    let size =
        kai_get_rhs_packed_size_rhs_pack_nxk_qsi4c32p_qsu4c32s1s0(n, k, nr, kr, sr, BLOCK, BF16);
    let params = PackBf16 {
        lhs_zero_point: 1,
        rhs_zero_point: 8,
        scale_type: BF16,
    };
    Packed::new(size, copies(size), |out| {
        // SAFETY: `nibbles` has `n` rows of `k / 2` bytes and `scales` as many of `k / 32`
        // numbers; `out` has the bytes that KleidiAI asked for with the same arguments; there is
        // no bias.
        unsafe {
            kai_run_rhs_pack_nxk_qsi4c32p_qsu4c32s1s0(
                1,
                n,
                k,
                nr,
                kr,
                sr,
                BLOCK,
                nibbles.as_ptr(),
                k / 2,
                ptr::null(),
                scales.as_ptr().cast(),
                k / BLOCK * mem::size_of::<u16>(),
                out.as_mut_ptr().cast(),
                0,
                &raw const params,
            );
        }
    })
}
