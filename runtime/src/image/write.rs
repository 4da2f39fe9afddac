//! `rushlight pack`: a GGUF file to a packed image.
//!
//! Tensors go through staging buffers of a few MiB, so a board can pack a model that it could not
//! load. Then the image is run where it lies, for its golden logits. The header is written last,
//! and a file gets its name after that: what was interrupted is no image.

use super::layout::Layout;
use super::trial;
use super::{ENTRY_BYTES, Entry, GOLDEN_AT, Image, MAGIC, PREAMBLE_BYTES, VERSION};
use crate::arena::{self, Kv, Model, Open};
use crate::error::Error;
use crate::gguf::TensorInfo;
use crate::image::ImageError;
use crate::load::{LoadError, Stream, check_signal, staging_bytes};
use crate::log::Log;
use crate::model::weights::{FileRows, Sizes, Source};
use crate::model::{Config, Matrix, Weights};
use crate::model_file::ModelFile;
use crate::new_file::NewFile;
use crate::notify::Notify;
use crate::options::UsageError;
use crate::plan::{BudgetSource, DoesNotFit, Plan, WAYS};
use crate::progress::Progress;
use crate::sys::{self, Errno, Fd, FileKind, HalfFile, Team};
use core::ffi::CStr;
use kernels_asm::format::LAYOUT;
use kernels_asm::registry::Kernels;
use xxhash_rust::xxh64::Xxh64;

/// Packed bytes that are aimed at between two writes.
const WINDOW_BYTES: usize = 1 << 20;

/// What is packed, and with what.
pub struct Packing<'a> {
    /// The GGUF file.
    pub model: &'a ModelFile,
    /// The processor of each thread.
    pub cpus: &'a [u32],
    /// The kernels that compute golden logits.
    pub kernels: Kernels,
    /// Where progress is shown.
    pub log: &'a Log,
    /// Who is told that it goes on.
    pub notify: &'a Notify,
    /// Bytes that it may take, and who says so; none with `--force`.
    pub budget: Option<(u64, BudgetSource)>,
    /// What the program itself takes.
    pub program_bytes: usize,
}

/// An image that was written.
pub struct Packed {
    /// Its bytes.
    pub bytes: u64,
    /// Checksum of its golden logits, if they are numbers.
    pub golden: Option<u64>,
}

/// Packs a model into an image at `path`, a file or a block device.
///
/// # Errors
/// The model cannot be run, its file not be read, or the image not be written.
pub fn pack(packing: &Packing<'_>, path: &'static CStr) -> Result<Packed, Error> {
    let model = packing.model;
    if model.image.is_some() {
        return Err(LoadError::Image(ImageError::NotAgain).into());
    }
    let config = Config::read(&model.gguf)?;
    let mut sizes = Sizes::default();
    Weights::gather(&model.gguf, &config, &mut sizes)?;
    let layout = Layout::new(&sizes, model.gguf.header().len());
    let memory = Memory::plan(packing, &config, &sizes, &layout);
    memory.check(packing.budget)?;
    let target = Target::create(path, model.file, layout.end_max)?;
    let _half_file = target
        .new
        .as_ref()
        .map(|new| HalfFile::new(new.temporary())); // the model may become shorter
    let written = write(packing, &config, &sizes, (layout, memory), &target);
    let finished = written.and_then(|packed| target.finish().map(|()| packed));
    if finished.is_err() {
        target.discard();
    }
    finished.map_err(|error| match error {
        Error::Load(LoadError::Write { errno }) => Error::of_file(path, errno),
        error => error,
    })
}

/// Bytes of each buffer.
struct Memory {
    /// Rows as the file has them.
    staging: usize,
    /// Packed groups, until they are written.
    window: usize,
    /// The image's.
    header: usize,
    /// The run for golden logits.
    trial: Plan,
}

impl Memory {
    fn plan(packing: &Packing<'_>, config: &Config, sizes: &Sizes, layout: &Layout) -> Memory {
        let threads = packing.cpus.len();
        let metadata = packing.model.gguf.header().len() + sizes.vectors;
        Memory {
            staging: staging_bytes(sizes, threads).1,
            window: WINDOW_BYTES.max(sizes.group_max),
            header: layout.header_bytes,
            trial: trial::plan(config, sizes, threads, metadata, packing.program_bytes),
        }
    }

    /// Those that are the writer's own.
    fn writer(&self) -> usize {
        let parts = [self.staging, self.window, self.header];
        parts.into_iter().map(arena::rounded).sum()
    }

    /// Holds all of it against a budget, but for the mapped weights: they are the file's pages, which
    /// the kernel takes back, so that a board can pack a model that it could not run.
    fn check(&self, budget: Option<(u64, BudgetSource)>) -> Result<(), DoesNotFit> {
        let total = self.trial.total() - self.trial.weights() + self.writer();
        match budget {
            Some((budget, source)) if total as u64 > budget => Err(DoesNotFit {
                total,
                budget,
                source,
                ways: [None; WAYS],
            }),
            _ => Ok(()),
        }
    }
}

/// The image in the making.
struct Target {
    path: &'static CStr,
    file: Fd,
    /// Its name to be; none on a block device.
    new: Option<NewFile>,
}

impl Target {
    /// Opens what `needs` bytes are written to: not `source`, which is read from.
    fn create(path: &'static CStr, source: Fd, needs: u64) -> Result<Target, Error> {
        let failed = |errno| Error::File { path, errno };
        match Fd::open_for_writing(path) {
            Ok(file) if file.is_same(source).map_err(failed)? => {
                return Err(UsageError::ImageIsModel.into());
            }
            Ok(file) => match file.kind().map_err(failed)? {
                FileKind::Block => {
                    if file.size().map_err(failed)? < needs {
                        return Err(failed(Errno::NO_SPACE));
                    }
                    // What may have been there is no image from now on, and after a power cut
                    // neither: an old header would vouch for tensors that are half new.
                    file.write_all_at(&[0; PREAMBLE_BYTES], 0).map_err(failed)?;
                    file.sync().map_err(failed)?;
                    return Ok(Target {
                        path,
                        file,
                        new: None,
                    });
                }
                FileKind::Regular => {} // is replaced by another of its name
                FileKind::Stream | FileKind::Other => return Err(Error::NotAFile { path }),
            },
            Err(Errno::NOT_FOUND) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let new = NewFile::create(path).map_err(failed)?;
        Ok(Target {
            path,
            file: new.file,
            new: Some(new),
        })
    }

    /// The image as far as it is written, mapped, with the header that it will have; and its file,
    /// to be read.
    fn image<'h>(
        &self,
        header: &'h [u8],
        tensors: usize,
        layout: &Layout,
    ) -> Result<(Image<'h>, Fd), Error> {
        let path = self.path;
        let failed = |errno| Error::File { path, errno };
        let name = self.new.as_ref().map_or(path, NewFile::temporary);
        let file = Fd::open_file(name).map_err(failed)?;
        let table_end = PREAMBLE_BYTES + ENTRY_BYTES * tensors;
        let image = Image {
            bytes: file.map(layout.end as usize).map_err(failed)?,
            entries: header[PREAMBLE_BYTES..table_end].as_chunks().0,
            gguf_header: &header[table_end..],
            weights: (layout.vectors, layout.weights_end),
            golden: 0,
        };
        Ok((image, file))
    }

    /// Puts the whole image in its place.
    fn finish(&self) -> Result<(), Error> {
        let failed = |errno| LoadError::Write { errno };
        self.file.sync().map_err(failed)?;
        check_signal()?; // slow storage may take a minute for what it was given
        if let Some(new) = &self.new {
            new.put_in_place().map_err(failed)?;
        }
        Ok(())
    }

    fn discard(&self) {
        if let Some(new) = &self.new {
            new.discard();
        }
    }
}

/// Writes tensors, then the header in front of them.
fn write(
    packing: &Packing<'_>,
    config: &Config,
    sizes: &Sizes,
    (layout, memory): (Layout, Memory),
    target: &Target,
) -> Result<Packed, Error> {
    let &Packing {
        model, cpus, log, ..
    } = packing;
    let file = target.file;
    let trial = &memory.trial;
    let (model_bytes, kv_bytes) = (
        memory.writer() + trial.scope::<Model>(),
        trial.scope::<Kv>(),
    );
    let bytes = memory.writer() + trial.reservation();
    let reservation = sys::reserve(bytes).map_err(|errno| Error::Memory { bytes, errno })?;
    let (stacks, block) = reservation.split_at_mut(trial.stacks);
    let (scope, kv, forward) = arena::split(block, model_bytes, kv_bytes)?;
    let scope: Open<'_, Model> = scope.open_once();

    let mut team = Team::start(cpus, stacks).map_err(Error::Threads)?;
    let header = scope.alloc::<u8>(memory.header)?;
    let mut packer = Packer {
        stream: Stream {
            gguf: &model.gguf,
            file: model.file,
            team: &mut team,
            staging: scope.alloc(memory.staging)?,
            progress: Progress::new(log, "pack", sizes.raw + sizes.rows),
        },
        window: scope.alloc(memory.window)?,
        file,
        entries: header[PREAMBLE_BYTES..].as_chunks_mut().0,
        count: 0,
        layout,
    };
    Weights::gather(&model.gguf, config, &mut packer)?;
    let layout = packer.layout; // with all tensors in it
    drop(packer); // and the bar with it

    complete(header, sizes.tensors, model.gguf.header(), &layout);
    // The header vouches for what it follows, so it must not be on the storage first.
    let failed = |errno| LoadError::Write { errno };
    file.sync().map_err(failed)?;
    let (image, file_to_read) = target.image(header, sizes.tensors, &layout)?;
    let memory = trial::Memory {
        model: &scope,
        kv,
        forward,
    };
    let golden = trial::golden(packing, config, sizes, (image, file_to_read), memory, team)?;
    seal(header, golden);
    file.write_all_at(header, 0).map_err(failed)?;
    Ok(Packed {
        bytes: layout.end,
        golden,
    })
}

/// Completes a header whose table is filled in but not sorted, up to what seals it.
fn complete(header: &mut [u8], tensors: usize, gguf_header: &[u8], layout: &Layout) {
    let table_end = PREAMBLE_BYTES + ENTRY_BYTES * tensors;
    let table: &mut [[u8; ENTRY_BYTES]] = header[PREAMBLE_BYTES..table_end].as_chunks_mut().0;
    table.sort_unstable_by_key(|entry| Entry::read(entry).record);
    header[table_end..].copy_from_slice(gguf_header);
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&LAYOUT.to_le_bytes());
    let extent = [layout.end, layout.vectors, layout.weights_end];
    for (number, at) in extent.into_iter().zip([16, 24, 32]) {
        header[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    header[40..44].copy_from_slice(&(tensors as u32).to_le_bytes());
    header[44..48].copy_from_slice(&(gguf_header.len() as u32).to_le_bytes());
}

/// Enters the checksum of golden logits, and that of the header.
fn seal(header: &mut [u8], golden: Option<u64>) {
    header[GOLDEN_AT..][..8].copy_from_slice(&golden.unwrap_or(0).to_le_bytes());
    let checksum = super::header_checksum(header);
    header[56..64].copy_from_slice(&checksum.to_le_bytes());
}

/// The source that packs into an image.
struct Packer<'l> {
    stream: Stream<'l>,
    /// Packed groups, until they are written. A group has more bytes than a vector of floats.
    window: &'l mut [u8],
    file: Fd,
    entries: &'l mut [[u8; ENTRY_BYTES]],
    /// Entries that are filled in.
    count: usize,
    /// Where the next of each kind goes.
    layout: Layout,
}

/// A tensor in the making.
struct Part {
    entry: Entry,
    hash: Xxh64,
}

impl Part {
    fn new(tensor: &TensorInfo<'_>, offset: u64) -> Part {
        let entry = Entry {
            record: tensor.record,
            offset,
            bytes: 0,
            hash: 0,
        };
        let hash = Xxh64::new(0);
        Part { entry, hash }
    }
}

impl Packer<'_> {
    /// Appends the first `len` bytes of the window.
    fn append(&mut self, part: &mut Part, len: usize) -> Result<(), LoadError> {
        let bytes = &self.window[..len];
        part.hash.update(bytes);
        let at = part.entry.offset + part.entry.bytes;
        let written = self.file.write_all_at(bytes, at);
        part.entry.bytes += len as u64;
        written.map_err(|errno| LoadError::Write { errno })
    }

    /// Enters a whole tensor in the table.
    fn enter(&mut self, mut part: Part) {
        part.entry.hash = part.hash.digest();
        self.entries[self.count] = part.entry.write();
        self.count += 1;
    }

    /// Copies the bytes of a tensor as they are.
    fn copy(&mut self, tensor: &TensorInfo<'_>, offset: u64) -> Result<(), LoadError> {
        let mut part = Part::new(tensor, offset);
        while part.entry.bytes < tensor.bytes {
            let at = part.entry.bytes;
            let len = (tensor.bytes - at).min(self.window.len() as u64) as usize;
            self.stream.read(tensor, at, &mut self.window[..len])?;
            self.append(&mut part, len)?;
        }
        self.enter(part);
        Ok(())
    }
}

impl<'m> Source<'m> for Packer<'_> {
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        matrix: &Matrix<'m>,
    ) -> Result<&'m [u8], LoadError> {
        let (groups, group_bytes) = (
            matrix.rows.div_ceil(8),
            matrix.format.group_bytes(matrix.columns),
        );
        let step = self.window.len() / group_bytes;
        let offset = self.layout.matrix(matrix.packed_bytes() as u64);
        let mut part = Part::new(tensor, offset);
        for first in (0..groups).step_by(step) {
            let len = step.min(groups - first) * group_bytes;
            let window = &mut self.window[..len];
            self.stream.pack(tensor, matrix, first, window)?;
            self.append(&mut part, len)?;
        }
        self.enter(part);
        Ok(&[])
    }

    fn rows(&mut self, tensor: &TensorInfo<'m>, _: &FileRows) -> Result<(Fd, u64), LoadError> {
        let offset = self.layout.rows(tensor.bytes);
        self.copy(tensor, offset)?;
        Ok((Fd::NONE, 0))
    }

    fn vector(&mut self, tensor: &TensorInfo<'m>) -> Result<&'m [f32], LoadError> {
        let offset = self.layout.vector(tensor.bytes);
        self.copy(tensor, offset)?;
        Ok(&[])
    }
}
