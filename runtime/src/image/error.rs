//! What can be wrong with a packed image.

use super::VERSION;
use crate::gguf::{HEADER_BYTES_MAX, Name, TENSORS_MAX};
use core::fmt;
use kernels_asm::format::LAYOUT;

/// Why a file is no image that can be used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ImageError {
    /// The file ends before the image does.
    Cut {
        /// Bytes that there are.
        file: u64,
        /// Bytes that there should be.
        needs: u64,
    },
    /// Another version of the header.
    Version {
        /// Which.
        found: u32,
    },
    /// Weights packed in another layout.
    Layout {
        /// Which.
        found: u32,
    },
    /// A header that is larger than is believed.
    Header {
        /// Tensors of its table.
        tensors: usize,
        /// Bytes of the GGUF header.
        gguf_header: usize,
    },
    /// The header is not what was written.
    HeaderChecksum,
    /// A place in the header that is not the one that the model asks for.
    Extent,
    /// The image does not have a tensor of its model.
    MissingTensor {
        /// Which.
        tensor: Name,
    },
    /// A tensor has not the bytes that its shape makes.
    TensorBytes {
        /// Which.
        tensor: Name,
    },
    /// A tensor is not what was written.
    TensorHash {
        /// Which.
        tensor: Name,
    },
    /// A packed image where a GGUF file is wanted.
    NotAgain,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("packed image: ")?;
        match *self {
            ImageError::Cut { file, needs } => {
                write!(f, "cut: {file} bytes of {needs} are there")
            }
            ImageError::Version { found } => write!(
                f,
                "version {found}, this program reads {VERSION}; pack the model again"
            ),
            ImageError::Layout { found } => write!(
                f,
                "weights in layout {found}, this program's kernels read {LAYOUT}; \
                 pack the model again"
            ),
            ImageError::Header {
                tensors,
                gguf_header,
            } => write!(
                f,
                "malformed: a header of {tensors} tensors and {gguf_header} bytes of GGUF, \
                 at most {TENSORS_MAX} and {HEADER_BYTES_MAX}"
            ),
            ImageError::HeaderChecksum => f.write_str("damaged: the header's checksum differs"),
            ImageError::Extent => f.write_str("malformed: a tensor lies outside its place"),
            ImageError::MissingTensor { tensor } => write!(f, "malformed: no tensor {tensor}"),
            ImageError::TensorBytes { tensor } => {
                write!(
                    f,
                    "malformed: tensor {tensor} has another size than its shape"
                )
            }
            ImageError::TensorHash { tensor } => {
                write!(f, "damaged: the checksum of tensor {tensor} differs")
            }
            ImageError::NotAgain => f.write_str("is packed already; pack a GGUF file"),
        }
    }
}
