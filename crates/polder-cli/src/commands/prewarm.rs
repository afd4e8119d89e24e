//! `polder prewarm`: what the next program that opens the store finds in memory.
//!
//! The memory of this command goes when it ends. What stays is the list of the pages that it loaded,
//! which the next opening reads: so tables can be prepared, and the list that is there be tried.

use polder::{PrewarmEnd, Prewarmed, Store};
use serde_json::json;

use super::Context;
use crate::args::PrewarmArgs;
use crate::failure::Failure;
use crate::opening::{with_store, with_store_to_read};
use crate::output;
use crate::progress::{Phases, Unit};
use crate::units::{bytes, plural};

pub fn run(context: &Context, args: &PrewarmArgs) -> Result<(), Failure> {
    let work = |store: &Store| {
        let done = prewarm(context, store, &args.tables)?;
        // What was stopped is no list of what was wanted.
        context.stop.check()?;
        let listed = match args.tables.is_empty() {
            true => store.stats().prewarm_listed_pages,
            false => store.save_resident_pages()?,
        };
        Ok((done, listed, u64::from(store.page_size())))
    };
    let (done, listed, page_size) = match args.tables.is_empty() {
        true => with_store_to_read(&args.store, work)?,
        false => with_store(&args.store, work)?,
    };
    let is_full = done.end == Some(PrewarmEnd::Full);
    if context.json {
        return output::print_json(&json!({
            "loaded_pages": done.loaded,
            "skipped_pages": done.skipped,
            "failed_pages": done.failed,
            "listed_pages": listed,
            "memory_full": is_full,
        }));
    }
    let loaded = plural(done.loaded, "page", "pages");
    let failed = match done.failed {
        0 => String::new(),
        failed => format!("; {} could not be read", plural(failed, "page", "pages")),
    };
    let size = bytes(done.loaded * page_size);
    let full = if is_full { "; there is no memory for more" } else { "" };
    output::print(&match args.tables.is_empty() {
        true => format!("loaded {loaded} ({size}) of the {listed} on the list{full}{failed}"),
        false => {
            format!(
                "loaded {loaded} ({size}){full}{failed}; the next opening loads {listed} from the list"
            )
        }
    })
}

fn prewarm(context: &Context, store: &Store, tables: &[String]) -> Result<Prewarmed, Failure> {
    let mut shown = Phases::new(&context.stop);
    let mut at = |label: &str, done, all| shown.at(label, Unit::Things("pages"), done, all);
    if tables.is_empty() {
        return Ok(store.prewarm(&mut |done, all| at("loading the list", done, all))?);
    }
    // All of them are there, before the first is loaded.
    let tables: Vec<_> = tables.iter().map(|name| store.table(name)).collect::<Result<_, _>>()?;
    let mut all = Prewarmed::default();
    for table in tables {
        let label = format!("loading {}", table.name());
        let done = table.prewarm(&mut |done, all| at(&label, done, all))?;
        all.loaded += done.loaded;
        all.skipped += done.skipped;
        all.failed += done.failed;
        all.end = done.end;
        if done.end != Some(PrewarmEnd::All) {
            break;
        }
    }
    Ok(all)
}
