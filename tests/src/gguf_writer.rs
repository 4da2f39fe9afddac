//! Writes small GGUF files in memory, well formed or not, for tests of what reads them.
//!
//! The writer checks nothing: keys may stand twice, arrays may have any length and type.

/// A GGUF file, version 3.
#[derive(Clone, Default)]
pub struct GgufWriter {
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

    /// Adds a key whose value has the type and the bytes given.
    pub fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys += 1;
        self.records.extend(string(key.as_bytes()));
        self.records.extend(kind.to_le_bytes());
        self.records.extend(value);
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
        self.array(key, STRING, values.len(), &bytes)
    }

    /// Adds an array of integers.
    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.array(key, I32, values.len(), &bytes)
    }

    /// Adds an array of floats.
    pub fn f32s(self, key: &str, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.array(key, F32, values.len(), &bytes)
    }

    /// Adds a tensor of a `ggml_type`, after those before it.
    pub fn tensor(mut self, name: &str, shape: &[u64], kind: u32, bytes: &[u8]) -> Self {
        self.tensors += 1;
        self.infos.extend(string(name.as_bytes()));
        self.infos.extend((shape.len() as u32).to_le_bytes());
        self.infos
            .extend(shape.iter().flat_map(|length| length.to_le_bytes()));
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        self.data
            .resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend(self.tensors.to_le_bytes());
        file.extend(self.keys.to_le_bytes());
        file.extend(&self.records);
        file.extend(&self.infos);
        if self.tensors > 0 {
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        }
        file.extend(&self.data);
        file
    }

    fn array(self, key: &str, kind: u32, len: usize, bytes: &[u8]) -> Self {
        let mut value = kind.to_le_bytes().to_vec();
        value.extend((len as u64).to_le_bytes());
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
