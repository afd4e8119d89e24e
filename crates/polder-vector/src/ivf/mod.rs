//! IVF-Flat: vectors in lists, by the centroid that is nearest to each (an inverted file; Jegou, Douze and
//! Schmid, "Product Quantization for Nearest Neighbor Search", 2011, section IV, without the codes).
//!
//! ```text
//!   first page ---> directory of the list of centroids
//!                       |
//!                       v
//!                   pages of entries:   | centroid, name of its list | centroid, name of its list | ...
//!                                                      |                           |
//!                                                      v                           v
//!                                         directory of the list           directory of the list
//!                                             |       |       |
//!                                             v       v       v
//!                                   pages of entries: | vector, label | vector, label | ...
//! ```
//!
//! Centroids are trained on a sample when an index is made, by k-means (`train.rs`), and stay. A vector
//! goes into the posting list of its nearest centroid. A search compares the query with all centroids, and
//! then with all vectors in the lists of the nearest ones. So building costs little more than comparing
//! each vector with the centroids, and a search reads runs of pages, but compares many more vectors than
//! one of a proximity graph.
//!
//! **Centroids are a list as well**, of vectors whose labels are the names of lists: they lie in pages
//! under the pool's budget, and one decoder and one check serve both. Their pages are of another kind, so
//! that nobody takes a centroid for a vector that was inserted. The name of a list is the number of the
//! first page of its directory.
//!
//! **Every page of a list is known before it is read.** A directory names some hundred pages in one, and a
//! list grows by runs of pages (`list.rs`); so they are asked of the device many at once, before the list is
//! compared.
//!
//! What may change, and who changes it:
//!
//! * `IVF-1` Each list is the label of one centroid. Centroids, and the pages in which they are, do not
//!   change once the index is made: every handle knows the numbers of these pages.
//! * `IVF-2` A page of entries is of one list for ever, and a directory only grows. So a search may
//!   believe the numbers that it has read long ago, and sees each vector whose insert had ended before it
//!   began. A page without entries stays with its list, whose centroid will draw vectors again; freeing it
//!   would mean that every reader of a directory must look whether a page is still what it was.
//! * `IVF-3` A page of entries with a free place is in the chain of its list, once, and no other is. The
//!   chain begins in the first page of the directory. An insert takes the first page; the edit that fills
//!   it takes it out. The edit that removes an entry from a full page puts it in front.
//! * `IVF-4` The first page leads to the centroids when all of them are there. An index whose making was cut
//!   off before is not opened. (In a store nobody meets one: its name comes into the catalogue last, and a
//!   space without a name is dropped when the store is opened.)
//! * `IVF-5` Each page of entries tells the options of the index. One of centroids tells these, each with the
//!   name of its list, and one of vectors the name of its list.
//!
//! So an index that has lost any of its pages can be made anew, with the vectors that are left (a salvage):
//! around the centroids that are left, and, of a list whose centroid is lost, around the mean of the vectors
//! in one of its pages. A list of which neither is left is not made again, and had no vector that is left.
//! Of the first page and of directories nothing is needed. Where centroids are matters to how many of the
//! nearest a search finds in so many lists, and to nothing else: a vector is looked for where it was put.
//!
//! | | reads | changes, by one edit |
//! |---|---|---|
//! | insert | centroids, latching nothing | a page of entries; if that is full then, the first page of the directory; if there was none, a run of new pages, and at most two pages of the directory |
//! | remove | | a page of entries; if it was full, the first page of the directory |
//! | search | centroids, directories, entries, latching nothing | |
//!
//! Latches are those of edits: in the order of page numbers, when all is known, and for as long as the change
//! is written. Two inserts into different lists have no page in common that either changes, so that
//! neither makes the other begin again. Two into one list do, and the second begins its edit again, not the
//! comparison with the centroids.
//!
//! What could go wrong, and does not:
//!
//! * Two threads find that a list has no room, and both add pages: both change the first page of the
//!   directory, so the second edit begins again, finds room, and gives its new pages back.
//! * A page of entries is named by a directory before it is made: both are one edit, and what a reader has
//!   read of a directory counts once that has validated.
//! * A directory gets another page while it is read: that comes in behind the first one, which was read as
//!   it was, and what follows never changes its place.
//! * A removed place is taken by another vector while a search is between its label and its vector: both
//!   are read from one state of the page; with a filter, which is asked in between, the label is compared
//!   once more together with the vector.
//! * A caller names a node that is a centroid, a page of a directory, or none: what the page is is looked
//!   at before anything is believed.
//! * A salvage takes centroids of two indexes for those of one, as pages of a space that was dropped may be
//!   left where maps are lost: it takes pages of the same options alone, and not more lists than these say.
//!
//! | file | |
//! |---|---|
//! | `train.rs` | finding centroids |
//! | `salvage.rs` | what pages tell by themselves |
//! | `meta.rs` | the first page |
//! | `list.rs` | directories, and how entries come and go |
//! | `entries.rs` | pages of entries |
//! | `insert.rs` | changes |
//! | `scan.rs` | comparing with the entries of pages |
//! | `search.rs` | searches |
//! | `check.rs` | finding what is broken |

mod check;
mod entries;
mod insert;
mod list;
mod meta;
mod salvage;
mod scan;
mod search;
#[cfg(test)]
mod tests;
pub(crate) mod train;

use std::fmt;
use std::sync::Arc;

use polder_format::{PageKind, PageNo, PageSize, header_at};
use polder_pool::{AccessHint, KindOps, Space, Translation};
use polder_structure::levels::root;
use polder_structure::{create_root, edit};

use crate::element::{VectorBuf, VectorRef};
use crate::error::VectorError;
use crate::index::{FoundIter, VectorIndex};
use crate::node_id::NodeId;
use crate::options::{IndexOptions, IvfOptions};
use crate::pages::{read_first_page, read_page};
use crate::search::{Answer, Search};
use crate::widening;
pub(crate) use check::check;
use entries::{EntriesPage, Layout};
use list::{DirectoryPage, Lists};
pub(crate) use salvage::{Centroids, is_made, options_in, vectors_in};
pub(crate) use train::Sample;
use train::shape_of_centroids;

/// The kinds of pages of such an index.
pub const KINDS: [KindOps; 4] = [
    KindOps::plain(PageKind::IVF_META, "ivf index", |page| meta::options(page).map(drop)),
    KindOps::plain(PageKind::IVF_DIRECTORY, "ivf directory", |page| {
        DirectoryPage::new(page).verify()
    }),
    KindOps::plain(PageKind::IVF_ENTRIES, "ivf entries", |page| {
        EntriesPage::new(page).verify().map(drop)
    }),
    KindOps::plain(PageKind::IVF_CENTROIDS, "ivf centroids", |page| {
        EntriesPage::new(page).verify().map(drop)
    }),
];

/// Lists of an index, at most.
const MOST_LISTS: usize = 1 << 16;

/// Vectors in lists, by their nearest centroids, in a space of a pool. Cheap to clone.
///
/// ```
/// # use polder_format::PageSize;
/// # use polder_pool::{Array, FileState, Pool};
/// # use polder_testkit::pools;
/// use polder_vector::{ElementKind, IvfIndex, IvfOptions, KINDS, Metric, Search, VectorShape};
///
/// # let config = pools::config(4, PageSize::MIN, FileState::NEW);
/// let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS)?;
/// let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
/// let vectors: Vec<Vec<f32>> = (0..100).map(|i| vec![i as f32, (i * 7 % 100) as f32]).collect();
///
/// // The lists are found by looking at vectors, here all of them.
/// let options = IvfOptions { shape, lists: 8 };
/// let index = IvfIndex::create(pool.create_space()?, &options, &vectors)?;
/// for (label, vector) in vectors.iter().enumerate() {
///     index.insert(label as u64, vector)?;
/// }
/// // In the two lists of the nearest centroids.
/// let answer = index.search(&[10.2_f32, 70.1], &Search::new(1, 2))?;
/// assert_eq!((answer.found[0].label, answer.is_exhaustive), (10, false));
/// // In all of them.
/// assert!(index.search(&[10.2_f32, 70.1], &Search::new(1, 8))?.is_exhaustive);
/// assert!(index.remove(10, answer.found[0].node)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IvfIndex<T: Translation> {
    space: Space<T>,
    core: Arc<Core>,
}

/// What all handles of an index share.
struct Core {
    options: IvfOptions,
    layouts: Layouts,
    /// The list of the centroids, and its pages (`IVF-1`).
    centroids: PageNo,
    centroid_pages: Vec<PageNo>,
}

/// How vectors and centroids lie in pages, and are compared.
struct Layouts {
    vectors: Layout,
    centroids: Layout,
}

impl Layouts {
    /// # Errors
    /// If an option is not allowed, or vectors are too long.
    fn new(options: &IvfOptions, size: PageSize) -> Result<Layouts, VectorError> {
        options.validate()?;
        let shape = options.shape;
        let layout = |kind, shape| Layout::new(size, kind, options, shape);
        let vectors = layout(PageKind::IVF_ENTRIES, shape)?;
        let centroids = layout(PageKind::IVF_CENTROIDS, shape_of_centroids(shape))?;
        Ok(Layouts { vectors, centroids })
    }
}

impl IvfOptions {
    /// Whether they are allowed, where pages are large enough.
    fn validate(&self) -> Result<(), VectorError> {
        let IvfOptions { shape, lists } = *self;
        shape.validate()?;
        if (1..=MOST_LISTS).contains(&lists) {
            return Ok(());
        }
        let (what, given, least, most) = ("the number of lists", lists, 1, MOST_LISTS);
        Err(VectorError::Option { what, given, least, most })
    }
}

impl Core {
    /// What the first page of an index says. The pages of the centroids are found later.
    fn read<T: Translation>(space: &Space<T>) -> Result<Core, VectorError> {
        let none = "the space has no vector index of lists";
        let (options, centroids) = read_first_page(space, PageKind::IVF_META, none, |page| {
            // IVF-4
            let centroids = meta::centroids(page).ok_or("the index was not made to its end");
            Ok((meta::options(page)?, centroids?))
        })?;
        let layouts = Layouts::new(&options, space.page_size())?;
        Ok(Core { options, layouts, centroids, centroid_pages: Vec::new() })
    }
}

impl<T: Translation> Clone for IvfIndex<T> {
    fn clone(&self) -> IvfIndex<T> {
        IvfIndex { space: self.space.clone(), core: Arc::clone(&self.core) }
    }
}

impl<T: Translation> fmt::Debug for IvfIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IvfIndex({:?}, {:?})", self.space, self.core.options)
    }
}

impl<T: Translation> IvfIndex<T> {
    /// Makes an index without vectors in a new space. Its centroids are trained on a sample, which should
    /// be like the vectors that will come: at least as many as there are lists, better some 50 for each.
    /// Of more than 64 for each a part is drawn. The sample is not inserted. Training takes memory beside the
    /// pool's for 64 vectors of each list and its centroid.
    ///
    /// # Errors
    /// [`VectorError::Option`], [`VectorError::Metric`] and [`VectorError::EntryTooLong`] for options that
    /// are not possible; [`VectorError::SampleTooSmall`], and those of a vector that is not one of the
    /// index; those of making pages; [`PoolError::Broken`](polder_pool::PoolError::Broken) if the space is
    /// not empty. If making pages fails in the middle, the space is to be dropped.
    pub fn create<'v, V: Into<VectorRef<'v>>>(
        space: Space<T>,
        options: &IvfOptions,
        sample: impl IntoIterator<Item = V>,
    ) -> Result<IvfIndex<T>, VectorError> {
        IvfIndex::create_with_progress(space, options, sample, &mut |_| true)
    }

    /// The same, telling `progress` which share of the training is done, from 0 to 1; it stops it by
    /// returning false. It often ends before all is done that there could be to do.
    ///
    /// # Errors
    /// Those of [`IvfIndex::create`], and [`VectorError::Stopped`]; the space is empty then.
    pub fn create_with_progress<'v, V: Into<VectorRef<'v>>>(
        space: Space<T>,
        options: &IvfOptions,
        sample: impl IntoIterator<Item = V>,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<IvfIndex<T>, VectorError> {
        // Nobody trains centroids of vectors that are too long.
        Layouts::new(options, space.page_size())?;
        let mut taken = Sample::new(options)?;
        for vector in sample {
            taken.give(vector.into())?;
        }
        IvfIndex::create_around(space, options, &taken.train(progress)?)
    }

    /// The same around centroids, one for each list.
    pub(crate) fn create_around(
        space: Space<T>,
        options: &IvfOptions,
        centroids: &[VectorBuf],
    ) -> Result<IvfIndex<T>, VectorError> {
        let layouts = Layouts::new(options, space.page_size())?;
        create_root(&space, "the space of a new vector index is not empty", |page| {
            let mut meta = page.page_mut();
            meta.set_u8(header_at::KIND, PageKind::IVF_META.0);
            meta.set_u8(header_at::LAYOUT, 1);
            meta::init(&mut meta, options);
            meta::hole(page.page())
        })?;
        let lists = Lists { space: &space, layout: &layouts.centroids };
        let list_of_centroids = edit(&space, |edit| lists.create(edit))?;
        for centroid in centroids {
            let centroid = layouts.centroids.distances.vector(centroid.view())?;
            edit(&space, |edit| {
                let list = lists.create(edit)?;
                lists.insert(edit, list_of_centroids, list.get(), &centroid)
            })?;
        }
        // IVF-4
        edit(&space, |edit| {
            meta::set_centroids(&mut edit.page_mut(root())?, list_of_centroids);
            Ok(())
        })?;
        IvfIndex::open(space)
    }

    /// The index of a space that has one.
    ///
    /// # Errors
    /// Those of loading pages; [`PoolError::Broken`](polder_pool::PoolError::Broken) if there is no such
    /// index, or it was not made to its end.
    pub fn open(space: Space<T>) -> Result<IvfIndex<T>, VectorError> {
        let mut core = Core::read(&space)?;
        let lists = Lists { space: &space, layout: &core.layouts.centroids };
        lists.pages(core.centroids, &mut core.centroid_pages)?;
        Ok(IvfIndex { space, core: Arc::new(core) })
    }

    /// Its space.
    pub fn space(&self) -> &Space<T> {
        &self.space
    }

    /// What it is.
    pub fn options(&self) -> IvfOptions {
        self.core.options
    }

    /// The vector that lies there, if it has this label.
    ///
    /// # Errors
    /// Those of loading a page.
    pub fn get(&self, label: u64, node: NodeId) -> Result<Option<VectorBuf>, VectorError> {
        if !self.is_page_of_its_own(node)? {
            return Ok(None);
        }
        let layout = &self.core.layouts.vectors;
        let vector = read_page(&self.space, AccessHint::Normal, node.page(), |page| {
            let entries = EntriesPage::new(page);
            let is_it = list::has(entries, layout, node, label);
            is_it.then(|| entries.copy(layout, node.slot()))
        })?;
        let kind = self.core.options.shape.element;
        Ok(vector.map(|vector| vector.to_buf(kind)))
    }

    /// The lists of vectors.
    fn lists(&self) -> Lists<'_, T> {
        Lists { space: &self.space, layout: &self.core.layouts.vectors }
    }
}

impl<T: Translation> VectorIndex for IvfIndex<T> {
    fn options(&self) -> IndexOptions {
        IndexOptions::Ivf(self.core.options)
    }

    fn for_each(&self, show: &mut dyn FnMut(u64, NodeId) -> bool) -> Result<(), VectorError> {
        IvfIndex::for_each(self, show)
    }

    fn size_bytes(&self) -> Result<u64, VectorError> {
        Ok(self.space.pages_in_use()? * self.space.page_size().bytes() as u64)
    }

    fn insert(&self, label: u64, vector: VectorRef<'_>) -> Result<NodeId, VectorError> {
        IvfIndex::insert(self, label, vector)
    }

    fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError> {
        IvfIndex::remove(self, label, node)
    }

    fn get(&self, label: u64, node: NodeId) -> Result<Option<VectorBuf>, VectorError> {
        IvfIndex::get(self, label, node)
    }

    fn search(&self, query: VectorRef<'_>, search: &Search<'_>) -> Result<Answer, VectorError> {
        IvfIndex::search(self, query, search)
    }

    fn nearest<'i>(
        &'i self,
        query: VectorRef<'_>,
        search: &Search<'i>,
    ) -> Result<FoundIter<'i>, VectorError> {
        self.core.layouts.vectors.distances.vector(query)?;
        search.validate()?;
        Ok(widening::nearest(self, query, search))
    }

    fn search_exact(
        &self,
        query: VectorRef<'_>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        IvfIndex::search_exact(self, query, search)
    }
}
