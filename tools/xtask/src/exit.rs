//! Failures that carry an exit code of their own; every other failure ends with 1.

use std::fmt;
use std::process::ExitCode;

use anyhow::{Error, Result};

/// Exit code for a command line that makes no sense, as the shipped binary uses it.
const USAGE: u8 = 2;

/// A failure, and the code to end with.
#[derive(Debug)]
pub struct Exit {
    /// What the process ends with.
    pub code: u8,
    /// What the person reads.
    pub message: String,
}

impl fmt::Display for Exit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Exit {}

/// The failure for a wrong command line: what is wrong, then what would be right.
pub fn usage<T>(wrong: &str, right: &str) -> Result<T> {
    Err(Exit {
        code: USAGE,
        message: format!("{wrong}\n{right}"),
    }
    .into())
}

/// The code that `error` asks for.
pub fn code(error: &Error) -> ExitCode {
    ExitCode::from(error.downcast_ref::<Exit>().map_or(1, |exit| exit.code))
}
