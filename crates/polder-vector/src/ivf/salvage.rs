//! What pages tell by themselves, of an index that may lack any other one (`IVF-5`).

use std::collections::BTreeMap;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;

use super::entries::EntriesPage;
use super::meta;
use super::train::{distances_of_centroids, mean};
use crate::element::VectorBuf;
use crate::options::IvfOptions;
use crate::vectors::{Distances, Vector};

/// The options of the index of a page.
pub(crate) fn options_in(page: PageRef<'_>) -> Option<IvfOptions> {
    match PageKind(page.u8(header_at::KIND)) {
        PageKind::IVF_META => meta::options(page).ok(),
        PageKind::IVF_ENTRIES | PageKind::IVF_CENTROIDS => EntriesPage::new(page).options().ok(),
        _ => None,
    }
}

/// Whether a first page is that of an index that was made to its end (`IVF-4`).
pub(crate) fn is_made(page: PageRef<'_>) -> bool {
    meta::centroids(page).is_some()
}

/// Shows label and bytes of each vector in a page.
pub(crate) fn vectors_in(page: PageRef<'_>, show: &mut dyn FnMut(u64, &[u8])) {
    if page.u8(header_at::KIND) == PageKind::IVF_ENTRIES.0 {
        for (label, vector) in entries_of(EntriesPage::new(page)) {
            show(label, &vector.to_bytes());
        }
    }
}

/// The entries of a page, if it is what it must be.
fn entries_of(page: EntriesPage<'_>) -> Vec<(u64, Vector)> {
    let Ok(layout) = page.verify() else { return Vec::new() };
    page.taken(&layout).map(|slot| (page.label(slot), page.copy(&layout, slot))).collect()
}

/// Centroids for an index like one of which pages are left.
pub(crate) struct Centroids {
    options: IvfOptions,
    /// As they are compared with vectors.
    distances: Distances,
    /// By the names of their lists.
    known: BTreeMap<u64, Centroid>,
}

struct Centroid {
    vector: Vector,
    /// Whether it is that of its list, and not one that stands in for it.
    is_own: bool,
}

impl Centroids {
    /// Of an index with these options, of which nothing else is known yet.
    pub(crate) fn new(options: IvfOptions) -> Centroids {
        let distances = distances_of_centroids(options.shape);
        Centroids { options, distances, known: BTreeMap::new() }
    }

    /// Takes what a page tells: centroids, or where the vectors of a list are. Keeps one for each list.
    pub(crate) fn note(&mut self, page: PageRef<'_>) {
        if options_in(page) != Some(self.options) {
            return;
        }
        let (kind, page) = (PageKind(page.u8(header_at::KIND)), EntriesPage::new(page));
        match (kind, page.list()) {
            (PageKind::IVF_CENTROIDS, _) => {
                for (list, vector) in entries_of(page) {
                    self.keep(list, true, |known| known.compared(&vector));
                }
            }
            (PageKind::IVF_ENTRIES, Some(list)) => {
                self.keep(list.get(), false, |known| known.mean_of(page));
            }
            _ => {}
        }
    }

    fn keep(
        &mut self,
        list: u64,
        is_own: bool,
        centroid: impl FnOnce(&Centroids) -> Option<Vector>,
    ) {
        let is_wanted = match self.known.get(&list) {
            Some(known) => is_own && !known.is_own,
            None => self.known.len() < self.options.lists,
        };
        if is_wanted && let Some(vector) = centroid(self) {
            self.known.insert(list, Centroid { vector, is_own });
        }
    }

    /// A vector as it is compared with others; none if it cannot be.
    fn compared(&self, vector: &Vector) -> Option<Vector> {
        self.distances.vector(vector.to_buf(self.options.shape.element).view()).ok()
    }

    /// The mean of the vectors of a page; where they have none, one of them.
    fn mean_of(&self, page: EntriesPage<'_>) -> Option<Vector> {
        let vectors = entries_of(page).into_iter();
        let vectors: Vec<_> = vectors.filter_map(|(_, vector)| self.compared(&vector)).collect();
        let any = vectors.first()?;
        Some(mean(&self.distances, vectors.iter()).unwrap_or_else(|| any.clone()))
    }

    /// The options of an index around what was found, and the centroids; none if nothing was.
    pub(crate) fn into_index(self) -> Option<(IvfOptions, Vec<VectorBuf>)> {
        let (lists, element) = (self.known.len(), self.options.shape.element);
        let known = self.known.into_values();
        let centroids = known.map(|centroid| centroid.vector.to_buf(element)).collect();
        (lists > 0).then_some((IvfOptions { lists, ..self.options }, centroids))
    }
}
