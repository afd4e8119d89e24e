//! What must hold, on made-up results.

use polder::TranslationKind;

use super::super::parts::Part;
use super::super::results::testing::empty;
use super::*;

const LOOKUP: (&str, &str) = ("lookup", "uniform");

fn lookups(predictive: &[f64], hash: &[f64]) -> Judged {
    let results = empty().with((LOOKUP.0, LOOKUP.1, "predictive"), 1.0, predictive).with(
        (LOOKUP.0, LOOKUP.1, "hash"),
        1.0,
        hash,
    );
    judge(&results).swap_remove(0)
}

#[test]
fn ratios_of_rounds_are_compared_with_the_bound() {
    let judged = lookups(&[1.4, 2.8, 1.5], &[1.0, 2.0, 1.0]);
    assert_eq!((judged.verdict, judged.rounds), (Verdict::Pass, 3));
    assert_eq!((judged.ratio, judged.low, judged.high), (Some(1.4), Some(1.4), Some(1.5)));
    assert_eq!(judged.shown(), "1.40 (1.40 to 1.50)");
    assert_eq!(lookups(&[1.1, 1.2, 1.25], &[1.0; 3]).verdict, Verdict::Fail);
}

#[test]
fn only_intervals_of_enough_rounds_are_sure() {
    let of = |rounds, low: f64| {
        let mut ratios = vec![1.5; rounds];
        ratios[0] = low;
        lookups(&ratios, &vec![1.0; rounds])
    };
    assert_eq!(of(6, 1.4).said, "pass");
    assert_eq!(of(6, 1.2).said, "pass, not surely");
    assert_eq!([of(5, 1.4).said, of(1, 1.4).said], ["pass, not surely"; 2]);
}

#[test]
fn what_was_not_measured_neither_passes_nor_fails() {
    assert!(judge(&empty()).iter().all(|judged| judged.verdict == Verdict::NotMeasured));
    assert_eq!(lookups(&[1.4], &[]).said, "not measured");
    assert_eq!(lookups(&[1.4], &[0.0]).verdict, Verdict::NotMeasured);
    // Rounds in which one side is missing do not count.
    assert_eq!(lookups(&[1.4, 1.4], &[1.0]).rounds, 1);
}

#[test]
fn what_fits_into_the_cache_says_so() {
    let said = |touched: f64, cache_bytes| {
        let mut results = empty()
            .with((LOOKUP.0, LOOKUP.1, "predictive"), 1.0, &[2.0])
            .with((LOOKUP.0, TOUCHED, "predictive"), 0.0, &[touched])
            .with((LOOKUP.0, LOOKUP.1, "hash"), 1.0, &[1.0]);
        results.machine.cache_bytes = cache_bytes;
        let judged = judge(&results);
        assert!(table(&judged).contains(&judged[0].said) && judged[0].ratio == Some(2.0));
        judged.into_iter().next().map(|judged| judged.said).unwrap()
    };
    let mib = f64::from(1 << 20);
    assert_eq!(
        said(3.0 * mib, Some(4 << 20)),
        "pass, not surely; 3.0 MiB beside a cache of 4.0 MiB"
    );
    assert_eq!(
        said(7.0 * mib, Some(4 << 20)),
        "pass, not surely; 7.0 MiB beside a cache of 4.0 MiB"
    );
    assert_eq!(said(8.0 * mib, Some(4 << 20)), "pass, not surely");
    assert_eq!(said(1.0, None), "pass, not surely");
}

fn named(judged: Vec<Judged>, begin: &str) -> Judged {
    judged.into_iter().find(|judged| judged.what.starts_with(begin)).unwrap()
}

#[test]
fn scans_are_compared_with_the_better_table() {
    let scan = |open: f64| {
        let results = empty()
            .with(("scan", "sequential", "array"), 0.0, &[9.0])
            .with(("scan", "sequential", "hash"), 0.0, &[2.0])
            .with(("scan", "sequential", "open"), 0.0, &[open]);
        named(judge(&results), "sequential")
    };
    assert_eq!((scan(3.0).verdict, scan(3.0).ratio), (Verdict::Pass, Some(3.0)));
    assert_eq!(scan(4.0).verdict, Verdict::Fail);
}

#[test]
fn bounds_on_both_sides_hold_between_them() {
    let near = Bound::Within(0.9, 1.1);
    let of = |value, low, high| Median { value, low, high, confidence: 1.0 };
    let holds = |ratio| near.holds(of(ratio, ratio, ratio));
    assert!(holds(1.0) && !holds(0.8) && !holds(1.2));
    let is_sure = |low, high| near.is_sure(of(1.0, low, high));
    assert!(is_sure(0.95, 1.05) && is_sure(1.2, 1.3));
    assert!(!is_sure(0.8, 1.2) && !is_sure(1.0, 1.2));
}

#[test]
fn memory_has_a_bound_from_above() {
    let results = empty()
        .with(("memory", "scattered hot keys: translation", "array"), 100.0, &[0.05])
        .with(("memory", "scattered hot keys: translation", "hash"), 100.0, &[0.02]);
    let judged = judge(&results);
    assert_eq!(named(judged.clone(), "translation memory").said, "fail, not surely");
    assert!(table(&judged).contains("2.50 (2.50 to 2.50)"));
}

#[test]
fn criteria_are_of_parts_and_sides_that_there_are() {
    for criterion in CRITERIA.iter() {
        let part = Part::find(&criterion.of.part).unwrap();
        let named = criterion.others.iter().chain([&criterion.side]).map(String::as_str);
        let mut sides = named.chain(criterion.or.0.iter().map(|side| side.name));
        assert!(sides.all(|side| part.side(side).is_some()), "{}", criterion.what);
        assert!(criterion.by.iter().all(|by| by.part == criterion.of.part));
    }
}

#[test]
fn the_table_alone_is_compared_with_the_same_way_of_holding() {
    let judged = |simd: f64| {
        let results = empty()
            .with(("multi", "queries", "simd-plain, copy"), 2.0, &[simd])
            .with(("multi", "queries", "hash, copy"), 2.0, &[2.0])
            .with(("multi", "queries", "hash, shared"), 2.0, &[1.0]);
        let is = |what: &str| what.starts_with("queries of ten keys, 2 threads: simd-plain, copy");
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
    let evicting = TranslationKind::EVICTING.iter().map(|kind| kind.name());
    let sides = || evicting.clone().filter(|side| *side != "vm");
    let figures = |vm: &[f64]| {
        let all = sides().fold(empty(), |results, side| {
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
