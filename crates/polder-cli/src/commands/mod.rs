//! One file a command.

use serde_json::Value;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::text;

mod check;
mod checkpoint;
mod completions;
mod create;
mod del;
mod demo;
mod drop;
mod export;
mod figures;
mod get;
mod import;
mod live;
mod log;
mod man;
mod miss_ratios;
mod prewarm;
mod put;
mod rename;
mod salvage;
mod scan;
mod shrink;
mod stat;
mod tables;
mod vector;

/// What every command gets beside its arguments.
pub struct Context {
    /// Print for programs.
    pub json: bool,
    /// Whether to end early.
    pub stop: Interrupt,
}

impl Context {
    /// Prints what came of the command: a value for programs, or a line (or several) for people.
    pub fn print(&self, value: &Value, text: &str) -> Result<(), Failure> {
        match self.json {
            true => output::print_json(value),
            false => output::print(text),
        }
    }

    /// The same where there is nothing that people need to know.
    pub fn print_for_programs(&self, value: &Value) -> Result<(), Failure> {
        if self.json { output::print_json(value) } else { Ok(()) }
    }
}

/// Does what was typed.
pub fn run(cli: Cli) -> Result<(), Failure> {
    let stop = Interrupt::listen().map_err(Failure::io("cannot listen to signals"))?;
    let context = Context { json: cli.json, stop };
    match &cli.command {
        Command::Create(args) => create::run(&context, args),
        Command::Export(args) => export::run(&context, args),
        Command::Import(args) => import::run(&context, args),
        Command::Get(args) => get::run(&context, args),
        Command::Put(args) => put::run(&context, args),
        Command::Del(args) => del::run(&context, args),
        Command::Scan(args) => scan::run(&context, args),
        Command::Tables(args) => tables::run(&context, args),
        Command::Stat(args) => stat::run(&context, args),
        Command::Check(args) => check::run(&context, args),
        Command::Log(args) => log::run(&context, args),
        Command::Salvage(args) => salvage::run(&context, args),
        Command::Vector(command) => vector::run(&context, command),
        Command::Rename(args) => rename::run(&context, args),
        Command::Drop(args) => drop::run(&context, args),
        Command::Shrink(args) => shrink::run(&context, args),
        Command::Prewarm(args) => prewarm::run(&context, args),
        Command::Checkpoint(args) => checkpoint::run(&context, args),
        Command::Demo(args) => demo::run(&context, args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}

/// The failure to find a key.
fn no_such_key(table: &str, key: &[u8]) -> Failure {
    Failure::NotFound(format!("there is no key {} in table {table}", text::key(key)))
}
