//! Where a board's `main` comes in: arguments to a command, a command's result to an exit code.

use crate::board::Board;
use crate::commands;
use crate::console;
use crate::error::Error;
use crate::init::Init;
use crate::log::{Log, LogFormat};
use crate::notify::Notify;
use crate::options::{Command, HELP, Options};
use crate::session::Machine;
use crate::sys::{self, Arguments, Fd, STDOUT};
use core::ffi::CStr;

/// The most that a command reaches of the first thread's stack, whatever the model is: nearly all of
/// it tables of as many layers as a model may have. Measured: 640 to 712 KiB.
const FIRST_STACK_BYTES: usize = 720 * 1024;

/// What is said when a mapped file has become shorter than it was.
static SHRUNK_TEXT: &str = "rushlight error \
    message=\"the model file became shorter while it was read\" code=5 finish=error\n";
static SHRUNK_JSON: &str = "{\"event\":\"error\",\"message\":\"the model file became shorter \
    while it was read\",\"code\":5,\"finish\":\"error\"}\n";

/// The format of the logs, before the command line is known to be right.
fn wanted_format(arguments: Arguments) -> LogFormat {
    let mut arguments = arguments.skip_while(|&word| word != c"--log-format");
    let name = arguments.nth(1).map(CStr::to_bytes);
    name.and_then(LogFormat::named).unwrap_or(LogFormat::Text)
}

/// Runs the program and ends the process.
pub fn start(board: &Board, mut arguments: Arguments) -> ! {
    let streams = sys::fill_standard_streams();
    sys::catch_signals();
    let _program = arguments.next();
    let mut log = Log::default();
    log.format = wanted_format(arguments.clone()); // for errors of the command line too
    sys::explain_bus_errors(match log.format {
        // Between two frames a line of text is one: readers pass it on.
        LogFormat::Text | LogFormat::Defmt => &SHRUNK_TEXT,
        LogFormat::Json => &SHRUNK_JSON,
    });
    let mut init = Init::begin();
    let notify = Notify::begin(&log);
    let machine = Machine {
        board,
        notify: &notify,
        program_bytes: sys::program_bytes() + FIRST_STACK_BYTES,
    };
    let options = match (streams, &mut init) {
        (Err(errno), _) => Err(Error::Streams(errno)),
        // What the kernel did not know of its command line is no argument: it may be anybody's.
        (Ok(()), Some(init)) => init.options(board, &log),
        (Ok(()), None) => Options::parse(&mut arguments).map_err(Error::from),
    };
    let code = match options.and_then(|options| command(&machine, &options, &mut log)) {
        Ok(code) => {
            notify.stopping(None);
            code
        }
        Err(error) => {
            let code = error.exit_code();
            let finish = if let Error::Cancelled(_) = error {
                "cancel"
            } else {
                "error"
            };
            log.quiet = false; // of an error, a reader of frames is told the program too
            log.open();
            log.error(error, code, finish);
            notify.stopping((finish == "error").then_some(&error));
            code
        }
    };
    if let Some(init) = init {
        init.end(code, &log);
    }
    sys::exit(code)
}

fn command(machine: &Machine<'_>, options: &Options, log: &mut Log) -> Result<u8, Error> {
    log.format = options.log_format;
    log.quiet = options.quiet;
    if let Some(path) = options.log_file {
        log.fd = Fd::create(path).map_err(|errno| Error::of_file(path, errno))?;
        sys::explain_bus_errors_in(log.fd);
    }
    log.open();
    match options.command {
        Command::Run if options.console.is_some() => {
            return Ok(console::serve(machine, options, log)?.exit_code());
        }
        Command::Run => return Ok(commands::run::run(machine, options, log)?.exit_code()),
        Command::Plan => commands::plan::run(machine, options)?,
        Command::Pack => commands::pack::run(machine, options, log)?,
        Command::Tokenize => commands::tokenize::run(options)?,
        Command::Perplexity => commands::perplexity::run(machine, options, log)?,
        Command::Bench => commands::bench::run(machine, options, log)?,
        Command::Inspect => commands::inspect::run(options)?,
        Command::Selftest => commands::selftest::run(machine, options, log)?,
        Command::Kernels => commands::kernels::run(options)?,
        Command::Help => {
            let written = STDOUT.write_all(HELP.as_bytes());
            written.map_err(|errno| Error::of_io(errno, Error::Output))?;
        }
        Command::Version => commands::version(machine.board)?,
    }
    Ok(0)
}

/// Says where the program broke, and ends the process: this is a bug, and never the input's fault.
/// It says so as text on stderr whatever the log is: nothing is known to work any more.
pub fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    Log::default().error(format_args!("internal: {info}"), 1, "error");
    sys::exit(1)
}
