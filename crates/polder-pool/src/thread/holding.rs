//! What a thread holds that others may have to wait for.

#![cfg(not(loom))]

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// Pins, log-space reservations and the like that this thread holds, in any pool.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Part of whatever others may have to wait for, as long as a thread has it (`ADMIT-1`).
///
/// For structures with locks of their own: while a thread has such a lock and makes or loads pages,
/// it has one of these, too. Where the pool has no frame it then gets
/// [`PoolError::Exhausted`](crate::PoolError) and waits for nobody, at most for the device; its
/// operation, run by [`Space::when_admitted`](crate::Space::when_admitted), releases the lock and
/// begins again.
///
/// ```
/// use std::sync::Mutex;
///
/// use polder_format::PageNo;
/// use polder_pool::{Array, Holding, PoolError, Space};
///
/// fn add_page(space: &Space<Array>, pages: &Mutex<Vec<PageNo>>) -> Result<PageNo, PoolError> {
///     space.when_admitted(|| {
///         let mut pages = pages.lock().unwrap();
///         let _holding = Holding::new();
///         let page = space.create()?.id().page();
///         space.link(&[page]).inspect_err(|_| space.free(page))?;
///         pages.push(page);
///         Ok(page)
///     })
/// }
/// ```
#[derive(Debug)]
pub struct Holding(PhantomData<*const ()>);

impl Default for Holding {
    fn default() -> Holding {
        Holding::new()
    }
}

impl Holding {
    /// From now on this thread holds something, until this goes. A thread may have several.
    #[inline(always)]
    pub fn new() -> Holding {
        HELD.set(HELD.get() + 1);
        Holding(PhantomData)
    }

    /// Whether this thread holds anything.
    pub(crate) fn any() -> bool {
        HELD.get() > 0
    }
}

impl Drop for Holding {
    #[inline(always)]
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}
