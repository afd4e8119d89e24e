//! `polder del`: a key less. Says nothing, except to programs.

use serde_json::json;

use super::{Context, no_such_key};
use crate::args::DelArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_write_once;
use crate::text;

pub fn run(context: &Context, args: &DelArgs) -> Result<(), Failure> {
    let key = text::given(&args.key, args.text.escaped)?;
    let removed = with_store_to_write_once(&args.store, &args.durability, |store| {
        Ok(store.table(&args.table)?.delete(&key)?)
    })?;
    if !removed {
        return Err(no_such_key(&args.table, &key));
    }
    context.print_for_programs(&json!({ "key": text::json(&key), "removed": true }))
}
