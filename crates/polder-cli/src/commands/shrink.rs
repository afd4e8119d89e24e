//! `polder shrink`: a shorter file.

use polder::{ShrinkStep, Store};
use serde_json::json;

use super::Context;
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store;
use crate::progress::{Phases, Unit};
use crate::units::bytes;

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let (shorter, file) = with_store(args, |store| {
        let shorter = shrink(context, store)?;
        Ok((shorter, store.stats().pool.file_bytes))
    })?;
    let value = json!({ "file_shorter_bytes": shorter, "file_bytes": file });
    let text = format!("the file is {} shorter, and has {}", bytes(shorter), bytes(file));
    context.print(&value, &text)
}

/// Makes the file shorter, and gives by how many bytes. Stopped by Ctrl-C the store is as small as it
/// has become.
pub fn shrink(context: &Context, store: &Store) -> Result<u64, Failure> {
    // A bar for each step of each table.
    let mut shown = Phases::new(&context.stop);
    let shorter = store.shrink_with(&mut |at| {
        let what = match at.step {
            ShrinkStep::Merging => "merging pages",
            ShrinkStep::Moving => "moving pages",
            _ => "cutting the file",
        };
        let of = at.table.map(|table| format!(" of {table}")).unwrap_or_default();
        let (done, all) = (at.done_pages, at.all_pages);
        shown.at(&format!("{what}{of}"), Unit::Things("pages"), done, all)
    });
    shown.end()?;
    Ok(shorter?)
}
