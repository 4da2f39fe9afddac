//! Tensor records (GGUF specification, `gguf_tensor_info_t`).

use super::reader::Reader;
use super::{GgufError, Name, TENSOR_NAME_BYTES_MAX};
use kernels_asm::format::WeightFormat;

/// How the weights of a tensor are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GgmlType {
    /// The `ggml_type` number.
    pub number: u32,
    /// The name in the GGUF specification.
    pub name: &'static str,
    /// Weights in a block.
    pub block_len: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
}

impl GgmlType {
    /// The type of that number; `None` if it never was or was removed.
    pub fn from_number(number: u32) -> Option<GgmlType> {
        #[rustfmt::skip]
        const TYPES: [(u32, &str, u32, u32); 31] = [
            (0, "F32", 1, 4), (1, "F16", 1, 2), (2, "Q4_0", 32, 18), (3, "Q4_1", 32, 20),
            (6, "Q5_0", 32, 22), (7, "Q5_1", 32, 24), (8, "Q8_0", 32, 34), (9, "Q8_1", 32, 36),
            (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110), (12, "Q4_K", 256, 144),
            (13, "Q5_K", 256, 176), (14, "Q6_K", 256, 210), (15, "Q8_K", 256, 292),
            (16, "IQ2_XXS", 256, 66), (17, "IQ2_XS", 256, 74), (18, "IQ3_XXS", 256, 98),
            (19, "IQ1_S", 256, 50), (20, "IQ4_NL", 32, 18), (21, "IQ3_S", 256, 110),
            (22, "IQ2_S", 256, 82), (23, "IQ4_XS", 256, 136), (24, "I8", 1, 1), (25, "I16", 1, 2),
            (26, "I32", 1, 4), (27, "I64", 1, 8), (28, "F64", 1, 8), (29, "IQ1_M", 256, 56),
            (30, "BF16", 1, 2), (34, "TQ1_0", 256, 54), (35, "TQ2_0", 256, 66),
        ];
        TYPES.into_iter().find(|entry| entry.0 == number).map(
            |(number, name, block_len, block_bytes)| GgmlType {
                number,
                name,
                block_len,
                block_bytes,
            },
        )
    }

    /// The weight format, if it is one that has kernels.
    pub fn weight_format(self) -> Option<WeightFormat> {
        WeightFormat::from_ggml_type(self.number)
    }
}

/// One tensor of the file.
#[derive(Clone, Copy, Debug)]
pub struct TensorInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Row length, rows, and two more; 1 where the file has fewer dimensions.
    pub shape: [u64; 4],
    /// How its weights are stored.
    pub kind: GgmlType,
    /// Bytes it takes in the file.
    pub bytes: u64,
    /// Where its record starts in the header: no two tensors share it.
    pub record: u32,
    /// Where it starts in the data section.
    pub(super) offset: u64,
}

impl<'a> TensorInfo<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, GgufError> {
        let record = reader.position();
        let name = reader.text("tensor name", TENSOR_NAME_BYTES_MAX)?;
        let tensor = Name::new(name);
        let dimensions = reader.u32()?;
        if !(1..=4).contains(&dimensions) {
            return Err(GgufError::BadShape { tensor });
        }
        let mut shape = [1u64; 4];
        for length in &mut shape[..dimensions as usize] {
            *length = reader.u64()?;
            if *length == 0 {
                return Err(GgufError::BadShape { tensor });
            }
        }
        let number = reader.u32()?;
        let unknown = GgufError::UnknownTensorType {
            tensor,
            found: number,
        };
        let kind = GgmlType::from_number(number).ok_or(unknown)?;
        let offset = reader.u64()?;
        let bytes = bytes_of(kind, shape).map_err(|ragged| match ragged {
            true => GgufError::RaggedRow { tensor },
            false => GgufError::TensorTooLarge { tensor },
        })?;
        Ok(TensorInfo {
            name,
            shape,
            kind,
            bytes,
            record,
            offset,
        })
    }
}

/// Bytes of a tensor. `Err(true)`: the row is no whole number of blocks; `Err(false)`: overflow.
fn bytes_of(kind: GgmlType, shape: [u64; 4]) -> Result<u64, bool> {
    let block = u64::from(kind.block_len);
    if !shape[0].is_multiple_of(block) {
        return Err(true);
    }
    shape[1..]
        .iter()
        .try_fold(shape[0] / block, |blocks, &length| {
            blocks.checked_mul(length)
        })
        .and_then(|blocks| blocks.checked_mul(u64::from(kind.block_bytes)))
        // Offsets are added to this; leave them room.
        .filter(|&bytes| bytes < 1 << 62)
        .ok_or(false)
}
