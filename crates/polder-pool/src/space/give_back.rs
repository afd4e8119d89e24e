//! What is given back by a thread that must not wait: for later.
//!
//! To give a page back takes the space's allocation mutex. Whoever has that may wait for a page, which
//! a thread with open faults may be loading: that of the loader, when it calls a waker, and the task
//! that this belongs to runs within the call, or goes.
//!
//! * `FLIGHT-4` A thread with open faults gives nothing back, but notes it. It is done by whoever has no
//!   fault open, and may wait, first: a thread that ends its many operations
//!   ([`Space::interleave`](crate::Space::interleave)), or the pool's loader, which begins no more until
//!   then.
//!
//! Nobody misses it meanwhile: a page that was freed stays reserved, one that was lent stays where it is.
//! (Where the loader of one pool called a task of another pool, that is until one of the two has
//! something to do there.)

#![cfg(not(loom))]

use crate::file_map::GivenBack;
use crate::shared::Shared;
use crate::translation::Translation;

/// Gives back what was noted. The caller holds nothing, and has no fault open.
pub(crate) fn give_back<T: Translation>(shared: &Shared<T>) {
    for what in shared.core.map.deferred.take() {
        match what {
            GivenBack::Frame(frame) => shared.end_leaving(frame),
            GivenBack::Page(id) => {
                // A space that was dropped took its pages with it.
                if let Some(space) = shared.space(id.space()) {
                    shared.free_page(&space, id.page());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Array;
    use crate::replacement::AccessHint;
    use crate::sync::lock;
    use crate::testing::{create, pool};
    use crate::thread::waits;

    /// `FLIGHT-4`: what another thread has the mutex for may be a page that this one loads.
    #[test]
    fn a_thread_with_open_faults_gives_nothing_back() {
        let (_dir, pool) = pool::<Array>(4 << 20);
        let space = pool.create_space().unwrap();
        let (page, lent) = (create(&space), create(&space));
        let (shared, core) = (space.shared(), space.space_core());
        let cell = shared.state_of(core, lent).unwrap();
        let meta = shared.core.latches.meta(cell.read().frame());
        assert!(meta.lend(cell, cell.read()));
        space.unlink(&[page, lent]).unwrap();
        space.free(lent);
        assert!(meta.is_leaving());
        let held = lock(&core.alloc);
        waits::count_flights(1);
        // Each would wait for the mutex.
        space.free(page);
        assert!(meta.end_loan());
        shared.end_leaving(cell.read().frame());
        waits::count_flights(-1);
        drop(held);
        assert!(meta.is_leaving() && ![page, lent].contains(&create(&space)));
        let free = pool.stats().frames_free;
        super::give_back(shared);
        assert_eq!(pool.stats().frames_free, free + 1);
        assert_eq!([create(&space), create(&space)], [page, lent]);
    }

    /// `FLIGHT-4`: nobody else has to come by for it.
    #[test]
    fn many_operations_end_with_what_they_put_off() {
        let (_dir, pool) = pool::<Array>(4 << 20);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        space.unlink(&[page]).unwrap();
        let interleave = |operations: &dyn Fn()| {
            space.interleave(AccessHint::Normal, |_| operations());
        };
        interleave(&|| {
            waits::count_flights(1);
            space.free(page);
            // What is within others that have faults open waits for their end.
            interleave(&|| ());
            assert!(space.core().map.deferred.is_any());
            waits::count_flights(-1);
        });
        assert!(!space.core().map.deferred.is_any());
        assert_eq!(create(&space), page);
    }
}
