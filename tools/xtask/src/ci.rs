//! `cargo xtask ci`: the tests, then what a newcomer tries first.

use anyhow::{Context, Result, ensure};

use crate::{demo, test};

/// Runs the tests and the demo, whose answer must be text.
pub fn run() -> Result<()> {
    test::run()?;
    let text = demo::text()?;
    let text = String::from_utf8(text).context("the demo's answer is not UTF-8")?;
    ensure!(!text.trim().is_empty(), "the demo's answer is empty");
    println!("{text}");
    eprintln!("ci: the demo answered with {} bytes of text", text.len());
    Ok(())
}
