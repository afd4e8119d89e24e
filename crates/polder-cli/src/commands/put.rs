//! `polder put`: a value for a key. Says nothing, except to programs.

use polder::StoreError;
use serde_json::json;

use super::Context;
use crate::args::PutArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_write_once;
use crate::text;

pub fn run(context: &Context, args: &PutArgs) -> Result<(), Failure> {
    let key = text::given(&args.key, args.text.escaped)?;
    let value = text::given(&args.value, args.text.escaped)?;
    let new = with_store_to_write_once(&args.store, &args.durability, |store| {
        let is_new = matches!(store.table(&args.table), Err(StoreError::NoSuchTable { .. }));
        let inserted = store.open_table(&args.table)?.put(&key, &value);
        if is_new && inserted.is_err() {
            // A table that was made for the key is of no use without it. The first failure is the
            // one to report.
            let _ = store.drop_table(&args.table);
        }
        Ok(inserted?)
    })?;
    context.print_for_programs(&json!({ "key": text::json(&key), "new": new }))
}
