//! What must hold of TPC-C.

use super::{Bound, Criterion, Source, same, source};

/// The best translation that evicts, by the one that does not.
const fn whole_transactions(what: &'static str, threads: f64) -> Criterion {
    let of = source("tpcc", "transactions", threads);
    let or = &["array-swizzled", "hash", "predictive", "simd", "swizzle", "vm"];
    Criterion { or, ..same(what, of, "array", &["direct"], Bound::AtLeast(0.97)) }
}

/// `array` by itself, where the data are larger than the budget.
const fn larger(what: &'static str, of: Source, by: Source, bound: Bound) -> Criterion {
    Criterion { by, ..same(what, of, "array", &["array"], bound) }
}

/// All of them.
pub(super) const CRITERIA: [Criterion; 6] = [
    whole_transactions("resident TPC-C: the best that evicts by direct", 1.0),
    whole_transactions("resident TPC-C, 2 threads: the best that evicts by direct", 2.0),
    same(
        "resident TPC-C: array-swizzled by the better of array and swizzle",
        source("tpcc", "transactions", 1.0),
        "array-swizzled",
        &["array", "swizzle"],
        Bound::NotBelow(1.0),
    ),
    same(
        "resident TPC-C, 2 threads: array-swizzled by the better of array and swizzle",
        source("tpcc", "transactions", 2.0),
        "array-swizzled",
        &["array", "swizzle"],
        Bound::NotBelow(1.0),
    ),
    larger(
        "TPC-C, data four times the budget: 8 threads by 2, array",
        source("tpcc-larger", "transactions", 8.0),
        source("tpcc-larger", "transactions", 2.0),
        Bound::NotBelow(1.0),
    ),
    larger(
        "TPC-C, data four times the budget: lowest interval by the median one, array",
        source("tpcc-larger", "lowest interval", 0.0),
        source("tpcc-larger", "median interval", 0.0),
        Bound::AtLeast(0.5),
    ),
];

#[cfg(test)]
mod tests {
    use super::super::{Judged, Verdict, judge};
    use crate::ladder::results::testing::empty;

    fn named(judged: Vec<Judged>, begin: &str) -> Judged {
        judged.into_iter().find(|judged| judged.what.starts_with(begin)).unwrap()
    }

    #[test]
    fn what_may_be_as_good_is_not_below() {
        let figures = |swizzled: &[f64]| {
            let figures = empty()
                .with(("tpcc", "transactions", "array-swizzled"), 1.0, swizzled)
                .with(("tpcc", "transactions", "array"), 1.0, &[1.0; 6])
                .with(("tpcc", "transactions", "swizzle"), 1.0, &[0.9; 6]);
            named(judge(&figures), "resident TPC-C: array-swizzled")
        };
        assert_eq!(figures(&[0.9, 0.9, 0.9, 0.9, 0.9, 1.1]).said, "pass, not surely");
        assert_eq!(figures(&[1.2; 6]).said, "pass");
        assert_eq!(figures(&[0.9; 6]).said, "fail");
        assert!(figures(&[1.2; 6]).bound.contains("not below 1"));
    }

    #[test]
    fn the_best_of_several_is_compared() {
        let sides = ["array", "array-swizzled", "hash", "predictive", "simd", "swizzle"];
        let figures = |vm: &[f64]| {
            let all = sides.iter().fold(empty(), |results, side| {
                results.with(("tpcc", "transactions", side), 1.0, &[0.5, 0.99])
            });
            let all = all.with(("tpcc", "transactions", "direct"), 1.0, &[1.0, 1.0]);
            let all = all.with(("tpcc", "transactions", "vm"), 1.0, vm);
            named(judge(&all), "resident TPC-C: the best")
        };
        let both = figures(&[0.98, 0.5]);
        assert_eq!((both.low, both.high, both.verdict), (Some(0.98), Some(0.99), Verdict::Pass));
        assert_eq!((figures(&[0.98]).rounds, figures(&[]).verdict), (1, Verdict::NotMeasured));
    }

    #[test]
    fn stalls_are_compared_with_the_middle() {
        let figures = empty()
            .with(("tpcc-larger", "lowest interval", "array"), 0.0, &[4.0])
            .with(("tpcc-larger", "median interval", "array"), 0.0, &[10.0])
            .with(("tpcc-larger", "transactions", "array"), 8.0, &[10.0])
            .with(("tpcc-larger", "transactions", "array"), 2.0, &[9.0]);
        let figures = judge(&figures);
        let larger = |what| {
            let what = format!("TPC-C, data four times the budget: {what}");
            named(figures.clone(), &what)
        };
        assert_eq!((larger("lowest").ratio, larger("lowest").verdict), (Some(0.4), Verdict::Fail));
        assert_eq!(larger("8 threads").verdict, Verdict::Pass);
    }
}
