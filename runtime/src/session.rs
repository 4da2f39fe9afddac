//! What a run has to have: the setup, known before memory is taken; the reservation; the engine.

use crate::arena::{self, Forward, Kv, Model, Open, Region};
use crate::board::Board;
use crate::chat::Chat;
use crate::console::{self, LINE_BYTES};
use crate::cpu::{self, Cores, Governor, Kinds, MemoryLimits, Processors, Root, State};
use crate::error::Error;
use crate::generate::state_fields;
use crate::image::{Image, Mapped, Places};
use crate::kv::KvCache;
use crate::load::{self, LoadError, Loader, Stream};
use crate::log::{Line, Log, Name, event, fields, name};
use crate::model::rope::RopeTables;
use crate::model::weights::{Sizes, Weights};
use crate::model::{Config, Engine, StepPlan};
use crate::model_file::ModelFile;
use crate::notify::Notify;
use crate::options::{Command, Options, UsageError};
use crate::plan::{self, BudgetSource, Demand, DoesNotFit, Plan, Request};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::prompt;
use crate::sampler::Sampler;
use crate::sys::sandbox::{self, Opens};
use crate::sys::{self, Fd, THREADS_MAX, Team};
use crate::tokenizer::{Extent, Tokenizer};
use crate::trace::{ChromeTrace, Phase, Trace, TraceSink};
use core::ffi::CStr;
use kernels_asm::features::Features;
use kernels_asm::registry::Kernels;

/// Where the program runs.
pub struct Machine<'b> {
    /// The board.
    pub board: &'b Board,
    /// Who is told how it goes.
    pub notify: &'b Notify,
    /// What the program itself takes: code, data, and the first thread's stack.
    pub program_bytes: usize,
}

/// What a run is going to be, known from the header and the command line alone.
pub struct Setup<'n> {
    /// Who is told how it goes.
    pub notify: &'n Notify,
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
    /// What the run takes memory for.
    pub request: Request,
    /// The chat template.
    pub chat: Chat<'static>,
    /// The prompt's text.
    pub prompt: &'static [u8],
    /// Bytes of Model scope for the tokenizer.
    tokenizer_bytes: usize,
    /// Bytes of Forward scope for encoding the prompt.
    encode_bytes: usize,
    /// Tokens that a text to score may have.
    text_tokens: usize,
    /// Bytes of Kv scope for the console's lines.
    console_bytes: usize,
    /// What the program itself takes: code, data, and the first thread's stack.
    program_bytes: usize,
}

impl<'n> Setup<'n> {
    /// Reads the header, and chooses kernels and threads. Takes no memory but the prompt's.
    ///
    /// # Errors
    /// Whatever in the file or on the command line makes the run impossible.
    pub fn new(
        machine: &Machine<'n>,
        options: &Options,
        model: ModelFile,
        prompt: &'static [u8],
    ) -> Result<Setup<'n>, Error> {
        let config = Config::read(&model.gguf)?;
        let (key_format, value_format) = (options.key_format, options.value_format);
        key_format.check(&config)?;
        value_format.check(&config)?;
        let mut sizes = Sizes::default();
        Weights::gather(&model.gguf, &config, &mut sizes)?;
        if let Some(image) = model.image {
            // Before the plan believes a size: the table has it too, and nothing lies elsewhere.
            Places::check(image, &model.gguf, &config, &sizes)?;
        }
        let processors = cpu::processors(options.cpu_range).ok_or(UsageError::NoProcessor)?;
        let threads = options.threads.unwrap_or(processors.fastest);
        let kernels = resolve_kernels(options, cpu::cores(&processors.assign(threads)))?;
        let context_default = config.context_max.min(machine.board.context_default);
        let context = options.context.unwrap_or(context_default);
        let request = Request {
            context,
            batch: options.batch.min(context),
            threads,
            key_format,
            value_format,
        };
        let chat = Chat::choose(&model.gguf, options.chat)?;
        let system = options.system.map_or(0, CStr::count_bytes);
        let prompt_extent = match options.console {
            Some(_) => Extent::whole(LINE_BYTES), // whatever will be in it
            None => Extent::of(&model.gguf, prompt)?,
        };
        // What a system prompt says is not known before its escapes are resolved.
        let texts = prompt_extent + Extent::whole(system);
        Ok(Setup {
            notify: machine.notify,
            tokenizer_bytes: Tokenizer::bytes(&model.gguf)?,
            encode_bytes: chat.encode_bytes(2, texts),
            text_tokens: match options.command {
                Command::Perplexity => texts.tokens_max() + 1, // BOS
                _ => 0,
            },
            console_bytes: match options.console {
                Some(_) => console::buffer_bytes(options.framed),
                None => 0,
            },
            program_bytes: machine.program_bytes,
            model,
            config,
            sizes,
            kernels,
            processors,
            request,
            chat,
            prompt,
        })
    }

    /// What the model and the prompt ask for.
    pub fn demand(&self) -> Demand<'_> {
        Demand {
            config: &self.config,
            sizes: &self.sizes,
            is_mapped: self.model.image.is_some(),
            tokenizer: self.tokenizer_bytes,
            encode: self.encode_bytes,
            sample: Sampler::bytes(self.config.vocabulary),
            text: self.text_tokens,
            console: self.console_bytes,
            prompt: self.prompt.len(),
            metadata: match self.model.image {
                None => self.model.gguf.header().len(),
                // Vectors are mapped too, before they are copied.
                Some(image) => image.weights_offset() as usize + self.sizes.vectors,
            },
            program: self.program_bytes,
        }
    }

    /// The processor of each thread.
    pub fn cpus(&self) -> heapless::Vec<u32, THREADS_MAX> {
        self.processors.assign(self.request.threads)
    }

    /// The memory plan.
    pub fn plan(&self) -> Plan {
        Plan::new(&self.demand(), &self.request)
    }

    /// The kernel of each weight format that the model has, and that of float operations:
    /// `Q4_K:gemv_q4_k_avx2,...`.
    pub fn kernel_names(&self) -> heapless::String<768> {
        let mut names = heapless::String::<768>::new();
        let mut list = |left: &str, right: &str| {
            // A list that does not fit is cut.
            let comma = if names.is_empty() { "" } else { "," };
            let _ = core::fmt::write(&mut names, format_args!("{comma}{left}:{right}"));
        };
        for format in self.sizes.formats() {
            list(format.name(), self.kernels.gemv_kernel(format).name);
            if let Some(kernel) = self.kernels.gemm_kernel(format) {
                list(format.name(), kernel.name);
            }
        }
        list("float", self.kernels.vector_kernel().name);
        names
    }

    /// The `start` line, and what is to be warned of.
    pub fn log_start(&self, log: &Log, board: &Board) {
        let mut features = heapless::String::<128>::new();
        for name in cpu::features().names() {
            let comma = if features.is_empty() { "" } else { "," };
            let _ = core::fmt::write(&mut features, format_args!("{comma}{name}"));
        }
        let kinds = Kinds::read(Root::SYSTEM);
        let governor = Governor::read(Root::SYSTEM, self.processors.cpus[0]);
        let limits = MemoryLimits::read(Root::SYSTEM);
        event!(
            log,
            "start",
            text version = env!("CARGO_PKG_VERSION"),
            text board = board.name,
            text cpu = &kinds,
            text features = &features,
            text kernels = self.kernel_names(),
            count threads = self.request.threads,
            more state = state_fields(State::read(Root::SYSTEM, &self.cpus())),
            more governor = |line| match &governor {
                Some(governor) => fields!(line, text governor = &governor.name),
                None => line,
            },
            more limits = |line| fields!(
                line,
                signed oom_score_adj = cpu::oom_score_adj(Root::SYSTEM), // below zero too
                maybe cgroup_max = limits.max,
                maybe cgroup_high = limits.high,
            ),
        );
        self.warn(log, board, &kinds, governor);
    }

    /// What may make the run other than it should be, a line each.
    fn warn(&self, log: &Log, board: &Board, kinds: &Kinds, governor: Option<Governor>) {
        if !board.may_have(kinds) {
            let message = format_args!(
                "this is no {board}, its processors are {kinds}: budget and defaults may be wrong"
            );
            log.warning(message);
        }
        if governor.is_some_and(|governor| governor.is_slow) {
            let cpu = self.processors.cpus[0];
            let message = format_args!(
                "the governor powersave keeps processor {cpu} at its lowest frequency"
            );
            log.warning(message);
        }
        let (context, trained) = (self.request.context, self.config.context_max);
        if context > trained {
            log.warning(format_args!(
                "-c {context}: the model was trained for {trained} tokens"
            ));
        }
        let formats = self.sizes.formats();
        for format in formats.filter(|&format| !self.kernels.has_fast_gemv(format)) {
            log.warning(format_args!(
                "{}: only the reference kernel, many times slower",
                format.name()
            ));
        }
    }

    /// The cache for the context, in the Kv scope.
    ///
    /// # Errors
    /// The plan forgot it.
    pub fn cache<'k>(&self, kv: &Open<'k, Kv>) -> Result<KvCache<'k>, Error> {
        let Request {
            context,
            key_format,
            value_format,
            ..
        } = self.request;
        let cache = KvCache::new(kv, &self.config, context, key_format, value_format)?;
        Ok(cache)
    }

    /// Tokens that are kept: those of the context, or of a text that is scored.
    pub fn history_tokens(&self) -> usize {
        self.request.context.max(self.text_tokens)
    }

    /// Checks that the vocabulary fits the model and the template; warns of what may be wrong.
    ///
    /// # Errors
    /// It does not fit.
    pub fn check_vocabulary(&self, tokenizer: &Tokenizer<'_>, log: &Log) -> Result<(), Error> {
        if tokenizer.len() != self.config.vocabulary {
            let (texts, rows) = (tokenizer.len(), self.config.vocabulary);
            return Err(Error::VocabularySize { texts, rows });
        }
        if tokenizer.lacks_pretokenizer() {
            let message =
                "the file does not name its pre-tokenizer: default taken, text may suffer";
            log.warning(message);
        }
        Ok(self.chat.check(tokenizer)?)
    }

    /// Where rows of the embedding come from, in words.
    pub fn embedding_place(&self) -> &'static str {
        match self.sizes.file_row {
            None => "tied: rows of the output matrix",
            Some(_) => "stays in the file, a row is read a token",
        }
    }

    /// The `plan` line; with ways out if it does not fit.
    pub fn plan_line(&self, log: &Log, (budget, source): (u64, BudgetSource)) -> Line {
        let plan = self.plan();
        let total = plan.total() as u64;
        let buffers = |line: Line| {
            plan.lines()
                .fold(line, |line, (name, bytes)| line.number(name, bytes as u64))
        };
        let ways = |line: Line| {
            const NAMES: [(Name, Name); plan::WAYS] = [
                (name!(text way_1), name!(number saves_1)),
                (name!(text way_2), name!(number saves_2)),
                (name!(text way_3), name!(number saves_3)),
                (name!(text way_4), name!(number saves_4)),
            ];
            let ways = plan::ways_out(&self.demand(), &self.request, budget);
            let ways = ways.into_iter().flatten().zip(NAMES);
            ways.fold(line, |line, ((way, saved), (name, saves))| {
                line.text(name, way).number(saves, saved as u64)
            })
        };
        event!(
            log,
            "plan",
            more buffers = buffers,
            number total = total,
            text weights = if plan.is_mapped { "mapped" } else { "streamed" },
            count context = self.request.context,
            text k_format = self.request.key_format.name(),
            text v_format = self.request.value_format.name(),
            number budget = budget,
            text budget_source = source.name(),
            text fits = if total <= budget { "yes" } else { "no" },
            more ways_out = |line| if total <= budget { line } else { ways(line) },
        )
    }

    /// Holds the plan against a budget.
    ///
    /// # Errors
    /// It does not fit.
    pub fn check_budget(&self, (budget, source): (u64, BudgetSource)) -> Result<(), DoesNotFit> {
        let total = self.plan().total();
        if total as u64 <= budget {
            return Ok(());
        }
        let ways = plan::ways_out(&self.demand(), &self.request, budget);
        Err(DoesNotFit {
            total,
            budget,
            source,
            ways,
        })
    }
}

/// What the CPU has and `--isa` allows.
///
/// # Errors
/// The CPU lacks what `--isa` needs.
pub fn usable_features(options: &Options) -> Result<Features, Error> {
    let detected = cpu::features();
    let Some(isa) = options.isa else {
        return Ok(detected);
    };
    let missing = isa.needs().without(detected);
    match missing == Features::NONE {
        true => Ok(isa.needs()),
        false => Err(Error::CpuFeature { isa, missing }),
    }
}

/// The strongest kernels that the CPU has and `--isa` allows, tuned for `cores`, or those that
/// `--kernel` names.
///
/// # Errors
/// The CPU lacks what the user asks for.
pub fn resolve_kernels(options: &Options, cores: Cores) -> Result<Kernels, Error> {
    let have = usable_features(options)?;
    Ok(Kernels::resolve(have, cores.tuning(), &options.kernels)?)
}

/// Does `job` with the trace that `--trace` asks for.
///
/// # Errors
/// Those of the job, or the trace's file cannot be created.
pub fn traced<T>(
    options: &Options,
    log: &Log,
    job: impl FnOnce(Trace<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let file = options.trace.map(ChromeTrace::create).transpose()?;
    let trace = Trace::new(file.as_ref().map(|file| file as &dyn TraceSink));
    let done = job(trace);
    if let Some(file) = &file {
        file.close(log); // whatever ended the run; what is wrong is told before the last line
    }
    done
}

/// The one reservation, cut up.
pub struct Memory<'m> {
    /// What was planned.
    pub plan: Plan,
    /// For weights, tokenizer and tables.
    pub model: Open<'m, Model>,
    /// For a conversation.
    pub kv: Region<'m, Kv>,
    /// For a step.
    pub forward: Region<'m, Forward>,
    /// For the threads.
    pub stacks: &'static mut [u8],
}

impl<'m> Memory<'m> {
    /// Takes what was planned.
    ///
    /// # Errors
    /// The kernel does not give it.
    pub fn reserve(setup: &Setup<'_>, options: &Options, trace: Trace<'m>) -> Result<Self, Error> {
        let plan = setup.plan();
        let bytes = plan.reservation();
        let reservation = sys::reserve(bytes).map_err(|errno| Error::Memory { bytes, errno })?;
        if options.mlock {
            sys::lock(reservation).map_err(Error::Lock)?;
        }
        let (stacks, block) = reservation.split_at_mut(plan.stacks);
        // Weights make their pages resident as they come; all else is taken now or not at all.
        sys::populate(stacks);
        sys::populate(&mut block[plan.scope::<Model>()..]);
        let (model_bytes, kv_bytes) = (plan.scope::<Model>(), plan.scope::<Kv>());
        let (model, kv, forward) = arena::split_traced(block, model_bytes, kv_bytes, trace)?;
        Ok(Memory {
            plan,
            model: model.open_once(),
            kv,
            forward,
            stacks,
        })
    }
}

/// What comes before memory is taken. A wrong path is told before stdin is waited for.
///
/// # Errors
/// Whatever makes the run impossible.
pub fn set_up<'n>(
    machine: &Machine<'n>,
    options: &Options,
    log: &Log,
    trace: Trace<'_>,
) -> Result<Setup<'n>, Error> {
    let model = {
        let _phase = trace.phase(Phase::Header);
        ModelFile::open(options)?
    };
    let prompt = match (options.prompt_ids, &options.console) {
        (Some(_), _) | (_, Some(_)) => &[],
        // They have their own.
        (None, None) if matches!(options.command, Command::Bench | Command::Selftest) => &[],
        (None, None) => trace.during(Phase::Prompt, || prompt::read(options))?,
    };
    let _phase = trace.phase(Phase::Setup);
    let setup = Setup::new(machine, options, model, prompt)?;
    setup.log_start(log, machine.board);
    let budget = plan::budget(options.budget, machine.board.memory_budget);
    drop(setup.plan_line(log, budget));
    if !options.force {
        setup.check_budget(budget)?;
    }
    Ok(setup)
}

/// Starts the threads and brings the weights into place; `load` in the log.
///
/// # Errors
/// The kernel gives no threads, or the weights cannot be read.
pub fn start_engine<'m>(
    setup: &Setup<'m>,
    options: &Options,
    model: &Open<'m, Model>,
    stacks: &'static mut [u8],
    forward: &mut Region<'_, Forward>,
    log: &Log,
    trace: Trace<'m>,
) -> Result<Engine<'m>, Error> {
    let (config, request) = (setup.config, setup.request);
    let sandbox = Sandbox::begin(options, log);
    let mut team = Team::start(&setup.cpus(), stacks).map_err(Error::Threads)?;
    trace.team(team.len());
    let _phase = trace.phase(Phase::Load);
    let mut weights = match setup.model.image {
        Some(image) => map(setup, image, options, model, log)?,
        None => stream(setup, model, &mut team, forward, log)?,
    };
    if options.check_tensors {
        check_finite(&mut weights, setup)?;
    }
    let rope = RopeTables::new(model, &config, request.context, weights.rope_divisors)?;
    sandbox.close(log);
    Ok(Engine {
        config,
        weights,
        rope,
        kernels: setup.kernels,
        plan: StepPlan::new(
            &config,
            &setup.sizes,
            request.batch,
            request.threads,
            request.context,
        ),
        team,
        profile: Profile::new(trace),
        trace,
        notify: setup.notify,
    })
}

/// Sees to it that every weight is a number.
///
/// # Errors
/// One is not: its tensor.
pub fn check_finite<'m>(weights: &mut Weights<'m>, setup: &Setup<'m>) -> Result<(), Error> {
    match weights.not_finite(&setup.model.gguf)? {
        Some(tensor) => Err(Error::WeightNotFinite { tensor }),
        None => Ok(()),
    }
}

/// What is given up, in its two steps, if it is asked for. A kernel that cannot do one is told of,
/// and the other one still counts.
struct Sandbox<'o> {
    opens: Option<Opens<'o>>,
    landlock: u32,
}

impl<'o> Sandbox<'o> {
    /// Before there are threads, and after all files were opened.
    fn begin(options: &'o Options, log: &Log) -> Self {
        let console = options.console.as_ref();
        let mut sandbox = Sandbox {
            opens: None,
            landlock: 0,
        };
        if options.sandbox.unwrap_or(console.is_some()) {
            let terminal = console.and_then(|spec| spec.terminal.as_ref());
            let opens = terminal.map_or(Opens::Nothing, |(path, _)| Opens::Terminal(path));
            sandbox.opens = Some(opens);
            match sandbox::close_files(opens) {
                Ok(version) => sandbox.landlock = version,
                Err(errno) => {
                    log.warning(format_args!("no Landlock for the sandbox: {errno}"));
                }
            }
        }
        sandbox
    }

    /// When all is loaded.
    fn close(self, log: &Log) {
        let Some(opens) = self.opens else { return };
        let seccomp = sandbox::refuse_calls(opens);
        if let Err(errno) = seccomp {
            log.warning(format_args!("no seccomp for the sandbox: {errno}"));
        }
        event!(
            log,
            "sandbox",
            text seccomp = if seccomp.is_ok() { "yes" } else { "no" },
            number landlock = self.landlock.into(),
        );
    }
}

/// Reads a GGUF file and packs its weights into the arena.
fn stream<'m>(
    setup: &Setup<'_>,
    model: &Open<'m, Model>,
    team: &mut Team,
    forward: &mut Region<'_, Forward>,
    log: &Log,
) -> Result<Weights<'m>, Error> {
    let scratch = forward.open();
    let (_, staging) = load::staging_bytes(&setup.sizes, team.len());
    let mut loader = Loader {
        stream: Stream {
            gguf: &setup.model.gguf,
            file: setup.model.file,
            team,
            staging: scratch.alloc(staging)?,
            progress: Progress::new(log, "load", setup.sizes.raw).told_to(setup.notify),
        },
        model,
    };
    let weights = Weights::gather(&setup.model.gguf, &setup.config, &mut loader)?;
    log_load(log, "streamed", loader.stream.progress);
    Ok(weights)
}

/// Finds the weights in a packed image; reads them only if that is asked for.
fn map<'m>(
    setup: &Setup<'_>,
    image: Image<'static>,
    options: &Options,
    model: &Open<'m, Model>,
    log: &Log,
) -> Result<Weights<'m>, Error> {
    let ModelFile { file, gguf, .. } = &setup.model;
    let file = *file;
    let is_resident = options.prefault || options.mlock;
    let checked = if options.check_tensors {
        image.tensor_bytes()
    } else {
        0
    };
    let resident = if is_resident {
        image.weights().len() as u64
    } else {
        0
    };
    let mut progress = Progress::new(log, "load", checked + resident).told_to(setup.notify);
    if options.check_tensors {
        image.check_tensors(gguf, file, &mut progress)?;
    }
    let places = Places::new(image, &setup.sizes).map_err(LoadError::Image)?;
    let mut mapped = Mapped {
        places,
        file,
        model,
    };
    let weights = Weights::gather(gguf, &setup.config, &mut mapped)?;
    if is_resident {
        page_in(file, image, &mut progress)?;
    }
    if options.mlock {
        sys::lock(image.weights()).map_err(Error::Lock)?;
    }
    log_load(log, "mapped", progress);
    Ok(weights)
}

/// Makes all weights of an image resident, with the storage always a stretch ahead.
fn page_in(file: Fd, image: Image<'_>, progress: &mut Progress<'_>) -> Result<(), LoadError> {
    const STRETCH: usize = 8 << 20;
    let mut stretches = image.weights().chunks(STRETCH).peekable();
    let mut offset = image.weights_offset();
    while let Some(part) = stretches.next() {
        offset += part.len() as u64;
        if let Some(next) = stretches.peek() {
            file.will_need(offset, next.len() as u64);
        }
        sys::page_in(part);
        progress.done += part.len() as u64;
        progress.show(progress.done);
        load::check_signal()?;
    }
    Ok(())
}

/// The `load` line. A mapped image is `bytes=0` unless its weights were read; `cpu_ms` is all that
/// the process has spent so far.
fn log_load(log: &Log, how: &str, progress: Progress<'_>) {
    let bytes = progress.done;
    let (ms, mb_s) = progress.finish();
    event!(
        log,
        "load",
        text how = how,
        number bytes = bytes,
        decimal ms = ms,
        decimal mb_s = mb_s,
        decimal cpu_ms = sys::cpu_time() as f64 / 1e6,
        count rss_kb = cpu::resident().total_kb,
    );
}
