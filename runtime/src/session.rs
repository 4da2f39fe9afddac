//! A run: from the command line to the last token.

use crate::arena::{self, Forward, Kv, Model, Open, Region};
use crate::board::Board;
use crate::chat::Chat;
use crate::cpu::{self, Processors};
use crate::error::Error;
use crate::generate::{Finish, Generator, LogitsFile, Times};
use crate::kv::{KvCache, KvFormat};
use crate::load::{Loader, STAGING_BYTES};
use crate::log::Log;
use crate::model::rope::RopeTable;
use crate::model::weights::{Sizes, Weights};
use crate::model::{Config, Engine, StepPlan};
use crate::model_file::ModelFile;
use crate::options::{Options, UsageError};
use crate::output::Output;
use crate::plan::{self, Demand, Plan};
use crate::profile::Profile;
use crate::prompt;
use crate::sampler::Sampler;
use crate::sys::{self, Team};
use crate::tokenizer::{STOPS_MAX, TextStream, Tokenizer};
use core::ffi::CStr;
use kernels_asm::features::Features;
use kernels_asm::format::WeightFormat;
use kernels_asm::registry::Kernels;

/// Where the program runs.
pub struct Machine<'b> {
    /// The board.
    pub board: &'b Board,
    /// What the program itself took before it did anything.
    pub program_bytes: usize,
}

/// What a run is going to be, known from the header and the command line alone.
pub struct Setup {
    /// The model's file.
    pub model: ModelFile,
    /// Its shape.
    pub config: Config,
    /// What its weights take.
    pub sizes: Sizes,
    /// The kernels.
    pub kernels: Kernels,
    /// The processors, fastest first.
    pub processors: Processors,
    /// Threads, the first included.
    pub threads: usize,
    /// Positions of the KV cache.
    pub context: usize,
    /// How keys are stored.
    pub key_format: KvFormat,
    /// How values are stored.
    pub value_format: KvFormat,
    /// The sizes of a step.
    pub step: StepPlan,
    /// The chat template.
    pub chat: Chat<'static>,
    /// The prompt's text.
    pub prompt: &'static [u8],
    /// The memory plan.
    pub plan: Plan,
}

impl Setup {
    /// Reads the header, chooses kernels and threads, and adds up the plan. Takes no memory but
    /// the prompt's.
    ///
    /// # Errors
    /// Whatever in the file or on the command line makes the run impossible.
    pub fn new(
        machine: &Machine<'_>,
        options: &Options,
        model: ModelFile,
        prompt: &'static [u8],
    ) -> Result<Setup, Error> {
        let config = Config::read(&model.gguf)?;
        let (key_format, value_format) = (options.key_format, options.value_format);
        key_format.check(&config)?;
        value_format.check(&config)?;
        let mut sizes = Sizes::default();
        let shapes = Weights::gather(&model.gguf, &config, &mut sizes)?;
        let kernels = resolve_kernels(options)?;
        let processors = cpu::processors(options.cpu_range).ok_or(UsageError::NoProcessor)?;
        let threads = options.threads.unwrap_or(processors.fastest);
        let context_default = config.context_max.min(machine.board.context_default);
        let context = options.context.unwrap_or(context_default);
        let batch = options.batch.min(context);
        let step = StepPlan::new(&config, &shapes, batch, threads, context);
        let chat = Chat::choose(&model.gguf, options.chat)?;
        let system = options.system.map_or(0, CStr::count_bytes);
        let plan = Plan::new(&Demand {
            config: &config,
            sizes: &sizes,
            step: &step,
            context,
            key_format,
            value_format,
            threads,
            tokenizer: Tokenizer::bytes(&model.gguf)?,
            encode: chat.encode_bytes(2, prompt.len() + system),
            sample: Sampler::bytes(config.vocabulary),
            prompt: prompt.len(),
            metadata: model.gguf.header_bytes(),
            program: machine.program_bytes,
        });
        Ok(Setup {
            model,
            config,
            sizes,
            kernels,
            processors,
            threads,
            context,
            key_format,
            value_format,
            step,
            chat,
            prompt,
            plan,
        })
    }

    /// Weights in the matrices that the model has.
    fn parameters(&self) -> usize {
        let formats = WeightFormat::ALL.iter().zip(self.sizes.packed);
        formats
            .map(|(f, bytes)| bytes / f.record_bytes() * 8 * f.block_len())
            .sum()
    }

    /// The formats that the model's matrices have.
    fn formats(&self) -> impl Iterator<Item = WeightFormat> {
        WeightFormat::ALL
            .into_iter()
            .filter(|&format| self.sizes.packed[format as usize] > 0)
    }

    /// The `start` line, and a warning for each format that only the reference serves.
    pub fn log_start(&self, log: &Log, board: &Board) {
        let mut names = heapless::String::<512>::new();
        let mut list = |left: &str, right: &str| {
            // A list that does not fit is cut.
            let comma = if names.is_empty() { "" } else { "," };
            let _ = core::fmt::write(&mut names, format_args!("{comma}{left}:{right}"));
        };
        for format in self.formats() {
            list(format.name(), self.kernels.gemv_kernel(format).name);
        }
        list("float", self.kernels.vector_kernel().name);
        let mut features = heapless::String::<128>::new();
        for name in cpu::features().names() {
            let comma = if features.is_empty() { "" } else { "," };
            let _ = core::fmt::write(&mut features, format_args!("{comma}{name}"));
        }
        let first = self.processors.cpus[0];
        drop(
            log.event("start")
                .text("version", env!("CARGO_PKG_VERSION"))
                .text("board", board.name)
                .text("cpu", cpu::model_name(&mut [0; 4096]))
                .text("features", &features)
                .text("kernels", &names)
                .number("threads", self.threads as u64)
                .maybe("mhz", cpu::frequency_mhz(first))
                .maybe("celsius", cpu::temperature_c()),
        );
        if self.context > self.config.context_max {
            drop(log.error("warning").text(
                "message",
                format_args!(
                    "-c {}: the model was trained for {} tokens",
                    self.context, self.config.context_max
                ),
            ));
        }
        for format in self
            .formats()
            .filter(|&format| !self.kernels.has_fast_gemv(format))
        {
            drop(log.error("warning").text(
                "message",
                format_args!(
                    "{}: only the reference kernel, many times slower",
                    format.name()
                ),
            ));
        }
    }

    /// Checks that the vocabulary fits the model and the template; warns of what may be wrong.
    fn check_vocabulary(&self, tokenizer: &Tokenizer<'_>, log: &Log) -> Result<(), Error> {
        if tokenizer.len() != self.config.vocabulary {
            let (texts, rows) = (tokenizer.len(), self.config.vocabulary);
            return Err(Error::VocabularySize { texts, rows });
        }
        if tokenizer.lacks_pretokenizer() {
            let message =
                "the file does not name its pre-tokenizer: default taken, text may suffer";
            drop(log.error("warning").text("message", message));
        }
        Ok(self.chat.check(tokenizer)?)
    }

    /// The `plan` line.
    pub fn log_plan(&self, log: &Log, budget: u64, source: plan::BudgetSource) {
        let plan = &self.plan;
        let mut line = log.event("plan");
        for (name, bytes) in plan.lines() {
            line = line.number(name, bytes as u64);
        }
        line = line
            .number("total", plan.total() as u64)
            .number("context", self.context as u64)
            .text("k_format", self.key_format.name())
            .text("v_format", self.value_format.name())
            .number("budget", budget)
            .text("budget_source", source.name());
        drop(line.text(
            "fits",
            if plan.total() as u64 <= budget {
                "yes"
            } else {
                "no"
            },
        ));
    }

    /// Logs the plan and holds it against the budget.
    ///
    /// # Errors
    /// It does not fit, and nobody said `--force`.
    pub fn check_budget(&self, log: &Log, board: &Board, options: &Options) -> Result<(), Error> {
        let (budget, source) = plan::budget(options.budget, board.memory_budget);
        self.log_plan(log, budget, source);
        let fits = self
            .plan
            .fits(budget, source, self.parameters(), self.context);
        if !options.force {
            fits?;
        }
        Ok(())
    }
}

/// The strongest kernels that the CPU has and `--isa` allows, or those that `--kernel` names.
///
/// # Errors
/// The CPU lacks what the user asks for.
pub fn resolve_kernels(options: &Options) -> Result<Kernels, Error> {
    let detected = cpu::features();
    let have = match options.isa {
        None => detected,
        Some(isa) => {
            let missing = isa.needs().without(detected);
            if missing != Features::NONE {
                return Err(Error::CpuFeature { isa, missing });
            }
            isa.needs()
        }
    };
    Ok(Kernels::resolve(have, &options.kernels)?)
}

/// Runs a prompt.
///
/// # Errors
/// Whatever ends the run before its text is complete. What can be known before the weights are
/// read is told before.
pub fn run(machine: &Machine<'_>, options: &Options, log: &Log) -> Result<Finish, Error> {
    let model = ModelFile::open(options)?; // a wrong path is told before stdin is waited for
    let prompt = match options.prompt_ids {
        Some(_) => &[],
        None => prompt::read(options)?,
    };
    let setup = Setup::new(machine, options, model, prompt)?;
    setup.log_start(log, machine.board);
    setup.check_budget(log, machine.board, options)?;

    let bytes = setup.plan.reservation();
    let reservation = sys::reserve(bytes).map_err(|errno| Error::Memory { bytes, errno })?;
    if options.mlock {
        sys::lock(reservation).map_err(Error::Lock)?;
    }
    let (stacks, block) = reservation.split_at_mut(setup.plan.stacks);
    let (model, mut kv, mut forward) =
        arena::split(block, setup.plan.scope::<Model>(), setup.plan.scope::<Kv>())?;

    let model = model.open_once();
    let tokenizer = Tokenizer::new(&setup.model.gguf, &model)?;
    setup.check_vocabulary(&tokenizer, log)?;
    let kv = kv.open();
    let (k, v) = (setup.key_format, setup.value_format);
    let mut cache = KvCache::new(&kv, &setup.config, setup.context, k, v)?;
    let history = kv.alloc::<u32>(setup.context)?;
    let prompt_len = encode(&setup, options, &tokenizer, &mut forward, history)?;
    let stops = stop_texts(options)?;
    let seed = options
        .seed
        .unwrap_or_else(|| u64::from(sys::entropy() as u32));
    let sampler = Sampler::new(options.sampler, seed)?;
    let mut stream = TextStream::new(&stops)?;
    if tokenizer.adds_space() && setup.chat.is_template() {
        stream = stream.skip_first_space();
    }
    let logits_file = options.logits.map(LogitsFile::create).transpose()?;

    let cpus = setup.processors.assign(setup.threads);
    let team = Team::start(&cpus, stacks).map_err(Error::System)?;
    let mut engine = load(&setup, &model, team, &mut forward, log)?;
    setup.plan.check_used(&model, &kv)?;

    let mut generator = Generator {
        options,
        log,
        tokenizer: &tokenizer,
        engine: &mut engine,
        cache: &mut cache,
        history,
        position: 0,
        sampler,
        stream,
        output: Output::default(),
        logits_file,
        seed,
        plan_bytes: setup.plan.total(),
        first_cpu: cpus[0],
        times: Times::default(),
        mark: (Profile::default(), 0),
    };
    generator.run(prompt_len, &mut forward)
}

/// The texts of `-r`, escapes resolved.
fn stop_texts(options: &Options) -> Result<heapless::Vec<&'static [u8], STOPS_MAX>, Error> {
    let texts = options.stops.iter();
    texts
        .map(|text| prompt::flag_text(text, options.escape))
        .collect()
}

/// Reads and packs the weights; `load` in the log.
fn load<'m>(
    setup: &Setup,
    model: &Open<'m, Model>,
    mut team: Team,
    forward: &mut Region<'_, Forward>,
    log: &Log,
) -> Result<Engine<'m>, Error> {
    let began = sys::now();
    let rope = RopeTable::new(
        model,
        setup.context,
        setup.config.head_dim,
        setup.config.rope_base,
    )?;
    let scratch = forward.open();
    let mut bytes = 0;
    let loader = Loader {
        gguf: &setup.model.gguf,
        file: setup.model.file,
        model,
        team: &mut team,
        staging: scratch.alloc(STAGING_BYTES.max(setup.sizes.raw_group_max))?,
        progress: &mut |done| bytes = done,
        done: 0,
    };
    let weights = Weights::gather(&setup.model.gguf, &setup.config, loader)?;
    let ms = (sys::now() - began) as f64 / 1e6;
    drop(
        log.event("load")
            .number("bytes", bytes)
            .decimal("ms", ms)
            .decimal("mb_s", bytes as f64 / 1e3 / ms)
            .number("rss_kb", cpu::resident_kb()),
    );
    Ok(Engine {
        config: setup.config,
        weights,
        rope,
        kernels: setup.kernels,
        plan: setup.step,
        team,
        profile: Profile::default(),
    })
}

/// Turns the prompt into ids at the front of `history`; returns how many.
fn encode(
    setup: &Setup,
    options: &Options,
    tokenizer: &Tokenizer<'_>,
    forward: &mut Region<'_, Forward>,
    history: &mut [u32],
) -> Result<usize, Error> {
    let count = match options.prompt_ids {
        Some(path) => crate::ids::read(path, tokenizer.len(), history)?,
        None => {
            let system = options
                .system
                .map(|text| prompt::flag_text(text, options.escape));
            let scratch = forward.open();
            let chat = &setup.chat;
            let ids = chat.encode(tokenizer, system.transpose()?, setup.prompt, &scratch)?;
            let (tokens, context) = (ids.len(), setup.context);
            let room = history.get_mut(..tokens);
            room.ok_or(Error::PromptTooLong { tokens, context })?
                .copy_from_slice(ids);
            tokens
        }
    };
    if count == 0 {
        Err(Error::EmptyPrompt)
    } else {
        Ok(count)
    }
}
