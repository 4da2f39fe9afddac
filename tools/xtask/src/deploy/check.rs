//! What must hold of a deployment, against an ssh server on this machine whose shell is BusyBox's.
//!
//! Each case calls this program as a person would, so that what is said is checked too.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::far::quoted;
use super::server::{Server, write_program};
use super::{PROGRAM, board_of};
use crate::{board, build, command, model, workspace};

/// A folder's name with all that a shell might trip over.
const FOLDER: &str = "a \"board's\" $HOME; `x`\\";
/// What stands in the program's place before.
const OLD: &str = "#!/bin/sh\nthe old program\n";
/// In the middle of the program, after what comes before it.
const CUT_AFTER: u64 = 300_000;

/// This very program, even if a build has put another one in its place since it started.
const ITSELF: &str = "/proc/self/exe";

/// Checks all of it.
pub fn check() -> Result<()> {
    let case = Case {
        server: Server::start(&workspace::target().join("deploy-check"))?,
        program: fs::read(build::board(&board_of(ARCH)?)?)?,
    };
    case.program_and_model()?;
    case.replaced_at_once()?;
    case.broken_transfers()?;
    case.changed_transfer()?;
    case.no_room()?;
    case.no_folder()?;
    case.nobody_there()?;
    case.service()
}

/// A deployment that ended.
struct Ended {
    is_ok: bool,
    text: String,
    log: String,
}

struct Case {
    server: Server,
    program: Vec<u8>,
}

impl Case {
    /// Calls `cargo xtask deploy`.
    fn deploy(&self, words: &[&str]) -> Result<Ended> {
        let mut xtask = Command::new(ITSELF);
        xtask.arg("deploy").args(words);
        xtask.env("RUSHLIGHT_DEPLOY", Server::address());
        xtask.env_remove("RUSHLIGHT_SSH");
        xtask.arg("--").args(self.server.flags());
        let Output {
            status,
            stdout,
            stderr,
        } = xtask.stdin(Stdio::null()).output()?;
        Ok(Ended {
            is_ok: status.success(),
            text: String::from_utf8_lossy(&stdout).into_owned(),
            log: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }

    /// The same, which has to go well.
    fn deployed(&self, words: &[&str]) -> Result<Ended> {
        let ended = self.deploy(words)?;
        ensure!(ended.is_ok, "{words:?} failed:\n{}", ended.log);
        Ok(ended)
    }

    /// The same, which has to fail in these words.
    fn refused(&self, words: &[&str], reasons: &[&str]) -> Result<()> {
        let ended = self.deploy(words)?;
        ensure!(!ended.is_ok, "{words:?} did not fail:\n{}", ended.log);
        for reason in reasons {
            ensure!(
                ended.log.contains(reason),
                "no `{reason}` in:\n{}",
                ended.log
            );
        }
        Ok(())
    }

    /// A folder there, new.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.server.home().join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// A folder there with an old program.
    fn folder_with_old(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder(name)?;
        write_program(&folder.join(PROGRAM), OLD)?;
        Ok(folder)
    }

    /// The program is there, and its model, and both do what they do here.
    fn program_and_model(&self) -> Result<()> {
        let words = ["--dir", FOLDER, "--model", model::DEFAULT];
        let ended = self.deployed(&words)?;
        for said in ["rushlight 0.", "gemv_", "weights_q4_1", "fits"] {
            ensure!(ended.text.contains(said), "no `{said}` in:\n{}", ended.text);
        }
        let folder = self.server.home().join(FOLDER);
        ensure!(self.program == fs::read(folder.join(PROGRAM))?);

        let mut here = Command::new(build::board(&board::named(board::HOST)?)?);
        let flags = "-q -n 8 -p Hi";
        here.arg("-m").arg(model::ensure(model::DEFAULT)?);
        let here = command::read(here.args(flags.split(' ')).stdin(Stdio::null()))?;
        let script = format!(
            "cd {} && ./{PROGRAM} -m smollm2.rush {flags}",
            quoted(FOLDER)
        );
        let mut there = Command::new("ssh");
        there.args(self.server.flags()).arg(Server::address());
        let there = command::read(there.arg(script).stdin(Stdio::null()))?;
        ensure!(here == there, "{here:?} here is {there:?} there");

        let log = self.deployed(&words)?.log;
        ensure!(
            log.matches("is there already").count() == 2,
            "sent again:\n{log}"
        );
        let names = names(&folder)?;
        ensure!(names == [PROGRAM, "smollm2.rush"], "left: {names:?}");
        Ok(())
    }

    /// Whoever looks sees the old program or the new one, whole; also without `sha256sum`.
    fn replaced_at_once(&self) -> Result<()> {
        for missing in [&[][..], &["sha256sum", "df", "sync"]] {
            self.server.set_rules(missing, "")?;
            let folder = self.folder_with_old("replaced")?;
            let is_over = AtomicBool::new(false);
            let (ended, others) = thread::scope(|scope| {
                let watcher = scope.spawn(|| self.count_others(&folder, &is_over));
                let ended = self.deployed(&["--dir", "replaced"]);
                is_over.store(true, Ordering::Relaxed);
                (ended, watcher.join().expect("the watcher does not fail"))
            });
            let reads_back = ended?.log.contains("reading it back");
            ensure!(reads_back != missing.is_empty(), "compared otherwise");
            ensure!(others == 0, "{others} times neither the old nor the new");
            ensure!(self.program == fs::read(folder.join(PROGRAM))?);
        }
        self.server.set_rules(&[], "")
    }

    /// How often something else is there than one of the two programs.
    fn count_others(&self, folder: &Path, is_over: &AtomicBool) -> usize {
        let path = folder.join(PROGRAM);
        let mut others = 0;
        while !is_over.load(Ordering::Relaxed) {
            let is_one =
                fs::read(&path).is_ok_and(|bytes| bytes == OLD.as_bytes() || bytes == self.program);
            others += usize::from(!is_one);
            thread::sleep(Duration::from_millis(1)); // a program takes many of these to be written
        }
        others
    }

    /// A connection that breaks, and a disk that is full in the middle, leave the old program.
    fn broken_transfers(&self) -> Result<()> {
        let folder = self.folder_with_old("broken")?;
        let intact = format!("broken/{PROGRAM} is as it was");
        self.server.cut_after(CUT_AFTER);
        self.refused(&["--dir", "broken"], &[&intact, "no connection"])?;
        self.server.cut_after(0);
        self.ensure_old(&folder)?;
        let partial = folder.join(format!("{PROGRAM}.partial"));
        let len = fs::metadata(&partial).map_or(0, |file| file.len());
        ensure!(
            (1..CUT_AFTER).contains(&len),
            "it was not cut in the middle: {len} bytes"
        );

        fs::remove_file(&partial)?;
        std::os::unix::fs::symlink("/dev/full", &partial)?;
        self.refused(&["--dir", "broken"], &[&intact, "No space left"])?;
        self.ensure_old(&folder)?;
        ensure!(names(&folder)? == [PROGRAM], "something is left");
        self.deployed(&["--dir", "broken"]).map(drop)
    }

    /// What arrives otherwise than it was sent gets no name.
    fn changed_transfer(&self) -> Result<()> {
        let folder = self.folder_with_old("changed")?;
        // A `cat` that writes less of stdin than it reads.
        let cat = "cat() { case $# in 0) head -c 1000; busybox cat > /dev/null;; \
            *) busybox cat \"$@\";; esac; }\n";
        for missing in [&[][..], &["sha256sum"]] {
            self.server.set_rules(missing, cat)?;
            let reasons = ["is as it was", "what arrived is not what was sent"];
            self.refused(&["--dir", "changed"], &reasons)?;
            self.ensure_old(&folder)?;
        }
        // A program of another machine does not start.
        self.server
            .set_rules(&[], "chmod() { echo 'no program' > \"$2\"; }\n")?;
        self.refused(&["--dir", "changed"], &["is as it was"])?;
        self.ensure_old(&folder)?;
        self.server.set_rules(&[], "")
    }

    /// What would not fit is not sent.
    fn no_room(&self) -> Result<()> {
        let folder = self.folder_with_old("full")?;
        let df = "df() { echo Filesystem; echo '/dev/root 9000 8900 100 99% /'; }\n";
        self.server.set_rules(&[], df)?;
        let intact = format!("full/{PROGRAM} is as it was");
        self.refused(
            &["--dir", "full"],
            &[&intact, "no room there", "0.1 MB free"],
        )?;
        self.ensure_old(&folder)?;
        ensure!(names(&folder)? == [PROGRAM], "something is left");
        self.server.set_rules(&[], "")
    }

    /// A folder that nobody may make, not even root.
    fn no_folder(&self) -> Result<()> {
        self.refused(&["--dir", "/proc/rushlight"], &["mkdir", "/proc/rushlight"])
    }

    /// ssh's own words are shown.
    fn nobody_there(&self) -> Result<()> {
        let mut xtask = Command::new(ITSELF);
        xtask.args(["deploy", "nobody@127.0.0.1"]);
        xtask.env("RUSHLIGHT_SSH", "-F none -o ConnectTimeout=5 -p 1");
        let output = xtask.stdin(Stdio::null()).output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "nobody is there");
        for reason in ["Connection refused", "no connection to nobody@127.0.0.1"] {
            ensure!(log.contains(reason), "no `{reason}` in:\n{log}");
        }
        Ok(())
    }

    /// Without systemd nothing is sent; with it, the unit names what is there.
    fn service(&self) -> Result<()> {
        let folder = self.folder("served")?;
        let path = folder.to_str().context("UTF-8")?;
        let words = [
            "--dir",
            path,
            "--model",
            model::DEFAULT,
            "--service",
            "ttyS0",
        ];
        self.refused(&words, &["there is no systemd"])?;
        ensure!(names(&folder)?.is_empty(), "something was sent");

        let calls = self.server.home().join("calls");
        let systemctl = format!(
            "#!/bin/sh\necho \"$*\" >> {}\n",
            quoted(calls.to_str().context("UTF-8")?)
        );
        write_program(&self.server.programs().join("systemctl"), &systemctl)?;
        self.deployed(&words)?;
        let unit = fs::read_to_string(folder.join("rushlight@.service"))?;
        let start = format!("ExecStart={path}/rushlight -m {path}/smollm2.rush --console /dev/%I:");
        ensure!(unit.contains(&start), "no `{start}` in:\n{unit}");
        let calls = fs::read_to_string(calls)?;
        let expected = format!(
            "link {path}/rushlight@.service\ndaemon-reload\nenable rushlight@ttyS0.service\n\
             restart rushlight@ttyS0.service\n\
             --no-pager --full --lines=5 status rushlight@ttyS0.service\n"
        );
        ensure!(calls == expected, "systemctl was called so:\n{calls}");
        Ok(())
    }

    fn ensure_old(&self, folder: &Path) -> Result<()> {
        let there = fs::read(folder.join(PROGRAM))?;
        ensure!(there == OLD.as_bytes(), "the old program is gone");
        Ok(())
    }
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
