//! The program: see the library, and `README.md` for the rules.

use std::process::ExitCode;
use yardstick::options::{Options, USAGE};

fn main() -> ExitCode {
    let options = match Options::from_args(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("yardstick: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match yardstick::run(&options) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("yardstick: {message}");
            ExitCode::FAILURE
        }
    }
}
