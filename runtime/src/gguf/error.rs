//! Why a GGUF file was refused.

use core::fmt;

/// The start of a key or of a tensor's name, kept for a message; printed with control characters
/// escaped, since it comes from a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; 64],
    len: u8,
}

impl Name {
    /// Keeps the first 64 bytes.
    pub fn new(text: &str) -> Self {
        Name::from_bytes(text.as_bytes())
    }

    /// Keeps the first 64 bytes of a text that need not be UTF-8.
    pub fn from_bytes(text: &[u8]) -> Self {
        let mut bytes = [0; 64];
        let len = text.len().min(bytes.len());
        bytes[..len].copy_from_slice(&text[..len]);
        Name {
            bytes,
            len: len as u8,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes[..usize::from(self.len)].escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Why a GGUF file was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GgufError {
    /// The first four bytes are not `GGUF`.
    NotGguf {
        /// What they are.
        found: [u8; 4],
    },
    /// A version other than 2 and 3.
    UnsupportedVersion {
        /// As read, little-endian.
        version: u32,
    },
    /// The file ends inside the header.
    TruncatedHeader,
    /// The header is larger than is believed.
    LargeHeader,
    /// The header says it has more keys than are believed.
    TooManyKeys {
        /// As the header has it.
        count: u64,
    },
    /// The header says it has more tensors than are believed.
    TooManyTensors {
        /// As the header has it.
        count: u64,
    },
    /// A key or a tensor's name has no byte.
    EmptyName {
        /// Which of the two.
        what: &'static str,
    },
    /// A key or a tensor's name is longer than is believed.
    LongName {
        /// Which of the two.
        what: &'static str,
        /// Its length as read.
        len: u64,
        /// Bytes that it may have.
        max: u64,
    },
    /// A key or a tensor's name is not UTF-8.
    NameNotUtf8 {
        /// Which of the two.
        what: &'static str,
        /// Its bytes.
        name: Name,
    },
    /// A key stands twice.
    DuplicateKey {
        /// Which.
        key: Name,
    },
    /// A value type that GGUF does not have.
    UnknownValueType {
        /// Of this key.
        key: Name,
        /// As read.
        found: u32,
    },
    /// An array of arrays, which no model needs.
    NestedArray {
        /// Of this key.
        key: Name,
    },
    /// A bool that is neither 0 nor 1.
    BadBool {
        /// Of this key.
        key: Name,
    },
    /// A key has another type, or a number out of range.
    WrongType {
        /// Which key.
        key: Name,
        /// What was wanted.
        wanted: &'static str,
    },
    /// `general.alignment` is not a power of two from 8 to 1 MiB.
    BadAlignment {
        /// As read.
        found: u32,
    },
    /// A tensor stands twice.
    DuplicateTensor {
        /// Which.
        tensor: Name,
    },
    /// A tensor with no dimension, more than four, or one of length 0.
    BadShape {
        /// Which.
        tensor: Name,
    },
    /// A `ggml_type` that is unknown or was removed from the format.
    UnknownTensorType {
        /// Of this tensor.
        tensor: Name,
        /// As read.
        found: u32,
    },
    /// A row length that is no multiple of the type's block.
    RaggedRow {
        /// Of this tensor.
        tensor: Name,
    },
    /// More bytes than 64 bits count.
    TensorTooLarge {
        /// Which.
        tensor: Name,
    },
    /// A tensor does not start where the one before it ends.
    TensorOffset {
        /// Which.
        tensor: Name,
        /// As read.
        found: u64,
        /// What the tensors before it ask for.
        expected: u64,
    },
    /// The file ends before a tensor does.
    Truncated {
        /// Which.
        tensor: Name,
        /// Bytes the file would need.
        needs: u64,
        /// Bytes the file has.
        file: u64,
    },
}

impl fmt::Display for GgufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use GgufError::*;
        match *self {
            NotGguf { found } => write_magic(f, found),
            UnsupportedVersion { version } if version != 0 && version & 0xffff == 0 => {
                f.write_str("big-endian GGUF is not supported")
            }
            UnsupportedVersion { version } => {
                write!(f, "GGUF version {version} is not supported (2 and 3 are)")
            }
            TruncatedHeader => f.write_str("truncated header: the file ends inside it"),
            LargeHeader => write!(f, "a header of more than {} bytes", super::HEADER_BYTES_MAX),
            TooManyKeys { count } => write!(f, "{count} keys, at most {}", super::KEYS_MAX),
            TooManyTensors { count } => {
                write!(f, "{count} tensors, at most {}", super::TENSORS_MAX)
            }
            EmptyName { what } => write!(f, "an empty {what}"),
            LongName { what, len, max } => {
                write!(f, "a {what} of {len} bytes, at most {max}")
            }
            NameNotUtf8 { what, name } => write!(f, "{what} {name} is not UTF-8"),
            DuplicateKey { key } => write!(f, "key {key} stands twice"),
            UnknownValueType { key, found } => write!(f, "key {key}: unknown type {found}"),
            NestedArray { key } => write!(f, "key {key}: an array of arrays is not supported"),
            BadBool { key } => write!(f, "key {key}: a bool that is neither 0 nor 1"),
            WrongType { key, wanted } => write!(f, "key {key} is not {wanted}"),
            BadAlignment { found } => write!(
                f,
                "general.alignment {found} is not a power of two from 8 to 1048576"
            ),
            DuplicateTensor { tensor } => write!(f, "tensor {tensor} stands twice"),
            BadShape { tensor } => {
                write!(
                    f,
                    "tensor {tensor}: not 1 to 4 dimensions, or one of length 0"
                )
            }
            UnknownTensorType { tensor, found } => write_type(f, tensor, found),
            RaggedRow { tensor } => {
                write!(
                    f,
                    "tensor {tensor}: the row length is no multiple of the block"
                )
            }
            TensorTooLarge { tensor } => write!(f, "tensor {tensor}: its size overflows"),
            TensorOffset {
                tensor,
                found,
                expected,
            } => {
                write!(f, "tensor {tensor}: offset {found}, expected {expected}")
            }
            Truncated {
                tensor,
                needs,
                file,
            } => write!(
                f,
                "truncated: the file has {file} bytes, tensor {tensor} needs {needs}"
            ),
        }
    }
}

/// What a file that is not GGUF may be instead.
fn write_magic(f: &mut fmt::Formatter<'_>, found: [u8; 4]) -> fmt::Result {
    f.write_str("not a GGUF file: ")?;
    match &found {
        b"vers" => f.write_str("this is a git-lfs pointer, not the model"),
        b"<!DO" | b"<!do" | b"<htm" | b"<HTM" => f.write_str("this is an HTML page"),
        _ => write!(f, "it starts with \"{}\"", found.escape_ascii()),
    }
}

/// What to do about a `ggml_type` that is none, where there is something.
fn write_type(f: &mut fmt::Formatter<'_>, tensor: Name, found: u32) -> fmt::Result {
    write!(f, "tensor {tensor}: ")?;
    match found {
        4 | 5 => write!(f, "type {found} (Q4_2, Q4_3) was removed"),
        31..=33 => write!(
            f,
            "type {found} (Q4_0_4_4 and its like) was removed, use Q4_0"
        ),
        36..=38 => write!(f, "type {found} was removed"),
        _ => write!(f, "unknown type {found}"),
    }
}
