//! `polder vector load`: the vectors of a file.
//!
//! One thread reads rows, and others insert them. Nobody waits for the device in between; all are durable
//! when the command ends. Which labels the index has is found out first, so that a load which was cut off
//! goes on where it was: what was inserted is passed over.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use polder::{Durability, StoreError};
use polder_vector::roaring::RoaringTreemap;
use serde_json::json;

use super::{Context, Index, element, elements};
use crate::args::VectorLoadArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_write;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::units::{duration, per_second, plural};
use crate::vectors::{Elements, Rows};

/// Rows that are read ahead.
const AHEAD: usize = 1024;

/// A row that is to be inserted.
struct Job {
    /// Which one of the file.
    row: u64,
    label: u64,
    vector: Elements,
}

/// What came of a load.
#[derive(Default)]
struct Loaded {
    inserted: AtomicU64,
    passed_over: u64,
}

pub fn run(context: &Context, args: &VectorLoadArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut loaded = Loaded::default();
    let outcome = with_store_to_write(&args.at.store, Durability::None, &args.write, |store| {
        let index: Index = store.structure(&args.at.index)?;
        let outcome = load(context, args, &index, &mut loaded);
        let flushed = store.flush();
        outcome.and_then(|()| Ok(flushed?))
    });
    let (inserted, passed_over) = (loaded.inserted.into_inner(), loaded.passed_over);
    let time = begun.elapsed();
    if context.json {
        output::print_json(&json!({
            "inserted": inserted,
            "passed_over": passed_over,
            "seconds": time.as_secs_f64(),
            "finished": outcome.is_ok(),
        }))?;
    } else if outcome.is_ok() || inserted > 0 {
        let rate = plural(per_second(inserted, time) as u64, "vector", "vectors");
        let there = match passed_over {
            0 => String::new(),
            1 => "; 1 label was there".to_owned(),
            passed_over => format!("; {} were there", plural(passed_over, "label", "labels")),
        };
        let (inserted, time) = (plural(inserted, "vector", "vectors"), duration(time));
        output::print(&format!("inserted {inserted} in {time}, {rate} a second{there}"))?;
    }
    outcome
}

fn load(
    context: &Context,
    args: &VectorLoadArgs,
    index: &Index,
    loaded: &mut Loaded,
) -> Result<(), Failure> {
    let (mut rows, element) = (Rows::open(&args.file)?, element(index)?);
    let mut there = RoaringTreemap::new();
    index.read(|index| {
        index.for_each(&mut |label, _| {
            there.insert(label);
            !context.stop.requested()
        })
    })?;
    context.stop.check()?;
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = args.threads.map_or(cores, NonZeroUsize::get);
    let shown = Progress::new("inserting", Unit::Things("vectors"), rows.count());
    let (jobs, taken) = sync_channel(AHEAD);
    let (taken, has_failed) = (Mutex::new(taken), AtomicBool::new(false));
    let Loaded { inserted, passed_over } = loaded;
    thread::scope(|scope| {
        let insert = || insert(index, &taken, inserted, &has_failed);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(insert)).collect();
        let mut read = || -> Result<(), Failure> {
            let mut number = 0;
            while let Some(row) = rows.next()? {
                context.stop.check()?;
                number += 1;
                shown.at(inserted.load(Ordering::Relaxed) + *passed_over);
                let label = row.label.checked_add(args.first_label);
                let label = label.ok_or_else(|| rows.failure("its label is too large"))?;
                if !there.insert(label) {
                    *passed_over += 1;
                    continue;
                }
                let job = Job { row: number, label, vector: elements(element, &rows, row)? };
                // A thread that has failed takes the rest, and there is one that takes it.
                if has_failed.load(Ordering::Relaxed) || jobs.send(job).is_err() {
                    break;
                }
            }
            Ok(())
        };
        let read = read();
        drop(jobs);
        let mut failed = threads.into_iter().filter_map(|thread| thread.join().ok().flatten());
        match failed.next() {
            Some((row, source)) => Err(Failure::Vector {
                input: args.file.display().to_string(),
                row,
                source: Box::new(source),
            }),
            None => read,
        }
    })
}

/// Inserts what it takes, until there is no more. Gives the first row that could not be inserted; behind
/// that it inserts none.
fn insert(
    index: &Index,
    jobs: &Mutex<Receiver<Job>>,
    inserted: &AtomicU64,
    has_failed: &AtomicBool,
) -> Option<(u64, StoreError)> {
    let mut failed = None;
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return failed };
        if has_failed.load(Ordering::Relaxed) {
            continue;
        }
        let insert = |vector| index.write(|index| index.insert(job.label, vector));
        match insert(job.vector.vector()) {
            Ok(_) => {
                inserted.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                has_failed.store(true, Ordering::Relaxed);
                failed = Some((job.row, error));
            }
        }
    }
}
