//! What the tests share: where binaries, models and vocabularies are, and how a binary is run.
//!
//! Nothing here builds or fetches: `cargo xtask test` does that first. Whatever is missing is a
//! panic that names the command which brings it.

pub mod gguf_writer;
pub mod memory;
pub mod mixed_model;
pub mod mutations;
pub mod random_text;
pub mod seeded_model;
pub mod targets;
pub mod vocabulary;
pub mod watched;

use kernels_asm::features::Features;
use std::env::{self, consts::ARCH};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;

/// The board of the machine that the tests run on.
pub const HOST: Board = Board {
    name: "host",
    arch: ARCH,
};
/// The board of any 64-bit Arm machine; here it runs under emulation.
pub const ARM64: Board = Board {
    name: "generic-arm64",
    arch: "aarch64",
};

/// A board whose binary is tested.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    name: &'static str,
    arch: &'static str,
}

impl Board {
    /// The release program as linked, symbols included. Its code is what ships.
    pub fn linked(self) -> PathBuf {
        let folder = format!("{}-unknown-linux-musl/release", self.arch);
        self.built(&target().join(folder))
    }

    /// The program as shipped, without symbols.
    pub fn shipped(self) -> PathBuf {
        self.built(&target().join("ship"))
    }

    /// Bytes that the shipped program may have, by the board's manifest.
    pub fn image_bytes_max(self) -> usize {
        let manifest = workspace().join(format!("boards/{}/Cargo.toml", self.name));
        let text = std::fs::read_to_string(manifest).expect("a board has a manifest");
        let limit = text
            .lines()
            .find_map(|line| line.strip_prefix("image_bytes_max = "));
        let limit = limit.and_then(|number| number.parse().ok());
        limit.expect("a board's manifest has image_bytes_max")
    }

    fn built(self, folder: &Path) -> PathBuf {
        let path = folder.join(format!("rushlight-{}", self.name));
        present(path, &format!("cargo xtask build {}", self.name))
    }
}

/// What a run left behind.
#[derive(Debug)]
pub struct Output {
    /// Bytes on stdout: generated text and nothing else.
    pub stdout: Vec<u8>,
    /// Logs; they are text whatever the prompt was.
    pub stderr: String,
    /// Exit code; 128 + N where signal N ended the program, as a shell has it.
    pub code: i32,
}

/// Runs the host's binary with `stdin` as its input.
pub fn run_host(arguments: &[&str], stdin: &[u8]) -> Output {
    run(Command::new(HOST.linked()).args(arguments), stdin)
}

/// The Arm cores that are emulated: without SDOT in order, with it in order and out of order, and
/// with SMMLA. An older QEMU lacks the second and the last.
pub const CORES: [&str; 4] = ["cortex-a53", "cortex-a55", "cortex-a76", "neoverse-n2"];

/// The host's program as a terminal starts it: SIGHUP is not ignored, even if the tests' own is.
pub fn host_that_hears_hangups() -> Command {
    let mut program = Command::new("env");
    program.arg("--default-signal=HUP").arg(HOST.linked());
    program
}

/// Whether a QEMU here can be this `cpu`.
pub fn emulates(cpu: &str) -> bool {
    emulator(cpu).is_some()
}

/// The machine's own QEMU if it knows `cpu`, else the newer one that `cargo xtask setup` fetches.
fn emulator(cpu: &str) -> Option<&'static Path> {
    static EMULATORS: OnceLock<Vec<(PathBuf, String)>> = OnceLock::new();
    let emulators = EMULATORS.get_or_init(|| {
        let programs = [
            "qemu-aarch64-static".into(),
            cache().join("qemu/qemu-aarch64"),
        ];
        let with_cores = |program: PathBuf| {
            let list = Command::new(&program)
                .args(["-cpu", "help"])
                .output()
                .ok()?;
            Some((program, String::from_utf8_lossy(&list.stdout).into_owned()))
        };
        programs.into_iter().filter_map(with_cores).collect()
    });
    let knows = |cores: &str| cores.split_whitespace().any(|core| core == cpu);
    let (program, _) = emulators.iter().find(|(_, cores)| knows(cores))?;
    Some(program)
}

/// Runs the 64-bit Arm binary on an emulated `cpu`, such as `cortex-a53`.
pub fn run_arm64(cpu: &str, arguments: &[&str], stdin: &[u8]) -> Output {
    let qemu = emulator(cpu);
    let qemu = qemu.unwrap_or_else(|| panic!("no QEMU here has {cpu}: run `cargo xtask setup`"));
    let mut qemu = Command::new(qemu);
    run(
        qemu.args(["-cpu", cpu]).arg(ARM64.linked()).args(arguments),
        stdin,
    )
}

/// The model that `cargo xtask model NAME` fetches.
pub fn model(name: &str) -> PathBuf {
    let path = cache().join("models").join(format!("{name}.gguf"));
    present(path, &format!("cargo xtask model {name}"))
}

/// A reference vocabulary such as `llama-spm`: a GGUF file without tensors. Beside it, with `.inp`
/// and `.out` appended to its name, are texts and their token ids.
pub fn vocab(name: &str) -> PathBuf {
    let path = cache()
        .join("vocab")
        .join(format!("ggml-vocab-{name}.gguf"));
    present(path, "cargo xtask setup")
}

/// The folder of the workspace's `Cargo.toml`.
pub fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("tests lies below the root")
        .to_path_buf()
}

fn cache() -> PathBuf {
    workspace().join(env::var_os("RUSHLIGHT_CACHE").unwrap_or(".cache".into()))
}

fn target() -> PathBuf {
    workspace().join(env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()))
}

fn present(path: PathBuf, remedy: &str) -> PathBuf {
    assert!(
        path.exists(),
        "{} is missing: run `{remedy}`",
        path.display()
    );
    path
}

fn run(command: &mut Command, stdin: &[u8]) -> Output {
    use std::os::unix::process::ExitStatusExt;

    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| {
        panic!(
            "cannot run {:?}: {error}; run `cargo xtask setup`",
            command.get_program()
        )
    });
    let mut input = child.stdin.take().expect("stdin is piped");
    // Fed from a thread of its own, so that a program that writes before it has read everything
    // cannot block the test. One that ends early breaks the pipe, which is no failure by itself.
    let output = thread::scope(|scope| {
        scope.spawn(move || input.write_all(stdin));
        child
            .wait_with_output()
            .expect("a started program can be waited for")
    });
    let status = output.status;
    Output {
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("logs are UTF-8"),
        code: status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal))
            .unwrap_or(-1),
    }
}

/// The features of this CPU, as the standard library detects them.
pub fn detected_features() -> Features {
    let mut have = Features::NONE;
    let mut note = |detected: bool, feature: Features| {
        if detected {
            have = have.with(feature);
        }
    };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as detected;
        note(true, Features::SSE2);
        let avx2 = detected!("avx2") && detected!("fma") && detected!("f16c");
        note(avx2, Features::AVX2);
        note(detected!("avxvnni"), Features::AVX_VNNI);
        let avx512 = detected!("avx512f") && detected!("avx512bw") && detected!("avx512vl");
        note(avx512 && detected!("avx512vnni"), Features::AVX512_VNNI);
    }
    #[cfg(target_arch = "aarch64")]
    {
        use std::arch::is_aarch64_feature_detected as detected;
        note(true, Features::NEON);
        note(detected!("dotprod"), Features::DOTPROD);
        note(detected!("i8mm"), Features::I8MM);
    }
    have
}
