//! What must hold, and whether it does.
//!
//! A criterion compares one side, or the best of several, with another, or with the better of
//! several, round by round; what counts is the median of these ratios. It is *sure* if the whole
//! interval of the median is on one side of the bound, and the interval holds the true median with
//! 95%. Writes to shared lines are counted beforehand and are neither sure nor not.
//!
//! What is timed should go to at least twice as many bytes of pages as the processor's largest cache
//! has, or memory is hardly asked: where it does not, the verdict says so. (The cache that a virtual
//! machine reports is its host's, of which others have their share.)

use std::fmt;

use serde::Serialize;

use super::measured::TOUCHED;
use super::results::{OfRound, Results};
use crate::interval::{CONFIDENCE, Median};
use crate::size::show_bytes;

mod scalecache;
mod tpcc;

/// Bytes gone to, by those of the largest cache, from which figures tell of memory.
const BEYOND_CACHE: u64 = 2;

/// Where figures come from.
#[derive(Debug, Clone, Copy)]
struct Source {
    part: &'static str,
    metric: &'static str,
    at: f64,
}

/// What the ratio must be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
    /// Is at least this, or may be: it lies below the upper end of the interval.
    NotBelow(f64),
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Bound::AtLeast(least) | Bound::NotBelow(least) => ratio >= least,
            Bound::AtMost(most) => ratio <= most,
            Bound::Within(least, most) => (least..=most).contains(&ratio),
        }
    }

    /// Whether a median with its interval holds.
    fn holds_for(self, median: Median) -> bool {
        self.holds(match self {
            Bound::NotBelow(_) => median.high,
            _ => median.value,
        })
    }

    /// Whether all from `low` to `high` lie on the side on which `ratio` is.
    fn is_sure(self, low: f64, high: f64) -> bool {
        match self {
            // Both ends may lie outside of the bounds, one on each side.
            Bound::Within(least, most) => {
                (self.holds(low) && self.holds(high)) || high < least || low > most
            }
            _ => self.holds(low) == self.holds(high),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtLeast(least) => write!(f, "at least {least}"),
            Bound::AtMost(most) => write!(f, "at most {most}"),
            Bound::Within(least, most) => write!(f, "{least} to {most}"),
            Bound::NotBelow(least) => write!(f, "not below {least}"),
        }
    }
}

/// One thing that must hold.
#[derive(Debug, Clone, Copy)]
struct Criterion {
    what: &'static str,
    of: Source,
    side: &'static str,
    /// Or the best of it and these.
    or: &'static [&'static str],
    /// Compared with the better of these; or with the same side by another metric.
    by: Source,
    others: &'static [&'static str],
    bound: Bound,
}

const fn source(part: &'static str, metric: &'static str, at: f64) -> Source {
    Source { part, metric, at }
}

const LOOKUPS: Source = source("lookup", "uniform", 1.0);
const LOOKUPS_OF_TWO: Source = source("lookup", "uniform", 2.0);
const SEQUENTIAL: Source = source("scan", "sequential", 0.0);
const RANDOM: Source = source("scan", "random", 0.0);
const GRAPH: Source = source("graph", "nodes", 0.0);
const PLACES: Source = source("placement", "pages", 0.5);
const ALLOWED: Source = source("placement", "allowed", 0.5);
const POSSIBLE: Source = source("placement", "possible", 0.5);
const MEMORY: Source = source("memory", "scattered hot keys: translation", 100.0);

const fn same(
    what: &'static str,
    of: Source,
    side: &'static str,
    others: &'static [&'static str],
    bound: Bound,
) -> Criterion {
    Criterion { what, of, side, or: &[], by: of, others, bound }
}

/// The pages in place, by those that could be.
const fn placed(
    what: &'static str,
    side: &'static str,
    by: Source,
    others: &'static [&'static str],
) -> Criterion {
    Criterion { what, of: PLACES, side, or: &[], by, others, bound: Bound::AtLeast(0.95) }
}

/// All of them but those of scalecache.txt and of TPC-C.
const CRITERIA: [Criterion; 14] = [
    same(
        "resident lookups: predictive by hash",
        LOOKUPS,
        "predictive",
        &["hash"],
        Bound::AtLeast(1.3),
    ),
    same("resident lookups: array by hash", LOOKUPS, "array", &["hash"], Bound::AtLeast(1.3)),
    same(
        "resident lookups: predictive by array",
        LOOKUPS,
        "predictive",
        &["array"],
        Bound::Within(0.9, 1.1),
    ),
    same("resident lookups: simd by open", LOOKUPS, "simd", &["open"], Bound::AtLeast(1.1)),
    // `simd` goes past its table where pages lie as they prefer: this is the table.
    same(
        "resident lookups: simd-plain by open",
        LOOKUPS,
        "simd-plain",
        &["open"],
        Bound::AtLeast(1.1),
    ),
    same(
        "resident lookups, 2 threads: predictive by hash",
        LOOKUPS_OF_TWO,
        "predictive",
        &["hash"],
        Bound::AtLeast(1.3),
    ),
    same(
        "resident lookups, 2 threads: simd by open",
        LOOKUPS_OF_TWO,
        "simd",
        &["open"],
        Bound::AtLeast(1.1),
    ),
    same(
        "resident lookups, 2 threads: simd-plain by open",
        LOOKUPS_OF_TWO,
        "simd-plain",
        &["open"],
        Bound::AtLeast(1.1),
    ),
    same(
        "sequential scan: array by the better of hash and open",
        SEQUENTIAL,
        "array",
        &["hash", "open"],
        Bound::AtLeast(3.0),
    ),
    same(
        "random scan: array by the better of hash and open",
        RANDOM,
        "array",
        &["hash", "open"],
        Bound::AtLeast(1.5),
    ),
    same(
        "graph: array by the better of hash and open",
        GRAPH,
        "array",
        &["hash", "open"],
        Bound::AtLeast(2.0),
    ),
    placed(
        "pages in place, by what hashing allows: predictive-hashed",
        "predictive-hashed",
        ALLOWED,
        &["predictive-hashed"],
    ),
    placed(
        "pages in place, by what is possible: predictive, by remainder",
        "predictive",
        POSSIBLE,
        &["predictive"],
    ),
    same(
        "translation memory, scattered hot keys, 100 times the pool: array by hash",
        MEMORY,
        "array",
        &["hash"],
        Bound::AtMost(2.0),
    ),
];

/// How a criterion came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Pass,
    Fail,
    NotMeasured,
}

/// How far a verdict can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Certainty {
    /// The whole interval says the same.
    Sure,
    NotSure,
    /// Counted once, beforehand.
    Counted,
}

/// A criterion and what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Judged {
    pub(crate) what: &'static str,
    pub(crate) bound: String,
    pub(crate) verdict: Verdict,
    pub(crate) certainty: Certainty,
    /// The verdict for people.
    pub(crate) said: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) confidence: Option<f64>,
    /// Rounds that have both sides.
    pub(crate) rounds: usize,
    /// Bytes of pages that were gone to, where something was timed.
    pub(crate) touched_bytes: Option<u64>,
}

impl Judged {
    /// The ratio with its interval, for people.
    pub(crate) fn shown(&self) -> String {
        match (self.ratio, self.low, self.high) {
            (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
            _ => "–".to_owned(),
        }
    }
}

/// Those of which runs tell, from everywhere.
fn of_runs() -> impl Iterator<Item = &'static Criterion> {
    CRITERIA.iter().chain(&scalecache::CRITERIA).chain(&tpcc::CRITERIA)
}

/// Judges all criteria.
pub(crate) fn judge(results: &Results) -> Vec<Judged> {
    of_runs().map(|criterion| criterion.judge(results)).chain([shared_writes(results)]).collect()
}

/// Readers that only validate write nothing that others use, but for pages that move and marks that
/// are taken off, which are not counted.
fn shared_writes(results: &Results) -> Judged {
    let bound = Bound::AtMost(0.0);
    let most = results.writes.as_ref().and_then(|w| w.most_of(&["array", "predictive", "vm"]));
    let verdict = match most {
        None => Verdict::NotMeasured,
        Some(most) if bound.holds(most) => Verdict::Pass,
        Some(_) => Verdict::Fail,
    };
    Judged {
        what: "writes to shared lines, an optimistic lookup: array, predictive, vm",
        bound: bound.to_string(),
        verdict,
        certainty: Certainty::Counted,
        said: said(verdict, Certainty::Counted, None, 0),
        touched_bytes: None,
        ratio: most,
        low: most,
        high: most,
        confidence: None,
        rounds: usize::from(most.is_some()),
    }
}

impl Criterion {
    fn judge(&self, results: &Results) -> Judged {
        let ratios = self.ratios(results);
        let median = Median::of(&ratios).filter(|median| median.value.is_finite());
        let touched = results.median(self.of.part, TOUCHED, self.side, 0.0);
        let touched_bytes = touched.map(|touched| touched.value as u64);
        let cache_bytes = results.machine.cache_bytes.unwrap_or(0);
        let verdict = match median {
            None => Verdict::NotMeasured,
            Some(median) if self.bound.holds_for(median) => Verdict::Pass,
            Some(_) => Verdict::Fail,
        };
        let is_sure = |m: Median| m.confidence >= CONFIDENCE && self.bound.is_sure(m.low, m.high);
        let certainty = match median {
            Some(median) if is_sure(median) => Certainty::Sure,
            _ => Certainty::NotSure,
        };
        Judged {
            what: self.what,
            bound: self.bound.to_string(),
            verdict,
            certainty,
            said: said(verdict, certainty, touched_bytes, cache_bytes),
            ratio: median.map(|median| median.value),
            low: median.map(|median| median.low),
            high: median.map(|median| median.high),
            confidence: median.map(|median| median.confidence),
            rounds: ratios.len(),
            touched_bytes,
        }
    }

    /// One of each round in which all sides were measured.
    fn ratios(&self, results: &Results) -> Vec<f64> {
        let of_each = |from: Source, sides: &[&str]| -> Vec<Vec<OfRound>> {
            let figures = |side: &&str| results.figures(from.part, from.metric, side, from.at);
            sides.iter().map(figures).collect()
        };
        let own = of_each(self.of, &[&[self.side], self.or].concat());
        let others = of_each(self.by, self.others);
        let rounds = own.iter().flatten().map(|figure| figure.round).max();
        let ratio = |round| Some(best(&own, round)? / best(&others, round)?);
        (0..=rounds.unwrap_or(0)).filter_map(ratio).collect()
    }
}

/// The best figure of a round; `None` if a side has none.
fn best(sides: &[Vec<OfRound>], round: u64) -> Option<f64> {
    let mut best: Option<f64> = None;
    for figures in sides {
        let value = figures.iter().find(|figure| figure.round == round)?.value;
        best = Some(best.map_or(value, |best| best.max(value)));
    }
    best
}

/// A verdict for people.
fn said(
    verdict: Verdict,
    certainty: Certainty,
    touched_bytes: Option<u64>,
    cache_bytes: u64,
) -> String {
    let how = match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::NotMeasured => return "not measured".to_owned(),
    };
    let certainty = match certainty {
        Certainty::Sure => "",
        Certainty::NotSure => ", not surely",
        Certainty::Counted => ", counted",
    };
    let cache = match touched_bytes {
        Some(bytes) if bytes < BEYOND_CACHE * cache_bytes => {
            format!("; {} beside a cache of {}", show_bytes(bytes), show_bytes(cache_bytes))
        }
        _ => String::new(),
    };
    format!("{how}{certainty}{cache}")
}

/// The criteria as a table for a terminal.
pub(crate) fn table(judged: &[Judged]) -> String {
    let width = judged.iter().map(|judged| judged.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for judged in judged {
        let Judged { what, bound, said, .. } = judged;
        text += &format!("{what:width$}  {bound:>12}  {:<22}  {said}\n", judged.shown());
    }
    text
}

#[cfg(test)]
mod tests {
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
        assert_eq!((of(6, 1.4).certainty, of(6, 1.4).said.as_str()), (Certainty::Sure, "pass"));
        assert_eq!(of(6, 1.2).said, "pass, not surely");
        assert_eq!(
            (of(5, 1.4).certainty, of(1, 1.4).certainty),
            (Certainty::NotSure, Certainty::NotSure)
        );
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
        assert!(near.holds(1.0) && !near.holds(0.8) && !near.holds(1.2));
        assert!(near.is_sure(0.95, 1.05) && near.is_sure(1.2, 1.3));
        assert!(!near.is_sure(0.8, 1.2) && !near.is_sure(1.0, 1.2));
    }

    #[test]
    fn placement_and_memory_have_bounds_of_their_own() {
        let results = empty()
            .with(("placement", "pages", "predictive"), 0.5, &[0.94])
            .with(("placement", "allowed", "predictive"), 0.5, &[0.79])
            .with(("placement", "possible", "predictive"), 0.5, &[1.0])
            .with(("placement", "pages", "predictive-hashed"), 0.5, &[0.70])
            .with(("placement", "allowed", "predictive-hashed"), 0.5, &[0.79])
            .with(("memory", "scattered hot keys: translation", "array"), 100.0, &[0.05])
            .with(("memory", "scattered hot keys: translation", "hash"), 100.0, &[0.02]);
        let judged = judge(&results);
        let said = |begin| named(judged.clone(), begin).said;
        // More than hashing allows, and less than there could be.
        assert_eq!(
            said("pages in place, by what is possible: predictive, by remainder"),
            "fail, not surely"
        );
        assert_eq!(
            said("pages in place, by what hashing allows: predictive-hashed"),
            "fail, not surely"
        );
        assert_eq!(said("translation memory"), "fail, not surely");
        assert!(table(&judged).contains("2.50 (2.50 to 2.50)"));
    }

    #[test]
    fn criteria_are_of_parts_and_sides_that_there_are() {
        for criterion in of_runs() {
            let part = Part::find(criterion.of.part).unwrap();
            let sides = criterion.others.iter().chain(criterion.or).chain([&criterion.side]);
            assert!(sides.into_iter().all(|side| part.side(side).is_some()), "{}", criterion.what);
            assert_eq!(criterion.by.part, criterion.of.part);
        }
    }
}
