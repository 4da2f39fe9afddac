//! Stream and pack: tensors from the file, through a small staging buffer, into the arena.
//!
//! Raw and packed weights of a tensor never exist together, and the page cache of what was read is
//! given back, so that the peak while loading is the size of the packed model.

use crate::arena::{ArenaError, Chunks, Model, Open};
use crate::gguf::{Gguf, Name, TensorInfo};
use crate::model::{ConfigError, Matrix, weights::Source};
use crate::sys::{Errno, Fd, Team};
use kernels_asm::format::WeightFormat;
use kernels_asm::pack::pack_group;

/// Staging that is aimed at: enough for the storage to stream, little against any budget.
pub const STAGING_BYTES: usize = 1 << 20;

/// Why weights could not be loaded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LoadError {
    /// The file is no model that can be run.
    Config(ConfigError),
    /// A tensor could not be read.
    Read {
        /// Which.
        tensor: Name,
        /// What the kernel said.
        errno: Errno,
    },
    /// The plan and the code disagree.
    Arena(ArenaError),
}

impl From<ConfigError> for LoadError {
    fn from(error: ConfigError) -> Self {
        LoadError::Config(error)
    }
}

impl From<ArenaError> for LoadError {
    fn from(error: ArenaError) -> Self {
        LoadError::Arena(error)
    }
}

/// The source that reads and packs.
pub struct Loader<'l, 'm> {
    /// Where each tensor lies.
    pub gguf: &'l Gguf<'l>,
    /// The model's file.
    pub file: Fd,
    /// Where packed weights go.
    pub model: &'l Open<'m, Model>,
    /// Who packs.
    pub team: &'l mut Team,
    /// At least one raw group of eight rows of the widest matrix.
    pub staging: &'l mut [u8],
    /// Told the bytes read so far.
    pub progress: &'l mut dyn FnMut(u64),
    /// Bytes read so far.
    pub done: u64,
}

impl Loader<'_, '_> {
    /// Fills the front of the staging buffer and gives the file's cache of it back.
    fn stage(&mut self, tensor: &TensorInfo<'_>, at: usize, len: usize) -> Result<(), LoadError> {
        let offset = self.gguf.file_offset(tensor) + at as u64;
        self.file
            .read_exact_at(&mut self.staging[..len], offset)
            .map_err(|errno| LoadError::Read {
                tensor: Name::new(tensor.name),
                errno,
            })?;
        self.file.drop_cache(offset, len as u64);
        self.done += len as u64;
        (self.progress)(self.done);
        Ok(())
    }
}

impl<'m> Source<'m> for Loader<'_, 'm> {
    type Error = LoadError;

    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        format: WeightFormat,
    ) -> Result<Matrix<'m>, LoadError> {
        let [columns, rows] = [tensor.shape[0] as usize, tensor.shape[1] as usize];
        let row_bytes = columns / format.block_len() * format.block_bytes();
        let group_bytes = format.group_bytes(columns);
        let packed = self.model.alloc::<u8>(format.packed_bytes(rows, columns))?;

        let groups_staged = self.staging.len() / (8 * row_bytes);
        let raw_len = groups_staged * 8 * row_bytes;
        let parts = packed.chunks_mut(groups_staged * group_bytes);
        for (index, part) in parts.enumerate() {
            let start = index * raw_len;
            let len = raw_len.min(rows * row_bytes - start);
            self.stage(tensor, start, len)?;
            let raw = &self.staging[..len];
            let groups = Chunks::new(part, group_bytes);
            self.team.run(&|_| {
                while let Some((group, out)) = groups.claim() {
                    let mut rows = raw[8 * group * row_bytes..].chunks_exact(row_bytes);
                    pack_group(format, core::array::from_fn(|_| rows.next()), columns, out);
                }
            });
        }
        Ok(Matrix {
            name: tensor.name,
            format,
            rows,
            columns,
            packed,
        })
    }

    fn vector(&mut self, tensor: &TensorInfo<'_>) -> Result<&'m [f32], LoadError> {
        let vector = self.model.alloc::<f32>(tensor.shape[0] as usize)?;
        let floats_staged = self.staging.len() / 4;
        for (index, part) in vector.chunks_mut(floats_staged).enumerate() {
            self.stage(tensor, index * 4 * floats_staged, 4 * part.len())?;
            for (number, bytes) in part.iter_mut().zip(self.staging.as_chunks::<4>().0) {
                *number = f32::from_le_bytes(*bytes);
            }
        }
        Ok(vector)
    }
}
