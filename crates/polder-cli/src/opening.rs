//! Opens a store for one command and closes it after it.

use polder::{OpenMode, Options, Store, Table};

use crate::args::StoreArgs;
use crate::failure::Failure;

/// Opens the store, does `work` and closes the store, however the work went.
pub fn with_store<T>(
    args: &StoreArgs,
    work: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut options = Options::new(&args.dir).mode(OpenMode::Open).translation(args.translation);
    if let Some(budget) = args.budget {
        options = options.memory_budget(budget);
    }
    opened(options, work)
}

/// The same for a table that must be there.
pub fn with_table<T>(
    args: &StoreArgs,
    table: &str,
    work: impl FnOnce(&Table) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_store(args, |store| work(&store.table(table)?))
}

/// The same for any options.
pub fn opened<T>(
    options: Options,
    work: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    options.validate()?;
    let store = Store::open(options)?;
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
