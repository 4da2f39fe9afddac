//! What can be wrong with a model's metadata and tensors.

use super::architecture::ARCHITECTURES;
use crate::gguf::{GgufError, Name};
use core::fmt;

/// Why a file is no model that can be run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ConfigError {
    /// The container is malformed.
    Gguf(GgufError),
    /// The architecture is missing or none that is supported.
    Architecture {
        /// As the file has it; `None` if it is missing.
        found: Option<Name>,
    },
    /// A key that the model needs is missing.
    MissingKey {
        /// Which.
        key: Key,
    },
    /// A number that makes no model.
    BadValue {
        /// Its key.
        key: Key,
        /// As the file has it.
        found: f64,
    },
    /// Something real that is not supported.
    Unsupported {
        /// What.
        what: &'static str,
    },
    /// A way of RoPE scaling that is not supported.
    RopeScaling {
        /// As the file names it.
        found: Name,
    },
    /// A tensor that the model needs is missing.
    MissingTensor {
        /// Which.
        tensor: Name,
    },
    /// A tensor that nothing here would use: the model is more than it seems.
    UnknownTensor {
        /// Which.
        tensor: Name,
        /// What the model is.
        architecture: &'static str,
    },
    /// A tensor has another shape than the metadata asks for.
    TensorShape {
        /// Which.
        tensor: Name,
        /// Row length and rows, as the file has them.
        found: [u64; 2],
        /// Row length and rows, as the metadata asks.
        wanted: [u64; 2],
    },
    /// A tensor has more rows than are believed.
    TensorRows {
        /// Which.
        tensor: Name,
        /// Rows, as the file has them.
        found: u64,
        /// Rows it may have.
        limit: u32,
    },
    /// A tensor's rows are no whole blocks, as kernels read them.
    RowLength {
        /// Which tensor.
        tensor: Name,
        /// Its type.
        format: &'static str,
        /// Weights of a row.
        found: usize,
        /// Weights of a block.
        block: usize,
    },
    /// A divisor of rotary frequencies that is not positive or not finite.
    Divisor {
        /// Whose.
        tensor: Name,
    },
    /// A tensor's type has no kernel.
    TensorType {
        /// Which tensor.
        tensor: Name,
        /// Its type.
        found: &'static str,
    },
}

/// A key of an architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// What it starts with.
    pub architecture: &'static str,
    /// The rest, after a dot.
    pub name: &'static str,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.architecture, self.name)
    }
}

impl From<GgufError> for ConfigError {
    fn from(error: GgufError) -> Self {
        ConfigError::Gguf(error)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ConfigError::*;
        match *self {
            Gguf(error) => error.fmt(f),
            Architecture { found: None } => f.write_str("general.architecture is missing"),
            Architecture { found: Some(name) } => {
                write!(f, "architecture \"{name}\" is not supported (")?;
                for (i, known) in ARCHITECTURES.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", known.name)?;
                }
                f.write_str(" are)")
            }
            MissingKey { key } => write!(f, "key {key} is missing"),
            BadValue { key, found } => write!(f, "key {key}: {found} makes no model"),
            Unsupported { what } => write!(f, "{what} is not supported"),
            RopeScaling { found } => write!(
                f,
                "RoPE scaling \"{found}\" is not supported (none, linear, yarn are)"
            ),
            MissingTensor { tensor } => write!(f, "tensor {tensor} is missing"),
            UnknownTensor {
                tensor,
                architecture,
            } => write!(
                f,
                "tensor {tensor} is no part of the {architecture} models that are supported"
            ),
            TensorShape {
                tensor,
                found,
                wanted,
            } => write!(
                f,
                "tensor {tensor} is {} x {}, the metadata asks for {} x {}",
                found[0], found[1], wanted[0], wanted[1]
            ),
            TensorRows {
                tensor,
                found,
                limit,
            } => write!(f, "tensor {tensor} has {found} rows, at most {limit}"),
            RowLength {
                tensor,
                format,
                found,
                block,
            } => write!(
                f,
                "tensor {tensor}: rows of {found} weights in {format}, read in blocks of {block}"
            ),
            Divisor { tensor } => {
                write!(
                    f,
                    "tensor {tensor}: a divisor that is not positive and finite"
                )
            }
            TensorType { tensor, found } => {
                write!(f, "tensor {tensor}: type {found} is not supported")
            }
        }
    }
}
