//! What must hold, and whether it does.
//!
//! A criterion compares one side with another, or with the better of several, round by round; what
//! counts is the median of these ratios. It is *sure* if the whole interval of the median is on
//! one side of the bound.

use std::fmt;

use serde::Serialize;

use super::results::Results;
use crate::interval::Median;

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
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Bound::AtLeast(least) => ratio >= least,
            Bound::AtMost(most) => ratio <= most,
            Bound::Within(least, most) => (least..=most).contains(&ratio),
        }
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
        }
    }
}

/// One thing that must hold.
#[derive(Debug, Clone, Copy)]
struct Criterion {
    what: &'static str,
    of: Source,
    side: &'static str,
    /// Compared with the better of these; or with the same side by another metric.
    by: Source,
    others: &'static [&'static str],
    bound: Bound,
}

const fn source(part: &'static str, metric: &'static str, at: f64) -> Source {
    Source { part, metric, at }
}

const LOOKUPS: Source = source("lookup", "uniform", 1.0);
const SEQUENTIAL: Source = source("scan", "sequential", 0.0);
const RANDOM: Source = source("scan", "random", 0.0);
const GRAPH: Source = source("graph", "nodes", 0.0);
const MEMORY: Source = source("memory", "scattered hot keys: translation", 100.0);

const fn same(
    what: &'static str,
    of: Source,
    side: &'static str,
    others: &'static [&'static str],
    bound: Bound,
) -> Criterion {
    Criterion { what, of, side, by: of, others, bound }
}

/// All of them.
const CRITERIA: [Criterion; 9] = [
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
    Criterion {
        what: "pages in their preferred frame, by (1 - e^-x)/x of the pool's load x",
        of: source("placement", "pages", 0.5),
        side: "predictive",
        by: source("placement", "allowed", 0.5),
        others: &["predictive"],
        bound: Bound::AtLeast(0.95),
    },
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

impl Verdict {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A criterion and what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Judged {
    pub(crate) what: &'static str,
    pub(crate) bound: String,
    pub(crate) verdict: Verdict,
    /// Whether the whole interval says the same.
    pub(crate) sure: bool,
    pub(crate) ratio: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) confidence: Option<f64>,
    /// Rounds that have both sides.
    pub(crate) rounds: usize,
}

/// Judges all criteria.
pub(crate) fn judge(results: &Results) -> Vec<Judged> {
    CRITERIA.iter().map(|criterion| criterion.judge(results)).collect()
}

impl Criterion {
    fn judge(&self, results: &Results) -> Judged {
        let ratios = self.ratios(results);
        let median = Median::of(&ratios).filter(|median| median.value.is_finite());
        let verdict = match median {
            None => Verdict::NotMeasured,
            Some(median) if self.bound.holds(median.value) => Verdict::Pass,
            Some(_) => Verdict::Fail,
        };
        Judged {
            what: self.what,
            bound: self.bound.to_string(),
            verdict,
            sure: median.is_some_and(|m| ratios.len() > 1 && self.bound.is_sure(m.low, m.high)),
            ratio: median.map(|median| median.value),
            low: median.map(|median| median.low),
            high: median.map(|median| median.high),
            confidence: median.map(|median| median.confidence),
            rounds: ratios.len(),
        }
    }

    /// One of each round in which all sides were measured.
    fn ratios(&self, results: &Results) -> Vec<f64> {
        let figures = |from: Source, side| results.figures(from.part, from.metric, side, from.at);
        let others: Vec<_> = self.others.iter().map(|side| figures(self.by, side)).collect();
        let ratio = |round, value: f64| {
            let mut best: Option<f64> = None;
            for other in &others {
                let other = other.iter().find(|other| other.round == round)?.value;
                best = Some(best.map_or(other, |best| best.max(other)));
            }
            Some(value / best?)
        };
        figures(self.of, self.side).iter().filter_map(|f| ratio(f.round, f.value)).collect()
    }
}

/// The criteria as a table for a terminal.
pub(crate) fn table(judged: &[Judged]) -> String {
    let width = judged.iter().map(|judged| judged.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for judged in judged {
        let verdict = judged.verdict.name();
        let ratio = match (judged.ratio, judged.low, judged.high) {
            (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
            _ => String::new(),
        };
        let doubt = if judged.ratio.is_some() && !judged.sure { ", not surely" } else { "" };
        let (what, bound) = (judged.what, &judged.bound);
        text += &format!("{what:width$}  {bound:>12}  {ratio:<22}  {verdict}{doubt}\n");
    }
    text
}

#[cfg(test)]
mod tests {
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
        assert_eq!((judged.verdict, judged.sure, judged.rounds), (Verdict::Pass, true, 3));
        assert_eq!((judged.ratio, judged.low, judged.high), (Some(1.4), Some(1.4), Some(1.5)));
        let judged = lookups(&[1.1, 1.2, 1.25], &[1.0, 1.0, 1.0]);
        assert_eq!((judged.verdict, judged.sure), (Verdict::Fail, true));
        let judged = lookups(&[1.2, 1.4, 1.5], &[1.0, 1.0, 1.0]);
        assert_eq!((judged.verdict, judged.sure), (Verdict::Pass, false));
    }

    #[test]
    fn what_was_not_measured_neither_passes_nor_fails() {
        assert!(judge(&empty()).iter().all(|judged| judged.verdict == Verdict::NotMeasured));
        assert_eq!(lookups(&[1.4], &[]).verdict, Verdict::NotMeasured);
        assert_eq!(lookups(&[1.4], &[0.0]).verdict, Verdict::NotMeasured);
        // Rounds in which one side is missing do not count.
        assert_eq!(lookups(&[1.4, 1.4], &[1.0]).rounds, 1);
        assert!(!lookups(&[1.4], &[1.0]).sure);
    }

    #[test]
    fn scans_are_compared_with_the_better_table() {
        let scan = |open: f64| {
            let results = empty()
                .with(("scan", "sequential", "array"), 0.0, &[9.0])
                .with(("scan", "sequential", "hash"), 0.0, &[2.0])
                .with(("scan", "sequential", "open"), 0.0, &[open]);
            judge(&results).swap_remove(4)
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
            .with(("placement", "pages", "predictive"), 0.5, &[0.77])
            .with(("placement", "allowed", "predictive"), 0.5, &[0.79])
            .with(("memory", "scattered hot keys: translation", "array"), 100.0, &[0.05])
            .with(("memory", "scattered hot keys: translation", "hash"), 100.0, &[0.02]);
        let judged = judge(&results);
        assert_eq!((judged[7].verdict, judged[8].verdict), (Verdict::Pass, Verdict::Fail));
        assert!(table(&judged).contains("2.50 (2.50 to 2.50)"));
    }
}
