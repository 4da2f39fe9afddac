//! The source that finds weights in a mapped image.

use super::Image;
use crate::arena::{Model, Open};
use crate::gguf::TensorInfo;
use crate::load::{LoadError, copy_floats};
use crate::model::Matrix;
use crate::model::weights::{FileRows, Source};
use crate::sys::Fd;

/// Weights where they lie in the image.
pub struct Mapped<'l, 'm> {
    /// The checked image.
    pub image: Image<'m>,
    /// Its file, for rows that are not mapped.
    pub file: Fd,
    /// Where vectors of floats go: they are few, and this way no bytes are taken for floats.
    pub model: &'l Open<'m, Model>,
}

/// Finds every tensor where it should be, and takes nothing.
impl<'m> Source<'m> for Image<'m> {
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        matrix: &Matrix<'m>,
    ) -> Result<&'m [u8], LoadError> {
        Ok(self.mapped(tensor, matrix.packed_bytes() as u64)?)
    }

    fn rows(&mut self, tensor: &TensorInfo<'m>, _: &FileRows) -> Result<(Fd, u64), LoadError> {
        Ok((Fd::NONE, self.find(tensor, tensor.bytes)?.offset))
    }

    fn vector(&mut self, tensor: &TensorInfo<'m>) -> Result<&'m [f32], LoadError> {
        self.mapped(tensor, tensor.bytes)?;
        Ok(&[])
    }
}

impl<'m> Source<'m> for Mapped<'_, 'm> {
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        matrix: &Matrix<'m>,
    ) -> Result<&'m [u8], LoadError> {
        self.image.matrix(tensor, matrix)
    }

    fn rows(&mut self, tensor: &TensorInfo<'m>, rows: &FileRows) -> Result<(Fd, u64), LoadError> {
        let (_, offset) = self.image.rows(tensor, rows)?;
        Ok((self.file, offset))
    }

    fn vector(&mut self, tensor: &TensorInfo<'m>) -> Result<&'m [f32], LoadError> {
        let vector = self.model.alloc::<f32>(tensor.shape[0] as usize)?;
        copy_floats(self.image.mapped(tensor, tensor.bytes)?, vector);
        Ok(vector)
    }
}
