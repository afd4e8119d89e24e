//! What must hold of scalecache.txt's table, counts and copies.
//!
//! What holding pages by groups wins grows with the cores of the machine: its bounds are for few
//! cores. What the table does alone, and groups of cores by single cores, have the paper's bounds.

use super::{Bound, Criterion, same, source};

/// All of them.
pub(super) const CRITERIA: [Criterion; 7] = [
    // 4.2, figure 7: from 1.60 to 1.75 of the baseline by SIMD hashing, before counts by group, which
    // both sides have here.
    same(
        "queries of ten keys, 2 threads: simd-plain, copy by hash, copy",
        source("multi", "queries", 2.0),
        "simd-plain, copy",
        &["hash, copy"],
        Bound::AtLeast(1.09),
    ),
    // 4.6, figure 13a.
    same(
        "queries of ten keys, 2 threads: groups of four by cores, simd-plain",
        source("multi", "queries", 2.0),
        "simd-plain, group:4",
        &["simd-plain, core"],
        Bound::NotBelow(0.96),
    ),
    // 4.7, figure 11: 1.74 on 128 cores.
    same(
        "queries of ten keys, larger than memory, 2 threads: simd-plain, copy by hash, shared",
        source("multi-larger", "queries", 2.0),
        "simd-plain, copy",
        &["hash, shared"],
        Bound::NotBelow(1.0),
    ),
    // 4.3, figure 8: 4.33 on 128 cores.
    same(
        "resident stock-level alone, 2 threads: simd, copy by hash, shared",
        source("tpcc-mixes", "transactions, 0:100", 2.0),
        "simd, copy",
        &["hash, shared"],
        Bound::AtLeast(1.3),
    ),
    // 4.3, figure 8: 1.03 on 128 cores.
    same(
        "resident TPC-C, 2 threads: simd, copy by hash, shared",
        source("tpcc-mixes", "transactions, standard", 2.0),
        "simd, copy",
        &["hash, shared"],
        Bound::NotBelow(1.0),
    ),
    // 4.6, figure 13b.
    same(
        "resident stock-level alone, 2 threads: groups of four by cores, simd",
        source("tpcc-mixes", "transactions, 0:100", 2.0),
        "simd, group:4",
        &["simd, core"],
        Bound::NotBelow(0.97),
    ),
    // 4.7, figure 12: 3.9 on 128 cores.
    same(
        "stock-level alone, larger than memory, 2 threads: simd, copy by hash, shared",
        source("tpcc-mixes-larger", "transactions, 0:100", 2.0),
        "simd, copy",
        &["hash, shared"],
        Bound::NotBelow(1.0),
    ),
];

#[cfg(test)]
mod tests {
    use super::super::{Verdict, judge};
    use crate::ladder::results::testing::empty;

    #[test]
    fn the_table_alone_is_compared_with_the_same_way_of_holding() {
        let judged = |simd: f64| {
            let results = empty()
                .with(("multi", "queries", "simd-plain, copy"), 2.0, &[simd])
                .with(("multi", "queries", "hash, copy"), 2.0, &[2.0])
                .with(("multi", "queries", "hash, shared"), 2.0, &[1.0]);
            let is =
                |what: &str| what.starts_with("queries of ten keys, 2 threads: simd-plain, copy");
            judge(&results).into_iter().find(|judged| is(judged.what)).unwrap()
        };
        assert_eq!((judged(2.4).ratio, judged(2.4).verdict), (Some(1.2), Verdict::Pass));
        assert_eq!(judged(2.1).verdict, Verdict::Fail);
    }

    #[test]
    fn groups_may_be_a_little_slower_than_cores() {
        let verdict = |group: f64| {
            let results = empty()
                .with(("tpcc-mixes", "transactions, 0:100", "simd, group:4"), 2.0, &[group])
                .with(("tpcc-mixes", "transactions, 0:100", "simd, core"), 2.0, &[100.0]);
            let is = |what: &str| what.contains("stock-level alone, 2 threads: groups of four");
            judge(&results).into_iter().find(|judged| is(judged.what)).unwrap().verdict
        };
        assert_eq!((verdict(98.0), verdict(96.0)), (Verdict::Pass, Verdict::Fail));
    }
}
