//! Comparing a vector with the entries of pages, one page after the other.
//!
//! A page is read as any reader does: where it lies, latching nothing. What was read of it counts once it
//! has validated. Its successor is asked of the processor's memory while it is compared, and those that
//! follow of the device, many together ([`Space::load_ahead`](polder_pool::Space::load_ahead)).
//!
//! With a filter the labels of a page are copied first; the filter is asked while nothing of the page is
//! held, and what matches is compared if it is still there.

use polder_format::{PageId, PageNo};
use polder_pool::{AccessHint, Interleaved, LinkRef, PoolError, Restart, Space, Translation};
use polder_structure::page::broken;

use super::entries::{EntriesPage, Layout};
use crate::best::{Best, Compared};
use crate::node_id::NodeId;
use crate::search::Search;
use crate::vectors::Vector;

/// Goes through pages with entries of one layout.
pub(super) struct Scan<'s, 'p, T: Translation> {
    space: &'p Space<T>,
    layout: &'s Layout,
    way: &'s mut Interleaved<'p, T>,
    /// How many of the pages that come next have been asked of the device.
    asked: usize,
}

impl<'s, 'p, T: Translation> Scan<'s, 'p, T> {
    pub(super) fn new(
        space: &'p Space<T>,
        layout: &'s Layout,
        way: &'s mut Interleaved<'p, T>,
    ) -> Scan<'s, 'p, T> {
        Scan { space, layout, way, asked: 0 }
    }

    /// Shows pages, read ahead of the one that is shown, and of what comes behind them, which will be shown
    /// next.
    pub(super) fn for_each(
        &mut self,
        pages: &[PageNo],
        behind: &[PageNo],
        mut show: impl FnMut(&mut Self, PageNo) -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        let ahead = self.space.most_ahead();
        for (i, page) in pages.iter().enumerate() {
            if self.asked <= ahead / 2 && ahead > 0 {
                let coming = pages[i..].iter().chain(behind).copied();
                self.space.load_ahead(coming.skip(self.asked).take(ahead - self.asked));
                self.asked = ahead.min(pages.len() - i + behind.len());
            }
            // The next page is asked for; of the one behind it, what it is found by.
            let mut coming = pages[i + 1..].iter().chain(behind).copied();
            let (next, second) = (coming.next(), coming.next());
            second.and_then(|page| self.way.prefetch(self.link(page)));
            if let Some(link) = next.map(|page| self.link(page))
                && let Some(page) = self.way.prefetch(link).or_else(|| self.way.find(link))
            {
                EntriesPage::new(page).prefetch(self.layout);
            }
            show(self, *page)?;
            self.asked = self.asked.saturating_sub(1);
        }
        Ok(())
    }

    /// What `see` makes of a page of entries, for which this may wait. It may be called several times, and
    /// what it has made at last counts.
    #[inline(always)]
    pub(super) fn look<R>(
        &mut self,
        number: PageNo,
        mut see: impl FnMut(EntriesPage<'_>) -> R,
    ) -> Result<R, PoolError> {
        match self.look_at_once(number, &mut see) {
            Ok(seen) => Ok(seen),
            Err(Restart) => self.wait_for(number, see),
        }
    }

    #[inline(always)]
    fn look_at_once<R>(
        &mut self,
        number: PageNo,
        see: &mut impl FnMut(EntriesPage<'_>) -> R,
    ) -> Result<R, Restart> {
        let page = self.way.visit(self.link(number))?;
        let entries = EntriesPage::new(page.page());
        // Damage is met again, and named, by whoever waits for the page.
        if !entries.is_of(self.layout) {
            return Err(Restart);
        }
        let seen = see(entries);
        page.validate()?;
        Ok(seen)
    }

    #[cold]
    fn wait_for<R>(
        &mut self,
        number: PageNo,
        mut see: impl FnMut(EntriesPage<'_>) -> R,
    ) -> Result<R, PoolError> {
        // No page is on its way (MANY-4); why it was not there is no matter.
        let _ = self.way.blocked();
        self.space.run(AccessHint::Normal, |attempt| {
            let page = self.space.page(attempt, number)?;
            let entries = EntriesPage::new(page.page());
            let seen = entries.is_of(self.layout).then(|| see(entries));
            page.validate()?;
            let what = "a list of a vector index has a page without entries";
            seen.ok_or_else(|| attempt.fail(broken(page.id(), what)))
        })
    }

    fn link(&self, page: PageNo) -> LinkRef<'p> {
        LinkRef::Id(PageId::new(self.space.id(), page))
    }
}

/// A comparison with many entries: what is looked for, and what was found.
pub(super) struct Comparison<'q> {
    query: &'q Vector,
    search: Search<'q>,
    pub(super) best: Best,
    /// Entries that matched; and those of them that are within the distance, as long as not enough was
    /// found.
    pub(super) matching: usize,
    pub(super) within: usize,
    near: Vec<Compared>,
    labels: Vec<(usize, u64)>,
}

impl<'q> Comparison<'q> {
    pub(super) fn new(query: &'q Vector, search: &Search<'q>) -> Comparison<'q> {
        let (best, search) = (Best::new(search), *search);
        let (near, labels) = (Vec::new(), Vec::new());
        Comparison { query, search, best, matching: 0, within: 0, near, labels }
    }

    /// Compares with those entries of a page that match.
    pub(super) fn compare<T: Translation>(
        &mut self,
        scan: &mut Scan<'_, '_, T>,
        number: PageNo,
    ) -> Result<(), PoolError> {
        let (layout, query, bound) = (scan.layout, self.query, self.best.bound());
        let (near, labels) = (&mut self.near, &mut self.labels);
        let compare = |entries: EntriesPage<'_>, slot: usize, near: &mut Vec<Compared>| {
            let order = Best::order(entries.distance(layout, query, slot));
            if order <= bound {
                let node = NodeId::new(number, 0, slot);
                near.extend(node.map(|node| (order, entries.label(slot), node)));
            }
        };
        self.matching += match self.search.filter {
            None => scan.look(number, |entries| {
                near.clear();
                let mut matching = 0;
                for slot in entries.taken(layout) {
                    compare(entries, slot, near);
                    matching += 1;
                }
                matching
            })?,
            Some(filter) => {
                scan.look(number, |entries| {
                    labels.clear();
                    labels.extend(entries.taken(layout).map(|slot| (slot, entries.label(slot))));
                })?;
                labels.retain(|(_, label)| filter.matches(*label));
                if labels.is_empty() {
                    return Ok(());
                }
                scan.look(number, |entries| {
                    near.clear();
                    for (slot, label) in labels.iter() {
                        if entries.is_taken(*slot) && entries.label(*slot) == *label {
                            compare(entries, *slot, near);
                        }
                    }
                })?;
                labels.len()
            }
        };
        self.within += near.len();
        near.drain(..).for_each(|one| self.best.insert(one));
        Ok(())
    }
}
