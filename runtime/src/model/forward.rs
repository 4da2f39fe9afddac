//! One step: tokens in, the residual stream out, and from it logits.
//!
//! A step takes one token (decode) or a chunk of a prompt (prefill). Each token's numbers are
//! computed by the same operations in the same order either way, and by whichever thread, so the
//! result does not depend on the chunk, on the number of threads, or on the kernels.

use super::architecture::{Activation, Pairing};
use super::config::Config;
use super::rope::{RopeTable, RopeTables};
use super::weights::{Embedding, Layer, Matrix, Sizes, Weights};
use crate::arena::{ArenaError, Chunks, Columns, Companions, Forward, Open, rounded};
use crate::kv::{Attention, KvCache};
use crate::load::LoadError;
use crate::notify::Notify;
use crate::profile::{Bucket, Profile};
use crate::sys::Team;
use crate::trace::{KernelWork, Phase, Subject, Trace};
use kernels_asm::activation::ActivationFormat::{self, Floats, Per32, Per256};
use kernels_asm::pack::unpack_row;
use kernels_asm::registry::Kernels;
use kernels_asm::vector::score_stride;

/// Packed bytes that several tokens are multiplied with while they stay in the cache.
const CACHE_BLOCK_BYTES: usize = 24 * 1024;

/// Query heads and tokens, one times the other, whose attention to a KV head is computed together:
/// enough to fill the registers twice, few enough for their scores to be small.
const ATTENTION_ROWS: usize = 16;

/// How far below the greatest a logit still competes: `e^-4` of the greatest probability.
const REFINE_MARGIN: f32 = 4.0;

/// The sizes of a step's buffers.
#[derive(Clone, Copy, Debug)]
pub struct StepPlan {
    config: Config,
    /// Tokens of a step at most.
    pub batch: usize,
    threads: usize,
    context: usize,
    per_32: bool,
    per_256: bool,
    floats: bool,
    /// Bytes of a row of an embedding that stays in the file, raw and as a packed group.
    file_row: [usize; 2],
}

impl StepPlan {
    /// For a model whose weights are known by size and format.
    pub fn new(
        config: &Config,
        sizes: &Sizes,
        batch: usize,
        threads: usize,
        context: usize,
    ) -> StepPlan {
        let uses = |wanted| sizes.formats().any(|format| format.activation() == wanted);
        StepPlan {
            config: *config,
            batch,
            threads,
            context,
            per_32: uses(Per32),
            per_256: uses(Per256),
            floats: uses(Floats),
            file_row: sizes.file_row.unwrap_or_default(),
        }
    }

    /// Widest input of a matrix.
    fn input_max(&self) -> usize {
        self.config
            .width
            .max(self.config.hidden)
            .max(self.config.query_width())
    }

    /// Bytes of one token's activation records of a kind; nothing if no matrix reads them.
    fn record_bytes(&self, format: ActivationFormat) -> usize {
        let used = match format {
            Per32 => self.per_32,
            Per256 => self.per_256,
            Floats => self.floats,
        };
        // A matrix that reads these has whole blocks; the widest input may be another's.
        if used {
            format.bytes(self.input_max().next_multiple_of(format.block_len()))
        } else {
            0
        }
    }

    /// Tokens whose attention is computed together at most: a power of two, so that most blocks of
    /// tokens see their last position in one block of eight.
    fn attention_tokens(&self) -> usize {
        let tokens = self.batch.min(ATTENTION_ROWS / self.config.group()).max(1);
        1 << tokens.ilog2()
    }

    /// Floats of one thread's attention: queries, results and scores of each row.
    fn attention(&self) -> usize {
        let row = 2 * self.config.head_dim + score_stride(self.context);
        self.attention_tokens() * self.config.group() * row
    }

    /// Bytes of the Forward scope that a step takes: `Step::new`, line by line.
    pub fn bytes(&self) -> usize {
        let config = &self.config;
        let rows = |width: usize| rounded(self.batch * width * size_of::<f32>());
        2 * rows(config.width) // residual stream; normalised, then a projection back to it
            + 2 * rows(config.query_width()) // queries; attention's result
            + 2 * rows(config.kv_width()) // keys, values
            + 2 * rows(config.hidden) // gate, up
            + rounded(self.batch * self.record_bytes(Per32)) // activations of the block formats
            + rounded(self.batch * self.record_bytes(Per256)) // activations of the K-quants
            + rounded(self.batch * self.record_bytes(Floats)) // activations of the float formats
            + rounded(self.threads * self.attention() * size_of::<f32>()) // attention of threads
            + rounded(self.logits() * size_of::<f32>()) // logits of one token
            + rounded(self.file_row[0]) // a row of the embedding, read
            + rounded(self.file_row[1]) // the same, packed
    }

    /// Floats of a token's logits, with those that fill up the last group of rows.
    fn logits(&self) -> usize {
        self.config.vocabulary.next_multiple_of(8)
    }
}

/// One step: its buffers, in the Forward scope.
pub struct Step<'f> {
    /// Residual stream, `[tokens][width]`.
    stream: &'f mut [f32],
    normed: &'f mut [f32],
    query: &'f mut [f32],
    attended: &'f mut [f32],
    key: &'f mut [f32],
    value: &'f mut [f32],
    gate: &'f mut [f32],
    up: &'f mut [f32],
    activations: Activations<'f>,
    /// Each thread's queries, results and scores.
    attention: &'f mut [f32],
    logits: &'f mut [f32],
}

impl<'f> Step<'f> {
    fn new(
        scratch: &Open<'f, Forward>,
        plan: &StepPlan,
        tokens: usize,
    ) -> Result<Self, ArenaError> {
        let config = &plan.config;
        Ok(Step {
            stream: scratch.alloc(tokens * config.width)?,
            normed: scratch.alloc(tokens * config.width)?,
            query: scratch.alloc(tokens * config.query_width())?,
            attended: scratch.alloc(tokens * config.query_width())?,
            key: scratch.alloc(tokens * config.kv_width())?,
            value: scratch.alloc(tokens * config.kv_width())?,
            gate: scratch.alloc(tokens * config.hidden)?,
            up: scratch.alloc(tokens * config.hidden)?,
            activations: Activations {
                per_32: scratch.alloc(tokens * plan.record_bytes(Per32))?,
                per_256: scratch.alloc(tokens * plan.record_bytes(Per256))?,
                floats: scratch.alloc(tokens * plan.record_bytes(Floats))?,
            },
            attention: scratch.alloc(plan.threads * plan.attention())?,
            logits: scratch.alloc(plan.logits())?,
        })
    }
}

/// The quantised input of the matrices that come next, one row of records per token.
struct Activations<'f> {
    per_32: &'f mut [u8],
    per_256: &'f mut [u8],
    floats: &'f mut [u8],
}

impl Activations<'_> {
    /// Has `job` finish the row of each token, `columns` wide, and quantises it into the kinds that
    /// `readers` read. Members take rows, unless there is but one.
    fn quantize<const N: usize>(
        &mut self,
        team: &mut Team,
        kernels: &Kernels,
        rows: &mut [f32],
        columns: usize,
        readers: [&Matrix<'_>; N],
        job: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let tokens = rows.len() / columns;
        let records = |kind: ActivationFormat, records| {
            let used = readers.iter().any(|of| of.format.activation() == kind);
            let bytes = kind.bytes(columns);
            let records: &mut [u8] = records;
            Chunks::new(
                &mut records[..usize::from(used) * tokens * bytes],
                bytes.max(1),
            )
        };
        let rows = Companions::new(
            Chunks::new(rows, columns),
            [
                records(Per32, self.per_32),
                records(Per256, self.per_256),
                records(Floats, self.floats),
            ],
        );
        together(team, tokens, &|_| {
            while let Some((token, row, records)) = rows.claim() {
                job(token, row);
                for (kind, records) in [Per32, Per256, Floats].into_iter().zip(records) {
                    if !records.is_empty() {
                        kernels.quantize(kind, row, records);
                    }
                }
            }
        });
    }

    /// The records of the first `tokens` tokens for a matrix.
    fn rows(&self, tokens: usize, matrix: &Matrix<'_>) -> &[u8] {
        let kind = matrix.format.activation();
        let records = match kind {
            Per32 => &*self.per_32,
            Per256 => &*self.per_256,
            Floats => &*self.floats,
        };
        let bytes = kind.bytes(matrix.columns);
        &records[..tokens * bytes]
    }
}

/// Everything that a step needs and that outlives it.
pub struct Engine<'m> {
    /// The model's shape.
    pub config: Config,
    /// Its weights.
    pub weights: Weights<'m>,
    /// Its rotary angles.
    pub rope: RopeTables<'m>,
    /// The kernels of this CPU.
    pub kernels: Kernels,
    /// The sizes of a step's buffers.
    pub plan: StepPlan,
    /// Who computes.
    pub team: Team,
    /// Where the time went.
    pub profile: Profile<'m>,
    /// Who is told.
    pub trace: Trace<'m>,
    /// Who is told that it goes on.
    pub notify: &'m Notify,
}

impl Engine<'_> {
    /// Runs `tokens` at `position` and after through all layers, and stores their keys and values.
    ///
    /// # Errors
    /// The Forward scope is smaller than [`StepPlan::bytes`], or a row of the embedding cannot be
    /// read.
    ///
    /// # Panics
    /// With more tokens than the plan's batch, or positions beyond the context: the caller's
    /// bounds.
    pub fn forward<'f>(
        &mut self,
        cache: &mut KvCache<'_>,
        scratch: &Open<'f, Forward>,
        tokens: &[u32],
        position: usize,
    ) -> Result<Step<'f>, LoadError> {
        assert!(tokens.len() <= self.plan.batch, "a batch of tokens");
        assert!(
            position + tokens.len() <= self.plan.context,
            "a position inside the context"
        );
        self.profile.lap(Bucket::Other); // what was done between two steps
        let mut step = Step::new(scratch, &self.plan, tokens.len())?;
        let embedding = self.trace.phase(Phase::Embed);
        self.embed(tokens, step.stream, scratch)?;
        drop(embedding);
        self.profile.lap(Bucket::Other);
        for index in 0..self.weights.layers.len() {
            self.notify.alive();
            self.attention(cache, &mut step, index, position);
            self.feed_forward(&mut step, index);
        }
        Ok(step)
    }

    /// Logits after one token of a step, `[vocabulary]`.
    pub fn logits<'s>(&mut self, step: &'s mut Step<'_>, token: usize) -> &'s mut [f32] {
        let Engine {
            config,
            weights,
            kernels,
            team,
            profile,
            trace,
            ..
        } = self;
        let Step {
            stream,
            normed,
            activations,
            logits,
            ..
        } = step;
        let (width, output) = (config.width, &weights.output);
        let (row, normed) = (&stream[token * width..][..width], &mut normed[..width]);
        kernels.rms_norm(row, weights.norm, config.norm_epsilon, normed);
        activations.quantize(team, kernels, normed, width, [output], |_, _| {});
        profile.lap(Bucket::Norm);
        let outputs = [(output, &mut **logits)];
        matmul(team, kernels, *trace, activations, 1, outputs);
        trace.during(Phase::Refine, || {
            refine(team, kernels, output, activations, normed, logits);
        });
        if let Some(cap) = config.logit_cap {
            kernels.soft_cap(logits, cap);
        }
        profile.lap(Bucket::Matmul);
        &mut logits[..config.vocabulary]
    }

    /// Rows of the embedding, unpacked.
    fn embed(
        &self,
        tokens: &[u32],
        stream: &mut [f32],
        scratch: &Open<'_, Forward>,
    ) -> Result<(), LoadError> {
        let outs = stream.chunks_exact_mut(self.config.width);
        match self.weights.embedding {
            Embedding::Tied => {
                let Matrix {
                    format, columns, ..
                } = self.weights.output;
                for (&token, out) in tokens.iter().zip(outs) {
                    let (group, row) = (token as usize / 8, token as usize % 8);
                    let group = self.weights.output.row_range(8 * group, 8);
                    unpack_row(format, group, row, columns, out);
                }
            }
            Embedding::InFile(rows) => {
                let [raw, packed] = self.plan.file_row;
                let (raw, packed) = (scratch.alloc(raw)?, scratch.alloc(packed)?);
                for (&token, out) in tokens.iter().zip(outs) {
                    rows.read(token, raw, packed, out)?;
                }
            }
        }
        if self.config.architecture.is_embedding_scaled {
            let scale = libm::sqrtf(self.config.width as f32);
            for number in stream {
                *number *= scale;
            }
        }
        Ok(())
    }

    /// `stream += output(attention(rope(query), rope(key), value))` of the normalised stream, with
    /// what the architecture has in between.
    fn attention(
        &mut self,
        cache: &mut KvCache<'_>,
        step: &mut Step<'_>,
        index: usize,
        position: usize,
    ) {
        let Engine {
            config,
            weights,
            kernels,
            plan,
            team,
            profile,
            trace,
            ..
        } = self;
        let layer: &Layer<'_> = &weights.layers[index];
        let Step {
            stream,
            normed,
            query,
            attended,
            key,
            value,
            activations,
            attention,
            ..
        } = step;
        let tokens = stream.len() / config.width;

        let (weight, epsilon) = (layer.attention_norm, config.norm_epsilon);
        let width = config.width;
        let norm = |token: usize, out: &mut [f32]| {
            kernels.rms_norm(&stream[token * width..][..width], weight, epsilon, out);
        };
        let readers = [&layer.query, &layer.key, &layer.value];
        activations.quantize(team, kernels, normed, width, readers, norm);
        profile.lap(Bucket::Norm);
        let outputs = [
            (&layer.query, &mut **query),
            (&layer.key, &mut **key),
            (&layer.value, &mut **value),
        ];
        matmul(team, kernels, *trace, activations, tokens, outputs);
        profile.lap(Bucket::Matmul);

        let rope = self.rope.of_layer(config, index);
        finish_heads(
            team, kernels, config, layer, rope, position, query, key, value,
        );
        let store = cache.store(index);
        together(team, tokens, &|_| store.run(kernels, position, key, value));
        profile.lap(Bucket::Rope);

        attend_all(
            team, kernels, *trace, cache, plan, index, position, query, attended, attention,
        );
        profile.lap(Bucket::Attention);

        let width = config.query_width();
        activations.quantize(team, kernels, attended, width, [&layer.output], |_, _| {});
        profile.lap(Bucket::Norm);
        let outputs = [(&layer.output, &mut **normed)];
        matmul(team, kernels, *trace, activations, tokens, outputs);
        profile.lap(Bucket::Matmul);
        let post_norm = layer.post_norms.map(|norms| norms[0]);
        add_rows(team, kernels, config, stream, normed, post_norm);
        profile.lap(Bucket::Other);
    }

    /// `stream += down(activation(gate) * up)` of the normalised stream (Shazeer 2020).
    fn feed_forward(&mut self, step: &mut Step<'_>, index: usize) {
        let Engine {
            config,
            weights,
            kernels,
            team,
            profile,
            trace,
            ..
        } = self;
        let layer = &weights.layers[index];
        let Step {
            stream,
            normed,
            gate,
            up,
            activations,
            ..
        } = step;
        let tokens = stream.len() / config.width;

        let (weight, epsilon) = (layer.feed_forward_norm, config.norm_epsilon);
        let width = config.width;
        let norm = |token: usize, out: &mut [f32]| {
            kernels.rms_norm(&stream[token * width..][..width], weight, epsilon, out);
        };
        let readers = [&layer.gate, &layer.up];
        activations.quantize(team, kernels, normed, width, readers, norm);
        profile.lap(Bucket::Norm);
        let outputs = [(&layer.gate, &mut **gate), (&layer.up, &mut **up)];
        matmul(team, kernels, *trace, activations, tokens, outputs);
        profile.lap(Bucket::Matmul);
        let hidden = config.hidden;
        let activate = |token: usize, gate: &mut [f32]| {
            let up = &up[token * hidden..][..hidden];
            match config.architecture.activation {
                Activation::Silu => kernels.silu_mul(gate, up),
                Activation::Gelu => kernels.gelu_mul(gate, up),
            }
        };
        activations.quantize(team, kernels, gate, hidden, [&layer.down], activate);
        profile.lap(Bucket::Norm);
        let outputs = [(&layer.down, &mut **normed)];
        matmul(team, kernels, *trace, activations, tokens, outputs);
        profile.lap(Bucket::Matmul);
        let post_norm = layer.post_norms.map(|norms| norms[1]);
        add_rows(team, kernels, config, stream, normed, post_norm);
        profile.lap(Bucket::Other);
    }
}

/// Adds to the leading logits what the quantisation of their input lost.
///
/// The residual `normed - d * q` is quantised in its turn, and the rows of all groups that have a
/// logit within [`REFINE_MARGIN`] of the greatest are multiplied with it. That is a few dozen rows
/// as a rule; it spares the tokens that compete most of the error of 8-bit activations.
fn refine(
    team: &mut Team,
    kernels: &Kernels,
    output: &Matrix<'_>,
    activations: &mut Activations<'_>,
    normed: &mut [f32],
    logits: &mut [f32],
) {
    let format = output.format.activation();
    if format == Floats {
        return; // nothing was lost
    }
    format.subtract(activations.rows(1, output), normed);
    let columns = output.columns;
    activations.quantize(team, kernels, normed, columns, [output], |_, _| {});
    let residual = activations.rows(1, output);
    let greatest = logits[..output.rows]
        .iter()
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    for (group, logits) in logits.chunks_exact_mut(8).enumerate() {
        if logits
            .iter()
            .any(|&logit| logit >= greatest - REFINE_MARGIN)
        {
            let weights = output.row_range(8 * group, 8);
            let mut lost = [0.0; 8];
            kernels.gemv(output.format, weights, output.columns, residual, &mut lost);
            kernels.add(logits, &lost);
        }
    }
}

/// Has the members of the team share the work on several tokens. For one, the caller is faster
/// alone.
fn together(team: &mut Team, tokens: usize, job: &(dyn Fn(usize) + Sync)) {
    match tokens {
        1 => job(0),
        _ => team.run(job),
    }
}

/// What lies between the matrices of queries, keys and values and the cache, for tokens from
/// `position` on: biases, norms of heads, and the rotary embedding, as far as there are any.
#[allow(clippy::too_many_arguments)] // the parts of an engine and of its buffers, borrowed apart
fn finish_heads(
    team: &mut Team,
    kernels: &Kernels,
    config: &Config,
    layer: &Layer<'_>,
    rope: Option<&RopeTable<'_>>,
    position: usize,
    query: &mut [f32],
    key: &mut [f32],
    value: &mut [f32],
) {
    let (query_width, kv_width) = (config.query_width(), config.kv_width());
    let tokens = query.len() / query_width;
    let others = [Chunks::new(key, kv_width), Chunks::new(value, kv_width)];
    let rows = Companions::new(Chunks::new(query, query_width), others);
    let rotate = match config.architecture.pairing {
        Pairing::Adjacent => Kernels::rope,
        Pairing::Halves => Kernels::rope_halves,
    };
    together(team, tokens, &|_| {
        while let Some((token, query, [key, value])) = rows.claim() {
            if let Some([of_query, of_key, of_value]) = layer.biases {
                kernels.add(query, of_query);
                kernels.add(key, of_key);
                kernels.add(value, of_value);
            }
            if let Some([of_query, of_key]) = layer.head_norms {
                for (row, weight) in [(&mut *query, of_query), (&mut *key, of_key)] {
                    for head in row.chunks_exact_mut(config.head_dim) {
                        kernels.rms_norm_in_place(head, weight, config.norm_epsilon);
                    }
                }
            }
            if let Some(rope) = rope {
                let table = rope.position(position + token);
                rotate(kernels, query, table);
                rotate(kernels, key, table);
            }
        }
    });
}

/// `stream += rows`, normalised before if there is a norm.
fn add_rows(
    team: &mut Team,
    kernels: &Kernels,
    config: &Config,
    stream: &mut [f32],
    rows: &mut [f32],
    norm: Option<&[f32]>,
) {
    let width = config.width;
    let tokens = stream.len() / width;
    let rows = Companions::new(Chunks::new(stream, width), [Chunks::new(rows, width)]);
    together(team, tokens, &|_| {
        while let Some((_, stream, [row])) = rows.claim() {
            if let Some(weight) = norm {
                kernels.rms_norm_in_place(row, weight, config.norm_epsilon);
            }
            kernels.add(stream, row);
        }
    });
}

/// Multiplies several matrices with the same input, in one region: members take row ranges of the
/// first, then go on to the next without waiting.
fn matmul<const N: usize>(
    team: &mut Team,
    kernels: &Kernels,
    trace: Trace<'_>,
    activations: &Activations<'_>,
    tokens: usize,
    outputs: [(&Matrix<'_>, &mut [f32]); N],
) {
    let members = team.len();
    let jobs = outputs.map(|(matrix, out)| {
        let step = rows_per_claim(matrix, kernels, tokens, members);
        (matrix, Columns::new(out, matrix.rows_padded(), step))
    });
    team.run(&|member| {
        for (matrix, columns) in &jobs {
            let (began, mut claimed) = (trace.begin(), 0);
            while let Some(mut range) = columns.claim() {
                claimed += range.len;
                let weights = matrix.row_range(range.start, range.len);
                let inputs = activations.rows(tokens, matrix);
                let out = range.block(tokens);
                kernels.gemm(matrix.format, weights, matrix.columns, inputs, out);
            }
            trace.kernel(began, || KernelWork {
                member,
                subject: Subject::Tensor(matrix.name),
                kernel: kernels.matrix_kernel(matrix.format, tokens).name,
                claimed,
                tokens,
            });
        }
    });
}

/// Rows that a member takes at a time: enough of them that claiming costs nothing, few enough that
/// nobody is left waiting. One token's weights come from memory, in streams that want some length.
/// Where several tokens are multiplied one by one, no more than stay in the cache; a kernel for
/// several sees to that itself, and takes groups in pairs.
fn rows_per_claim(matrix: &Matrix<'_>, kernels: &Kernels, tokens: usize, members: usize) -> usize {
    let groups = matrix.rows.div_ceil(8);
    let each = |claims| match members {
        1 => groups,
        _ => groups.div_ceil(claims * members),
    };
    let groups = match (tokens, kernels.gemm_kernel(matrix.format)) {
        (..=1, _) => each(4),
        (_, Some(_)) => each(12).next_multiple_of(2),
        (_, None) => each(4).min(CACHE_BLOCK_BYTES / matrix.format.group_bytes(matrix.columns)),
    };
    8 * groups.max(1)
}

/// Attention of every token and KV head; a few tokens and a head are one piece of work.
#[allow(clippy::too_many_arguments)] // the parts of an engine and of its buffers, borrowed apart
fn attend_all(
    team: &mut Team,
    kernels: &Kernels,
    trace: Trace<'_>,
    cache: &KvCache<'_>,
    plan: &StepPlan,
    layer: usize,
    position: usize,
    query: &[f32],
    attended: &mut [f32],
    scratch: &mut [f32],
) {
    let config = &plan.config;
    let (width, group_width) = (config.query_width(), config.group() * config.head_dim);
    let tokens = attended.len() / width;
    // A short step is spread over all members.
    let block = plan.attention_tokens().min(tokens.div_ceil(team.len()));
    let scratch = Chunks::new(scratch, plan.attention());
    let pieces = Columns::in_bands(attended, width, group_width, block);
    team.run(&|member| {
        let Some((_, scratch)) = scratch.claim() else {
            return;
        };
        let (began, mut claimed) = (trace.begin(), 0);
        while let Some(mut piece) = pieces.claim() {
            let (rows, columns) = (piece.rows, piece.start..piece.start + piece.len);
            claimed += rows;
            let first = piece.row;
            let query = |row| &query[(first + row) * width..][columns.clone()];
            let mut result = piece.block(rows);
            let (gathered, rest) = scratch.split_at_mut(rows * group_width);
            let (out, scores) = rest.split_at_mut(rows * group_width);
            let mut attend = |queries: &[f32], out: &mut [f32]| {
                let attention = Attention {
                    queries,
                    heads: config.group(),
                    window: config.window_of(layer),
                    scale: config.score_scale,
                    cap: config.score_cap,
                    scores,
                    out,
                };
                let head = columns.start / group_width;
                cache.attend(kernels, layer, head, position + first, attention);
            };
            if rows == 1 {
                attend(query(0), result.row(0));
                continue;
            }
            // The rows of several tokens, brought together.
            for (row, queries) in gathered.chunks_exact_mut(group_width).enumerate() {
                queries.copy_from_slice(query(row));
            }
            attend(gathered, out);
            for (row, out) in out.chunks_exact(group_width).enumerate() {
                result.row(row).copy_from_slice(out);
            }
        }
        trace.kernel(began, || KernelWork {
            member,
            subject: Subject::Attention(layer),
            kernel: kernels.vector_kernel().name,
            claimed,
            tokens,
        });
    });
}
