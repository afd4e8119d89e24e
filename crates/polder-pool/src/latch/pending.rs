//! A writer that waits for those that hold the page: the *pending* bit of the state word.
//!
//! Readers that hold pages could keep a writer waiting for ever: there is always one. So a writer
//! that finds holders, by the word or by slices, *announces* itself, waits for a bounded time
//! until all have released it, and takes the page then ([`StateCell::upgrade_when_left`]).
//!
//! * `PENDING-1` While a word is pending nobody begins to hold the page, by the word or by a
//!   slice: a holder by slices looks at the word behind its count (`latch/slice.rs`), and takes
//!   the count back.
//! * `PENDING-2` Those that hold the page go on, and validate: the word becomes exclusive only
//!   when they have gone. Optimistic readers notice nothing.
//! * `PENDING-3` A word that is pending has a writer that will take the page or withdraw. Of two
//!   writers one may withdraw what both have announced: so the slices are looked at once more when
//!   the word is exclusive, and a writer that finds a holder puts the word back and announces
//!   itself again.
//! * `PENDING-4` While a word is exclusive nobody but its holder writes to it: announcing and
//!   withdrawing leave it alone.
//!
//! A writer that waits holds no page shared, but for an attempt that shares its whole way, which
//! waits for a shorter time; of two sharers that want the same page one gives up at once. Those
//! for whom it waits wait for nobody (`WAY-1`), or for pages that come behind this one in the lock
//! order. Eviction and promotion announce nothing: they look whether there are holders before they
//! take a word, and go on to the next page.

use crate::sync::atomic::Ordering;

use super::state::{PENDING, StateCell, StateWord};
use crate::sync::Backoff;

impl StateCell {
    /// From now on nobody begins to hold the page, which was `seen`, until the caller has had it
    /// exclusively or gives up ([`StateCell::withdraw`]). Those that hold it go on, and validate.
    /// SeqCst: as `upgrade`. False if the page is no longer as it was.
    pub(crate) fn announce(&self, seen: StateWord) -> bool {
        let mut now = self.peek();
        while seen.still_stands(now) && !now.is_pending() {
            if self.change(now, now.0 | PENDING, Ordering::SeqCst) {
                return true;
            }
            now = self.peek();
        }
        seen.still_stands(now)
    }

    /// A writer that announced itself gives up. (Another writer may have announced itself as well,
    /// and does so again.) Writes nothing to a word that somebody holds exclusively, as nobody
    /// else does (`PENDING-4`), nor to one that is not pending: it may be part of memory that was
    /// given back.
    pub(crate) fn withdraw(&self) {
        let mut now = self.peek();
        while now.is_pending() && now.is_readable() {
            if self.change(now, now.0 & !PENDING, Ordering::Relaxed) {
                return;
            }
            now = self.peek();
        }
    }

    /// Takes a page, which was `seen`, exclusively from those that hold it: announces itself, so
    /// that nobody else begins to hold it, and looks `looks` times whether they have released it.
    /// `is_free`: whether nobody holds it by slices. `shares`: the caller is one of those that
    /// hold it by the word.
    ///
    /// Holders wait for pages that come behind this one in the lock order, or for none, so that
    /// they release it; two sharers that both want the page would wait for each other, and one
    /// gives up.
    #[cold]
    #[inline(never)]
    pub(crate) fn upgrade_when_left(
        &self,
        seen: StateWord,
        shares: bool,
        looks: u32,
        is_free: impl Fn() -> bool,
    ) -> Option<StateWord> {
        if shares && self.peek().is_pending() {
            return None;
        }
        let mut backoff = Backoff::new();
        for _ in 0..looks {
            if !self.announce(seen) {
                return None;
            }
            if is_free() {
                let now = self.peek();
                let held = match shares {
                    _ if !seen.still_stands(now) => None,
                    true => self.upgrade_shared(),
                    false => self.upgrade(now),
                };
                match held {
                    // Again: another writer may have withdrawn what both had announced.
                    Some(held) if is_free() => return Some(held),
                    Some(held) if shares => self.put_back_shared(held),
                    Some(held) => self.put_back(held),
                    None => {}
                }
            }
            backoff.wait();
        }
        self.withdraw();
        None
    }
}
