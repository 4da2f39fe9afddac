//! Where a board's `main` comes in: arguments to a command, a command's result to an exit code.

use crate::board::Board;
use crate::commands;
use crate::error::Error;
use crate::log::Log;
use crate::options::{Command, HELP, Options};
use crate::session;
use crate::sys::{self, Arguments, Fd, STDOUT};

/// Runs the program and ends the process.
pub fn start(board: &Board, mut arguments: Arguments) -> ! {
    sys::catch_signals();
    let _program = arguments.next();
    let mut log = Log::default();
    let code = match command(board, &mut arguments, &mut log) {
        Ok(code) => code,
        Err(error) => {
            let code = error.exit_code();
            drop(
                log.error("error")
                    .text("message", error)
                    .number("code", code.into())
                    .text("finish", "error"),
            );
            code
        }
    };
    sys::exit(code)
}

fn command(board: &Board, arguments: &mut Arguments, log: &mut Log) -> Result<u8, Error> {
    let options = Options::parse(arguments)?;
    log.format = options.log_format;
    log.quiet = options.quiet;
    log.verbose = options.verbose;
    if let Some(path) = options.log_file {
        log.fd = Fd::create(path).map_err(|errno| Error::File { path, errno })?;
    }
    match options.command {
        Command::Run => return Ok(session::run(board, &options, log)?.exit_code()),
        Command::Plan => commands::plan(board, &options, log)?,
        Command::Tokenize => commands::tokenize(&options)?,
        Command::Kernels => commands::kernels(&options)?,
        Command::Help => STDOUT.write_all(HELP.as_bytes()).map_err(Error::Output)?,
        Command::Version => commands::version(board)?,
    }
    Ok(0)
}

/// Says where the program broke, and ends the process: this is a bug, and never the input's fault.
pub fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    drop(
        Log::default()
            .error("error")
            .text("message", format_args!("internal: {info}"))
            .number("code", 1)
            .text("finish", "error"),
    );
    sys::exit(1)
}
