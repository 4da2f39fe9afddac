//! Models as GGUF files, as packed images, and by their shapes: read, planned, loaded, and made to
//! compute a few tokens.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::{env, process};

use kernels_asm::features::Features;
use kernels_asm::registry::Kernels;
use runtime::arena::{self, Forward, Kv, Model, Open, Region};
use runtime::cpu;
use runtime::gguf::Gguf;
use runtime::image::{Image, Mapped, Places};
use runtime::kv::{KvCache, KvFormat};
use runtime::load::{self, LoadError, Loader, Stream};
use runtime::log::{Log, LogFormat};
use runtime::model::rope::RopeTables;
use runtime::model::weights::Sizes;
use runtime::model::{Config, ConfigError, Engine, StepPlan, Weights};
use runtime::notify::Notify;
use runtime::plan::{Demand, Plan, Request};
use runtime::profile::Profile;
use runtime::progress::Progress;
use runtime::sampler::{Sampler, Settings};
use runtime::sys::{Fd, Team};
use runtime::trace::Trace;
use rustix::fs::{MemfdFlags, memfd_create};
use xxhash_rust::xxh64::xxh64;

use super::text;
use crate::memory::Block;
use crate::run_host;
use crate::seeded_model::{self, PLAIN, SeededModel};

/// Memory that a model may ask for before it is let be: it is a model, and a big one.
const MEMORY: usize = 4 << 20;
/// Weights that are computed with: those of a model with superblocks.
const WEIGHTS_MAX: usize = 320_000;
/// Weights that are computed with by the reference kernels too, which are many times slower.
const REFERENCE_WEIGHTS_MAX: usize = 60_000;
/// Positions of the cache: one more than a block.
const CONTEXT: usize = 9;
/// Tokens of a step.
const BATCH: usize = 8;

/// A seeded model at a size of some ten kilobytes.
fn small(model: &SeededModel) -> SeededModel {
    SeededModel {
        layers: model.layers.min(2),
        width: 32,
        hidden: 64,
        heads: 2,
        kv_heads: 1,
        head_dim: 32,
        ..*model
    }
}

/// A model of each architecture, one with superblocks, and two vocabularies.
pub(super) fn ggufs() -> Vec<Vec<u8>> {
    let small = |model| small(model).gguf(seeded_model::Weights::Mixed);
    let mut all: Vec<_> = seeded_model::MODELS.iter().skip(1).map(small).collect();
    all.push(superblocks().gguf(seeded_model::Weights::Mixed));
    all.push(text::byte_level("gpt-2").file());
    all.push(text::sentencepiece().file());
    all
}

/// A model whose rows are whole superblocks.
fn superblocks() -> SeededModel {
    SeededModel {
        layers: 1,
        hidden: 256,
        heads: 2,
        kv_heads: 1,
        head_dim: 32,
        is_tied: true,
        width: 256,
        ..PLAIN
    }
}

/// A GGUF file: its header, its vocabulary, and a run.
pub(super) fn gguf(bytes: &[u8]) {
    let Ok(gguf) = Gguf::check(bytes) else { return };
    for tensor in gguf.tensors() {
        assert!(gguf.tensor(tensor.name).is_some());
        assert!(gguf.file_offset(&tensor) + tensor.bytes <= bytes.len() as u64);
    }
    for key in [
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores",
        "general.name",
    ] {
        let _ = (
            gguf.u32(key),
            gguf.f32(key),
            gguf.bool(key),
            gguf.string(key),
        );
        if let Ok(Some(array)) = gguf.array(key) {
            assert_eq!(array.values().count(), array.len());
            let _ = array.strings().map(Iterator::count);
            let _ = array.integers().map(Iterator::count);
            let _ = array.floats().map(Iterator::count);
        }
    }
    let _ = text::vocabulary(&gguf);
    let _ = compute(&gguf, None, bytes, bytes.len());
}

/// Images as the host's program packs them.
pub(super) fn images() -> Vec<Vec<u8>> {
    let folder = env::temp_dir().join(format!("rushlight-targets-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (model, image) = (folder.join("model.gguf"), folder.join("model.rush"));
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let pack = |bytes: Vec<u8>| {
        fs::write(&model, bytes).expect("a file");
        let output = run_host(&["pack", &path(&model), &path(&image)], b"");
        assert_eq!(output.code, 0, "{}", output.stderr);
        fs::read(&image).expect("an image")
    };
    let packed = [1, 6]
        .map(|index| pack(small(&seeded_model::MODELS[index]).gguf(seeded_model::Weights::Mixed)));
    fs::remove_dir_all(&folder).expect("it is there");
    packed.to_vec()
}

/// Makes the checksum of an image's header right, so that what lies behind it is reached.
pub fn seal(bytes: &mut [u8]) {
    let Some(fixed) = bytes.first_chunk::<64>() else {
        return;
    };
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| fixed[at + i])) as usize;
    let end = 64 + 32 * word(40) + word(44);
    let Some(rest) = bytes.get(64..end) else {
        return;
    };
    let covered = [&bytes[..56], rest].concat();
    let sum = xxh64(&covered, 0);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
}

/// A packed image, with its checksum made right, and a run.
pub(super) fn image(bytes: &[u8]) {
    let mut block = Block::new(bytes.len());
    let image = block.bytes(); // aligned, as a mapping is
    image.copy_from_slice(bytes);
    seal(image);
    let _ = use_header(image);
    let Ok(image) = Image::check(image) else {
        return;
    };
    let Ok(gguf) = image.gguf() else { return };
    let _ = compute(&gguf, Some(image), bytes, bytes.len());
}

/// What the weights of an image take in a step, if it is whole.
pub fn use_header(bytes: &[u8]) -> Option<usize> {
    let image = Image::check(bytes).ok()?;
    let gguf = image.gguf().ok()?;
    let config = Config::read(&gguf).ok()?;
    let mut sizes = Sizes::default();
    Weights::gather(&gguf, &config, &mut sizes).ok()?;
    let mut block = Block::new(sizes.vectors.min(1 << 20));
    let (model, ..) = arena::split(block.bytes(), sizes.vectors, 0).ok()?;
    let model = model.open_once();
    let mut mapped = Mapped {
        places: Places::new(image, &sizes).ok()?,
        file: Fd::NONE,
        model: &model,
    };
    let weights = Weights::gather(&gguf, &config, &mut mapped).ok()?;
    Some(weights.step_bytes())
}

/// Recipes for [`shape`]: each architecture in a usual shape, and keys that change it.
pub(super) fn shapes() -> Vec<Vec<u8>> {
    let seed = |architecture| {
        // As many layers as it takes to have one of each kind; one of the models in superblocks.
        let layers = [0, 3, 0, 0, 1, 5][usize::from(architecture)];
        let width = if architecture == 2 { 3 } else { 0 };
        let shape = [architecture, layers, 1, 0, 4, width, 1, 0, 1];
        let keys = (0..KEYS.len() as u8).filter(|&key| is_read(architecture, key));
        let keys = keys.flat_map(|key| [key, 0, 0, 0x80, 0x3f]);
        let weights = [0xff, 8, 0, 0, 0xff];
        shape.into_iter().chain(keys).chain(weights).collect()
    };
    (0..6).map(seed).collect()
}

/// Whether models of an architecture may have a key, by their numbers.
fn is_read(architecture: u8, key: u8) -> bool {
    match KEYS[usize::from(key)].0 {
        "attention.sliding_window" | "attention.sliding_window_pattern" => {
            [0, 4, 5].contains(&architecture)
        }
        "rope.freq_base_swa" => architecture == 5,
        "attn_logit_softcapping" => architecture == 4,
        "final_logit_softcapping" => architecture >= 4,
        _ => true,
    }
}

/// Keys that a recipe of [`shape`] may set, and whether they are floats.
const KEYS: [(&str, bool); 13] = [
    ("attention.sliding_window", false),
    ("attention.sliding_window_pattern", false),
    ("rope.scaling.original_context_length", false),
    ("rope.freq_base", true),
    ("rope.freq_base_swa", true),
    ("rope.scale_linear", true),
    ("rope.scaling.factor", true),
    ("rope.scaling.attn_factor", true),
    ("rope.scaling.yarn_attn_factor", true),
    ("rope.scaling.yarn_beta_fast", true),
    ("rope.scaling.yarn_beta_slow", true),
    ("attn_logit_softcapping", true),
    ("final_logit_softcapping", true),
];

/// A file whose tensors have the shapes that its metadata asks for, whatever these are. The bytes
/// are the shape first; then, five by five, keys with their values, and changes of weights.
pub(super) fn shape(bytes: &[u8]) {
    if let Some(file) = from_recipe(bytes) {
        gguf(&file);
    }
}

fn from_recipe(bytes: &[u8]) -> Option<Vec<u8>> {
    let (shape, changes) = bytes.split_first_chunk::<9>()?;
    let [
        architecture,
        layers,
        heads,
        kv_heads,
        head_dim,
        width,
        hidden,
        flags,
        scaling,
    ] = shape.map(usize::from);
    let architectures = ["llama", "smollm3", "qwen2", "qwen3", "gemma2", "gemma3"];
    let architecture = architectures[architecture % architectures.len()];
    let other = |bit: usize, is: bool| is != (flags >> bit & 1 == 1);
    let model = SeededModel {
        architecture,
        layers: 1 + layers as u32 % 7,
        width: [32, 64, 96, 256][width % 4],
        hidden: [32, 64, 160, 256][hidden % 4],
        heads: 1 + heads as u32 % 20,
        kv_heads: 1 + kv_heads as u32 % 8,
        head_dim: 8 * (head_dim as u32 % 34),
        is_tied: flags & 1 == 1,
        has_biases: other(1, architecture == "qwen2"),
        has_head_norms: other(2, ["qwen3", "gemma3"].contains(&architecture)),
        has_post_norms: other(3, architecture.starts_with("gemma")),
        ..PLAIN
    };
    let mut file = model.build(seeded_model::Weights::Mixed);
    let key = |name: &str| format!("{architecture}.{name}");
    if let Some(scaling) = ["none", "linear", "yarn"].get(scaling) {
        file = file.string(&key("rope.scaling.type"), scaling);
    }
    if flags & 16 == 16 {
        let divisors: Vec<_> = changes.iter().copied().cycle().take(2 * 8 * 34).collect();
        let pairs = model.head_dim as usize / 2;
        if divisors.len() >= 4 * pairs {
            file = file.tensor(
                "rope_freqs.weight",
                &[pairs as u64],
                0,
                &divisors[..4 * pairs],
            );
        }
    }
    let changes = changes.as_chunks::<5>().0;
    for &[index, value @ ..] in changes {
        file = match KEYS.get(usize::from(index)) {
            Some(&(name, true)) => file.f32(&key(name), f32::from_le_bytes(value)),
            Some(&(name, false)) => file.u32(&key(name), u32::from_le_bytes(value)),
            None => file,
        };
    }
    let mut file = file.finish();
    for &[index, low, middle, high, value] in changes {
        if usize::from(index) >= KEYS.len() {
            let at = u32::from_le_bytes([low, middle, high, 0]) as usize % (file.len() / 2);
            let at = file.len() - 1 - at;
            file[at] = value;
        }
    }
    Some(file)
}

/// What a process has once: its team, and a file that is in memory.
struct Machine {
    team: Option<Team>,
    file: File,
    /// The same, opened by the program under test.
    fd: Fd,
}

impl Machine {
    fn start() -> Machine {
        let file = memfd_create("target", MemfdFlags::CLOEXEC).expect("a file in memory");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = CString::new(path).expect("no NUL");
        let processors = cpu::processors(None).expect("a processor");
        Machine {
            team: Some(Team::start(&processors.assign(1), &mut []).expect("no more threads")),
            fd: Fd::open_file(&path).expect("it is open"),
            file: file.into(),
        }
    }

    /// Makes these the file's bytes.
    fn write(&self, bytes: &[u8]) {
        self.file.set_len(0).expect("a file in memory");
        self.file.write_all_at(bytes, 0).expect("a file in memory");
    }
}

/// A run of a small model, with room for it.
struct Planned {
    config: Config,
    sizes: Sizes,
    request: Request,
    plan: Plan,
}

/// Plans a run; none if the file is no model, or a big one.
fn planned<'m>(gguf: &Gguf<'m>, image: Option<Image<'m>>, choice: usize) -> Option<Planned> {
    let config = Config::read(gguf).ok()?;
    let mut sizes = Sizes::default();
    Weights::gather(gguf, &config, &mut sizes).ok()?;
    if let Some(image) = image {
        Places::check(image, gguf, &config, &sizes).ok()?;
    }
    let formats = [KvFormat::F16, KvFormat::Q8_0, KvFormat::F32];
    let format = |choice: usize| {
        let format = formats[choice % formats.len()];
        format.check(&config).map_or(KvFormat::F16, |()| format)
    };
    let request = Request {
        context: CONTEXT,
        batch: BATCH,
        threads: 1,
        key_format: format(choice),
        value_format: format(choice / 2),
    };
    let demand = Demand {
        config: &config,
        sizes: &sizes,
        is_mapped: image.is_some(),
        tokenizer: 0,
        encode: 0,
        sample: Sampler::bytes(config.vocabulary),
        text: 0,
        console: 0,
        prompt: 0,
        metadata: 0,
        program: 0,
    };
    let plan = Plan::new(&demand, &request);
    let is_small = plan.reservation() <= MEMORY && sizes.weights() <= WEIGHTS_MAX;
    is_small.then_some(Planned {
        config,
        sizes,
        request,
        plan,
    })
}

/// Loads the weights of a model and computes with them: `Some`, if the file is a model, and a small
/// one. How keys and values are stored, and by which kernels, is chosen by `choice`.
fn compute<'m>(
    gguf: &'m Gguf<'m>,
    image: Option<Image<'m>>,
    bytes: &[u8],
    choice: usize,
) -> Option<()> {
    static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);
    let Planned {
        config,
        sizes,
        request,
        plan,
    } = planned(gguf, image, choice)?;
    let mut block = Block::new(plan.reservation());
    let scopes = arena::split(block.bytes(), plan.scope::<Model>(), plan.scope::<Kv>());
    let (model, mut kv, mut forward) = scopes.expect("room for it");
    let (model, kv) = (model.open_once(), kv.open());

    let mut machine = MACHINE.lock().expect("nobody has failed");
    let machine = machine.get_or_insert_with(Machine::start);
    machine.write(bytes);
    let file = machine.fd;
    let mut team = machine.team.take().expect("it was given back");
    let weights = match image {
        Some(image) => {
            let places = Places::new(image, &sizes).expect("as when the plan was made");
            let model = &model;
            let mut mapped = Mapped {
                places,
                file,
                model,
            };
            Weights::gather(gguf, &config, &mut mapped)
        }
        None => load(gguf, &config, file, &sizes, &mut team, &model, &mut forward),
    };
    let mut weights = match weights {
        Err(LoadError::Config(ConfigError::Divisor { .. })) => {
            machine.team = Some(team); // a number, and no size
            return None;
        }
        weights => weights.expect("what was there when the plan was made"),
    };
    let _ = weights.not_finite(gguf).expect("the file is there");
    let rope = RopeTables::new(&model, &config, CONTEXT, weights.rope_divisors);
    let is_reference = choice % 4 == 3 && sizes.weights() <= REFERENCE_WEIGHTS_MAX;
    let features = [cpu::features(), Features::NONE][usize::from(is_reference)];
    let notify = Notify::default();
    let mut engine = Engine {
        config,
        weights,
        rope: rope.expect("planned"),
        kernels: Kernels::resolve(features, None, &[]).expect("no kernel is named"),
        plan: StepPlan::new(&config, &sizes, BATCH, 1, CONTEXT),
        team,
        profile: Profile::new(Trace::OFF),
        trace: Trace::OFF,
        notify: &notify,
    };
    let (keys, values) = (request.key_format, request.value_format);
    let mut cache = KvCache::new(&kv, &config, CONTEXT, keys, values).expect("planned");
    kv.alloc::<u32>(CONTEXT).expect("planned");
    plan.check_used(&model, &kv).expect("to the byte");
    step_twice(&mut engine, &mut cache, &mut forward);
    machine.team = Some(engine.team);
    Some(())
}

/// Computes a chunk of a prompt and a token, and takes the next one from the logits of each.
fn step_twice(engine: &mut Engine<'_>, cache: &mut KvCache<'_>, forward: &mut Region<'_, Forward>) {
    let sampler = Sampler::new(Settings::default(), 1);
    let mut sampler = sampler.expect("settings that are right");
    let last = engine.config.vocabulary as u32 - 1;
    let prompt = [0, last, last / 2, 0, last / 3, last, 1.min(last), last];
    for (position, tokens) in [(0, &prompt[..]), (BATCH, &prompt[1..2])] {
        let scratch = forward.open();
        let step = engine.forward(cache, &scratch, tokens, position);
        let mut step = step.expect("planned, and the file is there");
        let kernels = engine.kernels;
        let logits = engine.logits(&mut step, tokens.len() - 1);
        let softmax = |numbers: &mut [f32]| kernels.softmax(numbers);
        let next = sampler.sample(logits, tokens, &softmax, &scratch);
        // An error: a logit is no number.
        assert!(next.is_err() || next.is_ok_and(|id| id <= last));
    }
}

/// Reads and packs the weights of a GGUF file.
fn load<'m>(
    gguf: &'m Gguf<'m>,
    config: &Config,
    file: Fd,
    sizes: &Sizes,
    team: &mut Team,
    model: &Open<'m, Model>,
    forward: &mut Region<'_, Forward>,
) -> Result<Weights<'m>, LoadError> {
    let log = Log::new(Fd::NONE, LogFormat::Text);
    let scratch = forward.open();
    let (_, staging) = load::staging_bytes(sizes, team.len());
    let mut loader = Loader {
        stream: Stream {
            gguf,
            file,
            team,
            staging: scratch.alloc(staging)?,
            progress: Progress::new(&log, "load", sizes.raw),
        },
        model,
    };
    Weights::gather(gguf, config, &mut loader)
}

#[cfg(test)]
mod tests {
    use super::{Gguf, Image, compute, from_recipe, ggufs, images, shapes};
    use crate::memory::Block;

    #[test]
    fn seeds_are_computed() {
        let recipes = shapes();
        let files = recipes.iter().map(|recipe| from_recipe(recipe).unwrap());
        let vocabularies = 2; // the last
        let models = ggufs().into_iter().rev().skip(vocabularies);
        for (number, file) in models.chain(files).enumerate() {
            let gguf = Gguf::check(&file).unwrap();
            for choice in 0..4 {
                assert!(compute(&gguf, None, &file, choice).is_some(), "{number}");
            }
        }
        for file in images() {
            let mut block = Block::new(file.len());
            block.bytes().copy_from_slice(&file);
            let image = Image::check(block.bytes()).unwrap();
            let gguf = image.gguf().unwrap();
            assert!(compute(&gguf, Some(image), &file, 0).is_some());
        }
    }
}
