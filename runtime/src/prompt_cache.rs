//! `--prompt-cache FILE`: the keys and values of a prompt, kept from one run to the next.
//!
//! A run whose prompt begins with the same tokens evaluates only the others, and gives the same text
//! bit for bit: keys and values of a position depend on nothing behind it.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 4 | [`VERSION`] |
//! | 12 | 2 | formats of keys and of values, as [`format_number`] |
//! | 14 | 2 | 0 |
//! | 16 | 8 | the [model](model_hash) |
//! | 24 | 4 | tokens |
//! | 28 | 4 | 0 |
//! | 32 | 4 each | token ids |
//! | | | keys and values ([`KvCache::write`]) |
//! | | 8 | xxHash (XXH64) of all of this |
//!
//! Numbers are little-endian. A file depends on the model and on the cache's formats alone: not on the
//! machine, the context, or whether the model was packed.

use crate::error::Error;
use crate::gguf::Gguf;
use crate::kv::{KvCache, KvFormat};
use crate::load::LoadError;
use crate::model::{Embedding, Weights};
use crate::new_file::NewFile;
use crate::sys::{self, Errno, Fd, FileKind};
use core::ffi::CStr;
use core::fmt;
use xxhash_rust::xxh64::Xxh64;

/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"RUSHKV\r\n";
/// Goes up with any change of this layout, of that of the cache, or of what is computed.
pub const VERSION: u32 = 1;

const HEADER_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
/// Ids that are converted at a time.
const IDS: usize = 256;

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// [`model_hash`].
    pub model: u64,
    /// Of the cache.
    pub key_format: KvFormat,
    /// Of the cache.
    pub value_format: KvFormat,
}

impl Identity {
    fn header(&self, tokens: usize) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12] = format_number(self.key_format);
        header[13] = format_number(self.value_format);
        header[16..24].copy_from_slice(&self.model.to_le_bytes());
        header[24..28].copy_from_slice(&(tokens as u32).to_le_bytes());
        header
    }
}

fn format_number(format: KvFormat) -> u8 {
    match format {
        KvFormat::F32 => 0,
        KvFormat::F16 => 1,
        KvFormat::Q8_0 => 2,
    }
}

/// What tells a model from others: its file's header, its vectors, and the start, the middle and the
/// end of each matrix. Packed or not makes no difference.
///
/// # Errors
/// The embedding cannot be read.
pub fn model_hash(gguf: &Gguf<'_>, weights: &Weights<'_>) -> Result<u64, LoadError> {
    const PART: usize = 4096;
    let parts = |bytes: usize| {
        let starts = [0, bytes / 2, bytes.saturating_sub(PART)];
        starts.map(|start| start..bytes.min(start + PART))
    };
    let mut hash = Xxh64::new(0);
    hash.update(gguf.header());
    for number in weights.vectors().flatten() {
        hash.update(&number.to_le_bytes());
    }
    for matrix in weights.matrices() {
        for part in parts(matrix.packed.len()) {
            hash.update(&matrix.packed[part]);
        }
    }
    if let Embedding::InFile(rows) = &weights.embedding {
        let bytes = weights.output.rows * rows.format.row_bytes(rows.columns);
        for part in parts(bytes) {
            let mut read = [0; PART];
            let read = &mut read[..part.len()];
            rows.read_bytes(part.start as u64, read)?;
            hash.update(read);
        }
    }
    Ok(hash.digest())
}

/// Why a file is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// Another version of the layout, or of the arithmetic.
    Version,
    /// Made with another model.
    Model,
    /// Made with other `-ctk`, `-ctv`.
    Formats,
    /// Cut, or longer than its tokens need.
    Size,
    /// Changed since it was written.
    Checksum,
    /// It cannot be read.
    Read(Errno),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Version => f.write_str("written by another version"),
            Unusable::Model => f.write_str("made with another model"),
            Unusable::Formats => f.write_str("made with another -ctk or -ctv"),
            Unusable::Size => f.write_str("not as long as it should be"),
            Unusable::Checksum => f.write_str("damaged: its checksum is another"),
            Unusable::Read(errno) => errno.fmt(f),
        }
    }
}

/// Gives a file's next bytes, as many as there is room for.
type Source<'s> = &'s mut dyn FnMut(&mut [u8]) -> Result<(), Errno>;

/// A file, read from its start, with the checksum of what was read.
struct Reader<'s> {
    source: Source<'s>,
    hash: Xxh64,
}

impl Reader<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Unusable> {
        (self.source)(bytes).map_err(Unusable::Read)?;
        self.hash.update(bytes);
        Ok(())
    }
}

/// Takes from a file of `size` bytes, which `source` gives one after the other, the keys and values of
/// the tokens that it shares with the front of `prompt`. Returns how many: never the last of the
/// prompt, whose logits are wanted.
///
/// # Errors
/// The file is of no use. What the cache then has of it is not met: a step reads only positions that
/// were evaluated.
pub fn read(
    source: Source<'_>,
    size: u64,
    identity: &Identity,
    prompt: &[u32],
    cache: &mut KvCache<'_>,
) -> Result<usize, Unusable> {
    let hash = Xxh64::new(0);
    let mut reader = Reader { source, hash };
    let mut header = [0; HEADER_BYTES];
    if size < HEADER_BYTES as u64 {
        return Err(Unusable::Size);
    }
    reader.fill(&mut header)?;
    let tokens = u32::from_le_bytes(*header[24..].first_chunk().expect("its place"));
    let wanted = identity.header(tokens as usize);
    for (part, error) in [
        (8..12, Unusable::Version),
        (12..14, Unusable::Formats),
        (16..24, Unusable::Model),
    ] {
        if header[part.clone()] != wanted[part] {
            return Err(error);
        }
    }
    if header != wanted {
        return Err(Unusable::Checksum); // what should be zero
    }
    let ids_bytes = 4 * u64::from(tokens);
    let bytes = (HEADER_BYTES + CHECKSUM_BYTES) as u64 + ids_bytes;
    let numbers = cache.written_bytes(tokens.into());
    if bytes.checked_add(numbers) != Some(size) {
        return Err(Unusable::Size);
    }

    let (mut shared, mut differs) = (0, false);
    let mut left = tokens as usize;
    while left > 0 {
        let mut ids = [0; 4 * IDS];
        let ids = &mut ids[..4 * left.min(IDS)];
        left -= ids.len() / 4;
        reader.fill(ids)?;
        for id in ids.as_chunks().0 {
            differs |= prompt.get(shared) != Some(&u32::from_le_bytes(*id));
            shared += usize::from(!differs);
        }
    }
    let shared = shared.min(prompt.len().saturating_sub(1));
    if shared == 0 {
        return Ok(0); // whatever else there is
    }
    cache.read(tokens as usize, shared, &mut |bytes| reader.fill(bytes))?;

    let checksum = reader.hash.digest();
    let mut stored = [0; CHECKSUM_BYTES];
    reader.fill(&mut stored)?;
    match stored == checksum.to_le_bytes() {
        true => Ok(shared),
        false => Err(Unusable::Checksum),
    }
}

/// The file of `--prompt-cache`.
pub struct PromptCache {
    path: &'static CStr,
    /// What there is, and its bytes.
    old: Option<(Fd, u64)>,
    is_read_only: bool,
}

impl PromptCache {
    /// Opens the file, if there is one. What is no prompt cache is not to be replaced by one.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn open(path: &'static CStr, is_read_only: bool) -> Result<PromptCache, Error> {
        let failed = |errno| Error::File { path, errno };
        let cache = |old| PromptCache {
            path,
            old,
            is_read_only,
        };
        let file = match Fd::open_file(path) {
            Ok(file) => file,
            Err(Errno::NOT_FOUND) => return Ok(cache(None)),
            Err(errno) => return Err(failed(errno)),
        };
        if file.kind().map_err(failed)? != FileKind::Regular {
            return Err(Error::NotAFile { path });
        }
        let size = file.size().map_err(failed)?;
        if size == 0 {
            return Ok(cache(None)); // a name that was reserved
        }
        let mut magic = [0; MAGIC.len()];
        match file.read_exact_at(&mut magic, 0) {
            Ok(()) if magic == MAGIC => Ok(cache(Some((file, size)))),
            Ok(()) | Err(Errno::UNEXPECTED_END) => Err(Error::NoPromptCache { path }),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// How many of the prompt's tokens `cache` has after this, from the file, and why none if the
    /// file is of no use.
    pub fn load(
        &self,
        identity: &Identity,
        prompt: &[u32],
        cache: &mut KvCache<'_>,
    ) -> Result<usize, Unusable> {
        let Some((file, size)) = self.old else {
            return Ok(0);
        };
        let mut at = 0;
        let mut source = |bytes: &mut [u8]| {
            if sys::pending_signal().is_some() {
                return Err(Errno::INTERRUPTED); // a file may be of any length
            }
            let read = file.read_exact_at(bytes, at);
            at += bytes.len() as u64;
            read
        };
        read(&mut source, size, identity, prompt, cache)
    }

    /// Whether to [write](Self::write) a prompt of which so many tokens were loaded: if a quarter or
    /// more was new, which spares flash memory where only a question at the end changes.
    pub fn is_outdated(&self, loaded: usize, prompt: usize) -> bool {
        !self.is_read_only && 4 * loaded < 3 * prompt
    }

    /// Replaces the file by one of this prompt, whose keys and values are in `cache`. Returns its
    /// bytes.
    ///
    /// # Errors
    /// It cannot be written; then the old one is still there.
    pub fn write(
        &self,
        identity: &Identity,
        prompt: &[u32],
        cache: &KvCache<'_>,
    ) -> Result<u64, Errno> {
        let new = NewFile::create(self.path)?;
        let mut out = |bytes: &[u8]| new.file.write_all(bytes);
        let written = write(&mut out, identity, prompt, cache);
        let in_place = written.and_then(|bytes| {
            new.file.sync()?;
            new.put_in_place()?;
            Ok(bytes)
        });
        if in_place.is_err() {
            new.discard();
        }
        in_place
    }
}

/// Gives a prompt's file to `out`, part by part; returns its bytes.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut dyn FnMut(&[u8]) -> Result<(), Errno>,
    identity: &Identity,
    prompt: &[u32],
    cache: &KvCache<'_>,
) -> Result<u64, Errno> {
    let (mut hash, mut size) = (Xxh64::new(0), 0);
    let mut hashed = |bytes: &[u8]| {
        hash.update(bytes);
        size += bytes.len() as u64;
        out(bytes)
    };
    hashed(&identity.header(prompt.len()))?;
    for ids in prompt.chunks(IDS) {
        let mut bytes = [0; 4 * IDS];
        for (bytes, id) in bytes.chunks_exact_mut(4).zip(ids) {
            bytes.copy_from_slice(&id.to_le_bytes());
        }
        hashed(&bytes[..4 * ids.len()])?;
    }
    cache.write(prompt.len(), &mut hashed)?;
    out(&hash.digest().to_le_bytes())?;
    Ok(size + CHECKSUM_BYTES as u64)
}
