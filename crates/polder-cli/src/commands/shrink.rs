//! `polder shrink`: a shorter file.

use polder::{ShrinkStep, Store};
use serde_json::json;

use super::Context;
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::units::bytes;

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let (shorter, file) = with_store(args, |store| {
        let shorter = shrink(context, store)?;
        Ok((shorter, store.stats().file_bytes))
    })?;
    if context.json {
        output::print_json(&json!({ "file_shorter_bytes": shorter, "file_bytes": file }))
    } else {
        output::print(&format!("the file is {} shorter, and has {}", bytes(shorter), bytes(file)))
    }
}

/// Stopped by Ctrl-C the store is as small as it has become.
fn shrink(context: &Context, store: &Store) -> Result<u64, Failure> {
    // A bar for each step of each table.
    let mut shown: Option<(ShrinkStep, Option<String>, Progress)> = None;
    let shorter = store.shrink_with(&mut |at| {
        let is_shown = |(step, table, _): &(ShrinkStep, Option<String>, Progress)| {
            *step == at.step && table.as_deref() == at.table
        };
        if !shown.as_ref().is_some_and(is_shown) {
            // The bar before goes first.
            drop(shown.take());
            let what = match at.step {
                ShrinkStep::Merging => "merging pages",
                ShrinkStep::Moving => "moving pages",
                _ => "cutting the file",
            };
            let label = match at.table {
                Some(table) => format!("{what} of {table}"),
                None => what.to_owned(),
            };
            let bar = Progress::new(&label, Unit::Things("pages"), Some(at.all_pages));
            shown = Some((at.step, at.table.map(str::to_owned), bar));
        }
        if let Some((_, _, bar)) = &shown {
            bar.of(at.all_pages);
            bar.at(at.done_pages);
        }
        !context.stop.requested()
    });
    drop(shown);
    context.stop.check()?;
    Ok(shorter?)
}
