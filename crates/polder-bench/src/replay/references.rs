//! References that need no frames: exact LRU, FIFO, random replacement, and the optimum, by which
//! the page goes that will not be used for the longest time (L. Belady, "A study of replacement
//! algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966).
//!
//! They count in frames or in bytes. In bytes they do as libCacheSim does: a page that is larger
//! than the cache is never kept, any other one always is, whether it will be used again or not, and
//! as many go as are needed for it. With pages of different sizes the optimum is not the best there
//! can be, but what libCacheSim calls Belady. It is the best in misses alone: what it writes it does
//! not look at.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::trace::{MOST_REQUESTS, Tally, Trace};
use super::{CacheSize, Player};
use crate::error::BenchError;
use crate::random::{RngExt, stream};

/// The rank of a page that is not used again.
const NEVER: u32 = u32::MAX;

/// For each request, the position of the next one for its page.
fn next_uses(trace: &Trace) -> Vec<u32> {
    debug_assert!(trace.requests.len() <= MOST_REQUESTS as usize);
    let mut next = vec![NEVER; trace.requests.len()];
    let mut upcoming = vec![NEVER; trace.pages as usize];
    for (at, &page) in trace.requests.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut upcoming[page as usize], at as u32);
    }
    next
}

/// Runs through the trace.
pub(super) fn run(player: Player, trace: &Trace, size: CacheSize) -> Result<Tally, BenchError> {
    let next = if player == Player::Optimum { next_uses(trace) } else { Vec::new() };
    // By page: the rank of those that are resident. The greatest goes first, and of pages that are
    // never used again the lowest number.
    let mut ranks: Vec<Option<u32>> = vec![None; trace.pages as usize];
    // Ranks and pages. Those of former ranks stay until they come up or are swept out.
    let mut heap = BinaryHeap::new();
    // The resident pages, for random replacement.
    let (mut list, mut random) = (Vec::new(), stream(1, 0));
    let (mut used, mut resident) = (0, 0);
    trace.count(|at, page, evict| {
        let hit = ranks[page as usize].is_some();
        let (share, all) = trace.share(page, size);
        if share > all || hit && matches!(player, Player::Fifo | Player::Random) {
            return Ok(hit);
        }
        while !hit && used + share > all {
            let gone = if player == Player::Random {
                list.swap_remove(random.random_range(..list.len()))
            } else {
                let Some((rank, Reverse(page))) = heap.pop() else { break };
                if ranks[page as usize] != Some(rank) {
                    continue;
                }
                page
            };
            ranks[gone as usize] = None;
            evict(gone);
            used -= trace.share(gone, size).0;
            resident -= 1;
        }
        if !hit {
            used += share;
            resident += 1;
        }
        let rank = if player == Player::Optimum { next[at] } else { NEVER - at as u32 };
        ranks[page as usize] = Some(rank);
        match player {
            Player::Random => list.push(page),
            _ => heap.push((rank, Reverse(page))),
        }
        if heap.len() > 4 * resident + 1024 {
            heap.retain(|&(rank, Reverse(page))| ranks[page as usize] == Some(rank));
        }
        Ok(hit)
    })
}
