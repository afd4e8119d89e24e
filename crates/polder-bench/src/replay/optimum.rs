//! The optimum: the page goes that will not be used for the longest time (L. Belady, "A study of
//! replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966).
//!
//! As in a pool, and in libCacheSim, the page that is asked for always comes in, whether it will
//! be used again or not. With pages of different sizes this is not the best there can be, but what
//! libCacheSim calls Belady. It is the best in misses alone: what it writes it does not look at.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Tally;
use super::trace::{MOST_REQUESTS, Room, Trace};
use crate::error::BenchError;

/// Of a page that is not used again.
const NEVER: u32 = u32::MAX;
const NOT_RESIDENT: u32 = 0;

/// For each request, the position of the next one for its page.
fn next_uses(trace: &Trace) -> Vec<u32> {
    debug_assert!(trace.requests.len() as u64 <= MOST_REQUESTS);
    let mut next = vec![NEVER; trace.requests.len()];
    let mut upcoming = vec![NEVER; trace.pages as usize];
    for (at, &page) in trace.requests.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut upcoming[page as usize], at as u32);
    }
    next
}

/// Runs through the trace.
pub(super) fn run(trace: &Trace, room: &Room<'_>) -> Result<Tally, BenchError> {
    let next = next_uses(trace);
    // By page: when it is used next, or 0, which is no next use of anything.
    let mut due = vec![NOT_RESIDENT; trace.pages as usize];
    // Next uses and pages. Of the pages that are never used again the lowest number goes first.
    // Entries of former uses stay until they are swept out; they lie below those of all resident
    // pages, because their time has passed, so none of them is ever popped.
    let mut heap: BinaryHeap<(u32, Reverse<u32>)> = BinaryHeap::new();
    let (mut used, mut resident) = (0, 0usize);
    trace.count(|at, page, dirty| {
        let (hit, fits) = (due[page as usize] != NOT_RESIDENT, room.of(page) <= room.all);
        if !hit && fits {
            while used + room.of(page) > room.all {
                let Some((when, Reverse(gone))) = heap.pop() else { break };
                debug_assert_eq!(due[gone as usize], when);
                due[gone as usize] = NOT_RESIDENT;
                dirty.evict(gone);
                used -= room.of(gone);
                resident -= 1;
            }
            used += room.of(page);
            resident += 1;
        }
        if hit || fits {
            due[page as usize] = next[at];
            heap.push((next[at], Reverse(page)));
        }
        if heap.len() > 4 * resident + 1024 {
            heap.retain(|&(when, Reverse(page))| due[page as usize] == when);
        }
        Ok(hit)
    })
}
