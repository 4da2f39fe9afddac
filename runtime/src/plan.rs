//! The memory plan: what a run will take, as a visible sum, before any of it is taken.

use crate::arena::{ArenaError, Forward, Kv, Model, Open, rounded};
use crate::cpu::{self, MemoryLimits, Root};
use crate::kv::{KvCache, KvFormat};
use crate::load;
use crate::log::{Name, name};
use crate::model::rope::RopeTables;
use crate::model::weights::Sizes;
use crate::model::{Config, StepPlan};
use crate::sys::STACK_BYTES;
use core::fmt;
use kernels_asm::format::WeightFormat;

/// A page of a file that is touched brings in those around it, so many bytes together: Linux's default
/// `fault_around_bytes`.
const FAULT_AROUND_BYTES: usize = 64 * 1024;

/// What the command line asks of a run, as far as it takes memory.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Positions of the KV cache.
    pub context: usize,
    /// Tokens of a step.
    pub batch: usize,
    /// Threads, the first included.
    pub threads: usize,
    /// How keys are stored.
    pub key_format: KvFormat,
    /// How values are stored.
    pub value_format: KvFormat,
}

/// What the model and the prompt ask of a run.
#[derive(Clone, Copy)]
pub struct Demand<'a> {
    /// The model's shape.
    pub config: &'a Config,
    /// What its packed weights take.
    pub sizes: &'a Sizes,
    /// Whether these are mapped from an image.
    pub is_mapped: bool,
    /// Bytes of Model scope for the tokenizer.
    pub tokenizer: usize,
    /// Bytes of Forward scope for encoding the prompt.
    pub encode: usize,
    /// Bytes of Forward scope for sampling, beside a step's.
    pub sample: usize,
    /// Tokens that are kept beside the context: those of a text that is scored.
    pub text: usize,
    /// Bytes of Kv scope for the console's lines.
    pub console: usize,
    /// Bytes of the prompt.
    pub prompt: usize,
    /// Bytes of the file's header.
    pub metadata: usize,
    /// Bytes of the program itself.
    pub program: usize,
}

/// Bytes of each buffer of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Packed matrices by format, in the order of [`WeightFormat::ALL`].
    pub matrices: [usize; WeightFormat::ALL.len()],
    /// Whether the matrices are mapped from an image, and no part of the reservation.
    pub is_mapped: bool,
    /// Float vectors.
    pub vectors: usize,
    /// Index of the vocabulary and its merges.
    pub tokenizer: usize,
    /// Rotary angles.
    pub tables: usize,
    /// Keys for the whole context.
    pub keys: usize,
    /// Values for the whole context.
    pub values: usize,
    /// Token ids of the conversation, or of the text that is scored.
    pub history: usize,
    /// Lines of the console, as they come and as they are meant.
    pub console: usize,
    /// Scratch of a step.
    pub step: usize,
    /// Scratch of loading, in the same place.
    pub staging: usize,
    /// Scratch of encoding the prompt, in the same place.
    pub encode: usize,
    /// Stacks of the threads but the first.
    pub stacks: usize,
    /// The prompt's text.
    pub prompt: usize,
    /// The file's header, mapped: vocabulary texts are views of it.
    pub metadata: usize,
    /// The program itself: code, data, and the first thread's stack.
    pub program: usize,
}

/// Names of the lines of packed matrices, in the order of [`WeightFormat::ALL`].
const WEIGHTS: [Name; WeightFormat::ALL.len()] = [
    name!(number weights_q4_0),
    name!(number weights_q4_1),
    name!(number weights_q5_0),
    name!(number weights_q8_0),
    name!(number weights_q4_k),
    name!(number weights_q5_k),
    name!(number weights_q6_k),
    name!(number weights_q5_1),
    name!(number weights_iq4_nl),
    name!(number weights_q2_k),
    name!(number weights_q3_k),
    name!(number weights_tq1_0),
    name!(number weights_tq2_0),
    name!(number weights_f32),
    name!(number weights_f16),
    name!(number weights_bf16),
];

impl Plan {
    /// Adds up a run.
    pub fn new(demand: &Demand<'_>, request: &Request) -> Plan {
        let Demand { config, sizes, .. } = *demand;
        let Request {
            context,
            batch,
            threads,
            ..
        } = *request;
        let step = StepPlan::new(config, sizes, batch, threads, context);
        Plan {
            matrices: sizes.packed,
            is_mapped: demand.is_mapped,
            vectors: sizes.vectors,
            tokenizer: demand.tokenizer,
            tables: RopeTables::bytes(config, context),
            keys: KvCache::bytes(config, context, request.key_format),
            values: KvCache::bytes(config, context, request.value_format),
            history: rounded(context.max(demand.text) * size_of::<u32>()),
            console: demand.console,
            step: step.bytes() + demand.sample,
            staging: match demand.is_mapped {
                true => 0,
                false => rounded(load::staging_bytes(sizes, threads).1),
            },
            encode: demand.encode,
            stacks: (threads - 1) * STACK_BYTES,
            prompt: demand.prompt,
            metadata: demand.metadata.next_multiple_of(FAULT_AROUND_BYTES),
            program: demand.program,
        }
    }

    /// Each buffer's name and bytes; their sum is the [`total`](Self::total).
    pub fn lines(&self) -> impl Iterator<Item = (Name, usize)> {
        let weights = WEIGHTS.into_iter().zip(self.matrices);
        let console = (self.console > 0).then_some((name!(number console), self.console));
        let weights = weights.filter(|line| line.1 > 0);
        weights.chain(console).chain([
            (name!(number vectors), self.vectors),
            (name!(number embedding), 0), // a row of the output matrix, or read from the file
            (name!(number tokenizer), self.tokenizer),
            (name!(number tables), self.tables),
            (name!(number keys), self.keys),
            (name!(number values), self.values),
            (name!(number history), self.history),
            (name!(number forward), self.forward()),
            (name!(number stacks), self.stacks),
            (name!(number prompt), self.prompt),
            (name!(number metadata), self.metadata),
            (name!(number program), self.program),
            (name!(number page_tables), self.page_tables()),
        ])
    }

    /// What shares the place of the `forward` line, one after the other.
    pub fn forward_lines(&self) -> [(&'static str, usize); 3] {
        [
            ("staging", self.staging),
            ("encode", self.encode),
            ("step", self.step),
        ]
    }

    /// Packed matrices in the reservation.
    fn packed(&self) -> usize {
        match self.is_mapped {
            true => 0,
            false => self.weights(),
        }
    }

    /// Packed matrices, wherever they lie.
    pub fn weights(&self) -> usize {
        self.matrices.iter().sum()
    }

    /// Scratch of a step, of loading, and of encoding: one after another in the same place.
    pub fn forward(&self) -> usize {
        self.step.max(self.staging).max(self.encode)
    }

    /// The kernel's tables for all these pages: eight bytes a page of 4096, and as little again
    /// for the levels above.
    fn page_tables(&self) -> usize {
        const LEAST: usize = 64 * 1024; // of a process that has nothing
        LEAST + (self.reservation() + self.weights() - self.packed() + self.metadata) / 512
    }

    /// Bytes of a scope.
    pub fn scope<S: Scope>(&self) -> usize {
        S::bytes(self)
    }

    /// Bytes of the one reservation: the three scopes and the stacks.
    pub fn reservation(&self) -> usize {
        self.scope::<Model>() + self.scope::<Kv>() + self.scope::<Forward>() + self.stacks
    }

    /// Holds what was taken for good against the plan, to the byte.
    ///
    /// # Errors
    /// They differ: the plan forgot or invented a buffer.
    pub fn check_used(&self, model: &Open<'_, Model>, kv: &Open<'_, Kv>) -> Result<(), ArenaError> {
        for (used, planned) in [
            (model.used(), self.scope::<Model>()),
            (kv.used(), self.scope::<Kv>()),
        ] {
            if used != planned {
                return Err(ArenaError {
                    wanted: used,
                    left: planned,
                });
            }
        }
        Ok(())
    }

    /// Bytes of everything.
    pub fn total(&self) -> usize {
        self.lines().map(|line| line.1).sum()
    }
}

/// The parts of a plan that lie in one scope.
pub trait Scope {
    /// Their sum.
    fn bytes(plan: &Plan) -> usize;
}

impl Scope for Model {
    fn bytes(plan: &Plan) -> usize {
        plan.packed() + plan.vectors + plan.tokenizer + plan.tables
    }
}

impl Scope for Kv {
    fn bytes(plan: &Plan) -> usize {
        plan.keys + plan.values + plan.history + plan.console
    }
}

impl Scope for Forward {
    fn bytes(plan: &Plan) -> usize {
        plan.forward()
    }
}

/// Where a budget comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BudgetSource {
    /// `--budget`.
    Flag,
    /// The board's own figure.
    Board,
    /// The limit of this process's cgroup.
    Cgroup,
    /// What the kernel says is available.
    Available,
    /// Nobody says.
    Unknown,
}

impl BudgetSource {
    /// In the words of the log.
    pub fn name(self) -> &'static str {
        match self {
            BudgetSource::Flag => "flag",
            BudgetSource::Board => "board",
            BudgetSource::Cgroup => "cgroup",
            BudgetSource::Available => "available",
            BudgetSource::Unknown => "unknown",
        }
    }
}

/// Bytes that a run may take here, and who says so: the tightest of all limits. What somebody
/// grants is not there for that: only `--force` goes beyond. A control group's `memory.high` counts
/// as its `memory.max` does: without swap, what a run holds cannot be written back, and beyond it
/// the kernel would make it wait at every page.
pub fn budget(flag: Option<u64>, board: Option<u64>) -> (u64, BudgetSource) {
    let limits = [
        (flag, BudgetSource::Flag),
        (board, BudgetSource::Board),
        (
            MemoryLimits::read(Root::SYSTEM).least(),
            BudgetSource::Cgroup,
        ),
        (cpu::memory_available(Root::SYSTEM), BudgetSource::Available),
    ];
    limits
        .into_iter()
        .filter_map(|(bytes, source)| bytes.map(|bytes| (bytes, source)))
        .min_by_key(|limit| limit.0)
        .unwrap_or((u64::MAX, BudgetSource::Unknown))
}

/// Something that makes a run smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WayOut {
    /// `-c` so many.
    Context(usize),
    /// `-ctk q8_0 -ctv q8_0`
    SmallKv,
    /// `-b` so many.
    Batch(usize),
    /// A file of the model in Q4_0: 4.5 bits a weight, the least of the formats that every board
    /// runs fast.
    SmallWeights,
}

impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WayOut::Context(context) => write!(f, "-c {context}"),
            WayOut::SmallKv => f.write_str("-ctk q8_0 -ctv q8_0"),
            WayOut::Batch(batch) => write!(f, "-b {batch}"),
            WayOut::SmallWeights => f.write_str("a Q4_0 file of this model"),
        }
    }
}

/// Ways out there are at most.
pub const WAYS: usize = 4;

/// Each way that makes a run smaller, with the bytes that it saves by itself.
pub fn ways_out(
    demand: &Demand<'_>,
    request: &Request,
    budget: u64,
) -> [Option<(WayOut, usize)>; WAYS] {
    let total = Plan::new(demand, request).total();
    let of = |request: Request| Plan::new(demand, &request).total();
    let with_context = |context: usize| Request {
        context,
        batch: request.batch.min(context),
        ..*request
    };
    // Half the context, or a quarter, and so on, until that alone is enough.
    let halves = core::iter::successors(Some(request.context / 2), |context| Some(context / 2));
    let mut halves = halves.take_while(|&context| context >= 64);
    let context = halves.find(|&context| of(with_context(context)) as u64 <= budget);
    let context = context.unwrap_or((request.context / 4).max(1));
    let small = KvFormat::Q8_0;
    let small_kv = match small.check(demand.config) {
        Ok(()) => Request {
            key_format: small,
            value_format: small,
            ..*request
        },
        Err(_) => *request, // saves nothing, so it is not named
    };
    let small_weights = demand.sizes.weights() / 2 + demand.sizes.weights() / 16;
    [
        (WayOut::Context(context), of(with_context(context))),
        (WayOut::SmallKv, of(small_kv)),
        (
            WayOut::Batch(1),
            of(Request {
                batch: 1,
                ..*request
            }),
        ),
        (
            WayOut::SmallWeights,
            total - demand.sizes.packed.iter().sum::<usize>() + small_weights,
        ),
    ]
    .map(|(way, smaller)| {
        let saved = total.checked_sub(smaller)?;
        (saved > 0).then_some((way, saved))
    })
}

/// The plan exceeds the budget.
#[derive(Clone, Copy, Debug)]
pub struct DoesNotFit {
    /// Bytes planned.
    pub total: usize,
    /// Bytes there are.
    pub budget: u64,
    /// Who says so.
    pub source: BudgetSource,
    /// What would be smaller.
    pub ways: [Option<(WayOut, usize)>; WAYS],
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let (total, budget) = (mib(self.total as f64), mib(self.budget as f64));
        let source = self.source.name();
        write!(
            f,
            "does not fit: {total:.1} MiB planned, {budget:.1} MiB budget ({source});"
        )?;
        for (way, saved) in self.ways.iter().flatten() {
            write!(f, " {way} saves {:.1} MiB;", mib(*saved as f64))?;
        }
        f.write_str(" --force runs anyway")
    }
}
