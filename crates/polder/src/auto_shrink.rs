//! Shrinking without being asked: what was removed does not leave a sparse file for ever.
//!
//! Where a leaf becomes sparse by a removal it is joined with its neighbour at once
//! (`polder-tree/src/reshape.rs`), so that the pages in use are at most a small multiple of what is in
//! them. Whether the *file* is sparse is looked at only when pages were freed: the pool tells of
//! that, with no thread and no clock for stores in which nothing is freed. Then, if the file is not
//! small, a thread looks twice, a while apart, and if the file is twice as long as it need be both
//! times and there is much to give back, it shrinks the store at low priority, and ends.
//!
//! It cannot thrash. After a run the file is at most a little longer than it need be, and no thread
//! looks again before a sixteenth of the file was freed since; to be sparse again about half of what is in
//! use must go. So each page that is moved is paid by a page that was freed. A table that grows and
//! shrinks in turn (a queue) keeps its room as long as the two looks do not both find it empty.

use std::sync::{Arc, Weak};
use std::thread;

use polder_pool::{Translation, lock};

use crate::engine::Engine;
use crate::shrink::{pages_needed, shrink_resting};

/// A file that is not longer is left as it is, and so is one that could not be shorter by so much.
const LEAST_BYTES: u64 = 16 << 20;
/// How many times as long as it need be a file must be.
const SPARSE_TIMES: u64 = 2;
/// Looks in a row that must find the file sparse.
const LOOKS: u32 = 2;
/// How many times as long as it works the thread rests.
const RESTS: u32 = 3;
/// Part of the file that must have been freed since the last look.
const FREED_PART: u64 = 16;

/// From now on the store is looked at when pages were freed.
pub(crate) fn watch<T: Translation>(engine: &Arc<Engine<T>>) {
    let theirs = Arc::downgrade(engine);
    engine.pool.tell_of_freed(move |freed| pages_freed(&theirs, freed));
}

/// So many pages were freed: starts a thread if it is time to look. Waits for nothing.
fn pages_freed<T: Translation>(engine: &Weak<Engine<T>>, freed: u64) {
    let Some(engine) = engine.upgrade() else { return };
    let Ok(mut state) = engine.shrinker.state.try_lock() else { return };
    let file_pages = engine.pool.file_state().file_pages;
    let enough_freed = state
        .looked_at
        .is_none_or(|looked_at| freed.saturating_sub(looked_at) >= file_pages / FREED_PART);
    let is_small = file_pages << engine.pool.page_size().shift() <= LEAST_BYTES;
    let works = state.thread.as_ref().is_some_and(|thread| !thread.is_finished());
    if state.closed || works || is_small || !enough_freed {
        return;
    }
    let theirs = Arc::clone(&engine);
    let thread = thread::Builder::new().name("polder-shrink".to_string());
    // Without a thread the file stays as it is until more was freed.
    state.thread = thread.spawn(move || run(&theirs)).ok();
}

fn run<T: Translation>(engine: &Engine<T>) {
    let shrinker = &engine.shrinker;
    for _ in 0..LOOKS {
        if !shrinker.wait() {
            return;
        }
        lock(&shrinker.state).looked_at = Some(engine.pool.freed_pages());
        if !is_sparse(engine) {
            return;
        }
    }
    // What failed there will fail for others as well, who can be told.
    let _ = shrink_resting(engine, RESTS, &|| shrinker.goes_on());
    lock(&shrinker.state).looked_at = Some(engine.pool.freed_pages());
}

fn is_sparse<T: Translation>(engine: &Engine<T>) -> bool {
    let Ok(needed) = pages_needed(engine) else { return false };
    let file_pages = engine.pool.file_state().file_pages;
    let gain = file_pages.saturating_sub(needed) << engine.pool.page_size().shift();
    file_pages > SPARSE_TIMES * needed && gain > LEAST_BYTES
}
