//! The handles to a pool and its spaces, and what keeps the pool's threads running.

#![cfg(not(loom))]

use std::fmt;
use std::sync::Arc;

use crate::core::Core;
use crate::paging::{PageProvider, Readers};
use crate::shared::{Shared, SpaceCore, View};
use crate::translation::Translation;

/// A buffer pool on one device. Cheap to clone; the last handle stops its threads.
pub struct Pool<T: Translation> {
    inner: Arc<Inner<T>>,
}

pub(crate) struct Inner<T: Translation> {
    shared: Arc<Shared<T>>,
    readers: Readers<T>,
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
        let (writer, readers) = (PageProvider::new(&shared), Readers::new(&shared));
        Pool { inner: Arc::new(Inner { shared, readers, _writer: writer }) }
    }

    pub(crate) fn shared(&self) -> &Shared<T> {
        &self.inner.shared
    }

    pub(crate) fn space_handle(&self, space: Arc<SpaceCore<T>>) -> Space<T> {
        Space { inner: Arc::clone(&self.inner), space }
    }
}

/// A space of a pool: a run of page ids that belong together. Cheap to clone.
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
    /// The pool.
    pub fn pool(&self) -> Pool<T> {
        Pool { inner: Arc::clone(&self.inner) }
    }

    pub(crate) fn readers(&self) -> &Readers<T> {
        &self.inner.readers
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
