//! What must hold of the board: its text is the host's byte for byte, memory stays where it was
//! planned, and what does not fit is refused.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::disk::Disk;
use super::session::Talk;
use super::{Settings, boot, named_or_file};
use crate::{board, build, command, model};

/// Short, for emulation takes a second and more a token.
const PROMPTS: [&str; 2] = ["The capital of France is", "1, 2, 3,"];
const PROMPT_LARGE: [&str; 1] = ["Hi"];
/// The same for both machines.
const FLAGS: &str = "--raw -n 8";
/// The context that the board is meant for.
const FLAGS_LARGE: &str = "--raw -n 8 -c 2048 --ignore-eos";
/// Peak resident memory of TinyLlama in Q4_K_M, streamed: 0.80 GB.
const PEAK_KB_MAX: u64 = 800_000;
/// Memory that TinyLlama does not fit into, and the kernel does.
const SMALL: &str = "mem=700M";

/// Checks all of it, in the order of the time that it takes.
pub fn check() -> Result<()> {
    mistake()?;
    refusal()?;
    for (model, disk, prompts, flags) in [
        (model::DEFAULT, Disk::Gguf, &PROMPTS[..], FLAGS),
        (model::DEFAULT, Disk::Ext4, &PROMPTS[..1], FLAGS),
        (model::SYNTHETIC, Disk::Gguf, &PROMPT_LARGE[..], FLAGS_LARGE),
        (
            model::SYNTHETIC,
            Disk::Packed,
            &PROMPT_LARGE[..],
            FLAGS_LARGE,
        ),
    ] {
        let (host, virt) = both(model, disk, prompts, flags)?;
        ensure_same(&host, &virt)?;
        if (model, disk) == (model::SYNTHETIC, Disk::Gguf) {
            let peak_kb = field(&virt.logs, "peak_rss_kb")?;
            ensure!(
                peak_kb <= PEAK_KB_MAX,
                "peak of {peak_kb} kB, {PEAK_KB_MAX} allowed"
            );
        }
    }
    Ok(())
}

/// A board with too little memory says so, as a command line does, instead of dying.
fn refusal() -> Result<()> {
    let virt = timed(&Settings {
        model: model::SYNTHETIC,
        arguments: FLAGS_LARGE,
        append: SMALL,
        prompts: vec!["Hi"],
        ..Settings::default()
    })?;
    ensure!(
        virt.code == 6,
        "code {} with {SMALL}, 6 expected",
        virt.code
    );
    for words in ["does not fit: ", " MiB budget (available)", " saves "] {
        ensure!(virt.logs.contains(words), "no `{words}` with {SMALL}");
    }
    Ok(())
}

/// A word of the kernel's command line that means nothing is told.
fn mistake() -> Result<()> {
    let virt = timed(&Settings {
        append: "rushlight.modle=/dev/nvme0n1",
        ..Settings::default()
    })?;
    let words = "rushlight.modle means nothing here";
    ensure!(virt.code == 2, "code {} for a mistake", virt.code);
    ensure!(virt.logs.contains(words), "no `{words}`");
    Ok(())
}

/// The text of the host, and the run of the board.
fn both(model: &str, disk: Disk, prompts: &[&str], flags: &str) -> Result<(Vec<u8>, Talk)> {
    let program = build::board(&board::named(board::HOST)?)?;
    let path = named_or_file(model)?;
    let mut host = Vec::new();
    for prompt in prompts {
        let mut run = Command::new(&program);
        run.arg("-m").arg(&path).args(flags.split(' '));
        run.args(["-q", "-p", prompt]).stdin(Stdio::null());
        host.extend(command::read(&mut run)?);
        host.push(b'\n');
    }
    let virt = timed(&Settings {
        model,
        disk,
        prompts: prompts.to_vec(),
        arguments: flags,
        ..Settings::default()
    })?;
    Ok((host, virt))
}

fn timed(settings: &Settings<'_>) -> Result<Talk> {
    let began = Instant::now();
    let talk = boot(settings)?;
    let Settings { model, disk, .. } = settings;
    let seconds = began.elapsed().as_secs();
    eprintln!("virt: {model}, {disk:?}: {seconds} s");
    Ok(talk)
}

fn ensure_same(host: &[u8], virt: &Talk) -> Result<()> {
    ensure!(virt.code == 0, "code {} on the board", virt.code);
    ensure!(
        host == virt.text,
        "the host's text is {:?}, the board's {:?}",
        String::from_utf8_lossy(host),
        String::from_utf8_lossy(&virt.text)
    );
    Ok(())
}

/// The number called `name` in the last line of the logs that has it.
fn field(logs: &str, name: &str) -> Result<u64> {
    let key = format!(" {name}=");
    let value = logs.rsplit_once(&key).map(|(_, rest)| rest);
    let digits = value.and_then(|value| value.split([' ', '\n']).next());
    digits
        .with_context(|| format!("no {name} in the logs"))?
        .parse()
        .with_context(|| format!("{name} is no number"))
}
