//! What precedes the tensors of a GGUF file, written; and single keys of one, read.

use anyhow::{Context, Result, bail};

/// Numbers of the value types (GGUF specification, `gguf_metadata_value_type`).
const U32: u32 = 4;
const F32: u32 = 6;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
/// Where tensors start, unless a key says otherwise.
const ALIGNMENT: usize = 32;

/// A header as it grows.
#[derive(Default)]
pub struct Header {
    keys: u64,
    records: Vec<u8>,
    tensors: u64,
    infos: Vec<u8>,
    offset: u64,
}

impl Header {
    /// Adds a string.
    pub fn string(self, key: &str, value: &str) -> Self {
        self.record(&[&string(key), &STRING.to_le_bytes()[..], &string(value)].concat())
    }

    /// Adds an unsigned integer.
    pub fn u32(self, key: &str, value: u32) -> Self {
        let parts = [&string(key), &U32.to_le_bytes()[..], &value.to_le_bytes()];
        self.record(&parts.concat())
    }

    /// Adds a float.
    pub fn f32(self, key: &str, value: f32) -> Self {
        let parts = [&string(key), &F32.to_le_bytes()[..], &value.to_le_bytes()];
        self.record(&parts.concat())
    }

    /// Adds a truth value.
    pub fn bool(self, key: &str, value: bool) -> Self {
        self.record(&[&string(key), &BOOL.to_le_bytes()[..], &[value.into()]].concat())
    }

    /// Adds a key with its type and value, as another file has it.
    pub fn record(mut self, bytes: &[u8]) -> Self {
        self.keys += 1;
        self.records.extend(bytes);
        self
    }

    /// Adds a tensor of a `ggml_type`, right behind the one before.
    ///
    /// # Panics
    /// If `bytes` would leave the next one unaligned: nothing is filled in here.
    pub fn tensor(mut self, name: &str, shape: &[usize], kind: u32, bytes: usize) -> Self {
        assert!(bytes.is_multiple_of(ALIGNMENT), "{name} is aligned");
        self.tensors += 1;
        self.infos.extend(string(name));
        self.infos.extend((shape.len() as u32).to_le_bytes());
        for &length in shape {
            self.infos.extend((length as u64).to_le_bytes());
        }
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend(self.offset.to_le_bytes());
        self.offset += bytes as u64;
        self
    }

    /// The bytes up to the first tensor.
    pub fn finish(self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3_u32.to_le_bytes());
        file.extend(self.tensors.to_le_bytes());
        file.extend(self.keys.to_le_bytes());
        file.extend(self.records);
        file.extend(self.infos);
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file
    }
}

/// A string as GGUF has it: its length, then its bytes.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// The record of `key` in a file: the key, its type and its value.
pub fn record<'a>(file: &'a [u8], key: &str) -> Result<&'a [u8]> {
    let mut rest = file;
    take(&mut rest, 16)?;
    let keys = u64::from_le_bytes(*take_array(&mut rest)?);
    for _ in 0..keys {
        let start = rest;
        let name = take_string(&mut rest)?;
        let kind = u32::from_le_bytes(*take_array(&mut rest)?);
        skip_value(&mut rest, kind)?;
        if name == key.as_bytes() {
            return Ok(&start[..start.len() - rest.len()]);
        }
    }
    bail!("there is no key {key}")
}

fn skip_value(rest: &mut &[u8], kind: u32) -> Result<()> {
    match kind {
        STRING => drop(take_string(rest)?),
        ARRAY => {
            let kind = u32::from_le_bytes(*take_array(rest)?);
            let count = u64::from_le_bytes(*take_array(rest)?);
            for _ in 0..count {
                skip_value(rest, kind)?;
            }
        }
        _ => {
            // From u8 to f64, in the order of the specification; strings and arrays are above.
            let sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
            let size = sizes.get(kind as usize).context("a type not known here")?;
            take(rest, *size)?;
        }
    }
    Ok(())
}

fn take_string<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = u64::from_le_bytes(*take_array(rest)?);
    take(rest, usize::try_from(length)?)
}

fn take_array<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N]> {
    Ok(take(rest, N)?.try_into()?)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    rest.split_off(..count).context("the file ends in its keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_found_behind_values_of_every_kind() {
        let strings = [ARRAY.to_le_bytes(), STRING.to_le_bytes()].concat();
        let two = 2_u64.to_le_bytes();
        let array = [
            &string("array")[..],
            &strings,
            &two,
            &string("a"),
            &string("bc"),
        ]
        .concat();
        let file = Header::default()
            .string("text", "value")
            .bool("truth", true)
            .record(&array)
            .f32("float", 0.5)
            .u32("number", 7)
            .finish();
        let number = record(&file, "number").unwrap();
        let expected = [&string("number")[..], &[4, 0, 0, 0, 7, 0, 0, 0]].concat();
        assert_eq!(number, expected);
        assert_eq!(record(&file, "array").unwrap(), array);
        let error = record(&file, "none").unwrap_err();
        assert_eq!(error.to_string(), "there is no key none");
        let cut = &file[..file.len() - ALIGNMENT];
        assert!(record(cut, "none").is_err());
    }

    #[test]
    fn tensors_follow_one_another() {
        let header = Header::default()
            .tensor("a", &[8, 2], 0, 64)
            .tensor("b", &[8], 0, 32);
        assert_eq!(header.offset, 96);
        assert!(header.infos.ends_with(&64_u64.to_le_bytes()));
        let file = header.finish();
        assert_eq!(file.len() % ALIGNMENT, 0);
        assert_eq!(file[..16], *b"GGUF\x03\0\0\0\x02\0\0\0\0\0\0\0");
    }
}
