//! Stream and pack: tensors from the file, through small staging buffers, into packed form.
//!
//! Raw and packed weights of a tensor never exist together, and the page cache of what was read is
//! given back, so that the peak while loading is the size of the packed model. Each member of the
//! team reads and packs pieces of its own, so storage and processors are busy at once.

use crate::arena::{ArenaError, Chunks, Model, Open};
use crate::gguf::{Gguf, Name, TensorInfo};
use crate::image::ImageError;
use crate::model::weights::{FileRows, Sizes, Source};
use crate::model::{ConfigError, Matrix};
use crate::progress::Progress;
use crate::sys::{self, Errno, Fd, Team};
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use kernels_asm::pack::pack_group;

/// Staging that is aimed at, of all members together: enough for the storage to stream, little
/// against any budget.
const STAGING_BYTES: usize = 1 << 20;

/// Why weights could not be loaded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LoadError {
    /// The file is no model that can be run.
    Config(ConfigError),
    /// The file is no packed image of its model.
    Image(ImageError),
    /// A tensor could not be read.
    Read {
        /// Which.
        tensor: Name,
        /// What the kernel said.
        errno: Errno,
    },
    /// The file ended before a tensor that was there when the header was checked.
    Shrunk {
        /// Which.
        tensor: Name,
    },
    /// A packed tensor could not be written.
    Write {
        /// What the kernel said.
        errno: Errno,
    },
    /// A signal came; with the exit code that it asks for.
    Cancelled(u8),
    /// The plan and the code disagree.
    Arena(ArenaError),
}

impl LoadError {
    /// What it means that a tensor could not be read.
    pub fn of_read(tensor: &str, errno: Errno) -> LoadError {
        let tensor = Name::new(tensor);
        match errno {
            Errno::UNEXPECTED_END => LoadError::Shrunk { tensor },
            errno => LoadError::Read { tensor, errno },
        }
    }
}

impl From<ConfigError> for LoadError {
    fn from(error: ConfigError) -> Self {
        LoadError::Config(error)
    }
}

impl From<ImageError> for LoadError {
    fn from(error: ImageError) -> Self {
        LoadError::Image(error)
    }
}

impl From<ArenaError> for LoadError {
    fn from(error: ArenaError) -> Self {
        LoadError::Arena(error)
    }
}

/// Ends long work when a signal asks for it.
///
/// # Errors
/// One did.
pub fn check_signal() -> Result<(), LoadError> {
    match sys::pending_signal() {
        Some(code) => Err(LoadError::Cancelled(code)),
        None => Ok(()),
    }
}

/// Bytes of one member's staging, and of all: a group of eight rows of the widest matrix at least.
pub fn staging_bytes(sizes: &Sizes, members: usize) -> (usize, usize) {
    let each = (STAGING_BYTES / members).max(8 * sizes.row_max);
    (each, each * members)
}

/// Reads tensors of a GGUF file.
pub struct Stream<'l> {
    /// Where each tensor lies.
    pub gguf: &'l Gguf<'l>,
    /// The model's file.
    pub file: Fd,
    /// Who packs.
    pub team: &'l mut Team,
    /// As [`staging_bytes`] says.
    pub staging: &'l mut [u8],
    /// Told the bytes read so far.
    pub progress: Progress<'l>,
}

impl Stream<'_> {
    /// Packs the groups of a matrix from `first` on into `out`, which holds whole groups.
    ///
    /// # Errors
    /// The file cannot be read, or a signal came first.
    pub fn pack(
        &mut self,
        tensor: &TensorInfo<'_>,
        matrix: &Matrix<'_>,
        first: usize,
        out: &mut [u8],
    ) -> Result<(), LoadError> {
        let Matrix {
            format,
            rows,
            columns,
            ..
        } = *matrix;
        let (row_bytes, group_bytes) = (format.row_bytes(columns), format.group_bytes(columns));
        let (file, offset) = (self.file, self.gguf.file_offset(tensor));
        let staging = self.staging.len() / self.team.len();
        let groups_staged = staging / (8 * row_bytes);
        let stagings = Chunks::new(self.staging, staging);
        let pieces = Chunks::new(out, groups_staged * group_bytes);
        let (failed, read) = (AtomicI32::new(0), AtomicU64::new(self.progress.done));
        let progress = &self.progress;
        self.team.run(&|member| {
            let Some((_, staging)) = stagings.claim() else {
                return;
            };
            while sys::pending_signal().is_none() && failed.load(Ordering::Relaxed) == 0 {
                let Some((piece, out)) = pieces.claim() else {
                    return;
                };
                let row = 8 * (first + piece * groups_staged);
                // The last piece may be short of groups, and the last group of rows.
                let len = (out.len() / group_bytes * 8).min(rows - row) * row_bytes;
                let (raw, at) = (&mut staging[..len], offset + (row * row_bytes) as u64);
                file.will_need(at, 2 * STAGING_BYTES as u64);
                if let Err(errno) = file.read_exact_at(raw, at) {
                    return failed.store(errno.0, Ordering::Relaxed);
                }
                file.drop_cache(at, len as u64);
                sys::populate(out);
                for (group, out) in out.chunks_exact_mut(group_bytes).enumerate() {
                    let mut rows = raw[8 * group * row_bytes..].chunks_exact(row_bytes);
                    pack_group(format, core::array::from_fn(|_| rows.next()), columns, out);
                }
                let done = read.fetch_add(len as u64, Ordering::Relaxed) + len as u64;
                if member == 0 {
                    progress.show(done);
                }
            }
        });
        self.progress.done = read.into_inner();
        check_signal()?;
        match failed.into_inner() {
            0 => Ok(()),
            errno => Err(LoadError::of_read(tensor.name, Errno(errno))),
        }
    }

    /// Reads bytes of a tensor from `at` on.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(
        &mut self,
        tensor: &TensorInfo<'_>,
        at: u64,
        out: &mut [u8],
    ) -> Result<(), LoadError> {
        let offset = self.gguf.file_offset(tensor) + at;
        let read = self.file.read_exact_at(out, offset);
        read.map_err(|errno| LoadError::of_read(tensor.name, errno))?;
        self.file.drop_cache(offset, out.len() as u64);
        self.progress.done += out.len() as u64;
        Ok(())
    }
}

/// Little-endian bytes to floats.
pub fn copy_floats(bytes: &[u8], out: &mut [f32]) {
    for (number, bytes) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *number = f32::from_le_bytes(*bytes);
    }
}

/// The source that reads a GGUF file and packs into the arena.
pub struct Loader<'l, 'm> {
    /// What reads and packs.
    pub stream: Stream<'l>,
    /// Where packed weights go.
    pub model: &'l Open<'m, Model>,
}

impl<'m> Source<'m> for Loader<'_, 'm> {
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        matrix: &Matrix<'m>,
    ) -> Result<&'m [u8], LoadError> {
        let packed = self.model.alloc::<u8>(matrix.packed_bytes())?;
        self.stream.pack(tensor, matrix, 0, packed)?;
        Ok(packed)
    }

    fn rows(&mut self, tensor: &TensorInfo<'m>, _: &FileRows) -> Result<(Fd, u64), LoadError> {
        Ok((self.stream.file, self.stream.gguf.file_offset(tensor)))
    }

    fn vector(&mut self, tensor: &TensorInfo<'m>) -> Result<&'m [f32], LoadError> {
        let vector = self.model.alloc::<f32>(tensor.shape[0] as usize)?;
        let mut bytes = [0; 4096];
        let mut at = 0;
        for part in vector.chunks_mut(bytes.len() / 4) {
            let bytes = &mut bytes[..4 * part.len()];
            self.stream.read(tensor, at, bytes)?;
            copy_floats(bytes, part);
            at += bytes.len() as u64;
        }
        Ok(vector)
    }
}
