#![cfg(not(loom))]

use polder_format::{PageId, PageNo, header_at};

use super::Array;
use super::words::{BYTES_PER_FRAME, DENSE};
use crate::sync::atomic::Ordering;
use crate::testing::{create, pool};
use crate::translation::{Translation, Words};
use crate::{AccessHint, Space};

fn read(space: &Space<Array>, page: PageNo) {
    let id = space.run(AccessHint::Normal, |attempt| {
        let guard = space.page(attempt, page)?;
        let id = guard.page().u64(header_at::PAGE_ID);
        guard.validate().map(|()| id)
    });
    assert_eq!(id.unwrap(), PageId::new(space.id(), page).to_bits());
}

#[test]
fn pages_of_an_empty_pool_lie_where_they_prefer() {
    let (_dir, pool) = pool::<crate::Array>(64 << 20);
    let space = pool.create_space().unwrap();
    let pages: Vec<_> = (0..10_000).map(|_| space.create().unwrap().id().page()).collect();
    let (array, directory) = (&space.shared().translation, &space.space_core().directory);
    let preferred = |page: &&PageNo| {
        let word = array.words().state(directory, **page).unwrap().read();
        word.frame() == array.prediction.of_page(directory.id(**page))
    };
    let there = pages.iter().filter(preferred).count();
    assert!(there * 100 >= pages.len() * 99, "{there} of {}", pages.len());
}

/// Pages of a space that is many times the pool come and go anywhere: their groups are sparse, and stay
/// where they are.
#[test]
fn sparse_groups_do_not_go_to_and_fro() {
    const PAGES: usize = 100_000;
    const READS: u64 = 20_000;
    let (_dir, pool) = pool::<crate::Array>(12 << 20);
    let space = pool.create_space().unwrap();
    let pages: Vec<_> = (0..PAGES).map(|_| create(&space)).collect();
    let mut random = polder_testkit::Random::new(3);
    let words = &space.shared().translation.words;
    let mut moved = Vec::new();
    for _ in 0..2 {
        let before = words.moved.load(Ordering::Relaxed);
        for _ in 0..READS {
            read(&space, pages[random.below(PAGES as u64) as usize]);
        }
        moved.push(words.moved.load(Ordering::Relaxed) - before);
    }
    assert!(pool.stats().translation_bytes > 0 && moved[1] < READS / 20, "{moved:?} words moved");
}

/// Hot pages far from each other take little more than entries in a table would; a run of
/// neighbours moves their group into the array.
#[test]
fn sparse_groups_move_to_a_table_and_back() {
    const PAGES: usize = 80_000;
    let (_dir, pool) = pool::<crate::Array>(3 << 20);
    let space = pool.create_space().unwrap();
    let pages: Vec<_> = (0..PAGES).map(|_| create(&space)).collect();
    let (array, core) = (&space.shared().translation, space.space_core());
    let frames = pool.stats().frames;
    let hot: Vec<_> = pages.iter().step_by(256).copied().collect();
    for _ in 0..6 {
        hot.iter().for_each(|page| read(&space, *page));
    }
    let stats = pool.stats();
    let groups = stats.resident_pages / 4 * 4096;
    assert!(groups > 4 * BYTES_PER_FRAME * frames, "the test would show nothing: {stats:?}");
    let counters = PAGES as u64 / 512 * 4 * 4;
    let most = BYTES_PER_FRAME * frames + 2 * 4096 + counters;
    assert!(stats.translation_bytes <= most, "{stats:?} > {most}");
    assert!(core.directory.has_sparse.load(Ordering::Relaxed));
    let in_array = |page: &PageNo| core.directory.cell(*page).unwrap().read().is_free();
    assert!(hot.iter().filter(|page| in_array(page)).count() < hot.len() / 8);

    // One of the hot groups is read as a whole, often enough to stay.
    let run = &pages[PAGES / 2..PAGES / 2 + 400];
    let before = array.words.moved.load(Ordering::Relaxed);
    for _ in 0..6 {
        run.iter().for_each(|page| read(&space, *page));
    }
    let dense = run.iter().filter(|page| in_array(page)).count();
    assert!(dense > 200, "{dense} of the run are in the array");
    let gathered = array.words.moved.load(Ordering::Relaxed) - before;
    assert!(gathered >= u64::from(DENSE) / 2, "{gathered} words moved");

    // And the other way: hot pages take the pool, the run's group gets sparse and moves.
    let before = array.words.moved.load(Ordering::Relaxed);
    for _ in 0..6 {
        hot.iter().for_each(|page| read(&space, *page));
        pages.iter().skip(100).step_by(256).for_each(|page| read(&space, *page));
    }
    let scattered = array.words.moved.load(Ordering::Relaxed) - before;
    assert!(scattered > 0, "no word moved");
    assert!(pool.stats().translation_bytes <= most);
    // All of them are what they should be, and whatever is counted is there.
    pages.iter().step_by(64).for_each(|page| read(&space, *page));
    let left = || {
        let mut left = 0;
        array.words.sparse.for_each_present(space.id(), &mut |_| left += 1);
        left
    };
    assert!(left() > 0, "the test would show nothing");
    space.drop_space().unwrap();
    assert_eq!(left(), 0, "entries of a space that was dropped");
}
