//! Opens a store for one command and closes it after it.

use polder::{Durability, OpenMode, Options, Store, Table};
use polder_hash::HashStructure;
use polder_tree::HeapStructure;

use crate::args::{DurabilityArgs, StoreArgs, WriteArgs};
use crate::failure::Failure;
use crate::recovery::Watch;

/// Opens the store, does `work` and closes the store, however the work went.
pub fn with_store<T>(
    args: &StoreArgs,
    work: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    opened(existing(args), work)
}

/// The same for a command that only reads: nothing is written, and others may read as well.
pub fn with_store_to_read<T>(
    args: &StoreArgs,
    work: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    opened(existing(args).mode(OpenMode::ReadOnly), work)
}

/// The same for a command that writes.
pub fn with_store_to_write<T>(
    args: &StoreArgs,
    durability: Durability,
    write: &WriteArgs,
    work: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut options = existing(args).durability(durability);
    if let Some(limit) = write.log_limit {
        options = options.log_limit(limit.as_u64());
    }
    opened(options, work)
}

/// The same for one write.
pub fn with_store_to_write_once<T>(
    args: &StoreArgs,
    durability: &DurabilityArgs,
    work: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_store_to_write(args, durability.durability, &durability.write, work)
}

fn existing(args: &StoreArgs) -> Options {
    // A command ends before what was in memory would be of use, and leaves the list to others.
    let options = with_structures(Options::new(&args.dir))
        .mode(OpenMode::Open)
        .translation(args.translation)
        .warm_restart(false);
    match args.budget {
        Some(budget) => options.memory_budget(budget.as_u64()),
        None => options,
    }
}

/// The structures that come with Polder are looked into, checked and saved as tables are. (Vector
/// indexes a store knows by itself.)
pub fn with_structures(options: Options) -> Options {
    options.structure::<HashStructure>().structure::<HeapStructure>()
}

/// To read a table that must be there.
pub fn with_table<T>(
    args: &StoreArgs,
    table: &str,
    work: impl FnOnce(&Table) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_store_to_read(args, |store| work(&store.table(table)?))
}

/// The same for any options.
pub fn opened<T>(
    options: Options,
    work: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    options.validate()?;
    let watch = Watch::default();
    let store = Store::open(watch.of(options))?;
    watch.tell(&store);
    let outcome = work(&store);
    let closed = store.close().map_err(Failure::from);
    match (outcome, closed) {
        (Ok(outcome), Ok(())) => Ok(outcome),
        (Ok(_), Err(close)) => Err(close),
        // That the work was ended from outside is no news if what it did could not be kept.
        (Err(work), Err(close)) if work.is_quiet() => Err(close),
        (Err(work), _) => Err(work),
    }
}
