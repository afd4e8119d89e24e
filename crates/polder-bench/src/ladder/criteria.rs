//! What must hold, and whether it does.
//!
//! A criterion compares one side, or the best of several, with another, or with the better of
//! several, round by round; what counts is the median of these ratios. It is *sure* if the whole
//! interval of the median is on one side of the bound, and the interval holds the true median with
//! 95%. Writes to shared lines are counted beforehand and are neither sure nor not.
//!
//! What is timed should go to at least twice as many bytes of pages as the processor's largest
//! cache has, or memory is hardly asked: where it does not, the verdict says so. (The cache that a
//! virtual machine reports is its host's, of which others have their share.)

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::measured::TOUCHED;
use super::results::Results;
use super::side;
use crate::interval::{CONFIDENCE, Median};
use crate::size::show_bytes;

/// Bytes gone to, by those of the largest cache, from which figures tell of memory.
const BEYOND_CACHE: u64 = 2;

/// Where figures come from.
#[derive(Debug, Deserialize)]
struct Source {
    part: String,
    metric: String,
    at: f64,
}

/// What the ratio must be.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
    /// Is at least this, or may be: it lies below the upper end of the interval.
    NotBelow(f64),
}

impl Bound {
    /// The least and the most.
    fn ends(self) -> (f64, f64) {
        match self {
            Bound::AtLeast(least) | Bound::NotBelow(least) => (least, f64::INFINITY),
            Bound::AtMost(most) => (f64::NEG_INFINITY, most),
            Bound::Within(least, most) => (least, most),
        }
    }

    /// Whether a median with its interval holds.
    fn holds(self, median: Median) -> bool {
        let (least, most) = self.ends();
        let may_be = matches!(self, Bound::NotBelow(_));
        (least..=most).contains(if may_be { &median.high } else { &median.value })
    }

    /// Whether all of the median's interval holds, or none of it.
    fn is_sure(self, Median { low, high, .. }: Median) -> bool {
        let (least, most) = self.ends();
        (least <= low && high <= most) || high < least || low > most
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

/// One thing that must hold; `criteria.toml` explains what each field means.
#[derive(Debug, Deserialize)]
struct Criterion {
    what: String,
    of: Source,
    by: Option<Source>,
    side: String,
    #[serde(default)]
    or: side::List,
    others: Vec<String>,
    bound: Bound,
}

/// Those of which runs tell.
static CRITERIA: LazyLock<Vec<Criterion>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct All {
        criterion: Vec<Criterion>,
    }
    let read = toml::from_str::<All>(include_str!("criteria.toml"));
    read.expect("a test reads each criterion of the file").criterion
});

/// How a criterion came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Pass,
    Fail,
    NotMeasured,
}

/// A criterion and what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Judged {
    pub(crate) what: &'static str,
    pub(crate) bound: String,
    pub(crate) verdict: Verdict,
    /// The verdict for people, and how far it can be trusted.
    pub(crate) said: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) confidence: Option<f64>,
    /// Rounds that have both sides.
    pub(crate) rounds: usize,
}

impl Judged {
    /// What a ratio of so many rounds says. `trust` is how far, for people.
    fn new(
        what: &'static str,
        bound: Bound,
        ratio: Option<Median>,
        rounds: usize,
        trust: &str,
    ) -> Judged {
        let (verdict, said) = match ratio {
            None => (Verdict::NotMeasured, "not measured".to_owned()),
            Some(ratio) if bound.holds(ratio) => (Verdict::Pass, format!("pass{trust}")),
            Some(_) => (Verdict::Fail, format!("fail{trust}")),
        };
        Judged {
            what,
            bound: bound.to_string(),
            verdict,
            said,
            ratio: ratio.map(|ratio| ratio.value),
            low: ratio.map(|ratio| ratio.low),
            high: ratio.map(|ratio| ratio.high),
            confidence: ratio.map(|ratio| ratio.confidence),
            rounds,
        }
    }

    /// The ratio with its interval, for people.
    pub(crate) fn shown(&self) -> String {
        match (self.ratio, self.low, self.high) {
            (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
            _ => "–".to_owned(),
        }
    }
}

/// Judges all criteria.
pub(crate) fn judge(results: &Results) -> Vec<Judged> {
    let judged = CRITERIA.iter().map(|criterion| criterion.judge(results));
    judged.chain([shared_writes(results)]).collect()
}

/// Readers that only validate write nothing that others use, but for pages that move and marks that
/// are taken off, which are not counted.
fn shared_writes(results: &Results) -> Judged {
    let most = results.writes.as_ref().and_then(|w| w.most_of(&["array", "predictive", "vm"]));
    let what = "writes to shared lines, an optimistic lookup: array, predictive, vm";
    let counted = most.and_then(|most| Median::of(&[most]));
    Judged::new(what, Bound::AtMost(0.0), counted, counted.iter().count(), ", counted")
}

impl Criterion {
    fn judge(&'static self, results: &Results) -> Judged {
        let ratios = self.ratios(results);
        let median = Median::of(&ratios).filter(|median| median.value.is_finite());
        let is_sure =
            |median: Median| median.confidence >= CONFIDENCE && self.bound.is_sure(median);
        let sure = if median.is_some_and(is_sure) { "" } else { ", not surely" };
        let trust = format!("{sure}{}", self.cached(results).unwrap_or_default());
        Judged::new(&self.what, self.bound, median, ratios.len(), &trust)
    }

    /// What was gone to beside the largest cache, where that may hold too much of it.
    fn cached(&self, results: &Results) -> Option<String> {
        let touched = results.figures(&self.of.part, TOUCHED, &self.side);
        let (touched, cache) = (touched.first()?.value as u64, results.machine.cache_bytes?);
        let [shown, of_cache] = [touched, cache].map(show_bytes);
        (touched < BEYOND_CACHE * cache).then(|| format!("; {shown} beside a cache of {of_cache}"))
    }

    /// One of each round in which all sides were measured.
    fn ratios(&self, results: &Results) -> Vec<f64> {
        let or = self.or.0.iter().map(|side| side.name);
        let own = self.of.rounds(results, [&*self.side].into_iter().chain(or));
        let by = self.by.as_ref().unwrap_or(&self.of);
        let others = by.rounds(results, self.others.iter().map(String::as_str));
        let ratio = |(round, own): (&u64, &f64)| Some(own / others.get(round)?);
        own.iter().filter_map(ratio).collect()
    }
}

impl Source {
    /// The best figure of these sides in each round in which all of them were measured.
    fn rounds<'s>(
        &self,
        results: &Results,
        sides: impl IntoIterator<Item = &'s str>,
    ) -> BTreeMap<u64, f64> {
        let of_side = |side: &str| -> BTreeMap<u64, f64> {
            let figures = results.figures(&self.part, &self.metric, side);
            let here = figures.iter().filter(|figure| figure.at == self.at);
            here.map(|figure| (figure.round, figure.value)).collect()
        };
        let better = |best: BTreeMap<u64, f64>, other: BTreeMap<u64, f64>| {
            let in_both =
                |(round, value): (u64, f64)| Some((round, value.max(*other.get(&round)?)));
            best.into_iter().filter_map(in_both).collect()
        };
        sides.into_iter().map(of_side).reduce(better).unwrap_or_default()
    }
}

/// The criteria as a table for a terminal.
pub(crate) fn table(judged: &[Judged]) -> String {
    let row = |judged: &Judged| {
        vec![judged.what.to_owned(), judged.bound.clone(), judged.shown(), judged.said.clone()]
    };
    crate::table::table(&[], judged.iter().map(row))
}

#[cfg(test)]
mod tests;
