//! What the pool tells a log, and when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use polder_format::log::{Group, Lines, Operation};
use polder_format::{Lsn, PageId, SpaceId, header_at};
use polder_pool::bytes::PageMut;
use polder_pool::journal::{Journal, Outgoing, SharedError, mark_bytes};
use polder_pool::{
    AccessHint, Array, FileState, KindOps, LinkRef, OwnedLinks, Pool, PoolConfig, Space, Swip,
    Swizzle,
};

use crate::support::*;

/// A log that keeps nothing, and notes how much of a space is in memory when a word of a map is
/// cleared.
#[derive(Debug, Default)]
struct Watch {
    /// So many log-space reservations more are given; none: as many as are wanted.
    grants: Mutex<Option<u64>>,
    /// How many were asked for, and how often a thread could wait before.
    asked: AtomicU64,
    paced: AtomicU64,
    end: AtomicU64,
    watched: Mutex<Option<(Pool<Array>, SpaceId)>>,
    /// Resident pages of the space at each word that became zero.
    seen: Mutex<Vec<u64>>,
    /// Groups that say that a page of a map is gone: the page, and how many words change with it.
    freed: Mutex<Vec<(PageId, usize)>>,
    /// The parts of the pages that were logged whole.
    images: Mutex<Vec<[Vec<u8>; 2]>>,
    /// How many runs of bits each record about an allocation map changes, and how long its group is.
    runs: Mutex<Vec<(usize, usize)>>,
    /// The lines in which each page that is written differs from what lies in its place.
    lines: Mutex<Vec<(PageId, Lines)>>,
}

impl Journal for Watch {
    fn reserve(&self, _: u64) -> Result<(), SharedError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match &mut *self.grants.lock().unwrap() {
            Some(0) => return Err(Arc::new(std::io::ErrorKind::StorageFull.into())),
            Some(more) => *more -= 1,
            None => {}
        }
        Ok(())
    }

    fn throttle(&self, _: u64) -> bool {
        self.paced.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn release(&self, _: u64) {}

    fn append_keeping(&self, group: &mut Group, reserved: u64, kept: u64) -> Lsn {
        self.append(group, reserved - kept)
    }

    fn append(&self, group: &mut Group, _: u64) -> Lsn {
        if let Some((pool, space)) = &*self.watched.lock().unwrap() {
            let clears = group.records().map(Result::unwrap).any(|record| {
                matches!(record.operation, Operation::Patch { bytes, .. } if bytes == [0; 8])
            });
            if clears {
                let resident =
                    pool.stats().spaces.get(space).map_or(0, |space| space.resident_pages);
                self.seen.lock().unwrap().push(resident);
            }
        }
        let records: Vec<_> = group.records().map(Result::unwrap).collect();
        for record in &records {
            if let Operation::FullPageImage { low, high, .. } = record.operation {
                self.images.lock().unwrap().push([low.to_vec(), high.to_vec()]);
            }
        }
        for record in &records {
            if let Operation::Mark { runs, .. } = &record.operation {
                self.runs.lock().unwrap().push((runs.len(), group.len()));
            }
        }
        let words = records.iter().filter(|r| matches!(r.operation, Operation::Patch { .. }));
        let words = words.count();
        let gone = records.iter().filter(|r| matches!(r.operation, Operation::Freed));
        self.freed.lock().unwrap().extend(gone.map(|record| (record.page, words)));
        Lsn(self.end.fetch_add(group.len() as u64, Ordering::SeqCst) + group.len() as u64)
    }

    fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::SeqCst))
    }

    fn await_durable(&self, _: Lsn) -> Result<(), SharedError> {
        Ok(())
    }

    fn before_write(&self, pages: &[Outgoing<'_>]) -> Result<u64, SharedError> {
        self.lines.lock().unwrap().extend(pages.iter().map(|page| (page.page, page.lines)));
        Ok(0)
    }

    fn after_write(&self, _: u64, _: &[PageId]) {}

    fn is_trusted(&self, _: PageId) -> bool {
        true
    }
}

fn watched() -> (Arc<Watch>, Pool<Array>) {
    let watch = Arc::new(Watch::default());
    let config = PoolConfig { journal: Some(watch.clone()), ..config(4, FileState::NEW) };
    let pool = Pool::open(Box::new(disk()), &config, &[KIND]).unwrap();
    (watch, pool)
}

/// A checkpoint does not see what has left memory: so the log must say before that the space is
/// gone. Else a recovery that begins behind the full-page images would still look for the pages.
#[test]
fn a_dropped_space_leaves_the_directory_before_memory() {
    let (watch, pool) = watched();
    let space = pool.create_space().unwrap();
    let pages: Vec<_> = (0..20).map(|_| space.create().unwrap().id().page()).collect();
    space.link(&pages).unwrap();
    *watch.watched.lock().unwrap() = Some((pool.clone(), space.id()));
    space.drop_space().unwrap();
    *watch.watched.lock().unwrap() = None;
    assert_eq!(*watch.seen.lock().unwrap(), [21], "20 pages and their map");
}

/// Where a page of a map lay that moves, or goes with its space, another page lies soon: no
/// record of its former life may be redone there.
#[test]
fn pages_of_maps_that_go_are_logged_as_freed() {
    let (watch, pool) = watched();
    let large = pool.create_space().unwrap();
    (0..300).for_each(|_| drop(large.create().unwrap()));
    let last = pool.create_space().unwrap();
    drop(last.create().unwrap());
    large.drop_space().unwrap();
    let dropped = std::mem::take(&mut *watch.freed.lock().unwrap());
    assert_eq!(dropped.len(), 1, "the map of the large space has one page");
    assert!(pool.shrink().unwrap() > 0);
    let moved = std::mem::take(&mut *watch.freed.lock().unwrap());
    // With the word that led to it, in one group: a crash must not come between.
    assert!(matches!(moved[..], [(page, 1)] if page != dropped[0].0), "{moved:?}");
    assert_eq!(pool.check_maps().unwrap(), Vec::<String>::new());
}

/// They are made under locks that other threads wait for.
#[test]
fn changes_of_maps_are_not_held_up() {
    let (watch, pool) = watched();
    let counts = || [&watch.asked, &watch.paced].map(|count| count.load(Ordering::SeqCst));
    let space = pool.create_space().unwrap();
    (0..300).for_each(|_| drop(space.create().unwrap()));
    let [asked, paced] = counts();
    assert!(asked > 1 && paced == 0, "{asked} grants, {paced}");
    drop(space.change(100).unwrap());
    assert_eq!(counts(), [asked + 1, 1]);
}

/// Whatever the log refuses costs no physical page number, however often it is tried.
#[test]
fn a_full_log_loses_no_places() {
    let (watch, pool) = watched();
    drop(pool.create_space().unwrap().create().unwrap());
    // Before the map's first page, and before that page can be logged.
    for grants in 0..2 {
        let refused = || {
            *watch.grants.lock().unwrap() = Some(grants);
            pool.create_space().unwrap().create().unwrap_err();
            pool.stats().file_bytes
        };
        let once = refused();
        assert!((0..50).all(|_| refused() == once), "after {grants} grants");
    }
    *watch.grants.lock().unwrap() = None;
    drop(pool.create_space().unwrap().create().unwrap());
}

const LINKS: [usize; 2] = [48, 4080];
/// How many of them a page has.
const LINKS_COUNT_AT: usize = 32;
const PARENT: KindOps = KindOps {
    links: Some(OwnedLinks {
        count: |page| usize::from(page.u8(LINKS_COUNT_AT)),
        offset: |_, index| LINKS[index],
        fits: |_, _, _| Ok(()),
    }),
    redo: None,
    ..KIND
};

/// A page with two links, and the two to which they lead.
fn family(pool: &Pool<Swizzle>) -> (Space<Swizzle>, [PageId; 3]) {
    let space = pool.create_space().unwrap();
    let pages = [0; 3].map(|_| {
        let page = space.create().unwrap();
        let mut held = page.latch().unwrap();
        held.page_mut().set_u8(header_at::KIND, PARENT.kind.0);
        held.set_unlogged();
        drop(held);
        page.id()
    });
    change(&space, pages[0], |page| {
        page.set_u8(LINKS_COUNT_AT, 2);
        page.set_u64(LINKS[0], pages[1].to_bits());
        page.set_u64(LINKS[1], pages[2].to_bits());
    });
    (space, pages)
}

fn change(space: &Space<Swizzle>, page: PageId, change: impl Fn(&mut PageMut<'_>)) {
    let changed = space.run(AccessHint::Normal, |attempt| {
        let page = space.root(attempt, page.page())?;
        let mut held = attempt.upgrade(page)?;
        change(&mut held.page_mut());
        held.set_unlogged();
        Ok(())
    });
    changed.unwrap();
}

/// Follows the links, which are swizzled then.
fn follow(space: &Space<Swizzle>, parent: PageId) {
    for at in LINKS {
        let followed = space.run(AccessHint::Normal, |attempt| {
            let page = space.root(attempt, parent.page())?;
            space.follow(attempt, LinkRef::InPage(page.page(), at), Some(&page))?.validate()
        });
        followed.unwrap();
    }
}

fn watched_family() -> (Arc<Watch>, Pool<Swizzle>, Space<Swizzle>, [PageId; 3]) {
    let watch = Arc::new(Watch::default());
    let config = PoolConfig { journal: Some(watch.clone()), ..config(4, FileState::NEW) };
    let pool = Pool::<Swizzle>::open(Box::new(disk()), &config, &[PARENT]).unwrap();
    let (space, pages) = family(&pool);
    (watch, pool, space, pages)
}

/// `BYTES-5`: what was a swizzled link when the page was written last differs from what lies in its
/// place, and no write notes it when the link is gone.
#[test]
fn lines_of_links_that_are_gone_count_as_changed() {
    let (watch, pool, space, [parent, ..]) = watched_family();
    let lines_written = || {
        watch.lines.lock().unwrap().clear();
        pool.flush().unwrap();
        let lines = watch.lines.lock().unwrap();
        lines.iter().find(|(page, _)| *page == parent).map(|(_, lines)| *lines)
    };
    follow(&space, parent);
    assert_eq!(lines_written(), Some(Lines::ALL), "a new page");
    change(&space, parent, |page| page.set_u8(LINKS_COUNT_AT, 0));
    assert_eq!(lines_written(), Some(Lines::ALL), "its links are gone");
    change(&space, parent, |page| page.set_u8(LINKS_COUNT_AT, 0));
    assert_eq!(lines_written(), Some(Lines(1)), "it was written since");
}

/// A frame's number means nothing in the next run: a link has its page's id in the log.
#[test]
fn images_have_no_hot_links() {
    let (watch, _pool, space, [parent, a, b]) = watched_family();
    follow(&space, parent);
    let mut change = space.change(10_000).unwrap();
    let mut held = space.run(AccessHint::Normal, |attempt| {
        let page = space.root(attempt, parent.page())?;
        attempt.upgrade(page)
    });
    let held = held.as_mut().unwrap();
    assert!(LINKS.iter().all(|at| Swip::new(held.page().u64(*at)).is_swizzled()));
    change.push_full_page_image(held, 1000..3000);
    change.commit(&mut [held]);
    let images = watch.images.lock().unwrap();
    let [low, high] = images.last().unwrap();
    assert_eq!(low[48..56], a.to_bits().to_le_bytes());
    assert_eq!(high[1080..1088], b.to_bits().to_le_bytes());
}

/// No record is so long that the buffer of a log has no room for it, whatever many bits of a map
/// change at once; and the log space that is reserved suffices.
#[test]
fn many_bits_of_a_map_are_logged_in_several_records() {
    let (watch, pool) = watched();
    let space = pool.create_space().unwrap();
    let pages: Vec<_> = (0..4200).map(|_| space.create().unwrap().id().page()).collect();
    let alternate: Vec<_> = pages.into_iter().step_by(2).collect();
    watch.runs.lock().unwrap().clear();
    space.link(&alternate).unwrap();
    space.unlink(&alternate).unwrap();
    let runs = std::mem::take(&mut *watch.runs.lock().unwrap());
    assert_eq!(runs.iter().map(|run| run.0).collect::<Vec<_>>(), [1024, 1024, 52].repeat(2));
    assert!(runs.iter().all(|run| run.1 <= mark_bytes(&alternate)), "{runs:?}");
}
