//! What takes bytes from strangers, each as a function of any bytes, which must come back in
//! bounded time and never panic: for the fuzzers of `tests/fuzz`, and for `tests/mutations.rs`, which
//! is the same without one.

mod cache;
mod model;
mod text;

pub use model::{seal, use_header};

/// A reader of bytes.
pub struct Target {
    /// The fuzzer's name.
    pub name: &'static str,
    /// Reads any bytes.
    pub run: fn(&[u8]),
    /// Bytes that it takes, to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub static TARGETS: [Target; 8] = [
    Target {
        name: "gguf",
        run: model::gguf,
        seeds: model::ggufs,
    },
    Target {
        name: "image",
        run: model::image,
        seeds: model::images,
    },
    Target {
        name: "shape",
        run: model::shape,
        seeds: model::shapes,
    },
    Target {
        name: "cache",
        run: cache::read,
        seeds: cache::prompt_caches,
    },
    Target {
        name: "encode",
        run: text::encode,
        seeds: text::to_encode,
    },
    Target {
        name: "decode",
        run: text::decode,
        seeds: text::to_decode,
    },
    Target {
        name: "template",
        run: text::template,
        seeds: text::templates,
    },
    Target {
        name: "console",
        run: text::console,
        seeds: text::lines,
    },
];

/// Runs the target of that name.
///
/// # Panics
/// There is none, or it has found something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of that name").run)(bytes);
}
