//! Real vectors with known answers, in a graph that is steered by codes.

use polder_format::PageSize;
use polder_pool::Array;
use polder_testkit::effort::is_long;
use polder_testkit::pools::disk;
use polder_vector::{VamanaIndex, VamanaOptions};

use crate::ivf::sift::{insert_all, recall, sift};
use crate::support::*;

#[test]
fn most_of_the_nearest_are_found() {
    let Some(sift) = sift() else { return };
    let all = [(4, [830, 955, 985]), (1, [500, 825, 920])];
    for (code_bits, least) in all.into_iter().take(if is_long() { 2 } else { 1 }) {
        let disk = disk();
        let options = VamanaOptions { links: 32, code_bits, ..VamanaOptions::new(l2(128)) };
        let (_pool, index) = with_pool(&disk, PageSize::MIN, 40, |space| {
            VamanaIndex::<Array>::create(space, &options, &sift.base[..1000]).unwrap()
        });
        insert_all(&index, &sift.base);
        assert_sound(&index, sift.base.len());
        for (query, truth) in sift.queries.iter().zip(&sift.truth) {
            assert_eq!(labels(&search_exact(&index, query, 100)), *truth);
        }
        // As collections look for a vector that a crash may have left.
        for (label, vector) in (0..).zip(&sift.base).step_by(50) {
            let own = search(&index, vector, 512, 512);
            assert!(own.iter().any(|found| found.label == label), "{label}");
        }
        let found = [20, 80, 160].map(|width| recall(&index, &sift, width));
        let is_enough = found.iter().zip(least).all(|(found, least)| *found >= least);
        assert!(is_enough, "{found:?} of 1000 with {code_bits} bits");
    }
}
