//! Our side: the kernels that the program would choose on this CPU.

use crate::contestant::{Contestant, Packed};
use crate::weights::Matrix;
use kernels_asm::format::WeightFormat;
use kernels_asm::registry::Kernels;
use runtime::cpu;
use std::ops::Range;

/// A matrix and a vector in one of our formats.
pub struct Ours {
    name: &'static str,
    kernels: Kernels,
    format: WeightFormat,
    columns: usize,
    packed: Packed,
    activations: Vec<u8>,
}

/// What the kernel for `format` is called here.
pub fn name(format: WeightFormat) -> &'static str {
    kernels().gemv_kernel(format).name
}

/// The strongest kernels for this CPU, as the program chooses them.
pub fn kernels() -> Kernels {
    let processors = cpu::processors(None).expect("a processor runs this");
    let cores = cpu::cores(&processors.assign(processors.fastest));
    Kernels::resolve(cpu::features(), cores.tuning(), &[]).expect("nothing is forced")
}

impl Ours {
    /// Packs the matrix and quantises `x`.
    pub fn new(matrix: &Matrix, x: &[f32], copies: &dyn Fn(usize) -> usize) -> Self {
        let (format, columns) = (matrix.format, matrix.shape.columns);
        let len = format.packed_bytes(matrix.shape.rows, columns);
        let packed = Packed::new(len, copies(len), |bytes| {
            let groups = bytes.chunks_exact_mut(format.group_bytes(columns));
            for (group, out) in groups.enumerate() {
                matrix.pack_group(group, out);
            }
        });
        let mut ours = Self {
            name: name(format),
            kernels: kernels(),
            format,
            columns,
            packed,
            activations: vec![0; format.activation().bytes(columns)],
        };
        ours.quantise(x);
        ours
    }
}

impl Contestant for Ours {
    fn name(&self) -> &str {
        self.name
    }

    fn packed(&self) -> &Packed {
        &self.packed
    }

    fn quantise(&mut self, x: &[f32]) {
        let format = self.format.activation();
        self.kernels.quantize(format, x, &mut self.activations);
    }

    fn multiply(&self, copy: usize, rows: Range<usize>, out: &mut [f32]) {
        let group = self.format.group_bytes(self.columns);
        let bytes = rows.start / 8 * group..rows.end / 8 * group;
        let weights = &self.packed.copy(copy)[bytes];
        let (format, columns) = (self.format, self.columns);
        self.kernels
            .gemv(format, weights, columns, &self.activations, out);
    }
}
