//! `polder demo`: the main job in one command, and one page about it.
//!
//! A store with a small budget gets several times as much data, in order, and more of it here and
//! there; then come lookups of a part that fits in memory, lookups of everything, updates and scans,
//! each for some seconds on all cores, with every answer checked. The store is closed and opened again, and everything must be there.
//! Nothing waits for the log: what is shown is the speed of the store, not that of the disk's
//! syncs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use polder::{Durability, OpenMode, Options, Store};

use super::Context;
use crate::args::DemoArgs;
use crate::failure::{Failure, note};
use crate::opening::opened;
use crate::output;

mod measure;
mod memory;
mod plan;
mod records;
mod report;
mod work;

use measure::Measured;
use memory::Memory;
use plan::Plan;
use work::{Work, recount};

/// When writes of the demo are durable.
const DURABILITY: Durability = Durability::None;
/// Name of the only table.
const TABLE: &str = "records";

/// What was found out.
struct Findings {
    /// Length of the file when all was in.
    file_bytes: u64,
    /// Records that were inserted beside those of the plan.
    inserted: u64,
    /// Updates of records.
    updates: u64,
    inserts: Measured,
    lookups_resident: Measured,
    lookups_all: Measured,
    updates_and_inserts: Measured,
    scans: Measured,
}

pub fn run(context: &Context, args: &DemoArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let plan = Plan::new(args);
    let memory = Memory::now();
    let place = Place::new(&args.dir, args.keep)?;
    let options = Options::new(place.store()).memory_budget(plan.budget).durability(DURABILITY);
    let findings =
        opened(options.clone().mode(OpenMode::Create), |store| exercise(context, &plan, store))?;
    opened(options.mode(OpenMode::Open), |store| {
        let table = store.table(TABLE)?;
        recount(context, &plan, &table, findings.inserted, findings.updates)
    })?;
    let used = memory.grown_at_most_by();
    let time = begun.elapsed();
    if context.json {
        output::print_json(&report::json(&plan, &findings, used, time))?;
    } else {
        output::print(&report::page(&plan, &findings, used, time))?;
    }
    if args.keep {
        note(&format!("the store was left in {}", place.store().display()));
    }
    Ok(())
}

/// Everything between the first opening and the first close.
fn exercise(context: &Context, plan: &Plan, store: &Store) -> Result<Findings, Failure> {
    let table = store.create_table(TABLE)?;
    let work = Work::new(context, plan, store, &table);
    work.load()?;
    let inserts = work.insert_more()?;
    work.warm_up()?;
    let lookups_resident = work.look_up_hot()?;
    let lookups_all = work.look_up_all()?;
    let updates_and_inserts = work.update_and_insert()?;
    let scans = work.scan()?;
    Ok(Findings {
        file_bytes: store.stats().pool.file_bytes,
        inserted: work.inserted(),
        updates: work.updates(),
        inserts,
        lookups_resident,
        lookups_all,
        updates_and_inserts,
        scans,
    })
}

/// A directory of the demo's own, removed at the end, however it comes.
struct Place {
    dir: PathBuf,
    keep: bool,
}

impl Place {
    fn new(within: &Path, keep: bool) -> Result<Place, Failure> {
        let dir = within.join(format!("polder-demo-{}", std::process::id()));
        fs::create_dir(&dir).map_err(Failure::io(format!("cannot make {}", dir.display())))?;
        Ok(Place { dir, keep })
    }

    fn store(&self) -> PathBuf {
        self.dir.join("store")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = fs::remove_dir_all(&self.dir)
        {
            note(&format!("cannot remove {}: {error}", self.dir.display()));
        }
    }
}
