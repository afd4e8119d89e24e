//! Going to a page by a number that was remembered: one that a page said earlier, which the caller has
//! not at hand any more to validate it.
//!
//! A scan goes from a leaf to the next one by the number that it has read there. Between the two it
//! holds nothing, however long that takes: the page may have been freed meanwhile, and be resident all
//! the same, as it was on the device (a fault that came too late loads it), or have become another page
//! of the space. So a number is remembered together with how many pages of the space had been discarded
//! ([`Discards`]):
//!
//! ```text
//! D1  discards are read
//! D2  a page is read that leads to page P, and validated: P is part of the structure
//! ...
//! D3  the word of P, as for any reader
//! D4  the discards are those of D1? else the number is forgotten
//! D5  P is read, and validated
//! ```
//!
//! * `REMEMBER-1` A number that passes D4 leads to the page that was part of the structure at D2, and is
//!   part of it at D5. A page leaves a structure by being discarded alone; the count goes up before its
//!   word becomes 0 (`COW-5`), and a later life of the page, or of its number, begins with a word that
//!   was stored after that. So a reader that finds the word of a later life at D3 sees the count at D4;
//!   and for one that finds the word of the life that it meant, validation tells at D5 whether that has
//!   ended since. What the page holds may have changed since D2: the caller asks the page where it
//!   belongs, by its fences.
//!
//! Nothing is waited for and nothing is loaded here: where the page is not resident its number is of no
//! use, as an error of loading it could not be told from a page that is gone.

#![cfg(not(loom))]

use polder_format::{PageId, PageNo};

use crate::latch::{Optimistic, Restart};
use crate::operation::attempt::Attempt;
use crate::page::LinkRef;
use crate::shared::View;
use crate::sync::atomic::Ordering;
use crate::translation::Translation;

/// How many pages of a space had been discarded at some time ([`Space::discards`](crate::Space::discards)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discards(u64);

impl<'p, T: Translation> View<'p, T> {
    /// D1. Acquire pairs with the Release of whoever discards (`COW-5`).
    #[inline(always)]
    pub(crate) fn discards(self) -> Discards {
        Discards(self.space.discarded.load(Ordering::Acquire))
    }

    /// As [`Space::remembered`](crate::Space::remembered): D3 and D4.
    #[inline]
    pub(crate) fn remembered(
        self,
        attempt: &mut Attempt<'p>,
        page: PageNo,
        since: Discards,
    ) -> Result<Option<Optimistic<'p>>, Restart> {
        // One that holds pages of its way goes down from the root, in the order of latches.
        if attempt.pessimistic.active {
            return Ok(None);
        }
        let link = LinkRef::Id(PageId::new(self.space.id, page));
        let found = match attempt.takes_snapshots() {
            true => self.snapshot(attempt, link, None),
            false => self.follow(attempt, link, None),
        };
        match found {
            Ok(page) if self.discards() == since => Ok(Some(page)),
            Ok(_) => Ok(None),
            Err(restart) => attempt.forget_miss().then_some(None).ok_or(restart),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, pool_held};
    use crate::{AccessHint, Array, ReadMode};

    /// `REMEMBER-1`: the page is freed, and then loaded by a fault that came too late, as it was on the
    /// device.
    #[test]
    fn a_page_that_was_discarded_is_not_found_by_its_number() {
        for mode in [ReadMode::Optimistic, ReadMode::Shared, ReadMode::Copy] {
            let (_dir, pool) = pool_held::<Array>(4 << 20, mode);
            let space = pool.create_space().unwrap();
            let (page, other) = (create(&space), create(&space));
            pool.flush().unwrap();
            let since = space.discards();
            let is_found = |page| {
                let found = space.run(AccessHint::Normal, |attempt| {
                    Ok(space.remembered(attempt, page, since)?.is_some())
                });
                found.unwrap()
            };
            assert!(is_found(page) && is_found(other), "{mode:?}");
            let (shared, core) = (space.shared(), space.space_core());
            space.discard(shared.latch_resident(core, page).unwrap());
            assert!(!is_found(page), "{mode:?}: it is not resident");
            drop(shared.fault(core, page, AccessHint::Normal).unwrap());
            assert!(space.is_resident(page) && !is_found(page), "{mode:?}");
            assert!(!is_found(other), "{mode:?}: nobody knows which page it was");
        }
    }
}
