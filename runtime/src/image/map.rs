//! The source that finds weights in a mapped image.

use super::Places;
use crate::arena::{Model, Open};
use crate::gguf::TensorInfo;
use crate::load::{LoadError, copy_floats};
use crate::model::Matrix;
use crate::model::weights::{FileRows, Source};
use crate::sys::Fd;

/// Weights where they lie in the image.
pub struct Mapped<'l, 'm> {
    /// Where that is.
    pub places: Places<'m>,
    /// The image's file, for rows that are not mapped.
    pub file: Fd,
    /// Where vectors of floats go: they are few, and this way no bytes are taken for floats.
    pub model: &'l Open<'m, Model>,
}

impl<'m> Source<'m> for Mapped<'_, 'm> {
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        matrix: &Matrix<'m>,
    ) -> Result<&'m [u8], LoadError> {
        self.places.matrix(tensor, matrix)
    }

    fn rows(&mut self, tensor: &TensorInfo<'m>, rows: &FileRows) -> Result<(Fd, u64), LoadError> {
        let (_, offset) = self.places.rows(tensor, rows)?;
        Ok((self.file, offset))
    }

    fn vector(&mut self, tensor: &TensorInfo<'m>) -> Result<&'m [f32], LoadError> {
        let vector = self.model.alloc::<f32>(tensor.shape[0] as usize)?;
        copy_floats(self.places.vector_bytes(tensor)?, vector);
        Ok(vector)
    }
}
