//! Searches of one thread that go on together where pages must be read: each goes on as soon as its own pages
//! have come, and meanwhile others do. A search alone waits for a few reads at a time, which leaves a device
//! idle that takes many.
//!
//! ```text
//!   begins
//!     v
//!   ready --------> awaiting: places whose pages are missing
//!   ^  |  ^            |
//!   |  |  '------------'      all that it awaited has been looked at
//!   |  |
//!   |  '----------> judging: a step with a filter was made, or its end is reached
//!   |                  |
//!   '------------------'      no page is on its way for any of them, and the filter was asked
//! ```
//!
//! What is ready goes on. If nothing is, another search begins, as long as pages are on their way and the device
//! has room for more, or if there is no other search; but first what was asked for is handed over, and it is
//! seen to what has come, if the search that went on last has asked for nothing. So pages that are on their way
//! do not wait for searches that go on in memory; and where all is in memory, one search is made after the
//! other, and they do not compete for the processor's cache.
//!
//! * `TOGETHER-1` A search awaits as many places as [`Reads`] has of it in its lists. So it goes on when the
//!   last one has been looked at, and none is forgotten.
//! * `TOGETHER-2` While pages are on their way nothing else is waited for, and no code of users runs (the
//!   pool's `MANY-4`). A place that must be waited for has all others stop: nothing goes on or begins until
//!   no page is on its way. Filters are asked when nothing else is to be done: then no page is on its way either,
//!   and all searches that can go on wait for that.

use polder_pool::{PoolError, Translation};

use crate::error::VectorError;
use crate::reads::{Awaited, Reads};

/// Searches that are under way at once, at most.
pub(crate) const MOST: usize = 16;

/// Why a search does not go on.
pub(crate) enum Stop {
    /// It awaits so many places, at least one.
    Awaits(usize),
    /// Its filter is to be asked ([`Searches::judge`]).
    Judges,
    Ended,
}

/// Searches in one space.
pub(crate) trait Searches<'p, T: Translation> {
    /// One that is under way.
    type Search;

    /// Begins the next one, if there is one. It must not wait while pages are on their way.
    fn begin(&mut self, reads: &mut Reads<'_, 'p, T>) -> Result<Option<Self::Search>, VectorError>;

    /// Goes on with one that awaits nothing.
    fn go_on(
        &mut self,
        search: &mut Self::Search,
        reads: &mut Reads<'_, 'p, T>,
    ) -> Result<Stop, PoolError>;

    /// Looks at a place that a search has awaited ([`Reads::look_at`]).
    fn look(
        &mut self,
        search: &mut Self::Search,
        reads: &mut Reads<'_, 'p, T>,
        awaited: Awaited,
        may_wait: bool,
    ) -> Result<bool, PoolError>;

    /// Asks the filter of a search about what it has seen. No page is on its way, so that this may wait.
    fn judge(&mut self, search: &mut Self::Search) -> Result<(), VectorError>;
}

/// A search, and how many places it awaits.
struct Running<S> {
    search: S,
    awaits: usize,
}

/// Makes all of these searches, at most `most` of them at once.
///
/// # Errors
/// The first that one of them meets, which ends all.
pub(crate) fn search_together<'p, T: Translation, S: Searches<'p, T>>(
    reads: &mut Reads<'_, 'p, T>,
    searches: &mut S,
    most: usize,
) -> Result<(), VectorError> {
    let mut running: Vec<Option<Running<S::Search>>> = Vec::new();
    let (mut ready, mut judging) = (Vec::new(), Vec::new());
    let (mut count, mut is_last, mut has_opened) = (0, false, true);
    loop {
        // TOGETHER-2
        let is_draining = reads.is_draining();
        if !is_draining && let Some(number) = ready.pop() {
            let Some(one) = &mut running[number] else {
                debug_assert!(false, "a search that has ended goes on");
                continue;
            };
            reads.set_search(number);
            let stop = searches.go_on(&mut one.search, reads)?;
            has_opened = matches!(stop, Stop::Awaits(_));
            match stop {
                Stop::Awaits(awaits) => one.awaits = awaits,
                Stop::Judges => judging.push(number),
                Stop::Ended => {
                    running[number] = None;
                    count -= 1;
                }
            }
            continue;
        }
        let has_room = count == 0 || count < most && reads.is_waiting() && reads.has_room();
        let may_begin = has_room && !is_draining && !is_last;
        if may_begin && (has_opened || !reads.is_waiting()) {
            match searches.begin(reads)? {
                Some(search) => {
                    let number = running.iter().position(Option::is_none).unwrap_or_else(|| {
                        running.push(None);
                        running.len() - 1
                    });
                    running[number] = Some(Running { search, awaits: 0 });
                    count += 1;
                    ready.push(number);
                }
                None => is_last = true,
            }
            continue;
        }
        has_opened = true;
        let is_awaited = reads.next(!may_begin, |reads, awaited, may_wait| {
            let Some(one) = &mut running[awaited.search] else {
                debug_assert!(false, "a search has ended that awaits a place");
                return Ok(true);
            };
            let is_seen = searches.look(&mut one.search, reads, awaited, may_wait)?;
            // TOGETHER-1
            one.awaits -= usize::from(is_seen);
            if one.awaits == 0 {
                ready.push(awaited.search);
            }
            Ok(is_seen)
        })?;
        if is_awaited || !ready.is_empty() {
            continue;
        }
        debug_assert!(reads.awaits_nothing() && !reads.is_waiting());
        if judging.is_empty() {
            debug_assert_eq!(count, 0, "a search awaits nothing and does not go on");
            return Ok(());
        }
        for number in judging.drain(..) {
            if let Some(one) = &mut running[number] {
                searches.judge(&mut one.search)?;
            }
            ready.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use polder_format::{PageSize, SpaceId};
    use polder_pool::{AccessHint, Array, FileState, Pool};
    use polder_testkit::pools;

    use super::*;
    use crate::element::ElementKind;
    use crate::hnsw::HnswIndex;
    use crate::metric::Metric;
    use crate::node_id::NodeId;
    use crate::options::HnswOptions;
    use crate::reads::tests::Seen;
    use crate::vectors::VectorShape;

    /// Searches of which the first wants a page that is missing, and all others want nothing.
    struct OneOfMany {
        missing: NodeId,
        begun: usize,
        /// How many had begun when the page had come.
        begun_before: Option<usize>,
    }

    const MANY: usize = 1000;

    impl<'p> Searches<'p, Array> for OneOfMany {
        type Search = usize;

        fn begin(&mut self, _: &mut Reads<'_, 'p, Array>) -> Result<Option<usize>, VectorError> {
            self.begun += 1;
            Ok((self.begun <= MANY).then_some(self.begun))
        }

        fn go_on(
            &mut self,
            search: &mut usize,
            reads: &mut Reads<'_, 'p, Array>,
        ) -> Result<Stop, PoolError> {
            if *search > 1 || self.begun_before.is_some() {
                return Ok(Stop::Ended);
            }
            let mut seen = Seen::default();
            let awaits = reads.ask(&[self.missing], &mut seen)?;
            assert!(awaits == 1 && seen.0.is_empty(), "the page is there before it was read");
            Ok(Stop::Awaits(awaits))
        }

        fn look(
            &mut self,
            _: &mut usize,
            reads: &mut Reads<'_, 'p, Array>,
            awaited: Awaited,
            may_wait: bool,
        ) -> Result<bool, PoolError> {
            let is_seen = reads.look_at(awaited, &mut Seen::default(), may_wait)?;
            if is_seen {
                self.begun_before = Some(self.begun);
            }
            Ok(is_seen)
        }

        fn judge(&mut self, _: &mut usize) -> Result<(), VectorError> {
            Ok(())
        }
    }

    #[test]
    fn a_page_does_not_wait_for_searches_in_memory() {
        let disk = pools::disk();
        let open = |file| -> Pool<Array> {
            let config = pools::config(4, PageSize::MIN, file);
            Pool::open(Box::new(disk.clone()), &config, &crate::KINDS).unwrap()
        };
        let pool = open(FileState::NEW);
        let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
        let space = pool.create_space().unwrap();
        let index = HnswIndex::create(space, &HnswOptions::new(shape)).unwrap();
        let missing = index.insert(1, &[0.0_f32, 1.0]).unwrap();
        pool.flush().unwrap();
        let file = pool.file_state();
        drop((index, pool));
        let pool = open(file);
        let space = pool.open_space(SpaceId::CATALOGUE).unwrap();
        // Reads the first page, and so where the other one lies.
        HnswIndex::open(pool.open_space(SpaceId::CATALOGUE).unwrap()).unwrap();
        let mut searches = OneOfMany { missing, begun: 0, begun_before: None };
        space.interleave(AccessHint::Normal, |way| {
            search_together(&mut Reads::new(&space, way), &mut searches, MOST).unwrap();
        });
        let before = searches.begun_before.unwrap();
        assert!(before <= 4, "{before} searches had begun when the page was looked at");
    }
}
