//! `polder del`: a key less. Says nothing, except to programs.

use serde_json::json;

use super::{Context, no_such_key};
use crate::args::DelArgs;
use crate::failure::Failure;
use crate::opening::with_table;
use crate::output;
use crate::text;

pub fn run(context: &Context, args: &DelArgs) -> Result<(), Failure> {
    let key = text::given(&args.key, args.text.escaped)?;
    let removed = with_table(&args.store, &args.table, |table| Ok(table.remove(&key)?))?;
    if !removed {
        return Err(no_such_key(&args.table, &key));
    }
    if context.json {
        output::print_json(&json!({ "key": text::json(&key), "removed": true }))
    } else {
        Ok(())
    }
}
