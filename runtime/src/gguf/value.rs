//! Metadata values (GGUF specification, `gguf_metadata_value_type`).

use super::reader::Reader;
use super::{GgufError, KEY_BYTES_MAX, Name};

/// A metadata value.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the types of the GGUF specification
pub enum Value<'a> {
    Integer(i128),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(&'a [u8]),
    Array(Array<'a>),
}

impl Value<'_> {
    /// The number, if it is an integer of any width.
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

/// The types of GGUF that are not arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
    Bool,
    String,
}

const ARRAY: u32 = 9;

impl Kind {
    fn from_number(number: u32) -> Option<Kind> {
        use Kind::*;
        Some(match number {
            0 => U8,
            1 => I8,
            2 => U16,
            3 => I16,
            4 => U32,
            5 => I32,
            6 => F32,
            7 => Bool,
            8 => String,
            10 => U64,
            11 => I64,
            12 => F64,
            _ => return None,
        })
    }

    /// The name that the GGUF specification has for it.
    fn name(self) -> &'static str {
        use Kind::*;
        match self {
            U8 => "u8",
            I8 => "i8",
            U16 => "u16",
            I16 => "i16",
            U32 => "u32",
            I32 => "i32",
            U64 => "u64",
            I64 => "i64",
            F32 => "f32",
            F64 => "f64",
            Bool => "bool",
            String => "string",
        }
    }

    /// Bytes of one value; a string has no fixed size, only its length field.
    fn bytes_min(self) -> u64 {
        use Kind::*;
        match self {
            U8 | I8 | Bool => 1,
            U16 | I16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | String => 8,
        }
    }

    fn read<'a>(self, reader: &mut Reader<'a>) -> Result<Option<Value<'a>>, GgufError> {
        use Kind::*;
        Ok(Some(match self {
            U8 => Value::Integer(u8::from_le_bytes(reader.array()?).into()),
            I8 => Value::Integer(i8::from_le_bytes(reader.array()?).into()),
            U16 => Value::Integer(u16::from_le_bytes(reader.array()?).into()),
            I16 => Value::Integer(i16::from_le_bytes(reader.array()?).into()),
            U32 => Value::Integer(u32::from_le_bytes(reader.array()?).into()),
            I32 => Value::Integer(i32::from_le_bytes(reader.array()?).into()),
            U64 => Value::Integer(u64::from_le_bytes(reader.array()?).into()),
            I64 => Value::Integer(i64::from_le_bytes(reader.array()?).into()),
            F32 => Value::F32(f32::from_le_bytes(reader.array()?)),
            F64 => Value::F64(f64::from_le_bytes(reader.array()?)),
            Bool => match reader.array::<1>()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return Ok(None),
            },
            String => Value::String(reader.string()?),
        }))
    }
}

/// A checked array of values of one type.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    kind: Kind,
    len: usize,
    /// The elements as the file has them: whole and checked.
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Elements in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements as the file has them: numbers little-endian and end to end, each string after
    /// its length in eight bytes. For the reader that wants element 40 000 without the 39 999
    /// before it.
    pub fn raw(&self) -> &'a [u8] {
        self.bytes
    }

    /// The elements, if they are strings.
    pub fn strings(&self) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
        let mut reader = Reader::new(self.bytes, self.bytes.len());
        (self.kind == Kind::String).then(|| (0..self.len).map_while(move |_| reader.string().ok()))
    }

    /// The elements, if they are integers of any width.
    pub fn integers(&self) -> Option<impl Iterator<Item = i128> + use<'a>> {
        use Kind::*;
        let integral = matches!(self.kind, U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64);
        integral.then(|| self.values().filter_map(|value| value.as_integer()))
    }

    /// The elements, if they are 32-bit floats.
    pub fn floats(&self) -> Option<impl Iterator<Item = f32> + use<'a>> {
        (self.kind == Kind::F32).then(|| {
            self.values().map_while(|value| match value {
                Value::F32(number) => Some(number),
                _ => None,
            })
        })
    }

    /// The elements, whatever their type.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (kind, mut reader) = (self.kind, Reader::new(self.bytes, self.bytes.len()));
        (0..self.len).map_while(move |_| kind.read(&mut reader).ok().flatten())
    }
}

/// A key with its value.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The key.
    pub key: &'a str,
    /// The type of the value, or of an array's elements: `u32`, `string` and the like.
    pub kind: &'static str,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Pair<'a> {
    /// Reads a record that was read before.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, GgufError> {
        let mut probe = reader.fork();
        let (key, value) = read_pair(reader)?;
        probe.text("key", KEY_BYTES_MAX)?;
        let kind = match value {
            Value::Array(array) => array.kind.name(),
            _ => Kind::from_number(probe.u32()?).map_or("", Kind::name),
        };
        Ok(Pair { key, kind, value })
    }
}

/// Reads a key and its value, and checks the value whole.
pub(super) fn read_pair<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, Value<'a>), GgufError> {
    let key = reader.text("key", KEY_BYTES_MAX)?;
    let number = reader.u32()?;
    if number == ARRAY {
        return Ok((key, Value::Array(read_array(reader, key)?)));
    }
    let unknown = GgufError::UnknownValueType {
        key: Name::new(key),
        found: number,
    };
    let kind = Kind::from_number(number).ok_or(unknown)?;
    let value = kind.read(reader)?.ok_or(GgufError::BadBool {
        key: Name::new(key),
    })?;
    Ok((key, value))
}

fn read_array<'a>(reader: &mut Reader<'a>, key: &str) -> Result<Array<'a>, GgufError> {
    let number = reader.u32()?;
    let count = reader.u64()?;
    if number == ARRAY {
        return Err(GgufError::NestedArray {
            key: Name::new(key),
        });
    }
    let unknown = GgufError::UnknownValueType {
        key: Name::new(key),
        found: number,
    };
    let kind = Kind::from_number(number).ok_or(unknown)?;
    let bytes_min = count
        .checked_mul(kind.bytes_min())
        .ok_or(GgufError::TruncatedHeader)?;
    let start = reader.position();
    let bytes = match kind {
        Kind::String => {
            // Each string takes at least its length field, so this loop is bounded by the file.
            let mut probe = reader.fork();
            probe.bytes(bytes_min)?;
            for _ in 0..count {
                reader.string()?;
            }
            reader.since(start)
        }
        _ => reader.bytes(bytes_min)?,
    };
    if kind == Kind::Bool && bytes.iter().any(|&byte| byte > 1) {
        return Err(GgufError::BadBool {
            key: Name::new(key),
        });
    }
    Ok(Array {
        kind,
        len: count as usize,
        bytes,
    })
}
