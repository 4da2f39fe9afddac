//! The packed image: a model in the kernels' layout, used where it lies.
//!
//! A run maps the file, or a raw partition, and is ready: nothing is read ahead of need, nothing
//! is copied, and the weights stay page cache that the kernel can drop and read again. An image is
//! the same on every machine, since the layout is.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | `RUSHIMG\n` |
//! | 8 | 4 | version of this table |
//! | 12 | 4 | layout of packed weights (`kernels_asm::format::LAYOUT`) |
//! | 16 | 8 | bytes of the image |
//! | 24 | 8 | where the mapped weights start, a multiple of 4096 |
//! | 32 | 8 | where they end; rows of an embedding that stays in the file follow |
//! | 40 | 4 | tensors, `n` |
//! | 44 | 4 | bytes of the GGUF header |
//! | 48 | 8 | checksum of golden logits (`golden`), or zero: there is none |
//! | 56 | 8 | XXH64 of the header: bytes 0 to 56, then from 64 to the end of the GGUF header |
//! | 64 | 32 `n` | tensors, see below |
//! | 64 + 32 `n` | | the GGUF header as it was, without padding |
//!
//! A tensor of the table is a u32 for its record (where in the GGUF header that starts), a zero
//! u32, and as u64 its offset, its bytes, and their XXH64; the table ascends by record.
//!
//! Numbers are little-endian. Of the mapped weights vectors come first, then matrices; each kind is
//! in the order of the GGUF file, and starts at multiples of 64 without further gaps. Checksums find
//! damage, they do not prove who wrote a file: every number is checked as those of a GGUF file are,
//! and a tensor that lies anywhere else is refused.

mod error;
mod layout;
mod map;
mod trial;
pub mod write;

pub use error::ImageError;
pub use layout::Places;
pub use map::Mapped;

use crate::gguf::{Gguf, GgufError, HEADER_BYTES_MAX, Name, TENSORS_MAX, TensorInfo};
use crate::load::{LoadError, check_signal};
use crate::progress::Progress;
use crate::sys::Fd;
use kernels_asm::format::LAYOUT;
use xxhash_rust::xxh64::Xxh64;

/// What an image starts with. The line feed finds transfers that changed line ends.
pub const MAGIC: [u8; 8] = *b"RUSHIMG\n";
/// Version of the header, and of the numbers: a change of `docs/numerics.md` that changes logits
/// counts it up, since an image vouches for some.
pub const VERSION: u32 = 1;
/// Bytes in front of the table of tensors.
const PREAMBLE_BYTES: usize = 64;
const ENTRY_BYTES: usize = 32;
/// Where the preamble has the checksum of golden logits.
const GOLDEN_AT: usize = 48;
/// Tensors start at a multiple of this: the arena's, so that kernels see no difference.
const TENSOR_ALIGNMENT: u64 = crate::arena::ALIGNMENT as u64;
/// Mapped weights start at a multiple of this: a page.
const DATA_ALIGNMENT: u64 = 4096;

/// Bytes that the GGUF file of an image may have had: sums of its tensors cannot overflow.
const SOURCE_BYTES_MAX: u64 = 1 << 48;

/// An image whose header was checked.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    /// The image, mapped.
    bytes: &'a [u8],
    entries: &'a [[u8; ENTRY_BYTES]],
    gguf_header: &'a [u8],
    weights: (u64, u64),
    golden: u64,
}

/// Where a tensor lies.
#[derive(Clone, Copy)]
struct Entry {
    record: u32,
    offset: u64,
    bytes: u64,
    hash: u64,
}

impl Entry {
    fn read(bytes: &[u8; ENTRY_BYTES]) -> Entry {
        Entry {
            record: u32_at(bytes, 0),
            offset: u64_at(bytes, 8),
            bytes: u64_at(bytes, 16),
            hash: u64_at(bytes, 24),
        }
    }

    fn write(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(&self.record.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[24..].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside the header"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside the header"))
}

/// The checksum of a header: all of it but the place of the checksum itself.
fn header_checksum(header: &[u8]) -> u64 {
    let mut hash = Xxh64::new(0);
    hash.update(&header[..56]);
    hash.update(&header[PREAMBLE_BYTES..]);
    hash.digest()
}

impl<'a> Image<'a> {
    /// Whether a file starts as an image does.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Checks the header of an image that is wholly in `bytes` (mapped, as a rule; only the header
    /// is touched). A raw partition may be longer than its image. What the table says of tensors is
    /// checked where their model is known: [`Places::check`].
    ///
    /// # Errors
    /// The image is cut, damaged, or of another version or layout.
    pub fn check(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let file = bytes.len() as u64;
        let cut = |needs: u64| ImageError::Cut { file, needs };
        if bytes.len() < PREAMBLE_BYTES {
            return Err(cut(PREAMBLE_BYTES as u64));
        }
        let (version, layout) = (u32_at(bytes, 8), u32_at(bytes, 12));
        if version != VERSION {
            return Err(ImageError::Version { found: version });
        }
        if layout != LAYOUT {
            return Err(ImageError::Layout { found: layout });
        }
        // Before any of it is read to be checked.
        let (tensors, gguf_header) = (u32_at(bytes, 40) as usize, u32_at(bytes, 44) as usize);
        if tensors > TENSORS_MAX || gguf_header > HEADER_BYTES_MAX {
            return Err(ImageError::Header {
                tensors,
                gguf_header,
            });
        }
        let table_end = PREAMBLE_BYTES + ENTRY_BYTES * tensors;
        let header_end = table_end + gguf_header;
        if header_end > bytes.len() {
            return Err(cut(header_end as u64));
        }
        if header_checksum(&bytes[..header_end]) != u64_at(bytes, 56) {
            return Err(ImageError::HeaderChecksum);
        }
        let (size, weights) = (u64_at(bytes, 16), (u64_at(bytes, 24), u64_at(bytes, 32)));
        if size > file {
            return Err(cut(size));
        }
        let is_ordered = header_end as u64 <= weights.0 && weights.0 <= weights.1;
        if !is_ordered || weights.1 > size {
            return Err(ImageError::Extent);
        }
        Ok(Image {
            bytes: &bytes[..size as usize],
            entries: bytes[PREAMBLE_BYTES..table_end].as_chunks().0,
            gguf_header: &bytes[table_end..header_end],
            weights,
            golden: u64_at(bytes, GOLDEN_AT),
        })
    }

    /// The header of the GGUF file that the image was made from.
    ///
    /// # Errors
    /// As [`Gguf::check`]: it is checked no less than that of a file.
    pub fn gguf(&self) -> Result<Gguf<'a>, GgufError> {
        Gguf::check_header(self.gguf_header, SOURCE_BYTES_MAX)
    }

    /// Checksum of the logits that were computed while packing, if they were numbers.
    pub fn golden(&self) -> Option<u64> {
        (self.golden != 0).then_some(self.golden)
    }

    /// The mapped weights: what a step reads.
    pub fn weights(&self) -> &'a [u8] {
        &self.bytes[self.weights.0 as usize..self.weights.1 as usize]
    }

    /// Where the mapped weights start in the file.
    pub fn weights_offset(&self) -> u64 {
        self.weights.0
    }

    /// A tensor, which takes so many bytes and must lie at `offset`.
    fn tensor(
        &self,
        tensor: &TensorInfo<'_>,
        bytes: u64,
        offset: u64,
    ) -> Result<&'a [u8], ImageError> {
        let name = Name::new(tensor.name);
        let found = self
            .entries
            .binary_search_by_key(&tensor.record, |entry| Entry::read(entry).record);
        let index = found.map_err(|_| ImageError::MissingTensor { tensor: name })?;
        let entry = Entry::read(&self.entries[index]);
        if entry.bytes != bytes {
            return Err(ImageError::TensorBytes { tensor: name });
        }
        if entry.offset != offset {
            return Err(ImageError::Extent);
        }
        let place = offset as usize..(offset + bytes) as usize;
        self.bytes.get(place).ok_or(ImageError::Extent)
    }

    /// Bytes of all tensors of an image that is laid out [as it must be](Places::check).
    pub fn tensor_bytes(&self) -> u64 {
        self.entries.iter().map(|e| Entry::read(e).bytes).sum()
    }

    /// Reads every tensor and compares its hash, for an image that is laid out [as it must
    /// be](Places::check). Through a small buffer, not the mapping, so that nothing becomes resident.
    ///
    /// # Errors
    /// A tensor is damaged, or cannot be read, or a signal came first.
    pub fn check_tensors(
        &self,
        gguf: &Gguf<'_>,
        file: Fd,
        progress: &mut Progress<'_>,
    ) -> Result<(), LoadError> {
        let mut buffer = [0; 32 * 1024];
        for entry in self.entries.iter().map(Entry::read) {
            let named = |tensor: &TensorInfo<'_>| tensor.record == entry.record;
            let name = || gguf.tensors().find(named).map_or("?", |tensor| tensor.name);
            let mut hash = Xxh64::new(0);
            for at in (0..entry.bytes).step_by(buffer.len()) {
                check_signal()?;
                let len = (entry.bytes - at).min(buffer.len() as u64);
                let part = &mut buffer[..len as usize];
                let read = file.read_exact_at(part, entry.offset + at);
                read.map_err(|errno| LoadError::of_read(name(), errno))?;
                hash.update(part);
                progress.done += len;
                progress.show(progress.done);
            }
            if hash.digest() != entry.hash {
                let tensor = Name::new(name());
                return Err(ImageError::TensorHash { tensor }.into());
            }
        }
        Ok(())
    }
}
