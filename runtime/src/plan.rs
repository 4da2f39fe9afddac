//! The memory plan: what a run will take, as a visible sum, before any of it is taken.

use crate::arena::{ArenaError, Forward, Kv, Model, Open, rounded};
use crate::cpu;
use crate::kv::{KvCache, KvFormat};
use crate::load::STAGING_BYTES;
use crate::model::rope::RopeTable;
use crate::model::weights::Sizes;
use crate::model::{Config, StepPlan};
use crate::sys::STACK_BYTES;
use core::fmt;

/// Bytes of each buffer of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Packed matrices and float vectors.
    pub weights: usize,
    /// Index of the vocabulary and its merges.
    pub tokenizer: usize,
    /// Rotary angles.
    pub tables: usize,
    /// Keys for the whole context.
    pub keys: usize,
    /// Values for the whole context.
    pub values: usize,
    /// What q8_0 would save of keys and values; nothing where the model's heads do not allow it.
    pub q8_0_saves: usize,
    /// Token ids of the conversation.
    pub history: usize,
    /// Scratch of a step, of loading, and of encoding: one after another in the same place.
    pub forward: usize,
    /// Stacks of the threads but the first.
    pub stacks: usize,
    /// The prompt's text.
    pub prompt: usize,
    /// The file's header, mapped: vocabulary texts are views of it.
    pub metadata: usize,
    /// The program itself, as resident before anything was loaded.
    pub program: usize,
}

/// What a plan depends on.
pub struct Demand<'a> {
    /// The model's shape.
    pub config: &'a Config,
    /// What its packed weights take.
    pub sizes: &'a Sizes,
    /// The sizes of a step's buffers.
    pub step: &'a StepPlan,
    /// Positions of the KV cache.
    pub context: usize,
    /// How keys are stored.
    pub key_format: KvFormat,
    /// How values are stored.
    pub value_format: KvFormat,
    /// Threads, the first included.
    pub threads: usize,
    /// Bytes of Model scope for the tokenizer.
    pub tokenizer: usize,
    /// Bytes of Forward scope for encoding the prompt.
    pub encode: usize,
    /// Bytes of Forward scope for sampling, beside a step's.
    pub sample: usize,
    /// Bytes of the prompt.
    pub prompt: usize,
    /// Bytes of the file's header.
    pub metadata: usize,
    /// Bytes of the program itself.
    pub program: usize,
}

impl Plan {
    /// Adds up a run.
    pub fn new(demand: &Demand<'_>) -> Plan {
        let Demand {
            config,
            sizes,
            step,
            context,
            key_format,
            value_format,
            ..
        } = *demand;
        let staging = rounded(STAGING_BYTES.max(sizes.raw_group_max));
        let half = |format| KvCache::bytes(config, context, format);
        let kv = half(key_format) + half(value_format);
        let kv_least = match KvFormat::Q8_0.check(config) {
            Ok(()) => 2 * half(KvFormat::Q8_0),
            Err(_) => kv,
        };
        Plan {
            weights: sizes.packed.iter().sum::<usize>() + sizes.vectors,
            tokenizer: demand.tokenizer,
            tables: RopeTable::bytes(context, config.head_dim),
            keys: half(key_format),
            values: half(value_format),
            q8_0_saves: kv - kv_least,
            history: rounded(context * size_of::<u32>()),
            forward: staging.max(step.bytes() + demand.sample).max(demand.encode),
            stacks: (demand.threads - 1) * STACK_BYTES,
            prompt: demand.prompt,
            metadata: demand.metadata,
            program: demand.program,
        }
    }

    /// Each buffer's name and bytes.
    pub fn lines(&self) -> [(&'static str, usize); 11] {
        [
            ("weights", self.weights),
            ("tokenizer", self.tokenizer),
            ("tables", self.tables),
            ("keys", self.keys),
            ("values", self.values),
            ("history", self.history),
            ("forward", self.forward),
            ("stacks", self.stacks),
            ("prompt", self.prompt),
            ("metadata", self.metadata),
            ("program", self.program),
        ]
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
        self.reservation() + self.prompt + self.metadata + self.program
    }
}

/// The parts of a plan that lie in one scope.
pub trait Scope {
    /// Their sum.
    fn bytes(plan: &Plan) -> usize;
}

impl Scope for Model {
    fn bytes(plan: &Plan) -> usize {
        plan.weights + plan.tokenizer + plan.tables
    }
}

impl Scope for Kv {
    fn bytes(plan: &Plan) -> usize {
        plan.keys + plan.values + plan.history
    }
}

impl Scope for Forward {
    fn bytes(plan: &Plan) -> usize {
        plan.forward
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

/// Bytes that a run may take, and who says so: the user if they do, else the tightest of the rest.
pub fn budget(flag: Option<u64>, board: Option<u64>) -> (u64, BudgetSource) {
    if let Some(bytes) = flag {
        return (bytes, BudgetSource::Flag);
    }
    let limits = [
        (board, BudgetSource::Board),
        (cpu::cgroup_memory_max(), BudgetSource::Cgroup),
        (cpu::memory_available(), BudgetSource::Available),
    ];
    limits
        .into_iter()
        .filter_map(|(bytes, source)| bytes.map(|bytes| (bytes, source)))
        .min_by_key(|limit| limit.0)
        .unwrap_or((u64::MAX, BudgetSource::Unknown))
}

/// The plan exceeds the budget.
#[derive(Clone, Copy, Debug)]
pub struct DoesNotFit {
    total: usize,
    /// Bytes that grow with the context.
    per_context: usize,
    q8_0_saves: usize,
    weights: usize,
    forward: usize,
    budget: u64,
    source: BudgetSource,
    /// Weights in the model's matrices.
    parameters: usize,
    context: usize,
}

impl Plan {
    /// Compares the plan with a budget.
    ///
    /// # Errors
    /// The plan is larger.
    pub fn fits(
        &self,
        budget: u64,
        source: BudgetSource,
        parameters: usize,
        context: usize,
    ) -> Result<(), DoesNotFit> {
        match self.total() as u64 <= budget {
            true => Ok(()),
            false => Err(DoesNotFit {
                total: self.total(),
                per_context: self.scope::<Kv>() + self.tables,
                q8_0_saves: self.q8_0_saves,
                weights: self.weights,
                forward: self.forward,
                budget,
                source,
                parameters,
                context,
            }),
        }
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let (total, budget) = (mib(self.total), self.budget as f64 / f64::from(1 << 20));
        let source = self.source.name();
        write!(
            f,
            "does not fit: {total:.1} MiB planned, {budget:.1} MiB budget ({source});"
        )?;
        let context = (self.context / 4).max(1);
        let saved = self.per_context;
        write!(
            f,
            " -c {context} saves {:.1} MiB;",
            mib(saved - saved * context / self.context)
        )?;
        let saved = self.q8_0_saves;
        if saved > 0 {
            write!(f, " -ctk q8_0 -ctv q8_0 saves {:.1} MiB;", mib(saved))?;
        }
        // Q4_0 has 4.5 bits a weight, the least of the formats that every board runs fast.
        let smallest = self.parameters / 2 + self.parameters / 16;
        if let Some(saved) = self
            .weights
            .checked_sub(smallest)
            .filter(|&bytes| bytes > 0)
        {
            write!(
                f,
                " a Q4_0 file of this model saves about {:.1} MiB;",
                mib(saved)
            )?;
        }
        let staging = rounded(STAGING_BYTES);
        if let Some(saved) = self.forward.checked_sub(staging).filter(|&bytes| bytes > 0) {
            write!(f, " -b 1 saves up to {:.1} MiB;", mib(saved))?;
        }
        f.write_str(" --force runs anyway")
    }
}
