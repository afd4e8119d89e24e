//! `polder vector`: collections of vectors.

use std::num::NonZeroUsize;
use std::thread;

use polder::Collection;
use polder_vector::{ElementKind, VectorBuf};

use super::Context;
use crate::args::{LookArgs, VectorArgs, VectorCommand};
use crate::failure::Failure;
use crate::opening::with_store_to_read;
use crate::vectors::{Rows, elements_of};

mod create;
mod drop;
mod index;
mod load;
mod probe;
mod repair;
mod search;
mod stat;

pub fn run(context: &Context, command: &VectorCommand) -> Result<(), Failure> {
    match command {
        VectorCommand::Create(args) => create::run(context, args),
        VectorCommand::Load(args) => load::run(context, args),
        VectorCommand::Search(args) => search::run(context, args),
        VectorCommand::Probe(args) => probe::run(context, args),
        VectorCommand::Stat(args) => stat::run(context, args),
        VectorCommand::Repair(args) => repair::run(context, args),
        VectorCommand::Drop(args) => drop::run(context, args),
    }
}

/// To read a collection that must be there.
fn with_collection<T>(
    args: &VectorArgs,
    work: impl FnOnce(&Collection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_store_to_read(&args.store, |store| work(&store.collection(&args.collection)?))
}

/// How many threads work where nobody says it.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// What the numbers of its vectors are.
fn element(collection: &Collection) -> Result<ElementKind, Failure> {
    Ok(collection.options()?.shape().element)
}

/// Numbers of a row as a vector of such elements.
fn elements(element: ElementKind, rows: &Rows, numbers: Vec<f32>) -> Result<VectorBuf, Failure> {
    elements_of(element, numbers).map_err(|why| rows.failure(why))
}

/// All vectors that others are to be near to.
fn queries(
    context: &Context,
    collection: &Collection,
    look: &LookArgs,
) -> Result<Vec<VectorBuf>, Failure> {
    let (mut rows, element) =
        (Rows::open(&look.file, &(&look.vectors).into())?, element(collection)?);
    let mut queries = Vec::new();
    while let Some(row) = rows.next()? {
        context.stop.check()?;
        queries.push(elements(element, &rows, row.numbers)?);
    }
    Ok(queries)
}
