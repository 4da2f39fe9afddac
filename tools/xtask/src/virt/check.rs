//! What must hold of the board: its text is the host's byte for byte, memory stays where it was
//! planned, and what does not fit is refused.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::disk::Disk;
use super::session::{Step, Talk};
use super::{Settings, boot, named_or_file};
use crate::{board, build, command, model};

/// What the board is asked, and what it may take for the answer.
struct Case {
    model: &'static str,
    disk: Disk,
    prompts: &'static [&'static str],
    flags: &'static str,
    /// Bound of the peak resident memory.
    peak_kb_max: Option<u64>,
}

/// Short, for emulation takes a good part of a second a token.
const PROMPTS: &[&str] = &["The capital of France is", "1, 2, 3,"];
/// The same for both machines.
const FLAGS: &str = "--raw -n 8";
/// The context that the board is meant for.
const FLAGS_LARGE: &str = "--raw -n 8 -c 2048 --ignore-eos";
/// Memory that TinyLlama does not fit into, and the kernel does.
const SMALL: &str = "mem=700M";
/// A word of the kernel's command line that means nothing.
const MISTAKE: &str = "rushlight.modle=/dev/nvme0n1";

const QUICK: [Case; 4] = [
    Case {
        model: model::DEFAULT,
        disk: Disk::Gguf,
        prompts: PROMPTS,
        flags: FLAGS,
        peak_kb_max: None,
    },
    Case {
        model: model::DEFAULT,
        disk: Disk::Ext4,
        prompts: &["1, 2, 3,"],
        flags: FLAGS,
        peak_kb_max: None,
    },
    Case {
        model: model::SYNTHETIC,
        disk: Disk::Gguf,
        prompts: &["Hi"],
        flags: FLAGS_LARGE,
        peak_kb_max: Some(800_000),
    },
    Case {
        model: model::SYNTHETIC,
        disk: Disk::Packed,
        prompts: &["Hi"],
        flags: FLAGS_LARGE,
        peak_kb_max: None, // pages of the image count, as long as nobody else wants the memory
    },
];

const CODING: &[&str] = &["Write a Python function that adds two numbers."];

const LONG: [Case; 2] = [
    Case {
        model: model::CODER,
        disk: Disk::Gguf,
        prompts: CODING,
        flags: "-c 2048 -n 64",
        peak_kb_max: Some(1_250_000),
    },
    Case {
        model: model::CODER,
        disk: Disk::Packed,
        prompts: CODING,
        flags: "-c 2048 -n 8",
        peak_kb_max: None,
    },
];

/// Checks all that takes minutes, in the order of the time that it takes.
pub fn quick() -> Result<()> {
    mistake()?;
    wait()?;
    refusal()?;
    noise()?;
    QUICK.iter().try_for_each(same_as_host)
}

/// Checks a real model that fills most of the memory.
pub fn long() -> Result<()> {
    LONG.iter().try_for_each(same_as_host)
}

/// A board with too little memory says so, as a command line does, instead of dying.
fn refusal() -> Result<()> {
    let virt = timed(&Settings {
        model: model::SYNTHETIC,
        arguments: FLAGS_LARGE,
        append: SMALL,
        steps: vec![Step::ask("Hi")],
        ..Settings::default()
    })?;
    let code = virt.code;
    ensure!(code == 6, "code {code} with {SMALL}, 6 expected");
    said(&virt, "does not fit: ")?;
    said(&virt, " MiB budget (available)")?;
    said(&virt, " saves ")
}

/// A mistake in the kernel's command line is told.
fn mistake() -> Result<()> {
    let virt = timed(&Settings {
        append: MISTAKE,
        ..Settings::default()
    })?;
    ensure!(virt.code == 2, "code {} for a mistake", virt.code);
    said(&virt, "rushlight.modle means nothing here")?;
    said(&virt, "reboot: Power down")
}

/// After an error, somebody who sits at the console has the system end as he likes.
fn wait() -> Result<()> {
    let append = format!("{MISTAKE} rushlight.onerror=wait");
    let virt = timed(&Settings {
        append: &append,
        steps: vec![Step::raw(b"whatever\rreboot")],
        ..Settings::default()
    })?;
    ensure!(virt.code == 2, "code {} for a mistake", virt.code);
    said(&virt, "reboot: Restarting system")
}

/// Neither bytes that mean nothing nor a BREAK ends anything but the line or the answer that they
/// fall into.
fn noise() -> Result<()> {
    // More than a line may have, with all bytes but those that end or clear one.
    let bytes = (0..20_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8);
    let noise: Vec<u8> = bytes.filter(|byte| !b"\r\n\x03".contains(byte)).collect();
    let [prompt, ..] = PROMPTS else {
        unreachable!()
    };
    let virt = timed(&Settings {
        arguments: FLAGS,
        steps: vec![
            Step::raw(&noise),
            Step::ask_and_break("Once upon a time", 1000),
            Step::ask(prompt),
        ],
        ..Settings::default()
    })?;
    ensure!(virt.code == 0, "code {} after noise", virt.code);
    ensure!(
        virt.refused == [2],
        "{:?} refused after noise",
        virt.refused
    );
    let finishes = ["cancel", "length"];
    ensure!(virt.finishes == finishes, "answers: {:?}", virt.finishes);
    let host = of_host(model::DEFAULT, prompt, FLAGS)?;
    let text = String::from_utf8_lossy(&virt.text);
    ensure!(
        virt.text.ends_with(&host),
        "after noise the board says {text:?}"
    );
    Ok(())
}

/// Runs a case on both machines, and compares the texts byte for byte.
fn same_as_host(case: &Case) -> Result<()> {
    let mut host = Vec::new();
    for prompt in case.prompts {
        host.extend(of_host(case.model, prompt, case.flags)?);
    }
    let virt = timed(&Settings {
        model: case.model,
        disk: case.disk,
        steps: case.prompts.iter().copied().map(Step::ask).collect(),
        arguments: case.flags,
        ..Settings::default()
    })?;
    ensure!(virt.code == 0, "code {} on the board", virt.code);
    ensure!(
        host == virt.text,
        "the host's text is {:?}, the board's {:?}",
        String::from_utf8_lossy(&host),
        String::from_utf8_lossy(&virt.text)
    );
    if let Some(most) = case.peak_kb_max {
        let peak_kb = field(&virt.logs, "peak_rss_kb")?;
        ensure!(peak_kb <= most, "peak of {peak_kb} kB, {most} allowed");
    }
    Ok(())
}

/// What this machine answers, with a line end after it.
fn of_host(model: &str, prompt: &str, flags: &str) -> Result<Vec<u8>> {
    let program = build::board(&board::named(board::HOST)?)?;
    let mut run = Command::new(&program);
    run.arg("-m")
        .arg(named_or_file(model)?)
        .args(flags.split(' '));
    run.args(["-q", "-p", prompt]).stdin(Stdio::null());
    let mut text = command::read(&mut run)?;
    text.push(b'\n');
    Ok(text)
}

fn timed(settings: &Settings<'_>) -> Result<Talk> {
    let began = Instant::now();
    let talk = boot(settings)?;
    let Settings { model, disk, .. } = settings;
    let seconds = began.elapsed().as_secs();
    eprintln!("virt: {model}, {disk:?}: {seconds} s");
    Ok(talk)
}

fn said(virt: &Talk, words: &str) -> Result<()> {
    ensure!(virt.logs.contains(words), "no `{words}` in the logs");
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
