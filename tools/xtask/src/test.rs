//! `cargo xtask test`: everything that must hold before a change goes in.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::Result;

use crate::emulator::Emulator;
use crate::{archive, board, build, command, counts, cycles, deploy, miri, setup, virt, workspace};

/// Sets up, builds, lints and tests; stops at the first failure.
pub fn run() -> Result<()> {
    let start = Instant::now();
    step("set-up", setup::run)?;

    let boards = board::all()?;
    for board in boards.iter().filter(|board| LINKED.contains(&&*board.name)) {
        step(&format!("build of board {}", board.name), || {
            build::board(board).map(drop)
        })?;
    }

    step("cycles of the 64-bit Arm kernels", cycles::run)?;
    step("instructions of a token", counts::quick)?;

    // Boards are programs for their own target, where they have lints but no test harness.
    let packages: Vec<String> = boards.iter().map(board::Board::package).collect();
    let mut host = vec!["--workspace"];
    host.extend(packages.iter().flat_map(|package| ["--exclude", package]));

    step("formatting", || cargo(&["fmt", "--all", "--check"]))?;
    step("lints", || {
        cargo(&[&["clippy"], &host[..], &["--all-targets"], LINTS].concat())
    })?;
    for target in targets(&boards) {
        let of_target = |board: &&board::Board| board.target == target;
        let packages = boards.iter().filter(of_target).map(board::Board::package);
        let packages: Vec<String> = packages
            .flat_map(|name| ["--package".into(), name])
            .collect();
        let mut clippy = vec!["clippy", "--target", target];
        clippy.extend(packages.iter().map(String::as_str));
        step(&format!("lints of the boards for {target}"), || {
            cargo(&[&clippy[..], LINTS].concat())
        })?;
    }
    // The development profile: optimised, and with overflow checks and debug assertions.
    step("tests", || cargo(&[&["test"], &host[..]].concat()))?;
    step(
        "readers of strangers' bytes under AddressSanitizer",
        sanitized,
    )?;
    step("unit tests under Miri", miri::run)?;
    let emulator = Emulator::best();
    for cpu in &emulator.cores {
        step(&format!("kernels on an emulated {cpu}"), || {
            kernels(&emulator, cpu)
        })?;
    }
    let missing = emulator.missing();
    if !missing.is_empty() {
        eprintln!(
            "test: kernels NOT CHECKED on {}: no QEMU here has it",
            missing.join(", ")
        );
    }
    if archive::is_there() {
        step("deployment through ssh", deploy::check)?;
        step("the emulated board", virt::check)?;
    } else {
        eprintln!("test: the emulated board NOT CHECKED: its kernel comes from Debian's packages");
        eprintln!("test: deployment NOT CHECKED: its ssh server comes from Debian's packages");
    }
    // With the half that is compiled from a checkout of KleidiAI, if there is one.
    step("yardstick on an emulated cortex-a76", || {
        emulator.cargo(
            "cortex-a76",
            "test --quiet --package yardstick --test quick",
            "-- --nocapture",
        )
    })?;

    eprintln!(
        "test: everything passed in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// The boards whose programs the tests run. The others are the same program with other data, which
/// the compiler checks in seconds; to optimise each takes a minute.
const LINKED: [&str; 3] = [board::HOST, "generic-arm64", "virt"];

/// The targets of boards, each once.
fn targets(boards: &[board::Board]) -> BTreeSet<&str> {
    boards.iter().map(|board| board.target.as_str()).collect()
}

const LINTS: &[&str] = &["--", "-D", "warnings"];

/// Kernels once more on an Arm core. The float operations have one tier there, which two cores are
/// enough for: kernelcheck has them on the others.
fn kernels(emulator: &Emulator, cpu: &str) -> Result<()> {
    let kernelcheck = "run --quiet --package tests --bin kernelcheck";
    emulator.cargo(cpu, kernelcheck, "-- --short")?;
    if ["cortex-a53", "cortex-a76"].contains(&cpu) {
        let tests = "test --quiet --package tests --test vector --test rope --test cache";
        emulator.cargo(cpu, tests, "")?;
    }
    Ok(())
}

/// Some of the changed inputs of `tests/mutations.rs` once more, with every access to memory checked,
/// and with the overflow checks and debug assertions of the development profile. The sanitizer's library
/// comes with rustc, which takes the flag only if it is told to act as nightly.
fn sanitized() -> Result<()> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = command::cargo(&["run", "--quiet", "--package", "tests"]);
    cargo
        .args(["--bin", "mutations", "--target", &target])
        .arg("--target-dir") // and no variable: the programs that are run are where they are
        .arg(workspace::target().join("sanitized"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address");
    command::run(&mut cargo)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    command::run(&mut command::cargo(arguments))
}

/// Runs one step, saying which it is and how long it took.
fn step(name: &str, action: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("test: {name} ...");
    let start = Instant::now();
    action().inspect_err(|_| eprintln!("test: {name} FAILED"))?;
    eprintln!("test: {name} ok, {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
