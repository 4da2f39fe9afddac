//! The promise of the same bits: logits files are equal byte for byte, whatever computes them.
//!
//! Models: SmolLM2, real weights in Q4_1 and Q8_0; small ones with random weights, of one format
//! each; and one in which all formats occur. Machines: this one, and the emulated Arm cores of
//! [`CORES`], each with every tier that `--isa` offers there. The measure is this machine's
//! reference on two threads.

use kernels_asm::features::Isa;
use kernels_asm::format::WeightFormat;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::{CORES, Output, emulates, mixed_model, model, run_arm64, run_host};

/// Some ids of English text, below 256 so that all vocabularies have them.
const IDS: &str = "28 30 42 100 101 102 7 9 250 198 33 57 58 59 60 61 62 63 64 65 200 201 202";

/// Numbers of threads.
const THREADS: [&str; 4] = ["1", "2", "3", "4"];

/// What computes logits.
#[derive(Clone, Copy)]
enum Machine {
    Host,
    Arm64(&'static str),
}

impl Machine {
    /// The emulated ones.
    fn emulated() -> Vec<Machine> {
        let (known, missing): (Vec<_>, Vec<_>) = CORES.into_iter().partition(|cpu| emulates(cpu));
        if !missing.is_empty() {
            eprintln!("NOT CHECKED: no QEMU here has {missing:?}");
        }
        // Every QEMU has two of them.
        assert!(known.len() >= 2, "run `cargo xtask setup`");
        known.into_iter().map(Machine::Arm64).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Machine::Host => "this machine",
            Machine::Arm64(cpu) => cpu,
        }
    }

    fn run(self, arguments: &[&str]) -> Output {
        match self {
            Machine::Host => run_host(arguments, b""),
            Machine::Arm64(cpu) => run_arm64(cpu, arguments, b""),
        }
    }

    /// The tiers that `--isa` offers, weakest first: what it lacks, the program refuses.
    fn tiers(self) -> Vec<&'static str> {
        let is_offered = |isa: &&str| match self.run(&["kernels", "--isa", isa]).code {
            0 => true,
            3 => false,
            code => panic!("{}: kernels --isa {isa}: exit code {code}", self.name()),
        };
        let tiers: Vec<_> = Isa::ALL
            .map(Isa::name)
            .into_iter()
            .filter(is_offered)
            .collect();
        assert!(tiers.len() >= 2, "{} has {tiers:?}", self.name());
        tiers
    }

    /// The logits of every position of the prompt `ids` and of all tokens generated but the last.
    fn logits(self, model: &Path, ids: &str, more: &[&str]) -> Vec<u8> {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let prompt = scratch(&format!("same-bits-{run}.ids"));
        let out = scratch(&format!("same-bits-{run}.f32"));
        fs::write(&prompt, ids).expect("a scratch file");
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let (model, ids, logits) = (text(model), text(&prompt), text(&out));
        let files = [
            "-m",
            &model,
            "--prompt-ids",
            &ids,
            "--logits",
            &logits,
            "--ids",
        ];
        let bounds = ["-c", "64", "--ignore-eos"];
        let output = self.run(&[&files[..], &bounds, more].concat());
        let name = self.name();
        assert_eq!(output.code, 0, "{name}, {more:?}: {}", output.stderr);
        let logits = fs::read(&out).expect("the logits");
        for file in [prompt, out] {
            fs::remove_file(file).expect("a scratch file");
        }
        assert!(!logits.is_empty() && logits.len().is_multiple_of(4));
        logits
    }
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A model, a prompt, and the logits that everything must have.
struct Measure {
    name: String,
    model: PathBuf,
    ids: String,
    more: Vec<&'static str>,
    logits: Vec<u8>,
}

impl Measure {
    fn new(name: &str, model: PathBuf, ids: &str, more: &[&'static str]) -> Self {
        let reference = [more, &["--isa", "reference", "-t", "2"]].concat();
        Self {
            name: name.to_owned(),
            logits: Machine::Host.logits(&model, ids, &reference),
            model,
            ids: ids.to_owned(),
            more: more.to_vec(),
        }
    }

    /// Of a model's bytes.
    fn of_bytes(name: &str, bytes: &[u8], more: &[&'static str]) -> Self {
        let path = scratch(&format!("same-bits-{name}.gguf"));
        fs::write(&path, bytes).expect("a scratch file");
        Self::new(name, path, IDS, more)
    }

    fn check(&self, machine: Machine, variant: &[&str]) {
        let more = [&self.more[..], variant].concat();
        let found = machine.logits(&self.model, &self.ids, &more);
        assert!(
            found == self.logits,
            "{} on {}: {variant:?} differs from the reference",
            self.name,
            machine.name()
        );
    }

    fn check_tier(&self, machine: Machine, tier: &str, threads: &str) {
        self.check(machine, &["--isa", tier, "-t", threads]);
    }

    /// Every tier of this machine with every number of threads.
    fn check_host(&self, tiers: &[&str]) {
        for tier in tiers {
            for threads in THREADS {
                self.check_tier(Machine::Host, tier, threads);
            }
        }
    }
}

/// Of every format, a small model in which all matrices have it. A chunk of seven vectors fills a
/// tile of a GEMM and leaves some over; two more are left of the prompt, and two are generated.
fn uniform_models(part: &str) -> impl Iterator<Item = Measure> {
    WeightFormat::ALL.into_iter().map(move |format| {
        // A hidden layer that is no multiple of more than a block, where a file can have that.
        let hidden = match format.block_len() {
            32 => 544,
            256 => 512,
            _ => 520,
        };
        let name = format!("{}-{part}", format.name());
        let bytes = mixed_model::uniform(1, format, hidden);
        Measure::of_bytes(&name, &bytes, &["-n", "3", "-b", "7"])
    })
}

#[test]
fn every_format_has_the_same_bits_in_every_tier_of_this_machine() {
    let tiers = Machine::Host.tiers();
    for model in uniform_models("host") {
        model.check_host(&tiers);
    }
}

/// A core's strongest tier with every number of threads, its others with each in turn.
#[test]
fn every_format_has_the_same_bits_in_every_tier_of_emulated_cores() {
    let machines: Vec<_> = Machine::emulated()
        .into_iter()
        .map(|machine| (machine, machine.tiers()))
        .collect();
    let mut turn = THREADS.into_iter().cycle();
    for model in uniform_models("emulated") {
        for (machine, tiers) in &machines {
            let (strongest, others) = tiers.split_last().expect("there is a reference");
            for threads in THREADS {
                model.check_tier(*machine, strongest, threads);
            }
            for (tier, threads) in others.iter().zip(&mut turn) {
                model.check_tier(*machine, tier, threads);
            }
        }
        turn.next(); // so that no tier has the same number in every format
    }
}

#[test]
fn smollm2_has_the_same_bits_in_every_tier_of_this_machine() {
    let ids = &IDS[.."28 30 42 100 101 102 7 9".len()];
    let model = Measure::new("smollm2", model("smollm2"), ids, &["-n", "3"]);
    model.check_host(&Machine::Host.tiers());
}

/// Three vectors together, a vector alone, and no more: emulation takes its time.
#[test]
fn smollm2_has_the_same_bits_in_every_tier_of_emulated_cores() {
    let more = ["-n", "1", "-b", "3"];
    let model = Measure::new("smollm2", model("smollm2"), "28 30 42 100", &more);
    let mut turn = THREADS.into_iter().cycle();
    for machine in Machine::emulated() {
        for (tier, threads) in machine.tiers().into_iter().zip(&mut turn) {
            model.check_tier(machine, tier, threads);
        }
    }
}

#[test]
fn all_formats_together_have_the_same_bits_in_batches_of_any_size() {
    let model = Measure::of_bytes("mixed", &mixed_model::gguf(1), &["-n", "3"]);
    let mut machines = Machine::emulated();
    machines.push(Machine::Host);
    for machine in machines {
        for (batch, threads) in [("1", "2"), ("5", "3"), ("7", "1"), ("23", "4")] {
            model.check(machine, &["-b", batch, "-t", threads]);
        }
    }
}

#[test]
fn every_cache_format_has_the_same_bits_everywhere() {
    let formats = [
        ("f32", "f32"),
        ("f16", "f16"),
        ("q8_0", "q8_0"),
        ("q8_0", "f16"),
        ("f32", "q8_0"),
    ];
    let bytes = mixed_model::gguf(2);
    let mut all: Vec<Vec<u8>> = Vec::new();
    for (key, value) in formats {
        let name = format!("cache-{key}-{value}");
        let model = Measure::of_bytes(&name, &bytes, &["-n", "3", "-ctk", key, "-ctv", value]);
        model.check(Machine::Host, &["-t", "1"]);
        model.check(Machine::Host, &["-t", "3"]);
        model.check(Machine::Host, &["-b", "1", "-t", "2"]);
        model.check(Machine::Host, &["-b", "5", "-t", "3"]);
        model.check(Machine::Arm64("cortex-a53"), &["-t", "2"]);
        model.check(Machine::Arm64("cortex-a76"), &["-t", "3", "-b", "7"]);
        assert!(
            !all.contains(&model.logits),
            "{name}: the flags do something"
        );
        all.push(model.logits);
    }
}
