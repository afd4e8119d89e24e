//! HNSW: a proximity graph of several levels, in pages (Malkov and Yashunin, "Efficient and Robust
//! Approximate Nearest Neighbor Search Using Hierarchical Navigable Small World Graphs", 2020).
//!
//! ```text
//!   level 2        o -------------------- o            a node in M^2, at random
//!                  |                      |
//!   level 1        o ------- o ---------- o            a node in M
//!                  |         |            |
//!   level 0     o--o--o---o--o--o---o--o--o--o         all of them
//! ```
//!
//! A search goes from the entry, a node of the highest level, to the node of each level that is
//! nearest, and on the lowest keeps the `width` nearest that it has seen (`ef` in the paper). An insert
//! searches in the same way on each level that the new node has, and links it with the nearest of
//! those that are found of which none is much nearer to another one chosen than to the new node: so
//! links lead in all directions (algorithm 4; `select.rs`).
//!
//! **Nodes are in pages.** A node is a vector, a label and its links on all of its levels, in one
//! place of one page (`node.rs`). Links are page numbers with places, so that there is no table of
//! nodes and no most of them.
//!
//! **A search reads as any reader.** It latches nothing, and reads vectors where they lie; what it has
//! read of a page counts once that has validated. For the neighbours of a node the state words are asked
//! for together, then the lines of their vectors, and those that are not resident are read
//! together and compared in the order in which they come (group prefetch, `calico-2026` 5.1;
//! `polder_pool::Interleaved`).
//!
//! **An insert is one change on the lowest level**: the node with its links, and links to it from the 16
//! nearest of those. Other links, and those of higher levels, are changes of their own, without which it
//! is found all the same.
//!
//! **Every node is reached.** A list that is full leaves a link out only where another one of it leads to
//! a node that links there, or the new node does (`HNSW-5`); in the paper, what is farthest is left out,
//! and clusters that lie far from all others are lost to searches. (A link that is left out because of
//! another one is not safe from a thread that takes that away at the same moment: what is lost so,
//! `count_reached` shows.)
//!
//! **A removed place is free at once.** The node is found no more; those that are found to lead to it get
//! links to its neighbours instead; and then another node may have its place (Xu et al., "In-Place
//! Updates of a Graph Index for Streaming Approximate Nearest Neighbor Search", 2025, repair a graph of
//! DiskANN so). Links that were not found are stale (`HNSW-2`): they lead nowhere, or to the node that
//! has the place next, until their list is written. Pages of nodes are never freed: a stale link always
//! leads to a page of nodes.
//!
//! **A new node goes where there is room near it**: into the page of a neighbour if that has a free
//! place; else into a page that its thread fills, or one of those in which a place became free
//! (`HNSW-6`); else into a new page. (A page that was being filled is forgotten when the index is closed,
//! and found again beside neighbours, or when a place in it becomes free.)
//!
//! | file | |
//! |---|---|
//! | `meta.rs` | the first page |
//! | `node.rs` | pages of nodes |
//! | `walk.rs`, `look.rs` | going through a level, and what is looked at on the way |
//! | `steps.rs` | from level to level |
//! | `filtered.rs`, `matching.rs`, `sample.rs` | how a search with a filter goes through the lowest level |
//! | `search.rs`, `iter.rs` | searches: for the nearest, for all within a distance; one after the other |
//! | `answer.rs` | what searches have found, with labels |
//! | `select.rs` | which of many to link with |
//! | `entry.rs` | where searches begin |
//! | `insert.rs`, `remove.rs` | changes |
//! | `relink.rs`, `reconnect.rs`, `ways.rs` | writing lists in them, and ways to what would not be reached |
//! | `exact.rs` | comparing with all vectors |
//! | `check.rs` | finding what is broken |
//! | `salvage.rs` | what a page tells by itself |

mod answer;
mod check;
mod entry;
mod exact;
mod filtered;
mod insert;
mod iter;
mod look;
mod matching;
mod meta;
mod node;
mod reconnect;
mod relink;
mod remove;
mod salvage;
mod sample;
mod search;
mod select;
mod steps;
#[cfg(test)]
mod tests;
mod walk;
mod ways;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, KindOps, PoolError, Space, Translation};
use polder_structure::create_root;
use polder_structure::levels::root;
use polder_structure::page::broken;

use crate::element::{VectorBuf, VectorRef};
use crate::error::VectorError;
use crate::index::{FoundIter, VectorIndex};
use crate::node_id::{NodeId, State};
use crate::options::{HnswOptions, IndexOptions};
use crate::pages::{is_own, read_first_page, read_page};
use crate::queries::Queries;
use crate::room::Filling;
use crate::search::{Answer, Search};
use crate::vectors::{Distances, Vector};
pub use iter::NearestIter;
use meta::Entry;
use node::{Layout, NodePage, NodeRef};
pub(crate) use salvage::{options_in, vectors_in, verify_nodes};
use sample::Kept;

/// The kinds of pages of such an index.
pub const KINDS: [KindOps; 2] = [
    KindOps::plain(PageKind::HNSW_META, "hnsw index", |page| meta::options(page).map(drop)),
    KindOps::plain(PageKind::HNSW_NODES, "hnsw nodes", |page| NodePage::new(page).verify_shape()),
];

/// A proximity graph in a space of a pool. Cheap to clone.
///
/// ```
/// # use polder_format::PageSize;
/// # use polder_pool::{Array, FileState, Pool};
/// # use polder_testkit::pools;
/// use polder_vector::{ElementKind, HnswIndex, HnswOptions, KINDS, Metric, Search, VectorShape};
///
/// # let config = pools::config(4, PageSize::MIN, FileState::NEW);
/// let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS)?;
/// let shape = VectorShape { element: ElementKind::F32, dimensions: 3, metric: Metric::L2 };
/// let index = HnswIndex::create(pool.create_space()?, &HnswOptions::new(shape))?;
///
/// let red = index.insert(1, &[1.0_f32, 0.0, 0.0])?;
/// index.insert(2, &[0.0_f32, 1.0, 0.0])?;
/// let nearest = index.search(&[0.9_f32, 0.2, 0.0], &Search::new(1, 50))?.found;
/// assert_eq!((nearest[0].label, nearest[0].node), (1, red));
///
/// assert!(index.remove(1, red)?);
/// assert_eq!(index.search(&[0.9_f32, 0.2, 0.0], &Search::new(10, 50))?.found.len(), 1);
/// // What has no distance is refused.
/// assert!(index.insert(3, &[f32::NAN, 0.0, 0.0]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HnswIndex<T: Translation> {
    pub(crate) space: Space<T>,
    pub(crate) core: Arc<Core>,
}

/// What all handles of an index share.
pub(crate) struct Core {
    pub(crate) options: HnswOptions,
    pub(crate) layout: Layout,
    pub(crate) distances: Distances,
    pub(crate) filling: Filling,
    /// What searches with a filter estimate by. Held for as long as a pointer is copied.
    pub(crate) sample: Mutex<Option<Kept>>,
    /// How many vectors were inserted and removed by these handles.
    pub(crate) changes: AtomicU64,
}

impl<T: Translation> Clone for HnswIndex<T> {
    fn clone(&self) -> HnswIndex<T> {
        HnswIndex { space: self.space.clone(), core: Arc::clone(&self.core) }
    }
}

impl<T: Translation> fmt::Debug for HnswIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HnswIndex({:?}, {:?})", self.space, self.core.options)
    }
}

impl<T: Translation> HnswIndex<T> {
    /// Makes an empty index in a new space.
    ///
    /// # Errors
    /// [`VectorError::Option`], [`VectorError::Metric`] and [`VectorError::TooLong`] for options that
    /// are not possible; those of making a page; [`PoolError::Broken`] if the space is not empty.
    pub fn create(space: Space<T>, options: &HnswOptions) -> Result<HnswIndex<T>, VectorError> {
        let core = Core::new(options, &space)?;
        create_root(&space, "the space of a new vector index is not empty", |page| {
            let mut meta = page.page_mut();
            meta.set_u8(header_at::KIND, PageKind::HNSW_META.0);
            meta.set_u8(header_at::LAYOUT, 1);
            meta::init(&mut meta, options);
            meta::hole(page.page())
        })?;
        Ok(HnswIndex { space, core: Arc::new(core) })
    }

    /// The index of a space that has one.
    ///
    /// # Errors
    /// Those of loading its first page; [`PoolError::Broken`] if that is none of such an index.
    pub fn open(space: Space<T>) -> Result<HnswIndex<T>, VectorError> {
        let none = "the space has no vector index";
        let options = read_first_page(&space, PageKind::HNSW_META, none, meta::options)?;
        let core = Arc::new(Core::new(&options, &space)?);
        Ok(HnswIndex { space, core })
    }

    /// Its space.
    pub fn space(&self) -> &Space<T> {
        &self.space
    }

    /// What it is.
    pub fn options(&self) -> HnswOptions {
        self.core.options
    }

    /// The vector of a node, if that is there and has this label.
    ///
    /// # Errors
    /// Those of loading a page.
    pub fn get(&self, label: u64, node: NodeId) -> Result<Option<VectorBuf>, VectorError> {
        if !self.is_page_of_nodes(node)? {
            return Ok(None);
        }
        let vector = self.read_node(node, |_, found| {
            (found.state() == State::Live && found.label() == label)
                .then(|| found.copy(&self.core.layout))
        })?;
        let kind = self.core.options.shape.element;
        Ok(vector.flatten().map(|vector| vector.to_buf(kind)))
    }

    /// Whether the page of a node that a caller gives, and no link does, is one of nodes.
    fn is_page_of_nodes(&self, node: NodeId) -> Result<bool, PoolError> {
        if !is_own(&self.space, node.page())? {
            return Ok(false);
        }
        read_page(&self.space, AccessHint::Normal, node.page(), |page| {
            NodePage::new(page).is_of(&self.core.layout)
        })
    }

    /// Where searches begin.
    pub(crate) fn entry(&self) -> Result<Option<Entry>, PoolError> {
        read_page(&self.space, AccessHint::Normal, root(), meta::entry)
    }

    /// What `read` makes of a node, for which it may wait. `None` if the page has no such place.
    pub(crate) fn read_node<R>(
        &self,
        node: NodeId,
        read: impl FnMut(NodePage<'_>, NodeRef<'_>) -> R,
    ) -> Result<Option<R>, PoolError> {
        self.read_node_for(AccessHint::Normal, node, read)
    }

    /// The same, with what its page is wanted for.
    fn read_node_for<R>(
        &self,
        hint: AccessHint,
        node: NodeId,
        mut read: impl FnMut(NodePage<'_>, NodeRef<'_>) -> R,
    ) -> Result<Option<R>, PoolError> {
        self.space.run(hint, |attempt| {
            let page = self.space.page(attempt, node.page())?;
            let result = self.core.node_in(page.page(), node, &mut read);
            page.validate()?;
            result.map_err(|what| attempt.fail(broken(page.id(), what)))
        })
    }
}

impl<T: Translation> VectorIndex for HnswIndex<T> {
    fn options(&self) -> IndexOptions {
        IndexOptions::Hnsw(self.core.options)
    }

    fn for_each(&self, show: &mut dyn FnMut(u64, NodeId) -> bool) -> Result<(), VectorError> {
        HnswIndex::for_each(self, show)
    }

    fn size_bytes(&self) -> Result<u64, VectorError> {
        Ok(self.space.pages_in_use()? * self.space.page_size().bytes() as u64)
    }

    fn insert(&self, label: u64, vector: VectorRef<'_>) -> Result<NodeId, VectorError> {
        HnswIndex::insert(self, label, vector)
    }

    fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError> {
        HnswIndex::remove(self, label, node)
    }

    fn get(&self, label: u64, node: NodeId) -> Result<Option<VectorBuf>, VectorError> {
        HnswIndex::get(self, label, node)
    }

    fn search(&self, query: VectorRef<'_>, search: &Search<'_>) -> Result<Answer, VectorError> {
        HnswIndex::search(self, query, search)
    }

    fn search_each(
        &self,
        queries: &Queries<'_>,
        search: &Search<'_>,
    ) -> Result<Vec<(usize, Answer)>, VectorError> {
        HnswIndex::search_each(self, queries, search)
    }

    fn nearest<'i>(
        &'i self,
        query: VectorRef<'_>,
        search: &Search<'i>,
    ) -> Result<FoundIter<'i>, VectorError> {
        Ok(Box::new(HnswIndex::nearest(self, query, search)?))
    }

    fn search_exact(
        &self,
        query: VectorRef<'_>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        HnswIndex::search_exact(self, query, search)
    }
}

impl Core {
    fn new<T: Translation>(options: &HnswOptions, space: &Space<T>) -> Result<Core, VectorError> {
        let layout = options.layout(space.page_size())?;
        let distances = Distances::new(options.shape);
        let (filling, sample, changes) = Default::default();
        Ok(Core { options: *options, layout, distances, filling, sample, changes })
    }

    /// How far a node is from a vector.
    #[inline(always)]
    fn distance(&self, from: &Vector, node: NodeRef<'_>) -> f32 {
        self.distances.between(from, node.vector(&self.layout), || node.scale())
    }

    /// What `read` makes of a node in its page, which may be changing; `None` if there is no such
    /// place.
    pub(crate) fn node_in<R>(
        &self,
        page: PageRef<'_>,
        node: NodeId,
        read: impl FnOnce(NodePage<'_>, NodeRef<'_>) -> R,
    ) -> Result<Option<R>, &'static str> {
        let nodes = NodePage::new(page);
        if !nodes.is_of(&self.layout) {
            return Err("a link of a vector index leads to a page without nodes of that index");
        }
        Ok(nodes.has(node).then(|| read(nodes, nodes.node(&self.layout, node.slot()))))
    }
}
