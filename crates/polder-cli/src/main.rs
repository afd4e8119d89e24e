//! `polder`: Polder's command line.
//!
//! A command opens the store, does one thing and closes it again, whatever happens in between: a
//! store that was not closed must be recovered by the next one. That is why Ctrl-C is a flag that
//! loops look at ([`interrupt`]) and not the end of the process, and why a reader of the output
//! that goes away is an ordinary error ([`failure`]).
//!
//! Results go to standard output and errors to standard error, both for people or, with `--json`, for
//! programs; progress is shown on standard error where that is a terminal.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

mod args;
mod bar;
mod commands;
mod durability;
mod events;
mod every;
mod exchange;
mod failure;
mod input;
mod interrupt;
mod opening;
mod output;
mod progress;
mod recovery;
mod text;
mod units;
mod vectors;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::of_command_line(&error),
    };
    let json = cli.json;
    failure::set_json(json);
    match events::tell(cli.verbose).and_then(|()| commands::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}
