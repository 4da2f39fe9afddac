//! The far end: commands for its shell, through one connection of ssh.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::command;
use crate::exit::Exit;

/// What ssh itself ends with; the far end's own codes are below.
const SSH_FAILED: i32 = 255;

/// A machine that ssh reaches. The first command makes the connection, and asks for a password if
/// one is needed; the others go along it.
pub struct Far<'a> {
    /// As ssh takes it.
    pub address: &'a str,
    flags: &'a [String],
    /// A folder for the connection's socket, which nobody else may open.
    control: PathBuf,
}

impl<'a> Far<'a> {
    /// Connects to nothing yet.
    pub fn new(address: &'a str, flags: &'a [String]) -> Result<Self> {
        ensure!(
            command::exists("ssh"),
            "there is no ssh (package openssh-client)"
        );
        // The path of a socket is short.
        let name = format!("rushlight-deploy-{}", std::process::id());
        let control = std::env::temp_dir().join(name);
        if control.exists() {
            fs::remove_dir_all(&control)?; // of a process before
        }
        let made = fs::DirBuilder::new().mode(0o700).create(&control);
        made.with_context(|| format!("cannot create {}", control.display()))?;
        Ok(Far {
            address,
            flags,
            control,
        })
    }

    /// ssh, up to the address. What the user says comes first, and so has precedence.
    fn ssh(&self) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args(self.flags).arg("-T");
        for option in ["ControlMaster=auto", "ControlPersist=60"] {
            ssh.args(["-o", option]);
        }
        let path = self.control.join("ssh").display().to_string();
        ssh.arg("-o").arg(format!("ControlPath={path}"));
        ssh
    }

    /// Runs `script` there.
    pub fn command(&self, script: &str) -> Command {
        let mut ssh = self.ssh();
        ssh.args(["--", self.address, script]);
        ssh
    }

    /// What `script` says there, without the end of the last line. Its errors go to stderr.
    pub fn ask(&self, script: &str) -> Result<String> {
        let mut ssh = self.command(script);
        let output = ssh.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| command::not_started(&ssh, &error))?;
        self.check(output.status.code(), script)?;
        let text = String::from_utf8(output.stdout);
        let mut text = text.context("the far end says what is no UTF-8")?;
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    /// An error for every end but success. What was wrong is on stderr, in ssh's own words or the
    /// far end's.
    pub fn check(&self, code: Option<i32>, script: &str) -> Result<()> {
        let address = self.address;
        match code {
            Some(0) => Ok(()),
            Some(SSH_FAILED) | None => bail!("no connection to {address}: see what ssh says above"),
            Some(code) => Err(Exit {
                code: u8::try_from(code).unwrap_or(1),
                message: format!("at {address} this ended with code {code}: {script}"),
            }
            .into()),
        }
    }

    /// A folder there, made where it is missing.
    pub fn folder(&self, path: &str) -> Result<Folder<'_>> {
        // No word that starts with a dash.
        let path = match path.starts_with('-') {
            true => format!("./{path}"),
            false => path.to_owned(),
        };
        let path = quoted(&path);
        let path = self.ask(&format!("mkdir -p {path} && cd {path} && pwd"))?;
        ensure!(
            path.starts_with('/'),
            "the far end says `{path}` for a folder"
        );
        let has_sums = self.ask("sha256sum < /dev/null || :")?;
        Ok(Folder {
            far: self,
            path,
            has_sums: sum_of(&has_sums).is_some(),
        })
    }
}

impl Drop for Far<'_> {
    fn drop(&mut self) {
        // There may be no connection any more.
        command::succeeds(self.ssh().args(["-O", "exit", "--", self.address]));
        let _ = fs::remove_dir_all(&self.control);
    }
}

/// A folder at the far end.
pub struct Folder<'f> {
    /// Where.
    pub far: &'f Far<'f>,
    /// Its path there, from the root.
    pub path: String,
    /// Whether there is a `sha256sum`.
    pub has_sums: bool,
}

impl Folder<'_> {
    /// A script that starts in the folder.
    pub fn script(&self, script: &str) -> String {
        format!("cd {} && {script}", quoted(&self.path))
    }

    /// What `script` says, run in the folder.
    pub fn ask(&self, script: &str) -> Result<String> {
        self.far.ask(&self.script(script))
    }
}

/// A word that a shell takes as it is.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The checksum in a line of `sha256sum`, if it is one.
pub fn sum_of(line: &str) -> Option<&str> {
    let sum = line.split([' ', '\n']).next()?;
    let is_sum = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sum.then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_the_same_after_a_shell() {
        for word in ["", "a b", "it's", "''", "$HOME `id` \"x\" \\", "a\nb", "-n"] {
            let mut sh = Command::new("sh");
            sh.arg("-c").arg(format!("printf %s {}", quoted(word)));
            assert_eq!(command::read(&mut sh).unwrap(), word.as_bytes(), "{word:?}");
        }
    }

    #[test]
    fn only_a_checksum_is_one() {
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sum_of(&format!("{sum}  -\n")), Some(sum));
        assert_eq!(sum_of("sh: sha256sum: not found"), None);
        assert_eq!(sum_of(""), None);
    }
}
