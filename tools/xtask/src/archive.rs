//! Files out of Debian's packages, without installing anything.
//!
//! apt works with lists of its own in the cache, and holds what it downloads to the keys of the
//! archive. No list of the system is touched, and no one needs to be root.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fetch::Fetch;
use crate::{apt, command};

/// What the signatures of Debian's packages are checked with.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Some suites of Debian's archive, for one architecture.
pub struct Archive {
    folder: PathBuf,
    architecture: Option<&'static str>,
}

impl Archive {
    /// Fetches the lists of `suites`, of this machine's architecture unless told otherwise.
    /// Everything is gone with `fetch`.
    pub fn open(
        fetch: &Fetch,
        suites: &[&str],
        architecture: Option<&'static str>,
    ) -> Result<Self> {
        for program in ["apt-get", "apt-cache", "dpkg-deb", "tar"] {
            ensure!(command::exists(program), "there is no {program}");
        }
        ensure!(
            Path::new(KEYS).exists(),
            "the keys of Debian's archive, {KEYS}, are missing"
        );
        let folder = fetch.folder().join(architecture.unwrap_or("here"));
        for list in ["lists/partial", "cache/archives/partial", "root"] {
            fs::create_dir_all(folder.join(list))?;
        }
        fs::write(folder.join("status"), "")?; // nothing is installed: all is to be fetched
        let address = address()?;
        let sources = suites
            .iter()
            .map(|suite| format!("deb [signed-by={KEYS}] {address} {suite} main\n"));
        fs::write(folder.join("sources.list"), sources.collect::<String>())?;
        let archive = Archive {
            folder,
            architecture,
        };
        command::run_quietly(&mut archive.apt("apt-get", &["update"]))?;
        Ok(archive)
    }

    /// What `package` depends on, if its name starts with `prefix`: a package that stands for the
    /// newest of its kind depends on that one.
    pub fn dependency(&self, package: &str, prefix: &str) -> Result<String> {
        let depends = command::read(&mut self.apt("apt-cache", &["depends", package]))?;
        let depends = String::from_utf8(depends)?;
        let mut names = depends
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "));
        let name = names.find(|name| name.starts_with(prefix));
        Ok(name
            .with_context(|| format!("{package} depends on no {prefix}"))?
            .to_owned())
    }

    /// Downloads a package.
    pub fn download(&self, package: &str) -> Result<()> {
        let archives = self.folder.join("cache/archives");
        let mut apt = self.apt("apt-get", &["download", package]);
        command::run_quietly(apt.current_dir(archives))
    }

    /// Downloads a package, from `suite` where several have it, and all that it cannot do without,
    /// down to the C library.
    pub fn download_all(&self, package: &str, suite: &str) -> Result<()> {
        let install = ["--download-only", "--no-install-recommends", "--yes"];
        let words = [&["install", "-t", suite], &install[..], &[package]].concat();
        command::run_quietly(&mut self.apt("apt-get", &words))
    }

    /// Unpacks what was downloaded: all of it, or the file `path`.
    pub fn unpack(&self, path: Option<&str>) -> Result<()> {
        for file in fs::read_dir(self.folder.join("cache/archives"))? {
            let file = file?.path();
            if file.extension().is_none_or(|extension| extension != "deb") {
                continue;
            }
            let mut unpack = Command::new("dpkg-deb");
            let unpack = unpack.arg("--fsys-tarfile").arg(&file);
            let mut unpack = unpack.stdout(Stdio::piped()).spawn()?;
            let mut tar = Command::new("tar");
            tar.args(["-x", "--no-same-owner", "-C"])
                .arg(self.root())
                .args(["--exclude=./usr/share/doc", "--exclude=./usr/share/man"]);
            if let Some(path) = path {
                tar.arg(format!("./{path}"));
            }
            tar.stdin(unpack.stdout.take().context("its output is a pipe")?);
            let taken = command::run_quietly(&mut tar);
            let unpacked = unpack.wait()?;
            taken?;
            ensure!(unpacked.success(), "dpkg-deb failed: {unpacked}");
        }
        Ok(())
    }

    /// Where everything lies that was unpacked.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Moves a file or a folder that was unpacked to its place.
    pub fn place(&self, path: &str, to: &Path) -> Result<()> {
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        fs::rename(self.root().join(path), to)?;
        Ok(())
    }

    /// One of apt's programs with everything that it reads and writes in this folder.
    fn apt(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let folder_of = |name: &str| self.folder.join(name).display().to_string();
        let mut options = vec![
            ("Dir::Etc::sourcelist", folder_of("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Dir::State::lists", folder_of("lists")),
            ("Dir::State::status", folder_of("status")),
            ("Dir::Cache", folder_of("cache")),
            // As root it would become a user who may not write here.
            ("APT::Sandbox::User", "root".into()),
            // The lock of packages that are installed is not needed, and a user may not have it.
            ("Debug::NoLocking", "true".into()),
            ("Acquire::Languages", "none".into()),
        ];
        if let Some(architecture) = self.architecture {
            options.push(("APT::Architecture", architecture.into()));
            options.push(("APT::Architectures", architecture.into()));
        }
        for (option, value) in options {
            command.arg("-o").arg(format!("{option}={value}"));
        }
        command.arg("-qq").args(arguments);
        command
    }
}

/// How a program is called in a folder that packages were unpacked into, down to the C library:
/// through its own loader, which takes `flags`, with its own libraries.
pub fn words(root: &Path, program: &str, flags: &[&str]) -> Vec<PathBuf> {
    let loader = match ARCH {
        "x86_64" => "lib64/ld-linux-x86-64.so.2",
        _ => "lib/ld-linux-aarch64.so.1",
    };
    let folders = libraries(root).map(|folder| folder.display().to_string());
    let mut words = vec![
        root.join(loader),
        "--library-path".into(),
        folders.join(":").into(),
    ];
    words.extend(flags.iter().map(PathBuf::from));
    words.push(root.join(program));
    words
}

/// The folders of libraries in such a folder.
pub fn libraries(root: &Path) -> [PathBuf; 2] {
    ["lib", "usr/lib"].map(|folder| root.join(folder).join(format!("{ARCH}-linux-gnu")))
}

/// Whether this machine has its packages from Debian: from there, this has them too.
pub fn is_there() -> bool {
    command::exists("apt-get") && address().is_ok()
}

/// Where this machine has its own Debian packages from.
fn address() -> Result<String> {
    apt::ensure_lists()?;
    let mut ask = Command::new("apt-get");
    let sources = command::read(ask.args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let sources = String::from_utf8(sources)?;
    let archive = sources
        .lines()
        .find(|source| source.trim_end_matches('/').ends_with("/debian"));
    let archive = archive.context("apt-get has its packages from elsewhere than Debian")?;
    Ok(archive.to_owned())
}
