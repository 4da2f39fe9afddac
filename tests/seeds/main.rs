//! Writes what the fuzzers begin with: `seeds FOLDER` makes a folder for each target in there.

use std::path::PathBuf;
use std::{env, fs};

use tests::targets::TARGETS;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).expect("usage: seeds FOLDER"));
    for target in &TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}
