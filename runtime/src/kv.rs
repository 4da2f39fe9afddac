//! The KV cache: keys and values of every position so far, preallocated to the context.
//!
//! For each layer and KV head, keys lie as `[position / 8][dim][8 positions]` and values as
//! `[dim / 8][position][8 dims]`, so that attention reads both as whole vectors, in order, and
//! needs no sum across lanes. The cache reports its own format to the plan.

use crate::arena::{ArenaError, Kv, Open, rounded};
use crate::model::Config;
use kernels_asm::registry::Kernels;
use kernels_asm::vector::{Attention, KvView};

/// How keys and values are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvFormat {
    /// 4 bytes.
    F32,
    /// IEEE binary16, 2 bytes.
    F16,
}

impl KvFormat {
    /// The one that takes the least.
    pub const SMALLEST: KvFormat = KvFormat::F16;

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<KvFormat> {
        match name {
            "f32" => Some(KvFormat::F32),
            "f16" => Some(KvFormat::F16),
            _ => None,
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KvFormat::F32 => "f32",
            KvFormat::F16 => "f16",
        }
    }

    fn bytes(self) -> usize {
        match self {
            KvFormat::F32 => 4,
            KvFormat::F16 => 2,
        }
    }
}

enum Storage<'k> {
    F32 {
        keys: &'k mut [f32],
        values: &'k mut [f32],
    },
    F16 {
        keys: &'k mut [u16],
        values: &'k mut [u16],
    },
}

/// The cache of one conversation.
pub struct KvCache<'k> {
    storage: Storage<'k>,
    /// Positions that there is room for, a multiple of eight.
    capacity: usize,
    kv_heads: usize,
    dim: usize,
}

impl<'k> KvCache<'k> {
    /// Bytes of the Kv scope that keys take, and as many again for values.
    pub fn bytes(config: &Config, context: usize, format: KvFormat) -> usize {
        let positions = context.next_multiple_of(8);
        rounded(config.layers * positions * config.kv_width() * format.bytes())
    }

    /// An empty cache for `context` positions.
    ///
    /// # Errors
    /// The scope is full.
    pub fn new(
        scope: &Open<'k, Kv>,
        config: &Config,
        context: usize,
        format: KvFormat,
    ) -> Result<Self, ArenaError> {
        let capacity = context.next_multiple_of(8);
        let len = config.layers * capacity * config.kv_width();
        let storage = match format {
            KvFormat::F32 => Storage::F32 {
                keys: scope.alloc(len)?,
                values: scope.alloc(len)?,
            },
            KvFormat::F16 => Storage::F16 {
                keys: scope.alloc(len)?,
                values: scope.alloc(len)?,
            },
        };
        Ok(KvCache {
            storage,
            capacity,
            kv_heads: config.kv_heads,
            dim: config.head_dim,
        })
    }

    /// Where the part of a layer's head starts, in numbers.
    fn start(&self, layer: usize, head: usize) -> usize {
        (layer * self.kv_heads + head) * self.capacity * self.dim
    }

    /// Stores the keys and values of one position, each `[kv_heads][dim]`.
    pub fn store(
        &mut self,
        kernels: &Kernels,
        layer: usize,
        position: usize,
        key: &[f32],
        value: &[f32],
    ) {
        assert!(position < self.capacity, "a position inside the context");
        let (capacity, dim) = (self.capacity, self.dim);
        for (head, (key, value)) in key
            .chunks_exact(dim)
            .zip(value.chunks_exact(dim))
            .enumerate()
        {
            let (start, len) = (self.start(layer, head), capacity * dim);
            match &mut self.storage {
                Storage::F32 { keys, values } => {
                    scatter_key(&mut keys[start..][..len], position, key);
                    scatter_value(&mut values[start..][..len], capacity, position, value);
                }
                Storage::F16 { keys, values } => {
                    let mut half = [0u16; 256]; // the largest head
                    kernels.to_f16(key, &mut half[..dim]);
                    scatter_key(&mut keys[start..][..len], position, &half[..dim]);
                    kernels.to_f16(value, &mut half[..dim]);
                    scatter_value(
                        &mut values[start..][..len],
                        capacity,
                        position,
                        &half[..dim],
                    );
                }
            }
        }
    }

    /// Attention of the query heads that share KV head `head`, over the first `len` positions.
    pub fn attend(
        &self,
        kernels: &Kernels,
        layer: usize,
        head: usize,
        len: usize,
        attention: Attention<'_>,
    ) {
        match &self.storage {
            Storage::F32 { keys, values } => {
                kernels.attend_f32(self.view(keys, values, layer, head, len), attention);
            }
            Storage::F16 { keys, values } => {
                kernels.attend_f16(self.view(keys, values, layer, head, len), attention);
            }
        }
    }

    fn view<'v, T>(
        &self,
        keys: &'v [T],
        values: &'v [T],
        layer: usize,
        head: usize,
        len: usize,
    ) -> KvView<'v, T> {
        let (start, size) = (self.start(layer, head), self.capacity * self.dim);
        KvView {
            keys: &keys[start..][..size],
            values: &values[start..][..size],
            capacity: self.capacity,
            len,
            dim: self.dim,
        }
    }
}

/// Into `[position / 8][dim][8 positions]`.
fn scatter_key<T: Copy>(keys: &mut [T], position: usize, key: &[T]) {
    let block = &mut keys[position / 8 * 8 * key.len()..];
    for (slot, &number) in block[position % 8..].iter_mut().step_by(8).zip(key) {
        *slot = number;
    }
}

/// Into `[dim / 8][position][8 dims]`.
fn scatter_value<T: Copy>(values: &mut [T], capacity: usize, position: usize, value: &[T]) {
    for (chunk, numbers) in value.chunks_exact(8).enumerate() {
        values[(chunk * capacity + position) * 8..][..8].copy_from_slice(numbers);
    }
}
