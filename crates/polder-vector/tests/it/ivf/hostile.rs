//! Pages that hold anything: what is loaded is refused or read without a panic, and what is read ends.

use polder_format::{PageKind, PageNo, header_at};
use polder_pool::{AccessHint, Array};
use polder_testkit::Random;
use polder_testkit::effort::steps;
use polder_testkit::pools::disk;

use polder_vector::Search;

use super::*;

/// Bytes of pages are changed where they lie in memory, as no check sees them: whatever is done ends, with
/// an answer or an error.
#[test]
fn operations_on_damaged_pages_end() {
    for round in 0..steps(6, 60) {
        let (disk, mut random) = (disk(), Random::new(round));
        let (_pool, index) = new_index::<Array>(&disk, l2(4), 5, 4);
        let mut nodes = Vec::new();
        for label in 0..400 {
            nodes.push(index.insert(label, &vector(&mut random, 4)).unwrap());
        }
        let pages: Vec<PageNo> = index.space().used_pages().unwrap();
        for step in 0..60 {
            let page = pages[random.index(pages.len())];
            for _ in 0..4 {
                // Behind what the pool itself reads; mostly in the fields in front.
                let end = if random.chance(0.7) { 100 } else { 4096 };
                let values = if random.chance(0.5) { 256 } else { 8 };
                let (at, bits) = (32 + random.index(end - 32), random.below(values));
                change(&index, page, at, bits as u8);
            }
            let query = vector(&mut random, 4);
            let _ = index.search(&query, &Search::new(10, 2));
            let _ = index.search(&query, &Search::new(10, 2).filter(&|label| label < 3));
            let _ = index.search_exact(&query, &Search::new(10, 0));
            let _ = index.insert(1000 + step, &query);
            let label = random.below(400);
            let _ = index.remove(label, nodes[label as usize]);
            let _ = index.get(label, nodes[label as usize]);
            let _ = index.check(&mut |_| true).unwrap();
            let _ = IvfIndex::open(index.space().clone());
        }
    }
}

fn kind_of(index: &IvfIndex<Array>, page: PageNo) -> PageKind {
    let space = index.space();
    let kind = space.run(AccessHint::Normal, |attempt| {
        let guard = space.page(attempt, page)?;
        let kind = guard.page().u8(header_at::KIND);
        guard.validate()?;
        Ok(PageKind(kind))
    });
    kind.unwrap()
}

/// Changes bits of a byte of a page in memory, as no check of the page sees it.
fn change(index: &IvfIndex<Array>, page: PageNo, at: usize, bits: u8) {
    let space = index.space();
    let changed = space.run(AccessHint::Normal, |attempt| {
        let guard = space.page(attempt, page)?;
        let mut held = attempt.upgrade(guard)?;
        let mut bytes = held.page_mut();
        let was = bytes.as_ref().u8(at);
        bytes.set_u8(at, was ^ bits);
        Ok(())
    });
    changed.unwrap();
}

/// A directory that leads to itself is found to do so, by searches as well.
#[test]
fn directories_that_lead_in_a_circle() {
    let disk = disk();
    let (_pool, index) = new_index::<Array>(&disk, l2(4), 5, 4);
    index.insert(1, &[0.0_f32; 4]).unwrap();
    let pages = index.space().used_pages().unwrap();
    let is_directory = |page: &&PageNo| kind_of(&index, **page) == PageKind::IVF_DIRECTORY;
    for page in pages.iter().filter(is_directory) {
        // What follows is the page itself, and three follow.
        let damage = || {
            change(&index, *page, 32, page.get() as u8);
            change(&index, *page, 48, 3);
        };
        damage();
        let report = index.check(&mut |_| true).unwrap();
        assert!(!report.faults.is_empty(), "{page:?}");
        // Where the centroids are was read when the index was opened.
        let found = index.search(&[0.0_f32; 4], &Search::new(1, 5));
        assert!(found.is_err() || IvfIndex::open(index.space().clone()).is_err(), "{page:?}");
        damage();
    }
    assert_sound(&index, 1);
}

/// A field of a page that is not what it should be is found by the check.
#[test]
fn damage_of_fields_is_found() {
    let disk = disk();
    let (_pool, index) = new_index::<Array>(&disk, l2(4), 5, 4);
    let mut random = Random::new(1);
    for label in 0..400 {
        index.insert(label, &vector(&mut random, 4)).unwrap();
    }
    for page in index.space().used_pages().unwrap() {
        let fields: &[usize] = match kind_of(&index, page) {
            // The shape, the number of lists, where the centroids are.
            PageKind::IVF_META => &[32, 33, 36, 40, 48],
            // What follows, the chain, how many follow, how many pages it leads to.
            PageKind::IVF_DIRECTORY => &[32, 40, 48, 52],
            // The list, the chain, which places are taken, what the vectors are, the number of lists.
            _ => &[32, 40, 48, 56, 64, 72, 80, 84, 85, 86],
        };
        for at in fields {
            change(&index, page, *at, 1);
            let report = index.check(&mut |_| true).unwrap();
            let is_found = !report.faults.is_empty() || report.entries != 400;
            assert!(is_found, "{page:?}, byte {at}");
            change(&index, page, *at, 1);
        }
    }
    assert_sound(&index, 400);
}
