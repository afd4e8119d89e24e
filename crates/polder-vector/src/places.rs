//! Vectors of which it is known where they lie: a filter whose searches may look at nothing else.

use polder_format::PageNo;
use polder_pool::{PoolError, Space, Translation};
use roaring::RoaringTreemap;

use crate::node_id::NodeId;
use crate::pages::is_own;

/// Vectors by their labels, and where they lie, as a [`Filter`](crate::Filter): a search among few of them
/// compares with these alone, without going through all that an index has. One that was removed is not found.
///
/// ```
/// # use polder_format::PageSize;
/// # use polder_pool::{Array, FileState, Pool};
/// # use polder_testkit::pools;
/// # use polder_vector::{
/// #     ElementKind, HnswIndex, HnswOptions, KINDS, Metric, Places, Search, VectorShape,
/// # };
/// # let config = pools::config(4, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS)?;
/// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
/// let index = HnswIndex::create(pool.create_space()?, &HnswOptions::new(shape))?;
/// let mut mine = Vec::new();
/// for label in 0..100 {
///     let node = index.insert(label, &[label as f32, 0.0])?;
///     if label % 50 == 7 {
///         mine.push((label, node));
///     }
/// }
/// let mine = Places::from_iter(mine);
/// let answer = index.search(&[40.0_f32, 0.0], &Search::new(1, 10).filter(&mine))?;
/// assert!(answer.found[0].label == 57 && answer.is_exhaustive);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Places {
    labels: RoaringTreemap,
    /// In order.
    places: Vec<(NodeId, u64)>,
}

impl FromIterator<(u64, NodeId)> for Places {
    /// Of vectors with their labels, of one index.
    fn from_iter<I: IntoIterator<Item = (u64, NodeId)>>(vectors: I) -> Places {
        let mut places: Vec<_> = vectors.into_iter().map(|(label, node)| (node, label)).collect();
        places.sort_unstable();
        places.dedup();
        places.shrink_to_fit();
        Places { labels: places.iter().map(|(_, label)| *label).collect(), places }
    }
}

impl Places {
    /// How many labels there are.
    pub fn len(&self) -> u64 {
        self.labels.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Whether a label is one of them.
    pub fn contains(&self, label: u64) -> bool {
        self.labels.contains(label)
    }

    /// Places in order, each with its label.
    pub(crate) fn as_slice(&self) -> &[(NodeId, u64)] {
        &self.places
    }
}

/// A page, and places in it.
pub(crate) type PageOfPlaces<'a> = (PageNo, &'a [(NodeId, u64)]);

/// Places in order, those of each page together, but for those of pages that are none of the space's.
pub(crate) fn by_page<'a, T: Translation>(
    space: &Space<T>,
    places: &'a [(NodeId, u64)],
) -> Result<Vec<PageOfPlaces<'a>>, PoolError> {
    let mut pages = Vec::new();
    for places in places.chunk_by(|(one, _), (next, _)| one.page() == next.page()) {
        let page = places[0].0.page();
        if is_own(space, page)? {
            pages.push((page, places));
        }
    }
    Ok(pages)
}
