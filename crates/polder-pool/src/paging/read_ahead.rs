//! Reading ahead: what a scan will come to is loaded while it is busy with what lies before it
//! (leanstore-2018 IV-I, "I/O prefetching").
//!
//! The reads are the pool's: threads of its own make them, as a fault makes any, so that a thread
//! that comes to such a page waits for the one read that is under way. The pages count as a
//! scan's: they go first. To ask never waits, and may come to nothing; an error is met again by
//! the scan itself. The threads start when something is asked for, so that a pool that is never
//! scanned has none.
//!
//! A scan that has met a page that was missing asks for those that it will come to; the threads load
//! them by F1 to F10, as a scan's, and a reader that comes to such a page before it is there waits at
//! F1. A thread takes several pages at once, as they were asked for, and hands their reads over
//! together (`FLIGHT-1`), so that pages that lie one behind the other in the file are one request:
//! most devices read 64 KiB in little more time than one page. Between two groups it holds nothing.
//! Two scans that ask for the same page have it read once: it is in the queue, in flight, or resident.
//! Numbers may be out of date: a page that was freed meanwhile is loaded for nothing, or refused, as by
//! a fault that came too late.

#![cfg(not(loom))]

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::{self, JoinHandle};

use polder_format::{PageId, PageNo, SpaceId};

use crate::machine::threads_with_room;
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore, View};
use crate::sync::lock;
use crate::translation::Translation;

/// Reads under way at once.
const THREADS: usize = 8;
/// Pages that may wait for their turn.
const MOST: usize = 512;
/// Bytes that a thread reads at once, about.
const TOGETHER_BYTES: usize = 64 << 10;
/// One frame in so many may be filled ahead; a pool of fewer does without.
const FRAMES: usize = 32;

/// Pages that were asked for.
#[derive(Debug, Default)]
struct Ahead {
    wanted: Mutex<Wanted>,
    condition: Condvar,
}

#[derive(Debug, Default)]
struct Wanted {
    pages: VecDeque<(SpaceId, PageNo)>,
    stopped: bool,
}

impl Ahead {
    /// False if there is no room for more, or the page is among them.
    fn ask(&self, page: (SpaceId, PageNo), most: usize) -> bool {
        let mut wanted = lock(&self.wanted);
        let asks = wanted.pages.len() < most && !wanted.pages.contains(&page);
        if asks {
            wanted.pages.push_back(page);
            self.condition.notify_one();
        }
        asks
    }

    /// Waits for the next ones of one space, which go to `group`: as many as there are, up to `most`.
    /// None: the pool ends.
    fn next(&self, most: usize, group: &mut Vec<PageId>) -> Option<SpaceId> {
        group.clear();
        let mut wanted = lock(&self.wanted);
        loop {
            if wanted.stopped {
                return None;
            }
            if let Some((space, page)) = wanted.pages.pop_front() {
                group.push(PageId::new(space, page));
                while group.len() < most
                    && let Some((_, page)) = wanted.pages.pop_front_if(|(its, _)| *its == space)
                {
                    group.push(PageId::new(space, page));
                }
                return Some(space);
            }
            wanted = self.condition.wait(wanted).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn stop(&self) {
        lock(&self.wanted).stopped = true;
        self.condition.notify_all();
    }
}

/// The threads; dropping this stops them and waits for their end.
#[derive(Debug)]
pub(crate) struct Readers<T: Translation> {
    shared: Arc<Shared<T>>,
    ahead: Arc<Ahead>,
    threads: OnceLock<Vec<JoinHandle<()>>>,
}

impl<T: Translation> Readers<T> {
    pub(crate) fn new(shared: &Arc<Shared<T>>) -> Readers<T> {
        Readers { shared: Arc::clone(shared), ahead: Arc::default(), threads: OnceLock::new() }
    }

    /// How many pages may wait for their turn.
    pub(crate) fn most(&self) -> usize {
        match T::EVICTS {
            true => MOST.min(self.shared.core.frames.memory.count() as usize / FRAMES),
            false => 0,
        }
    }

    /// Has these pages loaded, as many as there is room for; gives how many were asked for.
    pub(crate) fn load_ahead(&self, space: SpaceId, pages: impl Iterator<Item = PageNo>) -> usize {
        let most = self.most();
        if most == 0 {
            return 0;
        }
        let asked = pages.filter(|page| self.ahead.ask((space, *page), most)).count();
        if asked > 0 {
            self.start();
        }
        asked
    }

    /// As many as the system gives.
    fn start(&self) {
        self.threads.get_or_init(|| {
            let start = |_| {
                let (shared, ahead) = (Arc::clone(&self.shared), Arc::clone(&self.ahead));
                let run = move || {
                    let most = (TOGETHER_BYTES / shared.core.page_size().bytes()).max(1);
                    let mut group = Vec::new();
                    while let Some(space) = ahead.next(most, &mut group) {
                        if let Some(space) = shared.space(space) {
                            load(&shared, &space, &group);
                        }
                    }
                };
                thread::Builder::new().name("polder-reader".into()).spawn(run).ok()
            };
            (0..threads_with_room(THREADS)).filter_map(start).collect()
        });
    }
}

/// Loads pages: together what can be begun without waiting, and then the others.
fn load<T: Translation>(shared: &Shared<T>, space: &SpaceCore<T>, pages: &[PageId]) {
    View { shared, space }.load_group(pages, AccessHint::Scan);
    for page in pages.iter().map(|page| page.page()) {
        if shared.state_of(space, page).is_none_or(|cell| cell.read().is_evicted()) {
            let _ = shared.fault(space, page, AccessHint::Scan);
        }
    }
}

impl<T: Translation> Drop for Readers<T> {
    fn drop(&mut self) {
        self.ahead.stop();
        for thread in self.threads.take().into_iter().flatten() {
            // One that panicked has nothing to say that the next fault would not.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_asked_for_once_and_up_to_a_number() {
        let ahead = Ahead::default();
        let page = |number| (SpaceId::CATALOGUE, PageNo::new(number).unwrap());
        let mut group = Vec::new();
        let mut next = |most| {
            ahead.next(most, &mut group).map(|space| {
                let numbers = group.iter().map(|page| page.page().get());
                (space, numbers.collect::<Vec<_>>())
            })
        };
        let of = |space: SpaceId, numbers: &[u64]| Some((space, numbers.to_vec()));
        assert_eq!((0..10).filter(|i| ahead.ask(page(i % 4), 3)).count(), 3);
        assert_eq!(next(1), of(SpaceId::CATALOGUE, &[0]));
        assert!(ahead.ask(page(3), 3) && !ahead.ask(page(4), 3));
        assert!(ahead.ask((SpaceId::FILE, PageNo::new(7).unwrap()), 4));
        assert!(ahead.ask(page(5), 5));
        assert_eq!(next(2), of(SpaceId::CATALOGUE, &[1, 2]));
        assert_eq!(next(9), of(SpaceId::CATALOGUE, &[3]), "those of one space");
        assert_eq!(next(9), of(SpaceId::FILE, &[7]));
        assert_eq!(next(9), of(SpaceId::CATALOGUE, &[5]));
        ahead.ask(page(1), 3);
        ahead.stop();
        assert_eq!(next(1), None, "what was not begun is not");
    }
}
