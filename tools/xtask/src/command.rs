//! Running other programs: what they fail with becomes one clear line and the same exit code.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Error, Result};

use crate::exit::Exit;
use crate::workspace;

/// The cargo that runs this program, at the workspace's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(arguments).current_dir(workspace::root());
    cargo
}

/// Runs `command` with its stdout sent to stderr: our own stdout is for results.
pub fn run_quietly(command: &mut Command) -> Result<()> {
    run(command.stdout(Stdio::from(io::stderr())))
}

/// Runs `command`; any end but success is an error with its exit code.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|error| not_started(command, &error))?;
    check(command, status)
}

/// Runs `command` and returns what it wrote to stdout.
pub fn read(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(command, &error))?;
    check(command, output.status)?;
    Ok(output.stdout)
}

/// Runs `command` and returns what it logged to stderr, which is shown only if it fails.
pub fn read_log(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| not_started(command, &error))?;
    check(command, output.status)
        .inspect_err(|_| eprint!("{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(output.stderr)
}

/// Whether `command` runs and succeeds, in silence.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|end| end.success())
}

/// Whether a program of this name is on the PATH.
pub fn exists(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Turns an end other than success into an error that keeps the exit code.
pub fn check(command: &Command, status: ExitStatus) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    // As a shell has it: a program ended by signal N counts as 128 + N.
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Exit {
        code,
        message: format!("`{}` failed: {status}", shown(command)),
    }
    .into())
}

/// The error for a program that did not even start.
pub fn not_started(command: &Command, error: &io::Error) -> Error {
    anyhow::anyhow!("cannot run `{}`: {error}", shown(command))
}

/// The command as a person would type it, so that it can be tried by hand.
fn shown(command: &Command) -> String {
    let words: Vec<OsString> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| {
            let plain = !word.to_string_lossy().contains(char::is_whitespace);
            if plain {
                word.into()
            } else {
                format!("{word:?}").into()
            }
        })
        .collect();
    words.join(" ".as_ref()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(script: &str) -> u8 {
        let error = run(Command::new("sh").args(["-c", script])).unwrap_err();
        error.downcast::<Exit>().unwrap().code
    }

    #[test]
    fn exit_code_of_a_program_is_kept() {
        assert_eq!(code_of("exit 6"), 6);
        assert_eq!(code_of("kill -TERM $$"), 143);
    }

    #[test]
    fn command_is_shown_as_typed() {
        let mut git = Command::new("git");
        git.args(["log", "--pretty=format:%ad %s"]);
        assert_eq!(shown(&git), r#"git log "--pretty=format:%ad %s""#);
    }

    #[test]
    fn program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot run `no-such-program`")
        );
    }
}
