//! How fast a cold model is loaded, beside a plain read of the same file.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::command;
use crate::log::figure;

/// How often each is measured; they take turns.
const RUNS: usize = 7;
/// The share of a plain read's speed that loading must reach.
pub const SHARE: f64 = 0.7;

/// Medians, in MB/s.
pub struct Speeds {
    /// Of reading the file from front to back.
    pub read: f64,
    /// Of reading and packing it.
    pub load: f64,
}

impl Speeds {
    /// Loading, as a share of reading.
    pub fn share(&self) -> f64 {
        self.load / self.read
    }
}

/// Measures both, with nothing of the file in the page cache.
pub fn measure(ours: &Path, model: &Path) -> Result<Speeds> {
    let (mut reads, mut loads) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        drop_cache(model)?;
        reads.push(read(model)?);
        drop_cache(model)?;
        let mut run = Command::new(ours);
        run.arg("-m").arg(model);
        run.args(["--raw", "-p", "x", "-n", "1", "--log-format", "json"]);
        let log = command::read_log(&mut run)?;
        let speed = figure(&String::from_utf8_lossy(&log), "mb_s");
        loads.push(speed.context("the log tells no speed of loading")?);
    }
    Ok(Speeds {
        read: median(reads),
        load: median(loads),
    })
}

/// Has the kernel forget the file.
fn drop_cache(file: &Path) -> Result<()> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", file.display()));
    command::run_quietly(dd.args(["iflag=nocache", "count=0", "status=none"]))
}

/// Reads the file once, a MiB at a time.
fn read(path: &Path) -> Result<f64> {
    let bytes = fs::metadata(path)?.len();
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 1 << 20]);
    let began = Instant::now();
    while file.read(&mut buffer)? > 0 {}
    Ok(bytes as f64 / 1e6 / began.elapsed().as_secs_f64())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
    }
}
