//! The handles to a pool and its spaces, and what keeps the pool's threads running.

#![cfg(not(loom))]

use std::fmt;
use std::sync::Arc;

use crate::core::Core;
#[cfg(feature = "async")]
use crate::paging::loader::Loader;
use crate::paging::{PageProvider, Reader};
use crate::shared::{Shared, SpaceCore, View};
use crate::translation::Translation;

/// A buffer pool on one device. Cheap to clone; the last handle, be it this or a [`Space`] of the
/// pool, stops its threads. Dropping it writes nothing: what was not flushed is lost, unless there
/// is a journal.
///
/// A pool is made, flushed, and opened again:
///
/// ```
/// use std::error::Error;
///
/// use polder_format::{ChecksumSeed, PageKind, PageSize, StoreId, header_at};
/// use polder_pool::device::{FileDevice, OpenKind};
/// use polder_pool::{AccessHint, Array, FileState, KindOps, Pool, PoolConfig};
///
/// const NOTE: KindOps = KindOps::plain(PageKind(200), "note", |_| Ok(()));
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let open = |kind: OpenKind, file: FileState| -> Result<Pool<Array>, Box<dyn Error>> {
///     let device = FileDevice::open(&path, kind)?;
///     let seed = ChecksumSeed::new(StoreId([1; 16]));
///     let config = PoolConfig { file, ..PoolConfig::new(16 << 20, PageSize::MIN, seed) };
///     Ok(Pool::open(Box::new(device), &config, &[NOTE])?)
/// };
/// let pool = open(OpenKind::Create, FileState::NEW)?;
/// let space = pool.create_space()?;
/// let new = space.create()?;
/// space.run(AccessHint::Normal, |_| {
///     let mut held = new.latch()?;
///     held.page_mut().set_u8(header_at::KIND, NOTE.kind.0);
///     held.page_mut().set_u8(header_at::LAYOUT, NOTE.max_layout);
///     Ok(())
/// })?;
/// space.link(&[new.id().page()])?;
/// let (page, id) = (new.id().page(), space.id());
/// drop(new);
/// pool.flush()?;
/// let file = pool.file_state(); // to be kept
/// drop((space, pool));
///
/// let pool = open(OpenKind::Existing, file)?;
/// assert_eq!(pool.spaces()?, [id]);
/// assert_eq!(pool.open_space(id)?.used_pages()?, [page]);
/// assert!(pool.check_maps()?.is_empty());
/// let stats = pool.stats();
/// assert!(stats.faults > 0 && stats.resident_pages <= stats.frames);
/// # Ok::<(), Box<dyn Error>>(())
/// ```
pub struct Pool<T: Translation> {
    inner: Arc<Inner<T>>,
}

pub(crate) struct Inner<T: Translation> {
    shared: Arc<Shared<T>>,
    reader: Reader,
    #[cfg(feature = "async")]
    loader: Loader,
    _writer: PageProvider<T>,
}

impl<T: Translation> Clone for Pool<T> {
    fn clone(&self) -> Pool<T> {
        Pool { inner: Arc::clone(&self.inner) }
    }
}

impl<T: Translation> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.shared().core;
        write!(
            f,
            "Pool({}, {} frames of {})",
            T::NAME,
            core.frames.memory.count(),
            core.page_size().bytes()
        )
    }
}

impl<T: Translation> Pool<T> {
    /// A handle to a pool that was made, whose threads start when they have work.
    pub(crate) fn from_shared(shared: Arc<Shared<T>>) -> Pool<T> {
        let (writer, reader) = (PageProvider::new(&shared), Reader::new(&shared));
        #[cfg(feature = "async")]
        let loader = Loader::new(&shared);
        Pool {
            inner: Arc::new(Inner {
                shared,
                reader,
                #[cfg(feature = "async")]
                loader,
                _writer: writer,
            }),
        }
    }

    pub(crate) fn shared(&self) -> &Shared<T> {
        &self.inner.shared
    }

    #[cfg(feature = "async")]
    pub(crate) fn loader(&self) -> &Loader {
        &self.inner.loader
    }

    pub(crate) fn space_handle(&self, space: Arc<SpaceCore<T>>) -> Space<T> {
        Space { inner: Arc::clone(&self.inner), space }
    }
}

/// A space of a pool: a run of page ids that belong together. Cheap to clone.
///
/// A page is made, linked, read, changed and freed:
///
/// ```
/// use polder_format::{PAGE_HEADER_BYTES, PageKind, header_at};
/// use polder_pool::{AccessHint, Array, KindOps, Pool, PoolError};
/// # use polder_format::PageSize;
/// # use polder_pool::FileState;
/// # use polder_testkit::pools;
///
/// const NOTE: KindOps = KindOps::plain(PageKind(200), "note", |_| Ok(()));
/// const TEXT: usize = PAGE_HEADER_BYTES;
/// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[NOTE])?;
/// let space = pool.create_space()?;
///
/// // A new page is reserved, in memory only, until it is linked.
/// let new = space.create()?;
/// let number = new.id().page();
/// space.run(AccessHint::Normal, |_| {
///     let mut held = new.latch()?;
///     let mut page = held.page_mut();
///     page.set_u8(header_at::KIND, NOTE.kind.0);
///     page.set_u8(header_at::LAYOUT, NOTE.max_layout);
///     page.write(TEXT, b"hello");
///     Ok(())
/// })?;
/// space.link(&[number])?;
/// assert!(space.is_used(number)?);
/// drop(new);
///
/// // What is read counts once the page has validated.
/// let text = || {
///     space.run(AccessHint::Normal, |attempt| {
///         let page = space.page(attempt, number)?;
///         let text: [u8; 5] = page.page().array(TEXT);
///         page.validate()?;
///         Ok(text)
///     })
/// };
/// assert_eq!(&text()?, b"hello");
/// space.run(AccessHint::Normal, |attempt| {
///     let page = space.page(attempt, number)?;
///     attempt.upgrade(page)?.page_mut().write(TEXT, b"HELLO");
///     Ok(())
/// })?;
/// assert_eq!(&text()?, b"HELLO");
///
/// // Nothing leads to it any more: it is freed, and its number can be another page's.
/// space.unlink(&[number])?;
/// let id = space.run(AccessHint::Normal, |attempt| {
///     let page = space.page(attempt, number)?;
///     Ok(space.discard(attempt.upgrade(page)?))
/// })?;
/// space.give_back(id);
/// assert!(space.used_pages()?.is_empty());
/// # Ok::<(), PoolError>(())
/// ```
///
/// Few pages at high numbers keep the file long. They are moved down, and it becomes shorter:
///
/// ```
/// # use polder_format::{PAGE_HEADER_BYTES, PageKind, PageNo, PageSize, header_at};
/// # use polder_pool::{AccessHint, Array, FileState, KindOps, NewPage, Pool, PoolError};
/// # use polder_testkit::pools;
/// # const NOTE: KindOps = KindOps::plain(PageKind(200), "note", |_| Ok(()));
/// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[NOTE])?;
/// # let space = pool.create_space()?;
/// # let pages = (0..100).map(|_| Ok(space.create()?.id().page()));
/// # let pages = pages.collect::<Result<Vec<PageNo>, PoolError>>()?;
/// # space.link(&pages[90..])?;
/// # pages[..90].iter().for_each(|page| space.free(*page));
/// space.begin_pass(); // for readers that know pages by their numbers
/// let end = space.dense_end()?;
/// for from in space.used_pages_from(end, usize::MAX)? {
///     let Some(new) = space.create_before(end)? else { break };
///     space.run(AccessHint::Normal, |attempt| {
///         let old = space.page(attempt, from)?;
///         let mut held = new.latch()?;
///         let mut page = held.page_mut();
///         page.set_u8(header_at::KIND, NOTE.kind.0);
///         page.set_u8(header_at::LAYOUT, NOTE.max_layout);
///         let rest = page.size() - PAGE_HEADER_BYTES;
///         page.copy_from(old.page(), PAGE_HEADER_BYTES, PAGE_HEADER_BYTES, rest);
///         old.validate()
///     })?;
///     space.link(&[new.id().page()])?;
///     // Here whatever leads to `from` is made to lead to the new page.
///     space.unlink(&[from])?;
///     space.free(from);
/// }
/// let before = pool.stats().file_bytes;
/// let shorter = pool.shrink()?;
/// assert_eq!(pool.stats().file_bytes, before - shorter);
/// # assert!(shorter > 0 && space.used_pages()?.len() == 10);
/// # Ok::<(), PoolError>(())
/// ```
pub struct Space<T: Translation> {
    inner: Arc<Inner<T>>,
    space: Arc<SpaceCore<T>>,
}

impl<T: Translation> Clone for Space<T> {
    fn clone(&self) -> Space<T> {
        Space { inner: Arc::clone(&self.inner), space: Arc::clone(&self.space) }
    }
}

impl<T: Translation> fmt::Debug for Space<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.space.id)
    }
}

impl<T: Translation> Space<T> {
    /// The pool whose space this is.
    pub fn pool(&self) -> Pool<T> {
        Pool { inner: Arc::clone(&self.inner) }
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.inner.reader
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Core {
        &self.inner.shared.core
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Shared<T> {
        &self.inner.shared
    }

    #[inline(always)]
    pub(crate) fn space_core(&self) -> &SpaceCore<T> {
        &self.space
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_, T> {
        self.shared().view(self.space_core())
    }
}
