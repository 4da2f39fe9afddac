//! The KV cache: keys and values of every position so far, preallocated to the context.
//!
//! For each layer and KV head, keys lie as `[position / 8][dim][8 positions]` and values as
//! `[dim / 8][position][8 dims]`, so that attention reads both as whole vectors, in order, and
//! needs no sum across lanes; in q8_0 that is the order among and inside its tiles ([`Q8Tile`]).
//! Keys have a format, values have one, and the cache reports the bytes of each to the plan.

use crate::arena::{ArenaError, Chunks, Kv, Open, rounded};
use crate::model::Config;
use core::fmt;
use core::ops::Range;
use kernels_asm::activation::ActivationFormat::Per32;
use kernels_asm::half::f32_to_f16;
use kernels_asm::registry::Kernels;
use kernels_asm::vector::{KvView, Q8Tile, score_stride};

/// The largest head.
const DIM_MAX: usize = 256;
/// Numbers in a tile of q8_0: eight positions of a block.
const TILE: usize = 8 * BLOCK;
/// Dimensions in a block of q8_0.
const BLOCK: usize = 32;

/// How keys, or values, are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvFormat {
    /// 4 bytes.
    F32,
    /// IEEE binary16, 2 bytes.
    F16,
    /// 32 dimensions as int8 with one binary16 scale, 34 bytes.
    Q8_0,
}

impl KvFormat {
    /// The format of that name.
    pub fn from_name(name: &str) -> Option<KvFormat> {
        match name {
            "f32" => Some(KvFormat::F32),
            "f16" => Some(KvFormat::F16),
            "q8_0" => Some(KvFormat::Q8_0),
            _ => None,
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KvFormat::F32 => "f32",
            KvFormat::F16 => "f16",
            KvFormat::Q8_0 => "q8_0",
        }
    }

    /// Checks that the heads of a model are whole blocks.
    ///
    /// # Errors
    /// They are not.
    pub fn check(self, config: &Config) -> Result<(), KvError> {
        let head_dim = config.head_dim;
        match self {
            KvFormat::Q8_0 if !head_dim.is_multiple_of(BLOCK) => Err(KvError { head_dim }),
            _ => Ok(()),
        }
    }
}

/// A model's heads cannot be stored in q8_0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvError {
    /// The size of its heads.
    pub head_dim: usize,
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KvError { head_dim } = self;
        write!(
            f,
            "-ctk, -ctv: q8_0 has blocks of {BLOCK} numbers, this model heads of {head_dim}"
        )
    }
}

/// Keys, or values, of every layer's heads, one head after another.
enum Storage<'k> {
    F32(&'k mut [f32]),
    F16(&'k mut [u16]),
    Q8_0(&'k mut [Q8Tile]),
}

impl<'k> Storage<'k> {
    fn new(scope: &Open<'k, Kv>, numbers: usize, format: KvFormat) -> Result<Self, ArenaError> {
        Ok(match format {
            KvFormat::F32 => Storage::F32(scope.alloc(numbers)?),
            KvFormat::F16 => Storage::F16(scope.alloc(numbers)?),
            KvFormat::Q8_0 => Storage::Q8_0(scope.alloc(numbers / TILE)?),
        })
    }
}

impl Storage<'_> {
    /// The heads of one of `layers`, one by one.
    fn heads(&mut self, layers: usize, layer: usize, heads: usize) -> Heads<'_> {
        fn chunks<T>(all: &mut [T], layers: usize, layer: usize, heads: usize) -> Chunks<'_, T> {
            let size = all.len() / layers;
            Chunks::new(&mut all[layer * size..][..size], size / heads)
        }
        match self {
            Storage::F32(all) => Heads::F32(chunks(all, layers, layer, heads)),
            Storage::F16(all) => Heads::F16(chunks(all, layers, layer, heads)),
            Storage::Q8_0(all) => Heads::Q8_0(chunks(all, layers, layer, heads)),
        }
    }
}

impl Storage<'_> {
    fn bytes(&self) -> usize {
        match self {
            Storage::F32(all) => size_of_val(&**all),
            Storage::F16(all) => size_of_val(&**all),
            Storage::Q8_0(all) => size_of_val(&**all),
        }
    }

    /// Of each of so many `runs` the first blocks: `[there are, wanted]`.
    fn write<E>(
        &self,
        runs: usize,
        blocks: [usize; 2],
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Storage::F32(all) => write_runs(all, runs, blocks, out),
            Storage::F16(all) => write_runs(all, runs, blocks, out),
            Storage::Q8_0(all) => write_runs(all, runs, blocks, out),
        }
    }

    /// Of each of so many `runs` the first blocks: `[there are, come, wanted]`.
    fn read<E>(
        &mut self,
        runs: usize,
        blocks: [usize; 3],
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Storage::F32(all) => read_runs(all, runs, blocks, fill),
            Storage::F16(all) => read_runs(all, runs, blocks, fill),
            Storage::Q8_0(all) => read_runs(all, runs, blocks, fill),
        }
    }
}

/// What a cache consists of, as little-endian bytes.
trait Stored: Copy {
    fn write(&self, bytes: &mut [u8]);
    fn read(bytes: &[u8]) -> Self;
}

impl Stored for f32 {
    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        f32::from_le_bytes(*bytes.first_chunk().expect("four bytes"))
    }
}

impl Stored for u16 {
    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        u16::from_le_bytes(*bytes.first_chunk().expect("two bytes"))
    }
}

impl Stored for Q8Tile {
    fn write(&self, bytes: &mut [u8]) {
        let (scales, digits) = bytes.split_at_mut(size_of_val(&self.scales));
        for (bytes, scale) in scales.chunks_exact_mut(2).zip(&self.scales) {
            scale.write(bytes);
        }
        for (byte, &digit) in digits.iter_mut().zip(self.digits.as_flattened()) {
            *byte = digit as u8;
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let mut tile = Q8Tile {
            scales: [0; 8],
            digits: [[0; 8]; BLOCK],
        };
        let (scales, digits) = bytes.split_at(size_of_val(&tile.scales));
        for (scale, bytes) in tile.scales.iter_mut().zip(scales.chunks_exact(2)) {
            *scale = u16::read(bytes);
        }
        for (digit, &byte) in tile.digits.as_flattened_mut().iter_mut().zip(digits) {
            *digit = byte as i8;
        }
        tile
    }
}

/// Bytes that are converted at a time: a whole number of whatever is stored.
const CONVERTED: usize = 16 * size_of::<Q8Tile>();

fn write_runs<T: Stored, E>(
    all: &[T],
    runs: usize,
    [there, wanted]: [usize; 2],
    out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = [0; CONVERTED];
    let run = all.len() / runs;
    let block = run / there;
    for run in all.chunks_exact(run) {
        for part in run[..block * wanted].chunks(CONVERTED / size_of::<T>()) {
            let bytes = &mut buffer[..size_of_val(part)];
            for (bytes, number) in bytes.chunks_exact_mut(size_of::<T>()).zip(part) {
                number.write(bytes);
            }
            out(bytes)?;
        }
    }
    Ok(())
}

fn read_runs<T: Stored, E>(
    all: &mut [T],
    runs: usize,
    [there, come, wanted]: [usize; 3],
    fill: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = [0; CONVERTED];
    let run = all.len() / runs;
    let block = run / there;
    for run in all.chunks_exact_mut(run) {
        let mut numbers = run[..block * wanted].iter_mut();
        let mut left = come * block * size_of::<T>();
        while left > 0 {
            let bytes = &mut buffer[..left.min(CONVERTED)];
            left -= bytes.len();
            fill(bytes)?;
            for (bytes, number) in bytes.chunks_exact(size_of::<T>()).zip(&mut numbers) {
                *number = T::read(bytes);
            }
        }
    }
    Ok(())
}

/// The heads of a layer's keys, or values.
enum Heads<'k> {
    F32(Chunks<'k, f32>),
    F16(Chunks<'k, u16>),
    Q8_0(Chunks<'k, Q8Tile>),
}

/// Stores the keys and values of successive positions of one layer, once.
pub struct Store<'k> {
    keys: Heads<'k>,
    values: Heads<'k>,
    capacity: usize,
    width: usize,
    dim: usize,
}

impl Store<'_> {
    /// Stores keys and values, each `[tokens][kv_heads][dim]`, from `position` on. The members of a
    /// team may do this together: each head is taken by one of them.
    pub fn run(&self, kernels: &Kernels, position: usize, keys: &[f32], values: &[f32]) {
        let (capacity, dim) = (self.capacity, self.dim);
        assert!(
            position + keys.len() / self.width <= capacity,
            "positions inside the context"
        );
        let mut half = [0u16; DIM_MAX];
        let half = &mut half[..dim];
        match &self.keys {
            Heads::F32(heads) => self.each(heads, keys, |head, token, key| {
                scatter_key(head, position + token, key);
            }),
            Heads::F16(heads) => self.each(heads, keys, |head, token, key| {
                kernels.to_f16(key, half);
                scatter_key(head, position + token, half);
            }),
            Heads::Q8_0(heads) => self.each(heads, keys, |head, token, key| {
                quantize_key(kernels, head, position + token, key);
            }),
        }
        match &self.values {
            Heads::F32(heads) => self.each(heads, values, |head, token, value| {
                scatter_value(head, capacity, position + token, value);
            }),
            Heads::F16(heads) => self.each(heads, values, |head, token, value| {
                kernels.to_f16(value, half);
                scatter_value(head, capacity, position + token, half);
            }),
            Heads::Q8_0(heads) => self.each(heads, values, |head, token, value| {
                quantize_value(kernels, head, position + token, value);
            }),
        }
    }

    /// Runs `store(head, token, numbers)` for every token of each head that this member gets.
    fn each<T>(
        &self,
        heads: &Chunks<'_, T>,
        rows: &[f32],
        mut store: impl FnMut(&mut [T], usize, &[f32]),
    ) {
        while let Some((index, head)) = heads.claim() {
            for (token, row) in rows.chunks_exact(self.width).enumerate() {
                store(head, token, &row[index * self.dim..][..self.dim]);
            }
        }
    }
}

/// Attention of the query heads that share a KV head, for tokens at successive positions.
pub struct Attention<'a> {
    /// Queries, `[tokens][heads][dim]`.
    pub queries: &'a [f32],
    /// How many query heads.
    pub heads: usize,
    /// How many of the last positions a token sees, its own among them; all if there is none.
    pub window: Option<usize>,
    /// Factor on each score, as a rule `1 / sqrt(dim)`.
    pub scale: f32,
    /// Soft bound of each score.
    pub cap: Option<f32>,
    /// Scratch: `tokens * heads * score_stride(len)` floats, where the last of `len` positions is
    /// that of the last token, and the first any in the block of eight of the first that is seen.
    pub scores: &'a mut [f32],
    /// Result, `[tokens][heads][dim]`.
    pub out: &'a mut [f32],
}

/// The cache of one conversation.
pub struct KvCache<'k> {
    keys: Storage<'k>,
    values: Storage<'k>,
    /// Positions that there is room for, a multiple of eight.
    capacity: usize,
    layers: usize,
    kv_heads: usize,
    dim: usize,
}

impl<'k> KvCache<'k> {
    /// Bytes of the Kv scope that keys, or values, take.
    pub fn bytes(config: &Config, context: usize, format: KvFormat) -> usize {
        let numbers = config.layers * context.next_multiple_of(8) * config.kv_width();
        rounded(match format {
            KvFormat::F32 => numbers * size_of::<f32>(),
            KvFormat::F16 => numbers * size_of::<u16>(),
            KvFormat::Q8_0 => numbers / TILE * size_of::<Q8Tile>(),
        })
    }

    /// An empty cache for `context` positions, in formats that were checked.
    ///
    /// # Errors
    /// The scope is full.
    pub fn new(
        scope: &Open<'k, Kv>,
        config: &Config,
        context: usize,
        key_format: KvFormat,
        value_format: KvFormat,
    ) -> Result<Self, ArenaError> {
        let capacity = context.next_multiple_of(8);
        let numbers = config.layers * capacity * config.kv_width();
        Ok(KvCache {
            keys: Storage::new(scope, numbers, key_format)?,
            values: Storage::new(scope, numbers, value_format)?,
            capacity,
            layers: config.layers,
            kv_heads: config.kv_heads,
            dim: config.head_dim,
        })
    }

    /// Bytes that [`write`](Self::write) makes of so many positions.
    pub fn written_bytes(&self, positions: u64) -> u64 {
        let blocks = (self.capacity / 8) as u64;
        let all = (self.keys.bytes() + self.values.bytes()) as u64;
        positions.div_ceil(8).saturating_mul(all / blocks)
    }

    /// Gives `out` the blocks of eight that hold the first `positions`, part by part: a layout that
    /// does not depend on the context, little-endian.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write<E>(
        &self,
        positions: usize,
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let blocks = [self.capacity / 8, positions.div_ceil(8)];
        self.keys.write(self.key_runs(), blocks, out)?;
        self.values.write(self.value_runs(), blocks, out)
    }

    /// Takes the first `wanted` positions of what was written of `written`, which may be more than
    /// there is room for. `fill` gives the bytes, all of them one after the other.
    ///
    /// # Errors
    /// Those of `fill`. Nobody is to be told then that the positions are there.
    pub fn read<E>(
        &mut self,
        written: usize,
        wanted: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(
            wanted <= written.min(self.capacity),
            "positions that there are"
        );
        let blocks = [self.capacity, written, wanted].map(|positions| positions.div_ceil(8));
        let (key_runs, value_runs) = (self.key_runs(), self.value_runs());
        self.keys.read(key_runs, blocks, fill)?;
        self.values.read(value_runs, blocks, fill)
    }

    /// Stretches of keys in which blocks of positions follow each other.
    fn key_runs(&self) -> usize {
        self.layers * self.kv_heads
    }

    /// Stretches of values in which blocks of positions follow each other.
    fn value_runs(&self) -> usize {
        let dims = match self.values {
            Storage::F32(_) | Storage::F16(_) => 8,
            Storage::Q8_0(_) => BLOCK,
        };
        self.layers * self.kv_heads * (self.dim / dims)
    }

    /// What stores the keys and values of a layer.
    pub fn store(&mut self, layer: usize) -> Store<'_> {
        let (layers, heads) = (self.layers, self.kv_heads);
        Store {
            keys: self.keys.heads(layers, layer, heads),
            values: self.values.heads(layers, layer, heads),
            capacity: self.capacity,
            width: heads * self.dim,
            dim: self.dim,
        }
    }

    /// Attention of the query heads that share KV head `head`, for tokens from `position` on: each
    /// over the positions up to its own, as far as its window reaches.
    ///
    /// A cache is read by blocks of eight positions; those of its first block that a token does not
    /// see get the weight 0. Several tokens pass over the keys and values together. They are scored
    /// at all positions that any of them sees, and what one does not see is not used. Values are
    /// added up together in the blocks that all see, before and behind them for each token alone.
    pub fn attend(
        &self,
        kernels: &Kernels,
        layer: usize,
        head: usize,
        position: usize,
        attention: Attention<'_>,
    ) {
        let Attention {
            queries,
            heads,
            window,
            scale,
            cap,
            scores,
            out,
        } = attention;
        let dim = self.dim;
        let tokens = queries.len() / (heads * dim);
        let seen = |token: usize| {
            let end = position + token + 1;
            end.saturating_sub(window.unwrap_or(end))..end
        };
        let first_block = |token| seen(token).start / 8 * 8;

        let all = first_block(0)..position + tokens;
        let stride = score_stride(all.len());
        let scores = &mut scores[..tokens * heads * stride];
        let head = layer * self.kv_heads + head;
        match &self.keys {
            Storage::F32(keys) => {
                kernels.score_f32(self.view(keys, head, &all), queries, scale, scores);
            }
            Storage::F16(keys) => {
                kernels.score_f16(self.view(keys, head, &all), queries, scale, scores);
            }
            Storage::Q8_0(keys) => {
                kernels.score_q8_0(self.view(keys, head, &all), queries, scale, scores);
            }
        }
        for (index, row) in scores.chunks_exact_mut(stride).enumerate() {
            let token = index / heads;
            let (start, seen) = (first_block(token) - all.start, seen(token));
            let (from, to) = (seen.start - all.start, seen.end - all.start);
            if let Some(cap) = cap {
                kernels.soft_cap(&mut row[start..to.next_multiple_of(8)], cap);
            }
            row[start..from].fill(0.0);
            kernels.softmax(&mut row[from..to]);
        }

        out.fill(0.0);
        let mut weigh = |tokens: Range<usize>, positions: Range<usize>| {
            if positions.is_empty() {
                return;
            }
            let rows = tokens.start * heads..tokens.end * heads;
            let weights = &scores[rows.start * stride + positions.start - all.start..];
            let out = &mut out[rows.start * dim..rows.end * dim];
            match &self.values {
                Storage::F32(values) => {
                    kernels.weigh_f32(self.view(values, head, &positions), weights, stride, out);
                }
                Storage::F16(values) => {
                    kernels.weigh_f16(self.view(values, head, &positions), weights, stride, out);
                }
                Storage::Q8_0(values) => {
                    kernels.weigh_q8_0(self.view(values, head, &positions), weights, stride, out);
                }
            }
        };
        let last = tokens - 1;
        let mut shared = first_block(last)..seen(0).end / 8 * 8;
        if last == 0 || shared.is_empty() {
            shared = 0..0; // each is better off alone
        }
        for token in 0..tokens {
            weigh(token..token + 1, first_block(token)..shared.start);
        }
        weigh(0..tokens, shared.clone());
        for token in 0..tokens {
            let start = shared.end.max(first_block(token));
            weigh(token..token + 1, start..seen(token).end);
        }
    }

    fn view<'v, T>(&self, all: &'v [T], head: usize, positions: &Range<usize>) -> KvView<'v, T> {
        let size = all.len() / (self.layers * self.kv_heads);
        KvView {
            stored: &all[head * size..][..size],
            capacity: self.capacity,
            first: positions.start,
            len: positions.end,
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

/// Into the tiles `[position / 8][dim / 32]`.
fn quantize_key(kernels: &Kernels, tiles: &mut [Q8Tile], position: usize, key: &[f32]) {
    let tiles = &mut tiles[position / 8 * (key.len() / BLOCK)..];
    for (tile, block) in tiles.iter_mut().zip(key.as_chunks().0) {
        let (scale, digits) = quantize(kernels, block);
        tile.scales[position % 8] = scale;
        for (slots, digit) in tile.digits.iter_mut().zip(digits) {
            slots[position % 8] = digit;
        }
    }
}

/// Into the tiles `[dim / 32][position / 8]`.
fn quantize_value(kernels: &Kernels, tiles: &mut [Q8Tile], position: usize, value: &[f32]) {
    let blocks = value.as_chunks().0;
    let row = tiles.len() / blocks.len();
    for (tiles, block) in tiles.chunks_exact_mut(row).zip(blocks) {
        let tile = &mut tiles[position / 8];
        let (scale, digits) = quantize(kernels, block);
        tile.scales[position % 8] = scale;
        let slots = tile.digits.iter_mut().skip(position % 8).step_by(8);
        for (slots, digits) in slots.zip(digits.as_chunks().0) {
            *slots = *digits;
        }
    }
}

/// The scale, as binary16, and the digits of a block: those of an activation record, so that a NaN
/// or an infinity becomes a scale of NaN. A scale too great for binary16 becomes infinite.
fn quantize(kernels: &Kernels, block: &[f32; BLOCK]) -> (u16, [i8; BLOCK]) {
    let mut record = [0; Per32.record_bytes()];
    kernels.quantize(Per32, block, &mut record);
    let (digits, scale) = record.split_at(BLOCK);
    let scale = scale.first_chunk().expect("a record holds its scale");
    let mut signed = [0; BLOCK];
    for (signed, &digit) in signed.iter_mut().zip(digits) {
        *signed = digit as i8;
    }
    (f32_to_f16(f32::from_le_bytes(*scale)), signed)
}
