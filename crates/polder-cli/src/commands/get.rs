//! `polder get`: the value of a key.

use serde_json::json;

use super::{Context, no_such_key};
use crate::args::GetArgs;
use crate::failure::Failure;
use crate::opening::with_table;
use crate::output::{self, Output};
use crate::text;

pub fn run(context: &Context, args: &GetArgs) -> Result<(), Failure> {
    let key = text::given(&args.key, args.text.escaped)?;
    let value = with_table(&args.store, &args.table, |table| Ok(table.get(&key)?))?;
    let value = value.ok_or_else(|| no_such_key(&args.table, &key))?;
    if context.json {
        output::print_json(&json!({ "key": text::json(&key), "value": text::json(&value) }))
    } else if args.raw {
        let mut out = Output::new();
        out.bytes(&value)?;
        out.finish()
    } else {
        output::print(&text::value(&value))
    }
}
