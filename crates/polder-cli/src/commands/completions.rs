//! `polder completions`: what a shell needs to complete a command line.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use crate::output::Output;

pub fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "polder", &mut script);
    let mut out = Output::new();
    out.bytes(&script)?;
    out.finish()
}
