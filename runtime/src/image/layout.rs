//! Where everything lies in an image. A model has one layout: its header decides it, so that an image
//! has no place of its own choice.

use super::{DATA_ALIGNMENT, ENTRY_BYTES, Image, ImageError, PREAMBLE_BYTES, TENSOR_ALIGNMENT};
use crate::gguf::{Gguf, TensorInfo};
use crate::load::LoadError;
use crate::model::weights::{FileRows, Sizes, Source};
use crate::model::{Config, Matrix, Weights};
use crate::sys::Fd;

/// Where the parts of an image lie, and in each the next tensor, in the order of the GGUF file.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Bytes of preamble, table and GGUF header.
    pub header_bytes: usize,
    /// Where vectors start: all together, on a page or two, since a run copies them.
    pub vectors: u64,
    /// Where the last matrix so far ends, and what is mapped with it; matrices follow vectors, and
    /// rows that are not to be mapped follow matrices.
    pub weights_end: u64,
    /// Where the last tensor so far ends.
    pub end: u64,
    /// No end is beyond this.
    pub end_max: u64,
    next_vector: u64,
    next_matrix: u64,
    next_rows: u64,
}

impl Layout {
    /// The layout of an image of tensors of these `sizes`, before any of them has its place.
    pub fn new(sizes: &Sizes, gguf_header_bytes: usize) -> Layout {
        let header_bytes = PREAMBLE_BYTES + ENTRY_BYTES * sizes.tensors + gguf_header_bytes;
        let vectors = (header_bytes as u64).next_multiple_of(DATA_ALIGNMENT);
        let matrices = vectors + sizes.vectors as u64;
        let rows = matrices + sizes.packed.iter().sum::<usize>() as u64;
        Layout {
            header_bytes,
            vectors,
            weights_end: matrices,
            end: matrices,
            end_max: rows + sizes.rows,
            next_vector: vectors,
            next_matrix: matrices,
            next_rows: rows,
        }
    }

    /// Where the next vector of so many bytes starts.
    pub fn vector(&mut self, bytes: u64) -> u64 {
        let at = self.next_vector;
        self.next_vector = self.behind(at, bytes);
        at
    }

    /// Where the next matrix of so many packed bytes starts.
    pub fn matrix(&mut self, bytes: u64) -> u64 {
        let at = self.next_matrix;
        self.next_matrix = self.behind(at, bytes);
        self.weights_end = at + bytes;
        at
    }

    /// Where the next rows that stay in the file start.
    pub fn rows(&mut self, bytes: u64) -> u64 {
        let at = self.next_rows;
        self.next_rows = self.behind(at, bytes);
        at
    }

    /// Where the tensor behind one may start.
    fn behind(&mut self, at: u64, bytes: u64) -> u64 {
        let end = at + bytes;
        self.end = self.end.max(end);
        end.next_multiple_of(TENSOR_ALIGNMENT)
    }
}

/// The source that finds every tensor of an image in the place that it must have, and takes nothing.
pub struct Places<'m> {
    image: Image<'m>,
    layout: Layout,
}

impl<'m> Places<'m> {
    /// The places of a model's tensors, which are of these `sizes`.
    ///
    /// # Errors
    /// The image has a table of other tensors, or they start elsewhere.
    pub fn new(image: Image<'m>, sizes: &Sizes) -> Result<Self, ImageError> {
        let layout = Layout::new(sizes, image.gguf_header.len());
        if image.entries.len() != sizes.tensors || image.weights.0 != layout.vectors {
            return Err(ImageError::Extent);
        }
        Ok(Places { image, layout })
    }

    /// Sees to it that an image is laid out as its model asks, to the byte.
    ///
    /// # Errors
    /// A tensor is missing, has another size, or lies elsewhere, or there is more than tensors.
    pub fn check(
        image: Image<'m>,
        gguf: &Gguf<'m>,
        config: &Config,
        sizes: &Sizes,
    ) -> Result<(), LoadError> {
        let mut places = Places::new(image, sizes)?;
        Weights::gather(gguf, config, &mut places)?;
        let Layout {
            weights_end, end, ..
        } = places.layout;
        let is_whole = image.gguf_header.len() == gguf.header().len()
            && image.weights.1 == weights_end
            && image.bytes.len() as u64 == end;
        match is_whole {
            true => Ok(()),
            false => Err(ImageError::Extent.into()),
        }
    }

    /// The bytes of a vector.
    pub(super) fn vector_bytes(&mut self, tensor: &TensorInfo<'_>) -> Result<&'m [u8], ImageError> {
        let offset = self.layout.vector(tensor.bytes);
        self.image.tensor(tensor, tensor.bytes, offset)
    }
}

impl<'m> Source<'m> for Places<'m> {
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        matrix: &Matrix<'m>,
    ) -> Result<&'m [u8], LoadError> {
        let bytes = matrix.packed_bytes() as u64;
        let offset = self.layout.matrix(bytes);
        Ok(self.image.tensor(tensor, bytes, offset)?)
    }

    fn rows(&mut self, tensor: &TensorInfo<'m>, _: &FileRows) -> Result<(Fd, u64), LoadError> {
        let offset = self.layout.rows(tensor.bytes);
        self.image.tensor(tensor, tensor.bytes, offset)?;
        Ok((Fd::NONE, offset))
    }

    fn vector(&mut self, tensor: &TensorInfo<'m>) -> Result<&'m [f32], LoadError> {
        self.vector_bytes(tensor)?;
        Ok(&[])
    }
}
