//! GGUF container: bytes in, checked views out (GGUF specification, versions 2 and 3).
//!
//! [`Gguf::check`] walks the whole header once. After it returns `Ok`, every record it saw is
//! inside the file and well formed, so the accessors only fail where a key has another type than
//! the caller asked for. Nothing is allocated: keys, names and arrays are views of the file.
//! Tensor contents are not read here, and what the keys mean is not known here (`model::config`).

mod error;
mod reader;
mod tensor;
mod value;

pub use error::{GgufError, Name};
pub use tensor::{GgmlType, TensorInfo};
pub use value::{Array, Pair, Value};

use heapless::Vec;
use reader::Reader;

/// Metadata keys that a file may have.
pub const KEYS_MAX: usize = 1024;
/// Tensors that a file may have.
pub const TENSORS_MAX: usize = 4096;
/// Bytes that a key may have; the longest in use have some 60.
const KEY_BYTES_MAX: u64 = 256;
/// Bytes that a tensor's name may have: those of llama.cpp (`GGML_MAX_NAME`).
const TENSOR_NAME_BYTES_MAX: u64 = 64;
/// Bytes that the header may take: thirty times what a vocabulary of 262,144 tokens has. All of it may
/// be read before there is a plan.
pub const HEADER_BYTES_MAX: usize = 256 << 20;
/// Largest `general.alignment` that is believed.
const ALIGNMENT_MAX: u32 = 1 << 20;

/// The checked header of a file.
pub struct Gguf<'a> {
    bytes: &'a [u8],
    /// Where each key-value record starts.
    keys: Vec<u32, KEYS_MAX>,
    /// Where each tensor record starts.
    tensors: Vec<u32, TENSORS_MAX>,
    /// Where the last tensor record ends.
    header_end: usize,
    data_start: usize,
}

impl<'a> Gguf<'a> {
    /// Checks the header of a file that is wholly in `bytes` (mapped, as a rule; only the header
    /// is touched).
    ///
    /// # Errors
    /// Whatever is malformed, naming the key or tensor.
    pub fn check(bytes: &'a [u8]) -> Result<Self, GgufError> {
        Gguf::check_header(bytes, bytes.len() as u64)
    }

    /// Checks a header whose tensors lie in a file of `file_bytes`, of which `bytes` need only
    /// hold the front.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_header(bytes: &'a [u8], file_bytes: u64) -> Result<Self, GgufError> {
        match Gguf::check_front(bytes, file_bytes) {
            // The end that was met is that of what is read, and not of the file.
            Err(GgufError::TruncatedHeader) if bytes.len() > HEADER_BYTES_MAX => {
                Err(GgufError::LargeHeader)
            }
            checked => checked,
        }
    }

    /// The same of the first [`HEADER_BYTES_MAX`] bytes.
    fn check_front(bytes: &'a [u8], file_bytes: u64) -> Result<Self, GgufError> {
        let mut reader = Reader::new(bytes, HEADER_BYTES_MAX);
        let (tensor_count, key_count) = check_preamble(&mut reader)?;

        let mut keys = Vec::new();
        for _ in 0..key_count {
            let at = reader.position();
            value::read_pair(&mut reader)?;
            keys.push(at)
                .map_err(|_| GgufError::TooManyKeys { count: key_count })?;
        }
        if let Some(key) = find_twice(bytes, &keys) {
            return Err(GgufError::DuplicateKey { key });
        }

        let mut gguf = Gguf {
            bytes,
            keys,
            tensors: Vec::new(),
            header_end: 0,
            data_start: 0,
        };
        let alignment = gguf.alignment()?;
        gguf.check_tensors(&mut reader, tensor_count, u64::from(alignment))?;
        gguf.check_data(file_bytes)?;
        Ok(gguf)
    }

    /// Reads the tensor records and checks that the tensors lie end to end in the data section.
    fn check_tensors(
        &mut self,
        reader: &mut Reader<'a>,
        count: u64,
        alignment: u64,
    ) -> Result<(), GgufError> {
        let mut expected = 0u64;
        for _ in 0..count {
            let at = reader.position();
            let info = TensorInfo::read(reader)?;
            if info.offset != expected {
                return Err(GgufError::TensorOffset {
                    tensor: Name::new(info.name),
                    found: info.offset,
                    expected,
                });
            }
            expected = info
                .bytes
                .checked_next_multiple_of(alignment)
                .and_then(|padded| expected.checked_add(padded))
                .ok_or(GgufError::TensorTooLarge {
                    tensor: Name::new(info.name),
                })?;
            self.tensors
                .push(at)
                .map_err(|_| GgufError::TooManyTensors { count })?;
        }
        if let Some(tensor) = find_twice(self.bytes, &self.tensors) {
            return Err(GgufError::DuplicateTensor { tensor });
        }
        let header = u64::from(reader.position());
        self.data_start = header.next_multiple_of(alignment) as usize;
        self.header_end = reader.position() as usize;
        Ok(())
    }

    /// Checks that every tensor ends inside a file of `file_bytes`.
    fn check_data(&self, file_bytes: u64) -> Result<(), GgufError> {
        for info in self.tensors() {
            // No overflow: the tensor before this one was found inside the file, this one starts
            // where that ends, and takes less than 2^62 bytes.
            let needs = self.data_start as u64 + info.offset + info.bytes;
            if needs > file_bytes {
                return Err(GgufError::Truncated {
                    tensor: Name::new(info.name),
                    needs,
                    file: file_bytes,
                });
            }
        }
        Ok(())
    }

    fn alignment(&self) -> Result<u32, GgufError> {
        const KEY: &str = "general.alignment";
        let alignment = self.u32(KEY)?.unwrap_or(32);
        if !alignment.is_power_of_two() || !(8..=ALIGNMENT_MAX).contains(&alignment) {
            return Err(GgufError::BadAlignment { found: alignment });
        }
        Ok(alignment)
    }

    /// The value of `key`, if the file has it.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        // By name first: a value may be an array of a million strings, which is not to be walked
        // on the way to another key.
        let at = find(self.bytes, &self.keys, key)?;
        let (_, value) = value::read_pair(&mut Reader::at(self.bytes, at)).ok()?;
        Some(value)
    }

    /// Every key with its value, in the order of the file.
    pub fn pairs(&self) -> impl Iterator<Item = Pair<'a>> {
        let bytes = self.bytes;
        let keys = self.keys.iter();
        keys.filter_map(move |&at| Pair::read(&mut Reader::at(bytes, at)).ok())
    }

    /// Every tensor, in the order of the file.
    pub fn tensors(&self) -> impl Iterator<Item = TensorInfo<'a>> {
        let bytes = self.bytes;
        self.tensors.iter().filter_map(move |&at| {
            TensorInfo::read(&mut Reader::at(bytes, at)).ok() // was read once: cannot fail
        })
    }

    /// The tensor of that name, if the file has it.
    pub fn tensor(&self, name: &str) -> Option<TensorInfo<'a>> {
        let at = find(self.bytes, &self.tensors, name)?;
        TensorInfo::read(&mut Reader::at(self.bytes, at)).ok()
    }

    /// The header: keys and tensor records, without the padding in front of the data.
    pub fn header(&self) -> &'a [u8] {
        &self.bytes[..self.header_end]
    }

    /// Where a tensor's bytes start in the file.
    pub fn file_offset(&self, tensor: &TensorInfo<'_>) -> u64 {
        self.data_start as u64 + tensor.offset
    }

    /// An unsigned integer of any width that fits a `u32`.
    ///
    /// # Errors
    /// The key has another type, or a value that does not fit.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        self.typed(key, "an unsigned 32-bit integer", |value| {
            value
                .as_integer()
                .and_then(|number| u32::try_from(number).ok())
        })
    }

    /// A float.
    ///
    /// # Errors
    /// The key has another type.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.typed(key, "a float", |value| match value {
            Value::F32(number) => Some(number),
            Value::F64(number) => Some(number as f32),
            _ => None,
        })
    }

    /// A truth value.
    ///
    /// # Errors
    /// The key has another type.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        })
    }

    /// A string's bytes. GGUF asks for UTF-8; the caller who needs it checks it.
    ///
    /// # Errors
    /// The key has another type.
    pub fn string(&self, key: &str) -> Result<Option<&'a [u8]>, GgufError> {
        self.typed(key, "a string", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    /// An array.
    ///
    /// # Errors
    /// The key has another type.
    pub fn array(&self, key: &str) -> Result<Option<Array<'a>>, GgufError> {
        self.typed(key, "an array", |value| match value {
            Value::Array(array) => Some(array),
            _ => None,
        })
    }

    fn typed<T>(
        &self,
        key: &str,
        wanted: &'static str,
        convert: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match convert(value) {
                Some(converted) => Ok(Some(converted)),
                None => Err(GgufError::WrongType {
                    key: Name::new(key),
                    wanted,
                }),
            },
        }
    }
}

/// Magic, version and the two counts.
fn check_preamble(reader: &mut Reader<'_>) -> Result<(u64, u64), GgufError> {
    let magic = reader
        .array::<4>()
        .map_err(|_| GgufError::TruncatedHeader)?;
    if magic != *b"GGUF" {
        return Err(GgufError::NotGguf { found: magic });
    }
    let version = reader.u32()?;
    if version != 2 && version != 3 {
        return Err(GgufError::UnsupportedVersion { version });
    }
    let tensors = reader.u64()?;
    let keys = reader.u64()?;
    if tensors > TENSORS_MAX as u64 {
        return Err(GgufError::TooManyTensors { count: tensors });
    }
    if keys > KEYS_MAX as u64 {
        return Err(GgufError::TooManyKeys { count: keys });
    }
    Ok((tensors, keys))
}

/// The key or name in front of a record that was read before. The rest of the record is not
/// looked at: it may be an array of a million strings.
fn name_at(bytes: &[u8], at: u32) -> &[u8] {
    Reader::at(bytes, at).string().unwrap_or_default()
}

/// Which of these records has that key or name.
fn find(bytes: &[u8], records: &[u32], name: &str) -> Option<u32> {
    let named = |at: u32| name_at(bytes, at) == name.as_bytes();
    records.iter().copied().find(|&at| named(at))
}

/// A key or name that two of these records have. A copy is sorted, so that a header with as many
/// names as are believed takes no longer than the rest of the check.
fn find_twice<const N: usize>(bytes: &[u8], records: &Vec<u32, N>) -> Option<Name> {
    let mut sorted = records.clone();
    sorted.sort_unstable_by_key(|&at| name_at(bytes, at));
    let names = sorted.iter().map(|&at| name_at(bytes, at));
    let mut neighbours = names.clone().zip(names.skip(1));
    let (name, _) = neighbours.find(|(one, next)| one == next)?;
    Some(Name::from_bytes(name))
}
