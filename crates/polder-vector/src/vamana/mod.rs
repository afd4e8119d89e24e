//! Vamana: a proximity graph for vectors that do not fit in memory, in which searches are steered by codes
//! that do (the graph of DiskANN; Subramanya et al., "DiskANN: Fast Accurate Billion-point Nearest Neighbor
//! Search on a Single Node", NeurIPS 2019).
//!
//! ```text
//!   pages of codes, small, read all the time            pages of nodes, read when a search comes there
//!
//!   | entry | entry | entry | entry | ...               | node: vector, links | node | ...
//!       |       ^                                              ^        |
//!       |       '------------ links name entries --------------|--------'
//!       '--------------- where the node is ------------------- '
//! ```
//!
//! A vector has an *entry*, in which a code of it lies beside its label (`entry.rs`, `code.rs`), and a *node*
//! with the whole vector and its links (`node.rs`). A link names an entry. So a search that comes to a node
//! learns from entries alone how far those are, about, to which it leads, and reads only the nodes that it
//! goes through: as many as it is wide, and not all that they lead to. A page of codes has the entries of
//! dozens of vectors; those that searches come to stay in memory by the pool's own replacement.
//!
//! A search begins with the root and with the entries of some pages that are drawn at random (`meta.rs`):
//! without upper levels, which HNSW has, a graph has few links from one cluster to another, and a search of
//! few steps would not find them. Entries are dense enough for hundreds to be looked at in a few pages.
//!
//! A search reads the nodes of a few of the nearest entries at once, compares each vector with the query as
//! it comes, and goes on with what their links lead to (`walk.rs`). What it gives is by the exact distances
//! of the nodes that it has read.
//!
//! An insert searches in the same way, links the new node with those of which none is much nearer to another
//! one chosen (robust pruning; `prune.rs`), and them with it. A list that is full is pruned with distances
//! between codes, so that no other node is read for that. The factor by which a node must be nearer to
//! another one makes links lead far in few steps, of which each is a read.
//!
//! **Every node is reached.** Pruning knows nothing of ways that it cuts off: clusters far from all others
//! are lost by it. So the nodes are a tree as well (`VAMANA-5`): a few of the links of a node, those to its
//! children, are never left out, and whatever is done to others every node is reached from the root along
//! them. A new node is the child of the nearest one that it found with room for one; or, if it is nearer to
//! the centre of all vectors than the root is, the new root, and the old one its child. A node that is
//! removed sinks first, by rotations with its children as in a heap, until it has none (`remove.rs`).
//!
//! **Removing repairs the graph around a node**: those that are found to lead to it lead to some of its
//! neighbours instead (Xu et al., "In-Place Updates of a Graph Index for Streaming Approximate Nearest
//! Neighbor Search", 2025). Links that were not found are stale (`VAMANA-2`). The places are free at once.
//!
//! | | reads | changes, each line by one edit |
//! |---|---|---|
//! | insert | entries, and as many nodes as it is wide | an entry, a node, up to 16 lists, its parent's among them; a new root, or pages: the first page |
//! | | codes of full lists | up to 16 more lists, several times |
//! | remove | entries, and as many nodes as inserts are wide | the states of entry and node |
//! | | | up to 16 lists that lead to it, several times |
//! | | | for each child a rotation: four nodes at most, or three and the first page |
//! | | | entry and node, the parent's list, the first page |
//! | search | entries, and as many nodes as it is wide, latching nothing | |
//! | load | | a group: new pages, the parent's list, the first page |
//! | relinking | all nodes, several times, in the order in which they lie; codes of full lists | up to 16 lists |
//!
//! What could go wrong, and does not:
//!
//! * A link is followed whose entry has become another vector's: that one is seen, with its own code and
//!   its own node (`VAMANA-2`).
//! * An entry is read, then its vector is removed, and its node's place taken: the node does not lead back
//!   to the entry.
//! * Two threads give a node children, or one does while another removes it: both change its list, so the
//!   second edit begins again, and sees that there is no room, or that the node is leaving.
//! * Two rotations at neighbouring places: each edit reads all nodes that it turns, and changes them as
//!   one.
//!
//! | file | |
//! |---|---|
//! | `rotation.rs`, `code.rs` | codes, and distances by them |
//! | `layout.rs` | where in pages everything lies |
//! | `meta.rs` | the first page |
//! | `slots.rs`, `entry.rs`, `node.rs` | pages of codes and of nodes |
//! | `walk.rs`, `look.rs` | going through the graph |
//! | `search.rs`, `filtered.rs` | searches |
//! | `scan.rs` | going through all entries, or all nodes |
//! | `prune.rs` | which of many to link with |
//! | `room.rs`, `places.rs` | places for new vectors, and those of others in edits |
//! | `insert.rs`, `link.rs`, `remove.rs` | changes |
//! | `load.rs`, `order.rs` | placing many vectors at once |
//! | `relink.rs`, `part.rs` | linking all of them by parts that are held in memory |
//! | `check.rs` | finding what is broken |
//! | `salvage.rs` | what a page tells by itself |

mod check;
mod code;
mod entry;
mod filtered;
mod insert;
mod layout;
mod link;
mod load;
mod look;
mod meta;
mod node;
mod order;
mod part;
mod places;
mod prune;
mod relink;
mod remove;
mod room;
mod rotation;
mod salvage;
mod scan;
mod search;
mod slots;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;
use std::sync::{Arc, Mutex};

use polder_format::{PageKind, PageNo, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, KindOps, PoolError, Space, Translation};
use polder_structure::create_root;
use polder_structure::levels::root;
use polder_structure::page::broken;

use crate::element::{VectorBuf, VectorRef};
use crate::error::VectorError;
use crate::index::{Bulk, FoundIter, VectorIndex};
use crate::node_id::{NodeId, State};
use crate::options::{IndexOptions, VamanaOptions};
use crate::pages::{is_own, read_first_page, read_page};
use crate::queries::Queries;
use crate::room::Filling;
use crate::search::{Answer, Search};
use crate::vectors::{Distances, Vector};
use crate::widening;
use code::Coder;
use layout::{Kind, Layout};
use meta::{Centre, Entry};
pub(crate) use salvage::{options_in, vectors_in};
use slots::{Slot, SlotPage};

/// The kinds of pages of such an index.
pub const KINDS: [KindOps; 3] = [
    KindOps::plain(PageKind::VAMANA_META, "vamana index", |page| meta::options(page).map(drop)),
    KindOps::plain(PageKind::VAMANA_CODES, "vamana codes", |page| {
        SlotPage::new(page).verify(Kind::Codes).map(drop)
    }),
    KindOps::plain(PageKind::VAMANA_NODES, "vamana nodes", |page| {
        SlotPage::new(page).verify(Kind::Nodes).map(drop)
    }),
];

/// A proximity graph in a space of a pool, steered by codes. Cheap to clone.
///
/// ```
/// # use polder_format::PageSize;
/// # use polder_pool::{Array, FileState, Pool};
/// # use polder_testkit::pools;
/// use polder_vector::{ElementKind, KINDS, Metric, Search, VamanaIndex, VamanaOptions, VectorShape};
///
/// # let config = pools::config(4, PageSize::MIN, FileState::NEW);
/// let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS)?;
/// let shape = VectorShape { element: ElementKind::F32, dimensions: 3, metric: Metric::L2 };
/// let sample = [[1.0_f32, 0.0, 0.0], [0.0, 1.0, 0.0]];
/// let options = VamanaOptions::new(shape);
/// let index = VamanaIndex::create(pool.create_space()?, &options, &sample)?;
///
/// let red = index.insert(1, &[1.0_f32, 0.0, 0.0])?;
/// index.insert(2, &[0.0_f32, 1.0, 0.0])?;
/// let nearest = index.search(&[0.9_f32, 0.2, 0.0], &Search::new(1, 50))?.found;
/// assert_eq!((nearest[0].label, nearest[0].node), (1, red));
///
/// assert!(index.remove(1, red)?);
/// assert_eq!(index.search(&[0.9_f32, 0.2, 0.0], &Search::new(10, 50))?.found.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VamanaIndex<T: Translation> {
    space: Space<T>,
    core: Arc<Core>,
}

/// What all handles of an index share.
struct Core {
    options: VamanaOptions,
    layout: Layout,
    distances: Distances,
    coder: Coder,
    filling: Filling,
    /// Entry and node of the vector that a run has placed last, behind which the next run goes on. In memory
    /// alone: without it the root is what it goes on behind (`load.rs`).
    last_placed: Mutex<Option<[NodeId; 2]>>,
    /// The pages of codes that are known, the oldest first (`VAMANA-4`).
    code_pages: Mutex<Arc<Vec<PageNo>>>,
}

impl<T: Translation> Clone for VamanaIndex<T> {
    fn clone(&self) -> VamanaIndex<T> {
        VamanaIndex { space: self.space.clone(), core: Arc::clone(&self.core) }
    }
}

impl<T: Translation> fmt::Debug for VamanaIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VamanaIndex({:?}, {:?})", self.space, self.core.options)
    }
}

impl<T: Translation> VamanaIndex<T> {
    /// Makes an empty index in a new space. Of a sample it takes the mean, from which on vectors are coded:
    /// some hundred vectors that are like those that will come make codes more exact. It may be empty, and
    /// is not inserted.
    ///
    /// # Errors
    /// [`VectorError::Option`], [`VectorError::Metric`], [`VectorError::NoCodes`] and
    /// [`VectorError::NodeTooLong`] for options that are not possible; those of a vector that is not one of the
    /// index; those of making a page; [`PoolError::Broken`] if the space is not empty.
    pub fn create<'v, V: Into<VectorRef<'v>>>(
        space: Space<T>,
        options: &VamanaOptions,
        sample: impl IntoIterator<Item = V>,
    ) -> Result<VamanaIndex<T>, VectorError> {
        VamanaIndex::create_around(space, options, &mean(options, sample)?)
    }

    /// The same with a centre: as many numbers as there are dimensions, or none for zero.
    pub(crate) fn create_around(
        space: Space<T>,
        options: &VamanaOptions,
        centre: &[f32],
    ) -> Result<VamanaIndex<T>, VectorError> {
        let layout = options.layout(space.page_size())?;
        let mut numbers = centre.to_vec();
        numbers.resize(options.shape.dimensions, 0.0);
        let centre = Centre::rounded(&numbers);
        create_root(&space, "the space of a new vector index is not empty", |page| {
            let mut meta = page.page_mut();
            meta.set_u8(header_at::KIND, PageKind::VAMANA_META.0);
            meta.set_u8(header_at::LAYOUT, 1);
            meta::init(&mut meta, options, &centre);
            meta::hole(page.page(), options.shape.dimensions)
        })?;
        let core = Arc::new(Core::new(options, layout, &centre));
        Ok(VamanaIndex { space, core })
    }

    /// The index of a space that has one.
    ///
    /// # Errors
    /// Those of loading its first page; [`PoolError::Broken`] if that is none of such an index.
    pub fn open(space: Space<T>) -> Result<VamanaIndex<T>, VectorError> {
        let none = "the space has no vector index with codes";
        let read = |page: PageRef<'_>| {
            let options = meta::options(page)?;
            Ok((options, meta::centre(page, options.shape.dimensions)))
        };
        let (options, centre) = read_first_page(&space, PageKind::VAMANA_META, none, read)?;
        let layout = options.layout(space.page_size())?;
        let core = Arc::new(Core::new(&options, layout, &centre));
        Ok(VamanaIndex { space, core })
    }

    /// Its space.
    pub fn space(&self) -> &Space<T> {
        &self.space
    }

    /// What it is.
    pub fn options(&self) -> VamanaOptions {
        self.core.options
    }

    /// The vector that lies there, if it has this label.
    ///
    /// # Errors
    /// Those of loading a page.
    pub fn get(&self, label: u64, node: NodeId) -> Result<Option<VectorBuf>, VectorError> {
        let Some(place) = self.node_of(label, node)? else { return Ok(None) };
        let vector = self.read_slot(Kind::Nodes, place, |slot| {
            let is_it = slot.partner() == Some(node)
                && slot.label() == label
                && slot.state() == State::Live;
            is_it.then(|| slot.copy(&self.core.layout))
        })?;
        let kind = self.core.options.shape.element;
        Ok(vector.flatten().map(|vector| vector.to_buf(kind)))
    }

    /// The node of an entry that a caller gives, and no link does, if it has this label.
    fn node_of(&self, label: u64, entry: NodeId) -> Result<Option<NodeId>, PoolError> {
        if entry.is_above() || !is_own(&self.space, entry.page())? {
            return Ok(None);
        }
        read_page(&self.space, AccessHint::Normal, entry.page(), |page| {
            let (slots, layout) = (SlotPage::new(page), &self.core.layout);
            let is_one = slots.is_of(layout, Kind::Codes);
            let slot = slots.slot(layout, Kind::Codes, entry.slot()).filter(|_| is_one);
            let slot = slot.filter(|slot| slot.state() != State::Free && slot.label() == label);
            slot.and_then(Slot::partner)
        })
    }

    /// Whether all vectors that loads have placed are linked ([`VamanaIndex::relink_all`]). Inserts link theirs.
    ///
    /// # Errors
    /// Those of loading a page.
    pub fn is_linked(&self) -> Result<bool, VectorError> {
        Ok(self.groups()? & meta::LOOSE == 0)
    }

    /// The count of groups (`VAMANA-8`).
    fn groups(&self) -> Result<u32, PoolError> {
        self.read_meta(meta::groups)
    }

    /// Where searches begin.
    fn entry(&self) -> Result<Option<Entry>, PoolError> {
        self.read_meta(meta::entry)
    }

    /// What `read` makes of the first page.
    fn read_meta<R>(&self, read: impl FnMut(PageRef<'_>) -> R) -> Result<R, PoolError> {
        read_page(&self.space, AccessHint::Normal, root(), read)
    }

    /// What `read` makes of a place, for which it may wait. `None` if the page has no such place.
    fn read_slot<R>(
        &self,
        kind: Kind,
        id: NodeId,
        mut read: impl FnMut(Slot<'_>) -> R,
    ) -> Result<Option<R>, PoolError> {
        let layout = &self.core.layout;
        self.space.run(kind.hint(), |attempt| {
            let page = self.space.page(attempt, id.page())?;
            let slots = SlotPage::new(page.page());
            let is_one = slots.is_of(layout, kind);
            let slot = slots.slot(layout, kind, id.slot()).filter(|_| is_one);
            let result = slot.map(&mut read);
            page.validate()?;
            match is_one {
                true => Ok(result),
                false => {
                    let what = "a link of a vector index leads to a page of another kind";
                    Err(attempt.fail(broken(page.id(), what)))
                }
            }
        })
    }

    /// What `read` makes of the node of an entry. `None` if that is free.
    fn read_node<R>(
        &self,
        entry: NodeId,
        mut read: impl FnMut(Slot<'_>) -> R,
    ) -> Result<Option<(NodeId, R)>, PoolError> {
        let node = self.read_slot(Kind::Codes, entry, |slot| {
            slot.partner().filter(|_| slot.state() != State::Free)
        })?;
        let Some(node) = node.flatten() else { return Ok(None) };
        let result = self.read_slot(Kind::Nodes, node, |slot| {
            // VAMANA-2
            let is_it = slot.state() != State::Free && slot.partner() == Some(entry);
            is_it.then(|| read(slot))
        })?;
        Ok(result.flatten().map(|result| (node, result)))
    }
}

/// The mean of some vectors, of length one under the cosine.
pub(crate) fn mean<'v, V: Into<VectorRef<'v>>>(
    options: &VamanaOptions,
    sample: impl IntoIterator<Item = V>,
) -> Result<Vec<f32>, VectorError> {
    options.shape.validate()?;
    let distances = Distances::new(options.shape);
    let (mut sums, mut count) = (vec![0.0_f64; options.shape.dimensions], 0.0);
    for vector in sample {
        let values = distances.vector(vector.into())?.values(options.shape.element);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(value));
        count += 1.0;
    }
    Ok(sums.into_iter().map(|sum| (sum / f64::max(count, 1.0)) as f32).collect())
}

impl Core {
    fn new(options: &VamanaOptions, layout: Layout, centre: &Centre) -> Core {
        let distances = Distances::new(options.shape);
        let coder = Coder::new(options.shape, options.code_bits, centre.values());
        let (filling, last_placed, code_pages) = Default::default();
        Core { options: *options, layout, distances, coder, filling, last_placed, code_pages }
    }

    /// How far the vector of a node is from another one.
    #[inline(always)]
    fn distance(&self, from: &Vector, node: Slot<'_>) -> f32 {
        self.distances.between(from, node.vector(&self.layout), || node.scale())
    }
}

impl<T: Translation> VectorIndex for VamanaIndex<T> {
    fn options(&self) -> IndexOptions {
        IndexOptions::Vamana(self.core.options)
    }

    fn for_each(&self, show: &mut dyn FnMut(u64, NodeId) -> bool) -> Result<(), VectorError> {
        VamanaIndex::for_each(self, show)
    }

    fn size_bytes(&self) -> Result<u64, VectorError> {
        Ok(self.space.pages_in_use()? * self.space.page_size().bytes() as u64)
    }

    fn insert(&self, label: u64, vector: VectorRef<'_>) -> Result<NodeId, VectorError> {
        VamanaIndex::insert(self, label, vector)
    }

    fn place_run(
        &self,
        run: Vec<(u64, VectorBuf)>,
        bulk: &mut Bulk<'_>,
    ) -> Result<bool, VectorError> {
        VamanaIndex::place_run(self, run, bulk)
    }

    fn is_linked(&self) -> Result<bool, VectorError> {
        VamanaIndex::is_linked(self)
    }

    fn relink(&self, bulk: &mut Bulk<'_>) -> Result<bool, VectorError> {
        self.relink_in(bulk)
    }

    fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError> {
        VamanaIndex::remove(self, label, node)
    }

    fn get(&self, label: u64, node: NodeId) -> Result<Option<VectorBuf>, VectorError> {
        VamanaIndex::get(self, label, node)
    }

    fn search(&self, query: VectorRef<'_>, search: &Search<'_>) -> Result<Answer, VectorError> {
        VamanaIndex::search(self, query, search)
    }

    fn search_each(
        &self,
        queries: &Queries<'_>,
        search: &Search<'_>,
    ) -> Result<Vec<(usize, Answer)>, VectorError> {
        VamanaIndex::search_each(self, queries, search)
    }

    fn nearest<'i>(
        &'i self,
        query: VectorRef<'_>,
        search: &Search<'i>,
    ) -> Result<FoundIter<'i>, VectorError> {
        self.core.distances.vector(query)?;
        search.validate()?;
        Ok(widening::nearest(self, query, search))
    }

    fn search_exact(
        &self,
        query: VectorRef<'_>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        VamanaIndex::search_exact(self, query, search)
    }
}
