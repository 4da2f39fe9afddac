//! The choice among the kernels, and the safe way to call the chosen ones.
//!
//! A [`Kernels`] comes from [`Kernels::resolve`] alone, so holding one is the proof that its
//! kernels can be called on this CPU. Its methods check what else a kernel needs, the sizes, and
//! call it.
#![allow(unsafe_code)] // the calls for which `Kernels` is the proof

use crate::activation::{self, ActivationFormat};
use crate::features::{Core, Features, Isa};
use crate::format::WeightFormat;
use crate::registry::{Gemm, Gemv, KERNELS, Kernel, Operation};
use crate::vector::{KvView, Q8Tile, VectorOps};
use core::marker::PhantomData;

/// Why there are no [`Kernels`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolveError {
    /// A forced kernel is not in the list, or not one for that format.
    UnknownKernel {
        /// The format that it was wanted for.
        format: WeightFormat,
    },
    /// A forced kernel needs what the CPU lacks.
    KernelNeeds {
        /// The kernel.
        kernel: &'static str,
        /// What is lacking.
        missing: Features,
    },
}

/// A kernel and the function that its operation holds.
type Choice<F> = (&'static Kernel, F);

/// One kernel for each operation, all of which this CPU can run.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// In the order of [`WeightFormat::ALL`].
    gemv: [Choice<Gemv>; WeightFormat::ALL.len()],
    /// Likewise; none where the GEMV is at least as strong.
    gemm: [Option<Choice<Gemm>>; WeightFormat::ALL.len()],
    vector: Choice<&'static VectorOps>,
}

impl Kernels {
    /// The strongest kernel for each operation that a CPU with `have` can run, except where
    /// `forced` names one for a format. What is tuned for a core is taken for that core alone.
    ///
    /// `have` is what was detected on this CPU, less what is masked: a feature that is claimed and
    /// missing ends in an illegal instruction. A wrong `core` ends in lower speed.
    pub fn resolve(
        have: Features,
        core: Option<Core>,
        forced: &[(WeightFormat, &str)],
    ) -> Result<Self, ResolveError> {
        let mut gemv = WeightFormat::ALL.map(|format| {
            let strongest = strongest(gemv_kernels(format), have, core);
            strongest.expect("the reference tier needs nothing")
        });
        let mut gemm = WeightFormat::ALL.map(|format| {
            let weakest = gemv[format as usize].0.isa;
            strongest(gemm_kernels(format), have, core).filter(|(kernel, _)| kernel.isa >= weakest)
        });
        for &(format, name) in forced {
            // What is forced is what runs, for one vector and for several.
            if let Some(choice) = find_usable(gemv_kernels(format), name, have)? {
                gemv[format as usize] = choice;
                gemm[format as usize] = None;
            } else if let Some(choice) = find_usable(gemm_kernels(format), name, have)? {
                gemm[format as usize] = Some(choice);
            } else {
                return Err(ResolveError::UnknownKernel { format });
            }
        }
        let vector = strongest(vector_kernels(), have, core);
        let vector = vector.expect("the reference tier needs nothing");
        Ok(Self { gemv, gemm, vector })
    }

    /// The kernel chosen for a format.
    pub fn gemv_kernel(&self, format: WeightFormat) -> &'static Kernel {
        self.gemv[format as usize].0
    }

    /// The kernel chosen for a format and several vectors, if there is one.
    pub fn gemm_kernel(&self, format: WeightFormat) -> Option<&'static Kernel> {
        self.gemm[format as usize].map(|(kernel, _)| kernel)
    }

    /// The kernel that [`gemm`](Self::gemm) calls for so many vectors.
    pub fn matrix_kernel(&self, format: WeightFormat, vectors: usize) -> &'static Kernel {
        match self.gemm[format as usize] {
            Some((kernel, _)) if vectors > 1 => kernel,
            _ => self.gemv_kernel(format),
        }
    }

    /// The kernel chosen for the float operations.
    pub fn vector_kernel(&self) -> &'static Kernel {
        self.vector.0
    }

    /// Whether something faster than the reference serves a format.
    pub fn has_fast_gemv(&self, format: WeightFormat) -> bool {
        self.gemv_kernel(format).isa != Isa::Reference
    }

    /// Matrix times vector: `out[i]` becomes the product of row `i` of the packed `weights` with
    /// the quantised `activations`.
    ///
    /// # Panics
    /// If `columns` is zero or not whole blocks, `out` not whole groups, or a buffer has not
    /// exactly the bytes that these make.
    pub fn gemv(
        &self,
        format: WeightFormat,
        weights: &[u8],
        columns: usize,
        activations: &[u8],
        out: &mut [f32],
    ) {
        let records = columns / format.block_len();
        assert!(
            records > 0 && columns.is_multiple_of(format.block_len()),
            "whole blocks"
        );
        assert!(out.len().is_multiple_of(8), "whole groups");
        assert_eq!(
            weights.len(),
            format.packed_bytes(out.len(), columns),
            "bytes of weights"
        );
        assert_eq!(
            activations.len(),
            format.activation().bytes(columns),
            "bytes of activations"
        );
        let (_, gemv) = self.gemv[format as usize];
        let (groups, out) = (out.len() / 8, out.as_mut_ptr());
        // SAFETY: `resolve` took this kernel for the features of the CPU; the asserts above
        // checked that the buffers are as long as `groups` and `records` make them, and that
        // there is a record; `out` is borrowed for writing.
        unsafe { gemv(weights.as_ptr(), groups, records, activations.as_ptr(), out) };
    }

    /// Matrix times as many vectors as `out` has rows: row `t` becomes what [`gemv`](Self::gemv)
    /// makes of the `t`th of `activations`, bit by bit.
    ///
    /// # Panics
    /// As `gemv`, for every vector.
    pub fn gemm(
        &self,
        format: WeightFormat,
        weights: &[u8],
        columns: usize,
        activations: &[u8],
        mut out: OutBlock<'_>,
    ) {
        let stride = format.activation().bytes(columns);
        assert_eq!(
            activations.len(),
            out.rows * stride,
            "a vector for each row"
        );
        let (2.., Some((_, gemm))) = (out.rows, self.gemm[format as usize]) else {
            for row in 0..out.rows {
                let activations = &activations[row * stride..][..stride];
                self.gemv(format, weights, columns, activations, out.row(row));
            }
            return;
        };
        let records = columns / format.block_len();
        assert!(
            records > 0 && columns.is_multiple_of(format.block_len()),
            "whole blocks"
        );
        assert!(out.columns.is_multiple_of(8), "whole groups");
        assert_eq!(
            weights.len(),
            format.packed_bytes(out.columns, columns),
            "bytes of weights"
        );
        let (groups, tokens) = (out.columns / 8, out.rows);
        let (weights, activations) = (weights.as_ptr(), activations.as_ptr());
        let (out, out_stride) = (out.base, out.stride);
        // SAFETY: `resolve` took this kernel for the features of the CPU; the asserts above checked
        // that the buffers are as long as `groups`, `records` and `tokens` make them, and that
        // there is a record and a token; `OutBlock` vouches for its rows.
        unsafe {
            #[rustfmt::skip] // as the type has them
            gemm(weights, groups, records, activations, stride, tokens, out, out_stride);
        }
    }

    /// See [`VectorOps::rms_norm`].
    pub fn rms_norm(&self, x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
        // SAFETY: `resolve` took this tier for the features of the CPU; it asserts the rest.
        unsafe { (self.vector.1.rms_norm)(x, weight, epsilon, out) }
    }

    /// See [`VectorOps::rms_norm_in_place`].
    pub fn rms_norm_in_place(&self, x: &mut [f32], weight: &[f32], epsilon: f32) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.rms_norm_in_place)(x, weight, epsilon) }
    }

    /// See [`VectorOps::rope`].
    pub fn rope(&self, x: &mut [f32], table: &[f32]) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.rope)(x, table) }
    }

    /// See [`VectorOps::rope_halves`].
    pub fn rope_halves(&self, x: &mut [f32], table: &[f32]) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.rope_halves)(x, table) }
    }

    /// See [`VectorOps::silu_mul`].
    pub fn silu_mul(&self, gate: &mut [f32], up: &[f32]) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.silu_mul)(gate, up) }
    }

    /// See [`VectorOps::gelu_mul`].
    pub fn gelu_mul(&self, gate: &mut [f32], up: &[f32]) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.gelu_mul)(gate, up) }
    }

    /// See [`VectorOps::soft_cap`].
    pub fn soft_cap(&self, x: &mut [f32], cap: f32) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.soft_cap)(x, cap) }
    }

    /// See [`VectorOps::add`].
    pub fn add(&self, x: &mut [f32], y: &[f32]) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.add)(x, y) }
    }

    /// See [`VectorOps::softmax`].
    pub fn softmax(&self, x: &mut [f32]) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.softmax)(x) }
    }

    /// Floats to activation records. See [`VectorOps::quantize_per_32`] and
    /// [`VectorOps::quantize_per_256`]; float records are copies.
    pub fn quantize(&self, format: ActivationFormat, x: &[f32], out: &mut [u8]) {
        let quantize = match format {
            ActivationFormat::Per32 => self.vector.1.quantize_per_32,
            ActivationFormat::Per256 => self.vector.1.quantize_per_256,
            ActivationFormat::Floats => return activation::copy(x, out),
        };
        // SAFETY: as for `rms_norm`.
        unsafe { quantize(x, out) }
    }

    /// See [`VectorOps::score_f32`].
    pub fn score_f32(
        &self,
        keys: KvView<'_, f32>,
        queries: &[f32],
        scale: f32,
        scores: &mut [f32],
    ) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.score_f32)(keys, queries, scale, scores) }
    }

    /// See [`VectorOps::score_f16`].
    pub fn score_f16(
        &self,
        keys: KvView<'_, u16>,
        queries: &[f32],
        scale: f32,
        scores: &mut [f32],
    ) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.score_f16)(keys, queries, scale, scores) }
    }

    /// See [`VectorOps::score_q8_0`].
    pub fn score_q8_0(
        &self,
        keys: KvView<'_, Q8Tile>,
        queries: &[f32],
        scale: f32,
        scores: &mut [f32],
    ) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.score_q8_0)(keys, queries, scale, scores) }
    }

    /// See [`VectorOps::weigh_f32`].
    pub fn weigh_f32(
        &self,
        values: KvView<'_, f32>,
        weights: &[f32],
        stride: usize,
        out: &mut [f32],
    ) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.weigh_f32)(values, weights, stride, out) }
    }

    /// See [`VectorOps::weigh_f16`].
    pub fn weigh_f16(
        &self,
        values: KvView<'_, u16>,
        weights: &[f32],
        stride: usize,
        out: &mut [f32],
    ) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.weigh_f16)(values, weights, stride, out) }
    }

    /// See [`VectorOps::weigh_q8_0`].
    pub fn weigh_q8_0(
        &self,
        values: KvView<'_, Q8Tile>,
        weights: &[f32],
        stride: usize,
        out: &mut [f32],
    ) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.weigh_q8_0)(values, weights, stride, out) }
    }

    /// See [`VectorOps::to_f16`].
    pub fn to_f16(&self, x: &[f32], out: &mut [u16]) {
        // SAFETY: as for `rms_norm`.
        unsafe { (self.vector.1.to_f16)(x, out) }
    }
}

/// A block of a row-major matrix, to be written: the same columns of each of its rows.
pub struct OutBlock<'a> {
    base: *mut f32,
    stride: usize,
    rows: usize,
    columns: usize,
    matrix: PhantomData<&'a mut [f32]>,
}

impl<'a> OutBlock<'a> {
    /// `rows` stretches of `columns` floats, the first at `base`, each `stride` floats after the
    /// one before.
    ///
    /// # Safety
    /// All these floats are inside one allocation, and nothing else refers to them for `'a`.
    pub unsafe fn new(base: *mut f32, stride: usize, rows: usize, columns: usize) -> OutBlock<'a> {
        OutBlock {
            base,
            stride,
            rows,
            columns,
            matrix: PhantomData,
        }
    }

    /// One of the stretches.
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows, "a row of the block");
        // SAFETY: the row is one of those that `new`'s caller vouched for; `&mut self` keeps it
        // from being borrowed twice.
        unsafe { core::slice::from_raw_parts_mut(self.base.add(row * self.stride), self.columns) }
    }
}

/// The GEMVs of one format, weakest first.
fn gemv_kernels(format: WeightFormat) -> impl Iterator<Item = Choice<Gemv>> {
    KERNELS
        .iter()
        .filter_map(move |kernel| match kernel.operation {
            Operation::Gemv(of, gemv) if of == format => Some((kernel, gemv)),
            _ => None,
        })
}

/// The GEMMs of one format, weakest first.
fn gemm_kernels(format: WeightFormat) -> impl Iterator<Item = Choice<Gemm>> {
    KERNELS
        .iter()
        .filter_map(move |kernel| match kernel.operation {
            Operation::Gemm(of, gemm) if of == format => Some((kernel, gemm)),
            _ => None,
        })
}

/// The kernel of that name, if it is among `choices` and the CPU can run it.
fn find_usable<F>(
    mut choices: impl Iterator<Item = Choice<F>>,
    name: &str,
    have: Features,
) -> Result<Option<Choice<F>>, ResolveError> {
    let Some(choice) = choices.find(|(kernel, _)| kernel.name == name) else {
        return Ok(None);
    };
    let missing = choice.0.isa.needs().without(have);
    match missing == Features::NONE {
        true => Ok(Some(choice)),
        false => Err(ResolveError::KernelNeeds {
            kernel: choice.0.name,
            missing,
        }),
    }
}

/// The tiers of the float operations, weakest first.
fn vector_kernels() -> impl Iterator<Item = Choice<&'static VectorOps>> {
    KERNELS.iter().filter_map(|kernel| match kernel.operation {
        Operation::Vector(operations) => Some((kernel, operations)),
        _ => None,
    })
}

fn strongest<F>(
    choices: impl Iterator<Item = Choice<F>>,
    have: Features,
    core: Option<Core>,
) -> Option<Choice<F>> {
    choices
        .filter(|(kernel, _)| have.has(kernel.isa.needs()))
        .filter(|(kernel, _)| kernel.core.is_none() || kernel.core == core)
        .max_by_key(|(kernel, _)| kernel.priority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_features_every_kernel_is_the_reference() {
        let kernels = Kernels::resolve(Features::NONE, None, &[]).unwrap();
        assert_eq!(kernels.vector_kernel().isa, Isa::Reference);
        for format in WeightFormat::ALL {
            assert_eq!(kernels.gemv_kernel(format).isa, Isa::Reference);
            assert!(!kernels.has_fast_gemv(format));
        }
    }

    #[test]
    fn list_is_weakest_first_and_no_name_stands_twice() {
        for (i, kernel) in KERNELS.iter().enumerate() {
            for other in &KERNELS[..i] {
                assert_ne!(kernel.name, other.name);
                assert!(
                    other.isa <= kernel.isa,
                    "{} before {}",
                    other.name,
                    kernel.name
                );
            }
        }
    }

    #[test]
    fn forced_kernels_are_taken_or_refused_with_the_reason() {
        let all = KERNELS
            .iter()
            .fold(Features::NONE, |all, kernel| all.with(kernel.isa.needs()));
        let forced = [(WeightFormat::Q5_0, "gemv_q5_0_reference")];
        let kernels = Kernels::resolve(all, None, &forced).unwrap();
        assert!(!kernels.has_fast_gemv(WeightFormat::Q5_0));

        let wrong_format = [(WeightFormat::Q4_0, "gemv_q5_0_reference")];
        let unknown = ResolveError::UnknownKernel {
            format: WeightFormat::Q4_0,
        };
        assert_eq!(
            Kernels::resolve(all, None, &wrong_format).err(),
            Some(unknown)
        );

        for kernel in KERNELS.iter().filter(|kernel| kernel.isa != Isa::Reference) {
            if let Operation::Gemv(format, _) = kernel.operation {
                let error = Kernels::resolve(Features::NONE, None, &[(format, kernel.name)]).err();
                let missing = kernel.isa.needs();
                let expected = ResolveError::KernelNeeds {
                    kernel: kernel.name,
                    missing,
                };
                assert_eq!(error, Some(expected));
            }
        }
    }

    #[test]
    fn kernels_tuned_for_a_core_are_taken_for_that_core_alone() {
        for have in Isa::ALL.map(Isa::needs) {
            let plain = Kernels::resolve(have, None, &[]).unwrap();
            let tuned = Kernels::resolve(have, Some(Core::CortexA55), &[]).unwrap();
            for format in WeightFormat::ALL {
                let (plain, tuned) = (plain.gemv_kernel(format), tuned.gemv_kernel(format));
                assert_eq!(plain.core, None, "{}", plain.name);
                // What is tuned lacks no instructions that what is not would have used.
                assert_eq!(plain.isa, tuned.isa, "{} and {}", plain.name, tuned.name);
                let is_tuned_here = |(kernel, _): &Choice<Gemv>| {
                    kernel.core.is_some() && have.has(kernel.isa.needs())
                };
                let is_tuned = gemv_kernels(format).any(|choice| is_tuned_here(&choice));
                let expected = is_tuned.then_some(Core::CortexA55);
                assert_eq!(tuned.core, expected, "{}", tuned.name);
            }
        }
    }

    #[test]
    fn names_end_with_the_core_that_they_are_tuned_for() {
        for kernel in KERNELS {
            let is_named = kernel.name.ends_with(Core::CortexA55.name());
            assert_eq!(is_named, kernel.core.is_some(), "{}", kernel.name);
        }
    }

    #[test]
    #[should_panic(expected = "bytes of weights")]
    fn gemv_with_a_byte_too_few_is_refused() {
        let kernels = Kernels::resolve(Features::NONE, None, &[]).unwrap();
        kernels.gemv(WeightFormat::Q4_0, &[0; 143], 32, &[0; 48], &mut [0.0; 8]);
    }
}
