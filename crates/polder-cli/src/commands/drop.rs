//! `polder drop`: a table less, and a shorter file.

use serde_json::json;

use super::Context;
use crate::args::DropArgs;
use crate::failure::{Failure, note, sentence};
use crate::opening::with_store;
use crate::output;
use crate::units::bytes;

pub fn run(context: &Context, args: &DropArgs) -> Result<(), Failure> {
    let table = &args.table;
    let shorter = with_store(&args.store, |store| {
        store.drop_table(table)?;
        // The table is gone; that the file could not be made shorter for it is no failure to drop
        // it.
        Ok(store.shrink().unwrap_or_else(|error| {
            note(&format!("the file could not be made shorter: {}", sentence(&error)));
            0
        }))
    })?;
    if context.json {
        output::print_json(&json!({ "dropped": table, "file_shorter_bytes": shorter }))
    } else {
        output::print(&format!("dropped {table}; the file is {} shorter", bytes(shorter)))
    }
}
