//! `cargo xtask yardstick`: our kernels beside Arm's KleidiAI, on a 64-bit Arm machine.
//!
//! Elsewhere it builds the program for such a machine and names it; `--quick`, which checks and
//! times nothing, runs under emulation there.

use std::env;
use std::env::consts::ARCH;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::flags::Flags;
use crate::{apt, command, setup, workspace};

const USAGE: &str = "\
usage: cargo xtask yardstick [--kleidiai PATH] [--quick] [--csv FILE] [--seconds N]
                             [--cpus N[,N...]] [--only PATTERN] [--working-set-mib N]
PATH is a checkout of github.com/ARM-software/kleidiai; default: RUSHLIGHT_KLEIDIAI, or our half
alone. The other flags are those of tools/yardstick.";

const TARGET: &str = "aarch64-unknown-linux-musl";
/// Names the checkout to the build script.
const VARIABLE: &str = "RUSHLIGHT_KLEIDIAI";
/// A core with SDOT, to be emulated.
const EMULATED: &str = "cortex-a76";

struct Options<'a> {
    kleidiai: Option<&'a str>,
    quick: bool,
    rest: Vec<&'a str>,
}

/// Builds the yardstick, and runs it where that makes sense.
pub fn run(arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let program = build(options.kleidiai)?;
    let mut yardstick = match (ARCH, options.quick) {
        ("aarch64", _) => Command::new(&program),
        (_, true) => {
            let mut qemu = Command::new("qemu-aarch64-static");
            qemu.args(["-cpu", EMULATED]).arg(&program);
            qemu
        }
        _ => {
            eprintln!(
                "yardstick: this machine is {ARCH}. Copy the program to one with a 64-bit Arm \
                 CPU that has SDOT and run it there; `--quick` checks it here, under emulation."
            );
            println!("{}", program.display());
            return Ok(());
        }
    };
    command::run(yardstick.args(options.rest))
}

/// The path of the program, with KleidiAI in it if there is a checkout.
fn build(kleidiai: Option<&str>) -> Result<PathBuf> {
    let checkout = kleidiai.map(OsString::from).or(env::var_os(VARIABLE));
    let mut cargo = command::cargo(&["build", "--release", "--package", "yardstick"]);
    cargo.args(["--target", TARGET]);
    match checkout.filter(|checkout| !checkout.is_empty()) {
        Some(checkout) => {
            // Cargo runs at the workspace's root: the path has to hold there, too.
            let checkout = fs::canonicalize(&checkout)
                .with_context(|| format!("no checkout at {}", checkout.display()))?;
            compiler()?;
            cargo.env(VARIABLE, checkout);
        }
        None => {
            eprintln!("yardstick: no --kleidiai and no {VARIABLE}: our half alone");
            cargo.env_remove(VARIABLE);
        }
    }
    setup::target(TARGET)?;
    command::run_quietly(&mut cargo)?;
    Ok(workspace::target().join(TARGET).join("release/yardstick"))
}

/// Has apt bring a C compiler if there is none; which one is taken is for the build script to say.
fn compiler() -> Result<()> {
    let native = ["cc"].into_iter().filter(|_| ARCH == "aarch64");
    let any = [
        "aarch64-linux-gnu-gcc",
        "aarch64-linux-musl-gcc",
        "clang",
        "zig",
    ];
    let by_hand = env::var_os(format!("CC_{}", TARGET.replace('-', "_"))).is_some();
    if by_hand || native.chain(any).any(command::exists) {
        return Ok(());
    }
    // The headers of the C library are a recommendation only, which `install` does not follow.
    let packages = match ARCH {
        "aarch64" => ["gcc", "libc6-dev"],
        _ => ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
    };
    for package in packages {
        apt::install(package, "building KleidiAI's kernels")?;
    }
    Ok(())
}

fn parse<'a>(arguments: &'a [&'a str]) -> Result<Options<'a>> {
    let mut options = Options {
        kleidiai: None,
        quick: false,
        rest: Vec::new(),
    };
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--kleidiai" => options.kleidiai = Some(flags.value()?),
            "--quick" => {
                options.quick = true;
                options.rest.push(flag);
            }
            "--csv" | "--seconds" | "--cpus" | "--only" | "--working-set-mib" => {
                options.rest.extend([flag, flags.value()?]);
            }
            _ => return flags.unknown(),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn checkout_stays_here_and_the_rest_is_passed_on() {
        let options = parse(&["--kleidiai", "k", "--cpus", "4,5", "--quick"]).unwrap();
        assert_eq!(options.kleidiai, Some("k"));
        assert!(options.quick);
        assert_eq!(options.rest, ["--cpus", "4,5", "--quick"]);
        assert!(parse(&["--kleidiai"]).is_err());
        assert!(parse(&["--slow"]).is_err());
    }
}
