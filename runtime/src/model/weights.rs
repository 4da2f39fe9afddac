//! Tensors to packed weights.
//!
//! [`Weights::gather`] walks the tensors that a Llama model needs once, and asks a [`Source`] for
//! each, so that none of the sources can forget a tensor:
//!
//! - [`Sizes`] only adds up what the packed weights will take, for the plan
//! - [`Loader`](crate::load::Loader) reads a GGUF file and packs
//! - [`Mapped`](crate::image::Mapped) finds them in a packed image
//! - `image::write` packs into one

use super::config::{Config, ConfigError, LAYERS_MAX};
use crate::arena::rounded;
use crate::gguf::{Gguf, Name, TensorInfo};
use crate::load::LoadError;
use crate::sys::Fd;
use core::fmt::Write;
use heapless::{String, Vec};
use kernels_asm::format::WeightFormat;
use kernels_asm::pack::{pack_group, unpack_row};

/// A packed matrix.
#[derive(Clone, Copy)]
pub struct Matrix<'m> {
    /// Its tensor's, a view of the file's header.
    pub name: &'m str,
    /// Of its weights.
    pub format: WeightFormat,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// `rows` rounded up to whole groups of eight, packed (`kernels_asm::format`).
    pub packed: &'m [u8],
}

impl<'m> Matrix<'m> {
    /// Rows with those that fill up the last group.
    pub fn rows_padded(&self) -> usize {
        self.rows.next_multiple_of(8)
    }

    /// The packed bytes of `len` rows from `start`, both multiples of eight.
    pub fn row_range(&self, start: usize, len: usize) -> &'m [u8] {
        let group_bytes = self.format.group_bytes(self.columns);
        &self.packed[start / 8 * group_bytes..][..len / 8 * group_bytes]
    }
}

/// The weights of one layer.
pub struct Layer<'m> {
    /// `[width]`
    pub attention_norm: &'m [f32],
    /// `query_width x width`
    pub query: Matrix<'m>,
    /// `kv_width x width`
    pub key: Matrix<'m>,
    /// `kv_width x width`
    pub value: Matrix<'m>,
    /// `width x query_width`
    pub output: Matrix<'m>,
    /// `[width]`
    pub feed_forward_norm: &'m [f32],
    /// `hidden x width`
    pub gate: Matrix<'m>,
    /// `hidden x width`
    pub up: Matrix<'m>,
    /// `width x hidden`
    pub down: Matrix<'m>,
}

/// Rows of a matrix that stays in its file, as GGUF has them: a row is read when it is wanted.
#[derive(Clone, Copy)]
pub struct FileRows {
    /// The file.
    pub file: Fd,
    /// Where the first row starts.
    pub offset: u64,
    /// Of its weights.
    pub format: WeightFormat,
    /// Numbers of a row.
    pub columns: usize,
}

impl FileRows {
    /// Row `index` as floats. `raw` has the bytes of a row, `packed` those of a group.
    ///
    /// Goes the way of every other weight, through the packed layout, so the values are the same.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(
        &self,
        index: u32,
        raw: &mut [u8],
        packed: &mut [u8],
        out: &mut [f32],
    ) -> Result<(), LoadError> {
        let at = self.offset + u64::from(index) * raw.len() as u64;
        let read = self.file.read_exact_at(raw, at);
        read.map_err(|errno| LoadError::of_read(EMBEDDING, errno))?;
        let mut rows = [None; 8];
        rows[0] = Some(&*raw);
        pack_group(self.format, rows, self.columns, packed);
        unpack_row(self.format, packed, 0, self.columns, out);
        Ok(())
    }
}

/// The token embedding, `vocabulary x width`.
#[derive(Clone, Copy)]
pub enum Embedding {
    /// The output matrix is the embedding too, and is packed once.
    Tied,
    /// A step reads a row a token: not worth memory.
    InFile(FileRows),
}

/// All weights.
pub struct Weights<'m> {
    /// Rows of tokens.
    pub embedding: Embedding,
    /// In order.
    pub layers: Vec<Layer<'m>, LAYERS_MAX>,
    /// `[width]`
    pub norm: &'m [f32],
    /// `vocabulary x width`
    pub output: Matrix<'m>,
}

/// Where weights come from.
pub trait Source<'m> {
    /// The packed form of a matrix.
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        format: WeightFormat,
    ) -> Result<Matrix<'m>, LoadError>;

    /// Where the rows of a matrix lie that no product needs.
    fn rows(
        &mut self,
        tensor: &TensorInfo<'_>,
        format: WeightFormat,
    ) -> Result<FileRows, LoadError>;

    /// A vector of floats.
    fn vector(&mut self, tensor: &TensorInfo<'_>) -> Result<&'m [f32], LoadError>;
}

/// Finds tensors and checks them before the source sees them.
struct Tensors<'g, 'm> {
    gguf: &'g Gguf<'m>,
    source: &'g mut dyn Source<'m>,
}

impl<'m> Tensors<'_, 'm> {
    fn find(&self, name: &str, columns: usize, rows: usize) -> Result<TensorInfo<'m>, ConfigError> {
        let tensor = Name::new(name);
        let info = self
            .gguf
            .tensor(name)
            .ok_or(ConfigError::MissingTensor { tensor })?;
        let wanted = [columns as u64, rows as u64, 1, 1];
        if info.shape != wanted {
            let found = [info.shape[0], info.shape[1..].iter().product()];
            let wanted = [wanted[0], wanted[1]];
            return Err(ConfigError::TensorShape {
                tensor,
                found,
                wanted,
            });
        }
        Ok(info)
    }

    fn find_matrix(
        &self,
        name: &str,
        columns: usize,
        rows: usize,
    ) -> Result<(TensorInfo<'m>, WeightFormat), ConfigError> {
        let info = self.find(name, columns, rows)?;
        let format = info.kind.weight_format().ok_or(ConfigError::TensorType {
            tensor: Name::new(name),
            found: info.kind.name,
        })?;
        Ok((info, format))
    }

    fn matrix(&mut self, name: &str, columns: usize, rows: usize) -> Result<Matrix<'m>, LoadError> {
        let (info, format) = self.find_matrix(name, columns, rows)?;
        self.source.matrix(&info, format)
    }

    fn rows(&mut self, name: &str, columns: usize, rows: usize) -> Result<FileRows, LoadError> {
        let (info, format) = self.find_matrix(name, columns, rows)?;
        self.source.rows(&info, format)
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<&'m [f32], LoadError> {
        let info = self.find(name, len, 1)?;
        if info.kind.name != "F32" {
            let tensor = Name::new(name);
            return Err(ConfigError::TensorType {
                tensor,
                found: info.kind.name,
            }
            .into());
        }
        self.source.vector(&info)
    }
}

impl<'m> Weights<'m> {
    /// Asks `source` for every tensor that `config` needs, in the order of a step.
    ///
    /// # Errors
    /// A tensor is missing, misshapen or of an unsupported type, or the source fails.
    pub fn gather(
        gguf: &Gguf<'m>,
        config: &Config,
        source: &mut dyn Source<'m>,
    ) -> Result<Self, LoadError> {
        let mut tensors = Tensors { gguf, source };
        let (width, vocabulary) = (config.width, config.vocabulary);
        let mut layers = Vec::new();
        for index in 0..config.layers {
            let layer = gather_layer(&mut tensors, config, index)?;
            let _ = layers.push(layer); // `config` has at most LAYERS_MAX
        }
        refuse_unknown(gguf, config)?;
        let norm = tensors.vector("output_norm.weight", width)?;
        let (output, embedding) = match gguf.tensor(OUTPUT) {
            Some(_) => (
                tensors.matrix(OUTPUT, width, vocabulary)?,
                Embedding::InFile(tensors.rows(EMBEDDING, width, vocabulary)?),
            ),
            None => {
                let tied = tensors.matrix(EMBEDDING, width, vocabulary)?;
                (tied, Embedding::Tied)
            }
        };
        Ok(Weights {
            embedding,
            layers,
            norm,
            output,
        })
    }

    /// Bytes of weights that one step of one token reads.
    pub fn step_bytes(&self) -> usize {
        self.matrices().map(|matrix| matrix.packed.len()).sum()
    }

    /// Every matrix of a step.
    pub fn matrices(&self) -> impl Iterator<Item = &Matrix<'m>> {
        let layers = self.layers.iter().flat_map(|layer| {
            [
                &layer.query,
                &layer.key,
                &layer.value,
                &layer.output,
                &layer.gate,
                &layer.up,
                &layer.down,
            ]
        });
        layers.chain([&self.output])
    }
}

const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";

/// The parts of a layer, as its tensors are named.
const PARTS: [&str; 9] = [
    "attn_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
];

/// Refuses a file with a tensor that nothing here would use, such as a bias.
fn refuse_unknown(gguf: &Gguf<'_>, config: &Config) -> Result<(), ConfigError> {
    let is_known = |name: &str| {
        let part = name.strip_suffix(".weight");
        match part.and_then(|part| part.strip_prefix("blk.")?.split_once('.')) {
            Some((index, part)) => {
                let layer = index.parse::<usize>();
                layer.is_ok_and(|layer| layer < config.layers) && PARTS.contains(&part)
            }
            None => matches!(part, Some("token_embd" | "output_norm" | "output")),
        }
    };
    match gguf.tensors().find(|tensor| !is_known(tensor.name)) {
        None => Ok(()),
        Some(tensor) => Err(ConfigError::UnknownTensor {
            tensor: Name::new(tensor.name),
        }),
    }
}

fn gather_layer<'m>(
    tensors: &mut Tensors<'_, 'm>,
    config: &Config,
    index: usize,
) -> Result<Layer<'m>, LoadError> {
    let (width, hidden) = (config.width, config.hidden);
    let (query, kv) = (config.query_width(), config.kv_width());
    let name = |part: &str| {
        let mut name = String::<64>::new();
        let _ = write!(name, "blk.{index}.{part}.weight"); // the parts of this file are short
        name
    };
    Ok(Layer {
        attention_norm: tensors.vector(&name("attn_norm"), width)?,
        query: tensors.matrix(&name("attn_q"), width, query)?,
        key: tensors.matrix(&name("attn_k"), width, kv)?,
        value: tensors.matrix(&name("attn_v"), width, kv)?,
        output: tensors.matrix(&name("attn_output"), query, width)?,
        feed_forward_norm: tensors.vector(&name("ffn_norm"), width)?,
        gate: tensors.matrix(&name("ffn_gate"), width, hidden)?,
        up: tensors.matrix(&name("ffn_up"), width, hidden)?,
        down: tensors.matrix(&name("ffn_down"), hidden, width)?,
    })
}

/// A source that only counts.
#[derive(Clone, Copy, Default)]
pub struct Sizes {
    /// Bytes of packed matrices by format, in the order of [`WeightFormat::ALL`].
    pub packed: [usize; WeightFormat::ALL.len()],
    /// Bytes of float vectors.
    pub vectors: usize,
    /// Row bytes of the embedding that stays in the file, and of its packed group of eight.
    pub file_row: Option<[usize; 2]>,
    /// Largest row as the file has it.
    pub row_max: usize,
    /// Largest packed group.
    pub group_max: usize,
    /// Bytes that are read to pack the matrices.
    pub raw: u64,
    /// Tensors that were asked for.
    pub tensors: usize,
}

impl Sizes {
    /// Weights in the packed matrices.
    pub fn weights(&self) -> usize {
        let formats = WeightFormat::ALL.iter().zip(self.packed);
        formats
            .map(|(f, bytes)| bytes / f.record_bytes() * 8 * f.block_len())
            .sum()
    }

    /// The formats that the packed matrices have.
    pub fn formats(&self) -> impl Iterator<Item = WeightFormat> {
        let packed = self.packed;
        WeightFormat::ALL
            .into_iter()
            .filter(move |&format| packed[format as usize] > 0)
    }
}

impl<'m> Source<'m> for Sizes {
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        format: WeightFormat,
    ) -> Result<Matrix<'m>, LoadError> {
        let [columns, rows] = [tensor.shape[0] as usize, tensor.shape[1] as usize];
        self.packed[format as usize] += rounded(format.packed_bytes(rows, columns));
        self.row_max = self.row_max.max(format.row_bytes(columns));
        self.group_max = self.group_max.max(format.group_bytes(columns));
        self.raw += tensor.bytes;
        self.tensors += 1;
        Ok(Matrix {
            name: tensor.name,
            format,
            rows,
            columns,
            packed: &[],
        })
    }

    fn rows(
        &mut self,
        tensor: &TensorInfo<'_>,
        format: WeightFormat,
    ) -> Result<FileRows, LoadError> {
        let columns = tensor.shape[0] as usize;
        self.file_row = Some([format.row_bytes(columns), format.group_bytes(columns)]);
        self.tensors += 1;
        Ok(FileRows {
            file: Fd::NONE,
            offset: 0,
            format,
            columns,
        })
    }

    fn vector(&mut self, tensor: &TensorInfo<'_>) -> Result<&'static [f32], LoadError> {
        self.vectors += rounded(tensor.bytes as usize);
        self.raw += tensor.bytes;
        self.tensors += 1;
        Ok(&[])
    }
}
