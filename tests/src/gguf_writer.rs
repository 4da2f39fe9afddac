//! Writes small GGUF files in memory, well formed or not, for tests of what reads them.
//!
//! The writer checks nothing: keys may stand twice, arrays may have any length and type.

/// A GGUF file, version 3 unless it is made to claim another.
#[derive(Clone, Default)]
pub struct GgufWriter {
    version: Option<u32>,
    counts: Option<(u64, u64)>,
    keys: u64,
    records: Vec<u8>,
    tensors: u64,
    infos: Vec<u8>,
    data: Vec<u8>,
}

/// Numbers of the value types (GGUF specification, `gguf_metadata_value_type`).
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
/// Where tensors start, unless `general.alignment` says otherwise.
const ALIGNMENT: usize = 32;

impl GgufWriter {
    /// A file without keys.
    pub fn new() -> Self {
        GgufWriter::default()
    }

    /// Makes the header claim another version.
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Makes the header claim so many tensors and keys, whatever follows it.
    pub fn counts(mut self, tensors: u64, keys: u64) -> Self {
        self.counts = Some((tensors, keys));
        self
    }

    /// Adds a key whose value has the type and the bytes given.
    pub fn raw(self, key: impl AsRef<[u8]>, kind: u32, value: &[u8]) -> Self {
        let mut record = string(key.as_ref());
        record.extend(kind.to_le_bytes());
        record.extend(value);
        self.record(&record)
    }

    /// Adds the bytes of a key-value record, which need not be one.
    pub fn record(mut self, bytes: &[u8]) -> Self {
        self.keys += 1;
        self.records.extend(bytes);
        self
    }

    /// Adds a string.
    pub fn string(self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.raw(key, STRING, &string(value.as_ref()))
    }

    /// Adds an unsigned integer.
    pub fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, U32, &value.to_le_bytes())
    }

    /// Adds a float.
    pub fn f32(self, key: &str, value: f32) -> Self {
        self.raw(key, F32, &value.to_le_bytes())
    }

    /// Adds a truth value.
    pub fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, BOOL, &[value.into()])
    }

    /// Adds an array of strings.
    pub fn strings(self, key: &str, values: &[impl AsRef<[u8]>]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| string(v.as_ref())).collect();
        self.array(key, STRING, values.len() as u64, &bytes)
    }

    /// Adds an array of integers.
    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.array(key, I32, values.len() as u64, &bytes)
    }

    /// Adds an array of floats.
    pub fn f32s(self, key: &str, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.array(key, F32, values.len() as u64, &bytes)
    }

    /// Adds a tensor of a `ggml_type`, after those before it.
    pub fn tensor(self, name: &str, shape: &[u64], kind: u32, bytes: &[u8]) -> Self {
        let offset = self.data.len() as u64;
        let mut writer = self.tensor_info(name, shape, kind, offset);
        writer.data.extend(bytes);
        let padded = writer.data.len().next_multiple_of(ALIGNMENT);
        writer.data.resize(padded, 0);
        writer
    }

    /// Adds a tensor that has no data and says it lies at `offset`.
    pub fn tensor_info(
        self,
        name: impl AsRef<[u8]>,
        shape: &[u64],
        kind: u32,
        offset: u64,
    ) -> Self {
        self.raw_tensor_info(name, shape.len() as u32, shape, kind, offset)
    }

    /// Adds a tensor that says it has so many `dimensions`, whatever its shape has.
    pub fn raw_tensor_info(
        mut self,
        name: impl AsRef<[u8]>,
        dimensions: u32,
        shape: &[u64],
        kind: u32,
        offset: u64,
    ) -> Self {
        self.tensors += 1;
        self.infos.extend(string(name.as_ref()));
        self.infos.extend(dimensions.to_le_bytes());
        self.infos
            .extend(shape.iter().flat_map(|length| length.to_le_bytes()));
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend(offset.to_le_bytes());
        self
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        let (tensors, keys) = self.counts.unwrap_or((self.tensors, self.keys));
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.unwrap_or(3).to_le_bytes());
        file.extend(tensors.to_le_bytes());
        file.extend(keys.to_le_bytes());
        file.extend(&self.records);
        file.extend(&self.infos);
        if self.tensors > 0 {
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        }
        file.extend(&self.data);
        file
    }

    /// Adds an array that says it has `len` elements of a type, whatever its bytes hold.
    pub fn array(self, key: &str, kind: u32, len: u64, bytes: &[u8]) -> Self {
        let mut value = kind.to_le_bytes().to_vec();
        value.extend(len.to_le_bytes());
        value.extend(bytes);
        self.raw(key, ARRAY, &value)
    }
}

/// A string as GGUF has it: its length, then its bytes.
fn string(text: &[u8]) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes
}
