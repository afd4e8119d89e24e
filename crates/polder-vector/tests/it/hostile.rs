//! Pages that hold anything: what is loaded is refused or read without a panic, and what is read ends.

use polder_format::{PageNo, PageSize};
use polder_pool::bytes::PageBuf;
use polder_pool::{AccessHint, Array};
use polder_testkit::Random;
use polder_testkit::effort::steps;
use polder_testkit::pools::disk;
use polder_vector::{KINDS, Search, VectorIndex};

use crate::support::*;

/// Whatever lies in a page, its check says yes or no.
#[test]
fn checks_of_any_bytes_end() {
    let mut random = Random::new(1);
    for size in [4096, 65536] {
        let mut page = PageBuf::new(PageSize::new(size).unwrap());
        for _ in 0..steps(300, 3000) {
            random.fill(page.bytes_mut());
            for kind in KINDS {
                page.bytes_mut()[4] = kind.kind.0;
                let _ = (kind.check)(page.page());
            }
        }
    }
}

/// Bytes of pages are changed where they lie in memory, as no check sees them: searches, inserts and
/// removals end, with an answer or an error.
fn operations_on_damaged_pages_end<F: Family>() {
    let (disk, mut random) = (disk(), Random::new(2));
    let (_pool, index) = new_small::<F, Array>(&disk, PageSize::MIN, l2(4), 4);
    let mut nodes = Vec::new();
    for label in 0..300 {
        nodes.push(insert(&index, label, &vector(&mut random, 4)));
    }
    let space = index.space();
    let pages: Vec<PageNo> = space.used_pages().unwrap();
    for round in 0..steps(200, 2000) {
        let page = pages[random.index(pages.len())];
        space
            .run(AccessHint::Normal, |attempt| {
                let guard = space.page(attempt, page)?;
                let mut held = attempt.upgrade(guard)?;
                let mut bytes = held.page_mut();
                for _ in 0..4 {
                    // Behind what the pool itself reads.
                    let at = 32 + random.index(4096 - 32);
                    bytes.set_u8(at, random.below(256) as u8);
                }
                Ok(())
            })
            .unwrap();
        let query = vector(&mut random, 4);
        let some = Search::new(10, 20).filter(&|label| label < 3);
        let _ = index.search((&query).into(), &Search::new(10, 20));
        let _ = index.search((&query).into(), &some);
        let _ = index.search_exact((&query).into(), &Search::new(10, 0));
        let _ = index.search_exact((&query).into(), &some);
        let _ = index.insert(1000 + round, (&query).into());
        let label = random.below(300);
        let _ = index.remove(label, nodes[label as usize]);
        let _ = index.report();
    }
}

#[test]
fn operations_on_damaged_pages_of_graphs_end() {
    operations_on_damaged_pages_end::<Graphs>();
}

#[test]
fn operations_on_damaged_pages_of_steered_graphs_end() {
    operations_on_damaged_pages_end::<Steered>();
}
