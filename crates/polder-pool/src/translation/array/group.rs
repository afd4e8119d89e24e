//! A group of 512 translation entries (one 4 KiB page of them): where the state words of its pages
//! lie, and how many there are.
//!
//! calico-2026 4.3 and 4.4. What comes and goes in a group does so under its lock, which is held
//! for a moment beside a read from the device:
//!
//! | operation | under the group's lock |
//! |---|---|
//! | claim (F4, F5) | the page has no word in the array, nor in the table: a word, 0 to in flight; counted |
//! | abandon, retire (E7, E8) | the word, which the caller has in flight or exclusive, to 0; not counted any more; the last one in the array: `madvise(MADV_DONTNEED)` |
//! | gather, scatter | words move between array and table, each seized first (free, unpinned); in their new place before they go from the old one |
//!
//! * `POOL-6` A word of the array that is not all zero is counted in its group, in flight or
//!   resident; both change under the group's lock. While nobody has the lock, the counts are those
//!   of the words that are not zero: in the array, and in the table for sparse groups.
//!
//! So no group is given back in which a word is not zero, or is about to be. calico-2026, algorithm
//! 2, raises its counter only after the read; an eviction in between can punch the locked entry
//! away, and the page is loaded twice. `loom_tests/groups.rs` runs that version too and sees it
//! fail. The kernel rounds what it drops up to its own pages, so that a group must never be smaller
//! than one.

use crate::latch::{StateCell, StateWord};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Backoff, seq_cst_under_loom};

const LOCKED: u32 = 1 << 31;
const COUNT: u32 = (1 << 15) - 1;
const SPARSE: u32 = 15;

/// How many words of a group are not zero, and a lock (`POOL-6`). Zeroed memory is an empty group.
#[derive(Debug)]
#[repr(transparent)]
pub struct Group(AtomicU32);

impl Default for Group {
    fn default() -> Group {
        Group::new()
    }
}

impl Group {
    /// An empty group.
    pub fn new() -> Group {
        Group(AtomicU32::new(0))
    }

    /// How many pages of the group are resident, in flight or about to be; a thread that has it locked
    /// counts as one. SeqCst: a thread that claims takes the lock first and looks at *dropped*
    /// afterwards; a thread that drops does it the other way round.
    pub fn count(&self) -> u32 {
        let seen = self.0.load(Ordering::SeqCst);
        (seen & COUNT) + (seen >> SPARSE & COUNT) + (seen >> LOCKED.trailing_zeros())
    }

    /// How many words of the group are in the array, a moment ago.
    pub fn in_array(&self) -> u32 {
        self.0.load(Ordering::Acquire) & COUNT
    }

    /// Waits for the lock. Acquire pairs with the Release of unlocking.
    pub fn lock(&self) -> LockedGroup<'_> {
        let mut backoff = Backoff::new();
        loop {
            let now = self.0.load(Ordering::Relaxed);
            if now & LOCKED != 0 {
                backoff.wait();
            } else if self
                .0
                .compare_exchange_weak(now, now | LOCKED, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                seq_cst_under_loom();
                let (array, sparse) = (now & COUNT, now >> SPARSE & COUNT);
                return LockedGroup { group: self, array, sparse };
            }
        }
    }
}

/// A group that nobody else changes. The counts are stored when it goes.
#[derive(Debug)]
pub struct LockedGroup<'a> {
    group: &'a Group,
    /// Words in the array.
    pub array: u32,
    /// Words in the table for sparse groups.
    pub sparse: u32,
}

/// Where the words of a group's pages lie, in the array and in the table for sparse groups.
pub(crate) trait Words<'w> {
    /// A page of the group.
    type Page: Copy;

    /// Its word in the array, or what would be it.
    fn in_array(&self, page: Self::Page) -> &'w StateCell;
    /// Its word in the table.
    fn in_table(&self, page: Self::Page) -> Option<&'w StateCell>;
    /// A new entry of the table, in flight; none if the page has one.
    fn claim_in_table(&self, page: Self::Page) -> Option<&'w StateCell>;
    /// A new entry of the table for a word that comes from the array, which its holder has
    /// exclusively.
    fn receive_in_table(&self, page: Self::Page, held: StateWord) -> Option<&'w StateCell>;
    /// Takes the page's entry out of the table; `end` makes its word 0.
    fn remove_from_table(&self, page: Self::Page, end: impl FnOnce(&StateCell));
    /// Takes a word exclusively to move it, if nobody holds it and no pin names its page: the
    /// thread that made the page comes back to the very word.
    fn seize(&self, word: &StateCell) -> Option<StateWord>;
    /// The array gets its first word of the group.
    fn begin_array(&self);
    /// The last word of the group has left the array, whose memory can go. Its entries are zero,
    /// and stay so while the group is locked.
    fn end_array(&self);
}

impl LockedGroup<'_> {
    /// Whether the page has a word.
    pub(crate) fn has<'w, W: Words<'w>>(&self, words: &W, page: W::Page) -> bool {
        self.array > 0 && !words.in_array(page).peek().is_evicted()
            || self.sparse > 0 && words.in_table(page).is_some()
    }

    /// Claims a page without a word, in the table. None: another thread has.
    pub(crate) fn claim_in_table<'w, W: Words<'w>>(
        &mut self,
        words: &W,
        page: W::Page,
    ) -> Option<&'w StateCell> {
        let word = words.claim_in_table(page)?;
        self.sparse += 1;
        Some(word)
    }

    /// The same in the array.
    pub(crate) fn claim_in_array<'w, W: Words<'w>>(
        &mut self,
        words: &W,
        page: W::Page,
    ) -> Option<&'w StateCell> {
        let word = words.in_array(page);
        if !word.claim() {
            return None;
        }
        self.enter(words);
        Some(word)
    }

    /// Ends the word of a page that the caller holds; `end` makes it 0.
    pub(crate) fn take_out<'w, W: Words<'w>>(
        &mut self,
        words: &W,
        page: W::Page,
        end: impl FnOnce(&StateCell),
    ) {
        let word = words.in_array(page);
        // A word that is held is where it is, and it is not zero.
        if self.array > 0 && !word.peek().is_evicted() {
            end(word);
            self.leave(words);
        } else {
            words.remove_from_table(page, end);
            self.sparse -= 1;
        }
    }

    /// Moves words from the table to the array; those that somebody holds stay. How many have
    /// moved.
    pub(crate) fn gather<'w, W: Words<'w>>(
        &mut self,
        words: &W,
        pages: impl Iterator<Item = W::Page>,
    ) -> u64 {
        let mut moved = 0;
        for page in pages {
            let Some(from) = words.in_table(page) else { continue };
            let Some(held) = words.seize(from) else { continue };
            let to = words.in_array(page);
            if !to.receive(held) {
                debug_assert!(false, "ARRAY-3: a page has two words");
                from.put_back(held);
                continue;
            }
            self.enter(words);
            words.remove_from_table(page, StateCell::clear);
            self.sparse -= 1;
            to.put_back(held);
            moved += 1;
        }
        moved
    }

    /// The other way.
    pub(crate) fn scatter<'w, W: Words<'w>>(
        &mut self,
        words: &W,
        pages: impl Iterator<Item = W::Page>,
    ) -> u64 {
        let mut moved = 0;
        for page in pages {
            let from = words.in_array(page);
            let Some(held) = words.seize(from) else { continue };
            let Some(to) = words.receive_in_table(page, held) else {
                debug_assert!(false, "ARRAY-3: a page has two words");
                from.put_back(held);
                continue;
            };
            self.sparse += 1;
            from.clear();
            to.put_back(held);
            moved += 1;
            self.leave(words);
            if self.array == 0 {
                break;
            }
        }
        moved
    }

    /// One more word of the array.
    fn enter<'w, W: Words<'w>>(&mut self, words: &W) {
        if self.array == 0 {
            words.begin_array();
        }
        self.array += 1;
    }

    /// One less, which is zero now.
    fn leave<'w, W: Words<'w>>(&mut self, words: &W) {
        debug_assert_ne!(self.array, 0, "POOL-6: a word leaves that was not counted");
        self.array -= 1;
        if self.array == 0 {
            words.end_array();
        }
    }
}

impl Drop for LockedGroup<'_> {
    fn drop(&mut self) {
        debug_assert!(self.array <= COUNT && self.sparse <= COUNT, "POOL-6");
        self.group.0.store(self.array | self.sparse << SPARSE, Ordering::Release);
    }
}
