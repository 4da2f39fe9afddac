//! Writes the seeded models into a folder, for `golden/make_architectures.py`.

use std::{env, fs, path::PathBuf};
use tests::seeded_model::{MODELS, Weights};

fn main() {
    let folder = PathBuf::from(env::args().nth(1).expect("a folder"));
    for (model, weights) in MODELS.iter().flat_map(|m| Weights::ALL.map(|w| (m, w))) {
        let name = format!("{}-{}.gguf", model.name, weights.name());
        fs::write(folder.join(name), model.gguf(weights)).expect("a file");
    }
}
