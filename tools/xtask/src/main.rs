//! `cargo xtask`: the one entry for set-up, builds, models, tests, measurements and the demo.
//!
//! One file per subcommand; `help` is the list of them. Results go to stdout, so that a script can
//! take the last line; everything said on the way there goes to stderr.

mod accuracy;
mod apt;
mod archive;
mod bench;
mod board;
mod build;
mod ci;
mod command;
mod counts;
mod cycles;
mod demo;
mod deploy;
mod emulator;
mod exit;
mod fetch;
mod flags;
mod fuzz;
mod gemv;
mod help;
mod image;
mod initramfs;
mod kernelcheck;
mod llama_cpp;
mod log;
mod machine;
mod memory;
mod miri;
mod model;
mod peer;
mod perf_log;
mod setup;
mod synth;
mod test;
mod virt;
mod vocab;
mod workspace;
mod yardstick;

use std::process::ExitCode;

use anyhow::Result;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            exit::code(&error)
        }
    }
}

fn dispatch(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["setup"] => setup::run(),
        ["build"] => build::run(board::HOST),
        ["build", board] => build::run(board),
        ["model", name] => model::run(name),
        ["demo"] => demo::run(),
        ["virt", flags @ ..] => virt::run(flags),
        ["deploy", words @ ..] => deploy::run(words),
        ["image", board, flags @ ..] if !board.starts_with('-') => image::run(board, flags),
        ["test"] => test::run(),
        ["ci"] => ci::run(),
        ["counts", flags @ ..] => counts::run(flags),
        ["cycles"] => cycles::run(),
        ["fuzz", flags @ ..] => fuzz::run(flags),
        ["kernelcheck", flags @ ..] => kernelcheck::run(flags),
        ["bench", flags @ ..] => bench::run(flags),
        ["gemv", flags @ ..] => gemv::run(flags),
        ["memory", flags @ ..] => memory::run(flags),
        ["accuracy", flags @ ..] => accuracy::run(flags),
        ["log", flags @ ..] => log::run(flags),
        ["perf-log", flags @ ..] => perf_log::run(flags),
        ["yardstick", flags @ ..] => yardstick::run(flags),
        ["help" | "--help" | "-h"] => help::run(),
        [] => exit::usage("no command given", &help::text()),
        ["image", ..] => exit::usage("the image of which board?", &board::names()),
        ["model"] => exit::usage("which model?", &model::names()),
        _ => exit::usage(
            &format!("cannot do `{}`", arguments.join(" ")),
            &help::text(),
        ),
    }
}
