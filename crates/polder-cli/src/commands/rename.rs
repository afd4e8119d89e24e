//! `polder rename`: another name for a table.

use serde_json::json;

use super::Context;
use crate::args::RenameArgs;
use crate::failure::Failure;
use crate::opening::with_store;

pub fn run(context: &Context, args: &RenameArgs) -> Result<(), Failure> {
    with_store(&args.store, |store| Ok(store.rename_table(&args.table, &args.new)?))?;
    context.print_for_programs(&json!({ "renamed": args.table, "to": args.new }))
}
