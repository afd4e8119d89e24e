//! `polder shrink`: a shorter file.

use serde_json::json;

use super::Context;
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store;
use crate::output;
use crate::units::bytes;

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let (shorter, file) =
        with_store(args, |store| Ok((store.shrink()?, store.stats().file_bytes)))?;
    if context.json {
        output::print_json(&json!({ "file_shorter_bytes": shorter, "file_bytes": file }))
    } else {
        output::print(&format!("the file is {} shorter, and has {}", bytes(shorter), bytes(file)))
    }
}
