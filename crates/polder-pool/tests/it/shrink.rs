//! Pages in front, and what lies behind them given back.

use polder_format::{PageSize, pages_per_alloc_map};
use polder_pool::{Array, FileState};

use crate::support::*;

/// A space that needs a second allocation map no more gives that back as well, and may have it again.
#[test]
fn the_last_allocation_map_goes_with_its_pages() {
    let disk = disk();
    let pool = tight::<Array>(&disk, FileState::NEW);
    let space = pool.create_space().unwrap();
    let per_map = pages_per_alloc_map(PageSize::MIN);
    for _ in 0..2 {
        let first = create(&space);
        let pages = create_many(&space, per_map as usize + 100);
        assert!(pages.last().unwrap().get() > per_map);
        increment(&space, first).unwrap();
        let full = pool.stats().file_bytes;
        pages.iter().for_each(|page| free(&space, *page));
        assert!(pool.shrink().unwrap() > full - (1 << 20), "the second map keeps its extent");
        assert_sound(&pool);
        assert_eq!(space.pages_in_use().unwrap(), 1 + space.used_pages().unwrap().len() as u64);
        assert_eq!(read(&space, first).unwrap(), 1);
    }
    let used = space.used_pages().unwrap();
    let id = space.id();
    drop(space);
    let (pool, spaces) = reopen(pool, &disk, &[id]);
    assert_eq!(spaces[0].used_pages().unwrap(), used);
    assert_sound(&pool);
}

/// A page in front of a limit, or none.
#[test]
fn pages_are_made_in_front_of_a_limit() {
    let pool = tight::<Array>(&disk(), FileState::NEW);
    let space = pool.create_space().unwrap();
    let pages = create_many(&space, 100);
    assert_eq!(space.dense_end().unwrap(), number(112), "the end of an extent of 16 pages");
    let limit = pages[50];
    assert!(space.create_before(limit).unwrap().is_none());
    free(&space, pages[70]);
    assert!(space.create_before(limit).unwrap().is_none());
    free(&space, pages[20]);
    let made = space.create_before(limit).unwrap().unwrap();
    assert_eq!(made.id().page(), pages[20]);
    assert!(space.create_before(limit).unwrap().is_none());
    drop(made);
    space.free(pages[20]);
    assert_eq!(create(&space), pages[20]);
    assert_eq!(create(&space), pages[70], "what was freed behind the limit is not forgotten");
    let behind: Vec<_> = pages.iter().copied().filter(|page| *page >= limit).collect();
    assert_eq!(space.used_pages_from(limit, usize::MAX).unwrap(), behind);
}
