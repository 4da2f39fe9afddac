//! Compiles the files of KleidiAI that the yardstick calls, from the checkout that
//! `RUSHLIGHT_KLEIDIAI` names. Without it, and for other targets, the program has our half only.
//!
//! No file of KleidiAI lies in this repository, and none is changed on the way.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a checkout of KleidiAI.
const VARIABLE: &str = "RUSHLIGHT_KLEIDIAI";
/// The release that the calls were written for.
const KNOWN: &str = "v1.30.0";

/// Folders of the kernels, and what the names of their files have in common behind the prefix.
/// Each is a `.c` with the arguments and a `.S` with the loop.
const KERNELS: [(&str, &str); 4] = [
    (
        "matmul_clamp_f32_qsi8d32p_qsi4c32p",
        "matmul_clamp_f32_qsi8d32p1x4_qsi4c32p4x4_1x4_neon_dotprod",
    ),
    (
        "matmul_clamp_f32_qsi8d32p_qsi4c32p",
        "matmul_clamp_f32_qsi8d32p1x8_qsi4c32p4x8_1x4x32_neon_dotprod",
    ),
    (
        "matmul_clamp_f32_qai8dxp_qsi4c32p",
        "matmul_clamp_f32_qai8dxp1x4_qsi4c32p8x4_1x8_neon_dotprod",
    ),
    (
        "matmul_clamp_f32_qai8dxp_qsi4c32p",
        "matmul_clamp_f32_qai8dxp1x8_qsi4c32p8x8_1x8x32_neon_dotprod",
    ),
];
/// What packs weights and quantises vectors for them.
const PACKERS: [&str; 4] = [
    "lhs_quant_pack_qsi8d32p_f32",
    "lhs_quant_pack_qai8dxp_f32",
    "rhs_pack_nxk_qsi4c32pscalef16_qsu4c32s16s0",
    "rhs_pack_nxk_qsi4c32p_qsu4c32s1s0",
];
/// As KleidiAI's own CMakeLists.txt has them for a release build.
const FLAGS: [&str; 4] = ["-O3", "-DNDEBUG", "-std=c99", "-Wno-pragmas"];
/// The same for its kernels, which need SDOT, and for its packers, which do not.
const KERNEL_ARCH: &str = "-march=armv8.2-a+dotprod";
const PACKER_ARCH: &str = "-march=armv8-a";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(kleidiai)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-env-changed={}", compiler_variable());
    let checkout = env::var_os(VARIABLE).filter(|path| !path.is_empty());
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    let can = target("ARCH") == "aarch64" && target("OS") == "linux";
    if let (Some(checkout), true) = (checkout, can)
        && let Err(message) = build(Path::new(&checkout))
    {
        println!("cargo::error={}", message.replace('\n', " "));
    }
}

fn build(checkout: &Path) -> Result<(), String> {
    let version = version(checkout)?;
    let output = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let compiler = compiler(&output)?;
    for (source, arch) in sources() {
        let path = checkout.join(&source);
        println!("cargo::rerun-if-changed={}", path.display());
        if !path.is_file() {
            return Err(format!(
                "{} is missing; {KNOWN} of KleidiAI has it, {VARIABLE} names version {version}",
                path.display()
            ));
        }
        let name = path.file_name().ok_or("a file has a name")?;
        let object = output.join(format!("{}.o", name.display()));
        let mut command = compiler.command();
        command.args(FLAGS).arg(arch).arg("-I").arg(checkout);
        command.arg("-c").arg(&path).arg("-o").arg(&object);
        run(&mut command)?;
        println!("cargo::rustc-link-arg={}", object.display());
    }
    println!("cargo::rustc-cfg=kleidiai");
    println!("cargo::rustc-env=KLEIDIAI_VERSION={version}");
    println!("cargo::rustc-env=KLEIDIAI_COMPILER={}", compiler.version);
    Ok(())
}

/// Every file to compile, below the checkout, and the instructions it may use.
fn sources() -> Vec<(String, &'static str)> {
    let folder = "kai/ukernels/matmul";
    let mut sources = Vec::new();
    for (family, kernel) in KERNELS {
        for end in [".c", "_asm.S"] {
            sources.push((format!("{folder}/{family}/kai_{kernel}{end}"), KERNEL_ARCH));
        }
    }
    for packer in PACKERS {
        sources.push((format!("{folder}/pack/kai_{packer}.c"), PACKER_ARCH));
    }
    sources
}

/// The version that a checkout calls itself.
fn version(checkout: &Path) -> Result<String, String> {
    let header = checkout.join("kai/kai_common.h");
    println!("cargo::rerun-if-changed={}", header.display());
    let text = fs::read_to_string(&header).map_err(|error| {
        format!(
            "{VARIABLE} names no checkout of KleidiAI: {}: {error}",
            header.display()
        )
    })?;
    let version = text.split_once("kai_get_version").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once("return \"")?;
        Some(rest.split_once('"')?.0)
    });
    Ok(version.unwrap_or("unknown").to_owned())
}

/// A C compiler that makes programs for AArch64 Linux.
struct Compiler {
    words: Vec<String>,
    version: String,
}

impl Compiler {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }
}

/// What names a compiler by hand, as the `cc` crate has it.
fn compiler_variable() -> String {
    let target = env::var("TARGET").unwrap_or_default();
    format!("CC_{}", target.replace('-', "_"))
}

/// The first compiler that can do it: the one named by hand or else what is commonly installed.
fn compiler(output: &Path) -> Result<Compiler, String> {
    let by_hand = env::var(compiler_variable()).ok();
    let mut lines = vec![
        "aarch64-linux-gnu-gcc",
        "aarch64-linux-musl-gcc",
        "clang --target=aarch64-linux-gnu",
        "zig cc -target aarch64-linux-musl",
    ];
    if env::var("HOST").is_ok_and(|host| host.starts_with("aarch64")) {
        lines.insert(0, "cc");
    }
    if let Some(line) = &by_hand {
        lines = vec![line];
    }
    for line in &lines {
        let words = line.split_whitespace().map(str::to_owned).collect();
        let version = String::new();
        let mut compiler = Compiler { words, version };
        if let Some(version) = works(&compiler, output) {
            compiler.version = version;
            return Ok(compiler);
        }
    }
    Err(format!(
        "no C compiler for AArch64 Linux with its headers; tried `{}`. Debian: apt-get install \
         gcc-aarch64-linux-gnu libc6-dev-arm64-cross (on AArch64 itself: gcc libc6-dev), or name \
         one in {}",
        lines.join("`, `"),
        compiler_variable()
    ))
}

/// The version of a compiler, if it compiles a file with the headers that KleidiAI includes.
fn works(compiler: &Compiler, output: &Path) -> Option<String> {
    let (probe, object) = (output.join("probe.c"), output.join("probe.o"));
    let text = "#include <arm_neon.h>\n#include <stdio.h>\n#include <stdlib.h>\n";
    fs::write(&probe, text).ok()?;
    let mut command = compiler.command();
    command.args(FLAGS).arg(KERNEL_ARCH);
    run(command.arg("-c").arg(&probe).arg("-o").arg(&object)).ok()?;
    let version = compiler.command().arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&version.stdout);
    Some(version.lines().next().unwrap_or_default().to_owned())
}

/// Runs a compiler; what it says is the error.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output();
    let output = output.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed: {said}"))
}
