//! `polder drop`: a table less, and a shorter file.

use polder::Store;
use serde_json::json;

use super::Context;
use crate::args::{DropArgs, StoreArgs};
use crate::failure::{Failure, note, sentence};
use crate::opening::with_store;
use crate::output;
use crate::units::bytes;

pub fn run(context: &Context, args: &DropArgs) -> Result<(), Failure> {
    drop_from(context, &args.store, &args.table, |store| Ok(store.drop_table(&args.table)?))
}

/// Drops what `drop` drops, which has this name, and makes the file shorter.
pub fn drop_from(
    context: &Context,
    store: &StoreArgs,
    name: &str,
    drop: impl FnOnce(&Store) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let shorter = with_store(store, |store| {
        drop(store)?;
        // It is gone; that the file could not be made shorter for it is no failure to drop
        // it.
        Ok(store.shrink().unwrap_or_else(|error| {
            note(&format!("the file could not be made shorter: {}", sentence(&error)));
            0
        }))
    })?;
    if context.json {
        output::print_json(&json!({ "dropped": name, "file_shorter_bytes": shorter }))
    } else {
        output::print(&format!("dropped {name}; the file is {} shorter", bytes(shorter)))
    }
}
