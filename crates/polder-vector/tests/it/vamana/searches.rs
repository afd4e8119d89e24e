//! When a search with a filter goes through all codes, and when not.

use polder_pool::Array;
use polder_vector::roaring::RoaringTreemap;

use crate::searches::{DIMENSIONS, assert_filtered, filled, one_in};
use crate::support::*;

/// As long as more match than the search is wide, the nodes of some are not read.
#[test]
fn more_match_than_are_in_sight() {
    let (_pool, index, model, mut random) = filled::<Steered, Array>();
    let queries: Vec<_> = (0..20).map(|_| vector(&mut random, DIMENSIONS)).collect();
    assert_eq!(assert_filtered(&index, &model, &queries, &one_in(50)), 0);
    let set: RoaringTreemap = (0..1000).chain(1 << 40..(1 << 40) + 5).collect();
    assert_eq!(assert_filtered(&index, &model, &queries, &set), 0);
}
