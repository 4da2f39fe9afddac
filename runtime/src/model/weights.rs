//! Tensors to packed weights.
//!
//! [`Weights::gather`] walks the tensors that a Llama model needs once, and asks a [`Source`] for
//! each. Two sources exist: [`Sizes`] only adds up what the packed weights will take, for the
//! plan; [`Loader`](crate::load::Loader) reads and packs. So the plan cannot forget a tensor.

use super::config::{Config, ConfigError, LAYERS_MAX};
use crate::arena::rounded;
use crate::gguf::{Gguf, Name, TensorInfo};
use core::fmt::Write;
use heapless::{String, Vec};
use kernels_asm::format::WeightFormat;

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

/// All weights.
pub struct Weights<'m> {
    /// `vocabulary x width`; also the output matrix where the file has none (tied).
    pub embedding: Matrix<'m>,
    /// In order.
    pub layers: Vec<Layer<'m>, LAYERS_MAX>,
    /// `[width]`
    pub norm: &'m [f32],
    /// `vocabulary x width`
    pub output: Matrix<'m>,
}

/// Where weights come from.
pub trait Source<'m> {
    /// Why a tensor could not be had.
    type Error: From<ConfigError>;

    /// The packed form of a matrix.
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        format: WeightFormat,
    ) -> Result<Matrix<'m>, Self::Error>;

    /// A vector of floats.
    fn vector(&mut self, tensor: &TensorInfo<'_>) -> Result<&'m [f32], Self::Error>;
}

/// Finds tensors and checks them before the source sees them.
struct Tensors<'g, 'm, S> {
    gguf: &'g Gguf<'m>,
    source: S,
}

impl<'m, S: Source<'m>> Tensors<'_, 'm, S> {
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

    fn matrix(&mut self, name: &str, columns: usize, rows: usize) -> Result<Matrix<'m>, S::Error> {
        let info = self.find(name, columns, rows)?;
        let format = info.kind.weight_format().ok_or(ConfigError::TensorType {
            tensor: Name::new(name),
            found: info.kind.name,
        })?;
        self.source.matrix(&info, format)
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<&'m [f32], S::Error> {
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
    pub fn gather<S: Source<'m>>(
        gguf: &Gguf<'m>,
        config: &Config,
        source: S,
    ) -> Result<Self, S::Error> {
        let mut tensors = Tensors { gguf, source };
        let (width, vocabulary) = (config.width, config.vocabulary);
        let embedding = tensors.matrix("token_embd.weight", width, vocabulary)?;
        let mut layers = Vec::new();
        for index in 0..config.layers {
            let layer = gather_layer(&mut tensors, config, index)?;
            let _ = layers.push(layer); // `config` has at most LAYERS_MAX
        }
        refuse_unknown(gguf, config)?;
        let norm = tensors.vector("output_norm.weight", width)?;
        let output = match gguf.tensor("output.weight") {
            Some(_) => tensors.matrix("output.weight", width, vocabulary)?,
            None => embedding,
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
        // All but the embedding, of which a step reads one row, if that is no output matrix too.
        self.matrices()
            .skip(1)
            .map(|matrix| matrix.packed.len())
            .sum()
    }

    /// Every matrix of a step, the embedding first.
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
        [&self.embedding, &self.output].into_iter().chain(layers)
    }
}

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

fn gather_layer<'m, S: Source<'m>>(
    tensors: &mut Tensors<'_, 'm, S>,
    config: &Config,
    index: usize,
) -> Result<Layer<'m>, S::Error> {
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
#[derive(Default)]
pub struct Sizes {
    /// Bytes of packed matrices by format, in the order of [`WeightFormat::ALL`].
    pub packed: [usize; WeightFormat::ALL.len()],
    /// Bytes of float vectors.
    pub vectors: usize,
    /// Largest group of eight rows as the file has it: the least staging that works.
    pub raw_group_max: usize,
}

impl Source<'static> for &mut Sizes {
    type Error = ConfigError;

    fn matrix(
        &mut self,
        tensor: &TensorInfo<'static>,
        format: WeightFormat,
    ) -> Result<Matrix<'static>, ConfigError> {
        let [columns, rows] = [tensor.shape[0] as usize, tensor.shape[1] as usize];
        self.packed[format as usize] += rounded(format.packed_bytes(rows, columns));
        let raw_group = 8 * (columns / format.block_len()) * format.block_bytes();
        self.raw_group_max = self.raw_group_max.max(raw_group);
        Ok(Matrix {
            name: tensor.name,
            format,
            rows,
            columns,
            packed: &[],
        })
    }

    fn vector(&mut self, tensor: &TensorInfo<'_>) -> Result<&'static [f32], ConfigError> {
        self.vectors += rounded(tensor.bytes as usize);
        Ok(&[])
    }
}
