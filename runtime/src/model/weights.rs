//! Tensors to packed weights.
//!
//! [`Weights::shapes`] finds the tensors that a model needs, by its architecture, and checks them.
//! Then [`Weights::gather`] asks a [`Source`] for each, in the order of the file, so that storage is
//! read from front to back, and no source can forget a tensor:
//!
//! - [`Sizes`] only adds up what the packed weights will take, for the plan
//! - [`Loader`](crate::load::Loader) reads a GGUF file and packs
//! - [`Mapped`](crate::image::Mapped) finds them in a packed image
//! - `image::write` packs into one

use super::config::{Config, LAYERS_MAX};
use super::error::ConfigError;
use crate::arena::rounded;
use crate::gguf::{Gguf, Name, TensorInfo};
use crate::load::{LoadError, check_signal};
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

    /// Bytes of all of it packed.
    pub fn packed_bytes(&self) -> usize {
        self.format.packed_bytes(self.rows, self.columns)
    }

    /// Whether no weight is infinite or no number.
    fn is_finite(&self) -> Result<bool, LoadError> {
        let record_bytes = self.format.record_bytes();
        for stretch in self.packed.chunks(STRETCH_RECORDS * record_bytes) {
            check_signal()?;
            let mut records = stretch.chunks_exact(record_bytes);
            if !records.all(|record| is_record_finite(self.format, record)) {
                return Ok(false);
            }
        }
        Ok(true)
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
    /// Added to queries `[query_width]`, keys and values `[kv_width]`.
    pub biases: Option<[&'m [f32]; 3]>,
    /// Norms of each head of queries and of keys, `[head_dim]`.
    pub head_norms: Option<[&'m [f32]; 2]>,
    /// Norms of what attention and the feed-forward network give, `[width]`.
    pub post_norms: Option<[&'m [f32]; 2]>,
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

/// Weights of a row of a record at most, and bytes of a block of a file, and of a packed record.
const BLOCK_LEN_MAX: usize = 256;
const BLOCK_BYTES_MAX: usize = 4 * BLOCK_LEN_MAX;
const RECORD_BYTES_MAX: usize = 8 * BLOCK_BYTES_MAX;
/// Bytes of rows that are read, and records that are looked at, between two looks for a signal.
const READ_BYTES: usize = 32 * 1024;
const STRETCH_RECORDS: usize = 4096;

/// Whether no weight of eight rows of a block is infinite or no number.
fn is_record_finite(format: WeightFormat, record: &[u8]) -> bool {
    let mut floats = [0.0; BLOCK_LEN_MAX];
    let floats = &mut floats[..format.block_len()];
    (0..8).all(|row| {
        unpack_row(format, record, row, format.block_len(), floats);
        floats.iter().all(|float| float.is_finite())
    })
}

impl FileRows {
    /// Whether no weight of the first `count` rows is infinite or no number.
    fn is_finite(&self, count: u64) -> Result<bool, LoadError> {
        let format = self.format;
        let (mut raw, mut record) = ([0; READ_BYTES], [0; RECORD_BYTES_MAX]);
        let block_bytes = format.row_bytes(format.block_len());
        let whole = READ_BYTES / block_bytes * block_bytes;
        let record = &mut record[..format.record_bytes()];
        let bytes = count * format.row_bytes(self.columns) as u64;
        for at in (0..bytes).step_by(whole) {
            check_signal()?;
            let raw = &mut raw[..(bytes - at).min(whole as u64) as usize];
            let read = self.file.read_exact_at(raw, self.offset + at);
            read.map_err(|errno| LoadError::of_read(EMBEDDING, errno))?;
            // Eight blocks make a record as well as blocks of eight rows do.
            for blocks in raw.chunks(8 * block_bytes) {
                let mut blocks = blocks.chunks_exact(block_bytes);
                let rows = core::array::from_fn(|_| blocks.next());
                pack_group(format, rows, format.block_len(), record);
                if !is_record_finite(format, record) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Bytes from `at` of the first row on, as the file has them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_bytes(&self, at: u64, out: &mut [u8]) -> Result<(), LoadError> {
        let read = self.file.read_exact_at(out, self.offset + at);
        read.map_err(|errno| LoadError::of_read(EMBEDDING, errno))
    }

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
        self.read_bytes(u64::from(index) * raw.len() as u64, raw)?;
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
    /// Divisors of the rotary frequencies, `[head_dim / 2]`.
    pub rope_divisors: Option<&'m [f32]>,
    /// In order.
    pub layers: Vec<Layer<'m>, LAYERS_MAX>,
    /// `[width]`
    pub norm: &'m [f32],
    /// `vocabulary x width`
    pub output: Matrix<'m>,
}

/// Where weights come from.
pub trait Source<'m> {
    /// The packed bytes of a matrix.
    ///
    /// # Errors
    /// They cannot be had.
    fn matrix(
        &mut self,
        tensor: &TensorInfo<'m>,
        matrix: &Matrix<'m>,
    ) -> Result<&'m [u8], LoadError>;

    /// The file and the place in it of rows that stay there.
    ///
    /// # Errors
    /// They are not there.
    fn rows(&mut self, tensor: &TensorInfo<'m>, rows: &FileRows) -> Result<(Fd, u64), LoadError>;

    /// A vector of floats.
    ///
    /// # Errors
    /// It cannot be had.
    fn vector(&mut self, tensor: &TensorInfo<'m>) -> Result<&'m [f32], LoadError>;
}

/// Finds tensors and checks them.
struct Tensors<'g, 'm> {
    gguf: &'g Gguf<'m>,
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

    /// A matrix without its weights.
    fn matrix(&self, name: &str, columns: usize, rows: usize) -> Result<Matrix<'m>, ConfigError> {
        let info = self.find(name, columns, rows)?;
        let format = info.kind.weight_format().ok_or(ConfigError::TensorType {
            tensor: Name::new(name),
            found: info.kind.name,
        })?;
        // A file's blocks are whole; those of the float formats are longer here than there.
        let block = format.block_len();
        if !columns.is_multiple_of(block) {
            return Err(ConfigError::RowLength {
                tensor: Name::new(name),
                format: format.name(),
                found: columns,
                block,
            });
        }
        Ok(Matrix {
            name: info.name,
            format,
            rows,
            columns,
            packed: &[],
        })
    }

    /// A vector without its numbers.
    fn vector(&self, name: &str, len: usize) -> Result<&'m [f32], ConfigError> {
        let info = self.find(name, len, 1)?;
        match info.kind.name {
            "F32" => Ok(&[]),
            found => Err(ConfigError::TensorType {
                tensor: Name::new(name),
                found,
            }),
        }
    }

    fn layer(&self, config: &Config, index: usize) -> Result<Layer<'m>, ConfigError> {
        let (width, hidden) = (config.width, config.hidden);
        let (query, kv) = (config.query_width(), config.kv_width());
        let architecture = config.architecture;
        let full = |part: &str, kind: &str| block_name(index, part, kind);
        let name = |part: &str| full(part, "weight");
        let biases = || {
            let vector = |part, len| self.vector(&full(part, "bias"), len);
            Ok([
                vector("attn_q", query)?,
                vector("attn_k", kv)?,
                vector("attn_v", kv)?,
            ])
        };
        let norms = |parts: [&str; 2], len| {
            let [first, second] = parts.map(|part| self.vector(&name(part), len));
            Ok([first?, second?])
        };
        Ok(Layer {
            attention_norm: self.vector(&name("attn_norm"), width)?,
            query: self.matrix(&name("attn_q"), width, query)?,
            key: self.matrix(&name("attn_k"), width, kv)?,
            value: self.matrix(&name("attn_v"), width, kv)?,
            output: self.matrix(&name("attn_output"), query, width)?,
            feed_forward_norm: self.vector(&name("ffn_norm"), width)?,
            gate: self.matrix(&name("ffn_gate"), width, hidden)?,
            up: self.matrix(&name("ffn_up"), width, hidden)?,
            down: self.matrix(&name("ffn_down"), hidden, width)?,
            biases: if_has(architecture.has_biases, biases)?,
            head_norms: if_has(architecture.has_head_norms, || {
                norms(["attn_q_norm", "attn_k_norm"], config.head_dim)
            })?,
            post_norms: if_has(architecture.has_post_norms, || {
                norms(["post_attention_norm", "post_ffw_norm"], width)
            })?,
        })
    }
}

/// The name of the tensor of a block, by which it is looked up, and which alone fills its place:
/// cut, and so no tensor's, if it is longer than a name may be.
fn block_name(index: usize, part: &str, kind: &str) -> String<64> {
    let mut name = String::new();
    let _ = write!(name, "blk.{index}.{part}.{kind}");
    name
}

/// What `find` finds, where there is to be such.
fn if_has<T>(
    has: bool,
    find: impl FnOnce() -> Result<T, ConfigError>,
) -> Result<Option<T>, ConfigError> {
    has.then(find).transpose()
}

/// The place of a tensor in the weights.
enum Slot<'w, 'm> {
    Matrix(&'w mut Matrix<'m>),
    Rows(&'w mut FileRows),
    Vector(&'w mut &'m [f32]),
}

impl<'m> Layer<'m> {
    /// The place of a part, as its tensor is named.
    fn slot(&mut self, part: &str) -> Option<Slot<'_, 'm>> {
        Some(match part {
            "attn_norm" => Slot::Vector(&mut self.attention_norm),
            "attn_q" => Slot::Matrix(&mut self.query),
            "attn_k" => Slot::Matrix(&mut self.key),
            "attn_v" => Slot::Matrix(&mut self.value),
            "attn_output" => Slot::Matrix(&mut self.output),
            "ffn_norm" => Slot::Vector(&mut self.feed_forward_norm),
            "ffn_gate" => Slot::Matrix(&mut self.gate),
            "ffn_up" => Slot::Matrix(&mut self.up),
            "ffn_down" => Slot::Matrix(&mut self.down),
            "attn_q_norm" => Slot::Vector(&mut self.head_norms.as_mut()?[0]),
            "attn_k_norm" => Slot::Vector(&mut self.head_norms.as_mut()?[1]),
            "post_attention_norm" => Slot::Vector(&mut self.post_norms.as_mut()?[0]),
            "post_ffw_norm" => Slot::Vector(&mut self.post_norms.as_mut()?[1]),
            _ => return None,
        })
    }

    /// The place of a matrix's bias, as its tensor is named.
    fn bias_slot(&mut self, part: &str) -> Option<Slot<'_, 'm>> {
        let index = ["attn_q", "attn_k", "attn_v"]
            .iter()
            .position(|known| *known == part)?;
        Some(Slot::Vector(&mut self.biases.as_mut()?[index]))
    }
}

impl<'m> Weights<'m> {
    /// All tensors that `config` needs, by shape and format, without their contents.
    ///
    /// # Errors
    /// A tensor is missing, misshapen or of an unsupported type.
    pub fn shapes(gguf: &Gguf<'m>, config: &Config) -> Result<Self, ConfigError> {
        let tensors = Tensors { gguf };
        let (width, vocabulary) = (config.width, config.vocabulary);
        let mut layers = Vec::new();
        for index in 0..config.layers {
            let _ = layers.push(tensors.layer(config, index)?); // at most LAYERS_MAX, says `config`
        }
        let rows = tensors.matrix(EMBEDDING, width, vocabulary)?;
        let (output, embedding) = match gguf.tensor(OUTPUT) {
            None => (rows, Embedding::Tied),
            Some(_) => {
                let (file, offset) = (Fd::NONE, 0);
                let Matrix {
                    format, columns, ..
                } = rows;
                let rows = FileRows {
                    file,
                    offset,
                    format,
                    columns,
                };
                let output = tensors.matrix(OUTPUT, width, vocabulary)?;
                (output, Embedding::InFile(rows))
            }
        };
        let divisors = || tensors.vector(ROPE_DIVISORS, config.head_dim / 2);
        let has_divisors =
            config.architecture.has_rope_factors && gguf.tensor(ROPE_DIVISORS).is_some();
        Ok(Weights {
            embedding,
            rope_divisors: if_has(has_divisors, divisors)?,
            layers,
            norm: tensors.vector("output_norm.weight", width)?,
            output,
        })
    }

    /// Asks `source` for every tensor, in the order of the file.
    ///
    /// # Errors
    /// As [`shapes`](Self::shapes), or the file has a tensor that its architecture has no use for, or
    /// divisors of rotary frequencies that are none, or the source fails.
    pub fn gather(
        gguf: &Gguf<'m>,
        config: &Config,
        source: &mut dyn Source<'m>,
    ) -> Result<Self, LoadError> {
        let mut weights = Weights::shapes(gguf, config)?;
        for tensor in gguf.tensors() {
            match weights.slot(tensor.name) {
                Some(Slot::Matrix(matrix)) => matrix.packed = source.matrix(&tensor, matrix)?,
                Some(Slot::Rows(rows)) => (rows.file, rows.offset) = source.rows(&tensor, rows)?,
                Some(Slot::Vector(vector)) => *vector = source.vector(&tensor)?,
                None => {
                    let tensor = Name::new(tensor.name);
                    let architecture = config.architecture.name;
                    let unknown = ConfigError::UnknownTensor {
                        tensor,
                        architecture,
                    };
                    return Err(unknown.into());
                }
            }
        }
        // Of a source that gives no numbers there are none.
        let mut divisors = weights.rope_divisors.iter().copied().flatten();
        if !divisors.all(|divisor| divisor.is_finite() && *divisor > 0.0) {
            let tensor = Name::new(ROPE_DIVISORS);
            return Err(ConfigError::Divisor { tensor }.into());
        }
        Ok(weights)
    }

    /// The first tensor of the file with a weight that is infinite or no number, if there is one.
    ///
    /// # Errors
    /// Rows that stay in the file cannot be read, or a signal came first.
    pub fn not_finite(&mut self, gguf: &Gguf<'m>) -> Result<Option<Name>, LoadError> {
        for tensor in gguf.tensors() {
            let is_finite = match self.slot(tensor.name) {
                Some(Slot::Matrix(matrix)) => matrix.is_finite()?,
                Some(Slot::Rows(rows)) => rows.is_finite(tensor.shape[1])?,
                Some(Slot::Vector(vector)) => vector.iter().all(|number| number.is_finite()),
                None => true, // nothing uses it
            };
            if !is_finite {
                return Ok(Some(Name::new(tensor.name)));
            }
        }
        Ok(None)
    }

    /// The place of a tensor: of two tensors, never the same.
    fn slot(&mut self, name: &str) -> Option<Slot<'_, 'm>> {
        match (name, &mut self.embedding) {
            (EMBEDDING, Embedding::InFile(rows)) => return Some(Slot::Rows(rows)),
            (EMBEDDING, Embedding::Tied) | (OUTPUT, _) => {
                return Some(Slot::Matrix(&mut self.output));
            }
            ("output_norm.weight", _) => return Some(Slot::Vector(&mut self.norm)),
            (ROPE_DIVISORS, _) => return self.rope_divisors.as_mut().map(Slot::Vector),
            _ => {}
        }
        let (index, rest) = name.strip_prefix("blk.")?.split_once('.')?;
        let (part, kind) = rest.split_once('.')?;
        let index = index.parse::<usize>().ok()?;
        // A number can be written in many ways; the tensor that was checked has one of them.
        if block_name(index, part, kind) != name {
            return None;
        }
        let layer = self.layers.get_mut(index)?;
        match kind {
            "weight" => layer.slot(part),
            "bias" => layer.bias_slot(part),
            _ => None,
        }
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

    /// Every vector.
    pub fn vectors(&self) -> impl Iterator<Item = &'m [f32]> {
        let layers = self.layers.iter().flat_map(|layer| {
            let norms = [layer.attention_norm, layer.feed_forward_norm].into_iter();
            let biases = layer.biases.into_iter().flatten();
            let more = [layer.head_norms, layer.post_norms].into_iter().flatten();
            norms.chain(biases).chain(more.flatten())
        });
        layers.chain([self.norm]).chain(self.rope_divisors)
    }
}

const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";
/// What divides the rotary frequencies: `factors` in Llama 3.1.
const ROPE_DIVISORS: &str = "rope_freqs.weight";

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
    /// Bytes that are read to load matrices and vectors.
    pub raw: u64,
    /// Bytes of the embedding that stays in the file.
    pub rows: u64,
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
        matrix: &Matrix<'m>,
    ) -> Result<&'m [u8], LoadError> {
        let Matrix {
            format, columns, ..
        } = *matrix;
        self.packed[format as usize] += rounded(matrix.packed_bytes());
        self.row_max = self.row_max.max(format.row_bytes(columns));
        self.group_max = self.group_max.max(format.group_bytes(columns));
        self.raw += tensor.bytes;
        self.tensors += 1;
        Ok(&[])
    }

    fn rows(&mut self, tensor: &TensorInfo<'m>, rows: &FileRows) -> Result<(Fd, u64), LoadError> {
        let FileRows {
            format, columns, ..
        } = *rows;
        self.rows = tensor.bytes;
        self.file_row = Some([format.row_bytes(columns), format.group_bytes(columns)]);
        self.tensors += 1;
        Ok((Fd::NONE, 0))
    }

    fn vector(&mut self, tensor: &TensorInfo<'m>) -> Result<&'m [f32], LoadError> {
        self.vectors += rounded(tensor.bytes as usize);
        self.raw += tensor.bytes;
        self.tensors += 1;
        Ok(&[])
    }
}
