//! `polder vector load`: the vectors of a file.
//!
//! Nobody waits for the device between two of them; all are durable when the command ends. What was inserted
//! is passed over, so that a load which was cut off goes on where it was.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::time::Instant;

use polder::{Collection, Durability, StoreError};
use polder_vector::VectorBuf;
use serde_json::json;

use super::{Context, cores, element, elements};
use crate::args::VectorLoadArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_write;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::units::{duration, per_second, plural};
use crate::vectors::Rows;

/// A vector between its key and its payload.
type Keyed = (Vec<u8>, VectorBuf, Vec<u8>);

/// What came of a load.
#[derive(Default)]
struct Loaded {
    inserted: u64,
    passed_over: u64,
}

pub fn run(context: &Context, args: &VectorLoadArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut loaded = Loaded::default();
    let outcome = with_store_to_write(&args.at.store, Durability::Sync, &args.write, |store| {
        let collection = store.collection(&args.at.collection)?;
        let before = collection.len();
        let outcome = load(context, args, &collection, &mut loaded);
        loaded.inserted = collection.len() - before;
        outcome
    });
    let (Loaded { inserted, passed_over }, time) = (loaded, begun.elapsed());
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
            1 => "; 1 key was there".to_owned(),
            passed_over => format!("; {} were there", plural(passed_over, "key", "keys")),
        };
        let (inserted, time) = (plural(inserted, "vector", "vectors"), duration(time));
        output::print(&format!("inserted {inserted} in {time}, {rate} a second{there}"))?;
    }
    outcome
}

fn load(
    context: &Context,
    args: &VectorLoadArgs,
    collection: &Collection,
    loaded: &mut Loaded,
) -> Result<(), Failure> {
    let (mut rows, element) = (Rows::open(&args.file, &args.names)?, element(collection)?);
    let threads = args.threads.map_or_else(cores, NonZeroUsize::get);
    let shown = Progress::new("loading", Unit::Things("vectors"), rows.count());
    let (failed, left) = (RefCell::new(None), rows.count());
    let mut next = || -> Result<Option<Keyed>, Failure> {
        let Some(row) = rows.next()? else { return Ok(None) };
        let key = [args.prefix.as_bytes(), &row.key].concat();
        let vector = elements(element, &rows, row.numbers)?;
        Ok(Some((key, vector, row.payload)))
    };
    let next = || {
        next().unwrap_or_else(|error| {
            failed.replace(Some(error));
            None
        })
    };
    let outcome = collection.load(Counted { next, left }, threads, &mut |done| {
        // What cannot be read is told at once.
        shown.goes_on(done, &context.stop) && failed.borrow().is_none()
    });
    match outcome {
        Ok(done) => loaded.passed_over = done.passed_over,
        Err(StoreError::Key { index, source }) => {
            let (input, row) = (args.file.display().to_string(), index as u64 + 1);
            return Err(Failure::Vector { input, row, source });
        }
        Err(error) => return Err(error.into()),
    }
    context.stop.check()?;
    failed.take().map_or(Ok(()), Err)
}

/// Rows, of which the file may say how many there are: a load decides by that how it goes.
struct Counted<N> {
    next: N,
    left: Option<u64>,
}

impl<T, N: FnMut() -> Option<T>> Iterator for Counted<N> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        (self.next)()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.left.and_then(|left| usize::try_from(left).ok());
        (left.unwrap_or(0), left)
    }
}
