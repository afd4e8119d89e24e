//! Searches.
//!
//! ```text
//! 1  the query is compared with all centroids
//! 2  list by list, that of the nearest centroid first: its pages are found out and asked for while the
//!    list before it is compared, and then its entries are compared
//! 3  behind `width` lists in which something matches: the end, if enough was found, or nothing is within the
//!    distance in the last of them; else on with 2
//! ```

use polder_format::{PageId, PageNo};
use polder_pool::{AccessHint, Interleaved, PoolError, Translation};
use polder_structure::levels::root;
use polder_structure::page::broken;

use super::IvfIndex;
use super::entries::EntriesPage;
use super::scan::{Comparison, Scan};
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::near::order_of;
use crate::node_id::NodeId;
use crate::pages::{for_each_of, for_each_page, read_page};
use crate::places::by_page;
use crate::search::{Answer, Search};
use crate::vectors::Vector;

/// A list by how far its centroid is.
type Ranked = (u32, PageNo);

impl<T: Translation> IvfIndex<T> {
    /// Vectors near to `query`, nearest first: the `count` nearest of those in the `width` lists whose
    /// centroids are nearest (`nprobe` in other systems), at least one.
    ///
    /// A list in which nothing matches the filter does not count, and as long as fewer than `count` were found,
    /// it goes on with farther lists, until all have been compared; where the search is for all that are
    /// within a distance, until nothing of a list is. It is exhaustive if all lists were compared.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, [`VectorError::Within`], and those of loading pages.
    pub fn search<'v>(
        &self,
        query: impl Into<VectorRef<'v>>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        let query = query.into();
        if self.knows_few_places(search)? {
            return self.search_exact(query, search);
        }
        let query = self.core.layouts.vectors.distances.vector(query)?;
        search.validate()?;
        let answer =
            self.space.interleave(AccessHint::Normal, |way| self.search_by(way, &query, search));
        Ok(answer?)
    }

    /// The vectors nearest to `query`, nearest first, of all that the index has: each that matches is
    /// compared. Of equally near ones those with the lowest labels.
    ///
    /// # Errors
    /// As [`IvfIndex::search`].
    pub fn search_exact<'v>(
        &self,
        query: impl Into<VectorRef<'v>>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        let query = self.core.layouts.vectors.distances.vector(query.into())?;
        search.validate()?;
        let mut comparison = Comparison::new(&query, search);
        let layout = &self.core.layouts.vectors;
        // In the order in which pages lie in the file.
        let done = self.space.interleave(AccessHint::Scan, |way| {
            let mut scan = Scan::new(&self.space, layout, way);
            let compare = |page| match self.has_vectors(page)? {
                true => comparison.compare(&mut scan, page).map(|()| true),
                false => Ok(true),
            };
            match search.filter.and_then(|filter| filter.places()) {
                Some(places) => {
                    let pages = by_page(&self.space, places.as_slice())?;
                    let pages: Vec<PageNo> = pages.into_iter().map(|(page, _)| page).collect();
                    for_each_of(&self.space, &pages, compare)
                }
                None => for_each_page(&self.space, compare),
            }
        });
        done?;
        Ok(Answer { found: comparison.best.into_found(), is_exhaustive: true })
    }

    /// Whether it is known where what matches lies, and that is in fewer pages than a search looks at.
    fn knows_few_places(&self, search: &Search<'_>) -> Result<bool, PoolError> {
        let Some(places) = search.filter.and_then(|filter| filter.places()) else {
            return Ok(false);
        };
        let places = places.as_slice();
        let pages = places.chunk_by(|(one, _), (next, _)| one.page() == next.page()).count();
        let lists = self.core.options.lists.max(1) as f64;
        // It goes on until something matches in so many lists, and enough is found.
        let of_list = places.len() as f64 / lists;
        let width = search.width.max(1) as f64 / of_list.min(1.0);
        let looked_at = width.max(search.count as f64 / of_list).min(lists);
        if pages as f64 <= looked_at {
            return Ok(true);
        }
        Ok(pages as f64 <= looked_at * self.space.pages_in_use()? as f64 / lists)
    }

    /// Shows the label of each vector, and where it lies, in no order, until `show` returns false.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn for_each(&self, mut show: impl FnMut(u64, NodeId) -> bool) -> Result<(), VectorError> {
        let (layout, mut labels) = (&self.core.layouts.vectors, Vec::new());
        let done = self.space.interleave(AccessHint::Scan, |way| {
            let mut scan = Scan::new(&self.space, layout, way);
            for_each_page(&self.space, |page| {
                labels.clear();
                if self.has_vectors(page)? {
                    scan.look(page, |entries| {
                        labels.clear();
                        labels
                            .extend(entries.taken(layout).map(|slot| (slot, entries.label(slot))));
                    })?;
                }
                let there = labels.drain(..);
                let mut there =
                    there.filter_map(|(slot, label)| Some((label, NodeId::new(page, 0, slot)?)));
                Ok(there.all(|(label, node)| show(label, node)))
            })
        });
        Ok(done?)
    }

    /// Whether a page is one with vectors, and none of centroids or of a directory.
    fn has_vectors(&self, number: PageNo) -> Result<bool, PoolError> {
        read_page(&self.space, AccessHint::Scan, number, |page| {
            EntriesPage::new(page).is_of(&self.core.layouts.vectors)
        })
    }

    fn search_by<'p>(
        &'p self,
        way: &mut Interleaved<'p, T>,
        query: &Vector,
        search: &Search<'_>,
    ) -> Result<Answer, PoolError> {
        // 1
        let mut lists = Vec::with_capacity(self.core.options.lists);
        self.rank(way, query, |ranked| lists.push(ranked))?;
        let width = search.width.clamp(1, lists.len().max(1));
        if width < lists.len() {
            lists.select_nth_unstable(width);
        }
        let (count, nearest) = (lists.len(), lists.len().min(width));
        lists[..nearest].sort_unstable();
        self.space.load_ahead(lists[..nearest].iter().map(|(_, list)| *list));
        // 2
        let mut scan = Scan::new(&self.space, &self.core.layouts.vectors, way);
        let mut comparison = Comparison::new(query, search);
        let (mut pages, mut next) = (Vec::new(), Vec::new());
        let mut look_up = |at: usize, pages: &mut Vec<PageNo>| {
            if at == nearest {
                lists[nearest..].sort_unstable();
            }
            match lists.get(at) {
                Some((_, list)) => self.lists().pages(*list, pages),
                None => Ok(()),
            }
        };
        look_up(0, &mut pages)?;
        // Lists that were compared, and those of them in which something matched.
        let (mut done, mut counted) = (0, 0);
        while done < count {
            // Where enough was found, the next one is needed if this one does not end the search.
            let goes_on = counted + 1 < width || !comparison.best.is_full();
            next.clear();
            if goes_on {
                look_up(done + 1, &mut next)?;
            }
            (comparison.matching, comparison.within) = (0, 0);
            scan.for_each(&pages, &next, |scan, page| comparison.compare(scan, page))?;
            std::mem::swap(&mut pages, &mut next);
            (done, counted) = (done + 1, counted + usize::from(comparison.matching > 0));
            // 3
            let is_beyond = search.is_range() && comparison.matching > 0 && comparison.within == 0;
            if counted >= width && (comparison.best.is_full() || is_beyond) {
                break;
            }
            if !goes_on {
                look_up(done, &mut pages)?;
            }
        }
        let is_exhaustive = done == count;
        Ok(Answer { found: comparison.best.into_found(), is_exhaustive })
    }

    /// The list whose centroid is nearest to a vector.
    pub(super) fn nearest_list(&self, vector: &Vector) -> Result<PageNo, PoolError> {
        let mut nearest: Option<Ranked> = None;
        self.space.interleave(AccessHint::Normal, |way| {
            self.rank(way, vector, |ranked| {
                nearest = Some(nearest.map_or(ranked, |nearest| nearest.min(ranked)));
            })
        })?;
        let none = || broken(PageId::new(self.space.id(), root()), "the index has no lists");
        nearest.map(|(_, list)| list).ok_or_else(none)
    }

    /// Compares a vector with all centroids, and hands over each list by how far its centroid is.
    fn rank<'p>(
        &'p self,
        way: &mut Interleaved<'p, T>,
        vector: &Vector,
        mut list: impl FnMut(Ranked),
    ) -> Result<(), PoolError> {
        let layout = &self.core.layouts.centroids;
        let mut scan = Scan::new(&self.space, layout, way);
        let mut seen: Vec<(u32, u64)> = Vec::new();
        scan.for_each(&self.core.centroid_pages, &[], |scan, number| {
            scan.look(number, |entries| {
                seen.clear();
                seen.extend(entries.taken(layout).map(|slot| {
                    (order_of(entries.distance(layout, vector, slot)), entries.label(slot))
                }));
            })?;
            for (order, label) in seen.drain(..) {
                let what = "a centroid has no list";
                let none = || broken(PageId::new(self.space.id(), number), what);
                list((order, PageNo::new(label).filter(|page| page.get() > 0).ok_or_else(none)?));
            }
            Ok(())
        })
    }
}
