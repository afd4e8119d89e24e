//! `polder drop`: a table less, and a shorter file.

use serde_json::json;

use super::Context;
use crate::args::DropArgs;
use crate::failure::Failure;
use crate::opening::with_store;
use crate::output;
use crate::units::bytes;

pub fn run(context: &Context, args: &DropArgs) -> Result<(), Failure> {
    let table = &args.table;
    let shorter = with_store(&args.store, |store| {
        store.drop_table(table)?;
        Ok(store.shrink()?)
    })?;
    if context.json {
        output::print_json(&json!({ "dropped": table, "file_shorter_bytes": shorter }))
    } else {
        output::print(&format!("dropped {table}; the file is {} shorter", bytes(shorter)))
    }
}
