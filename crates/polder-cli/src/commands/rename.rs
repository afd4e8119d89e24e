//! `polder rename`: another name for a table.

use serde_json::json;

use super::Context;
use crate::args::RenameArgs;
use crate::failure::Failure;
use crate::opening::with_store;
use crate::output;

pub fn run(context: &Context, args: &RenameArgs) -> Result<(), Failure> {
    with_store(&args.store, |store| Ok(store.rename_table(&args.table, &args.new)?))?;
    if context.json {
        output::print_json(&json!({ "renamed": args.table, "to": args.new }))
    } else {
        Ok(())
    }
}
