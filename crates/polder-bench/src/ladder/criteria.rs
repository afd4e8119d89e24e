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

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::measured::TOUCHED;
use super::results::{OfRound, Results};
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

/// One thing that must hold; `criteria.toml` explains what each field means.
#[derive(Debug, Deserialize)]
struct Criterion {
    what: String,
    of: Source,
    by: Option<Source>,
    side: String,
    #[serde(default)]
    or: Vec<String>,
    others: Vec<String>,
    bound: Bound,
}

/// Those of which runs tell.
static CRITERIA: LazyLock<Vec<Criterion>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct List {
        criterion: Vec<Criterion>,
    }
    let read = toml::from_str::<List>(include_str!("criteria.toml"));
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

/// Judges all criteria.
pub(crate) fn judge(results: &Results) -> Vec<Judged> {
    let judged = CRITERIA.iter().map(|criterion| criterion.judge(results));
    judged.chain([shared_writes(results)]).collect()
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
    fn judge(&'static self, results: &Results) -> Judged {
        let ratios = self.ratios(results);
        let median = Median::of(&ratios).filter(|median| median.value.is_finite());
        let touched = results.median(&self.of.part, TOUCHED, &self.side, 0.0);
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
            what: &self.what,
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
        let figures = |from: &Source, side: &String| -> Vec<OfRound> {
            results.figures(&from.part, &from.metric, side, from.at)
        };
        let own = [&self.side].into_iter().chain(&self.or).map(|side| figures(&self.of, side));
        let by = self.by.as_ref().unwrap_or(&self.of);
        let others: Vec<_> = self.others.iter().map(|side| figures(by, side)).collect();
        let own: Vec<_> = own.collect();
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
    let row = |judged: &Judged| {
        vec![judged.what.to_owned(), judged.bound.clone(), judged.shown(), judged.said.clone()]
    };
    crate::table::table(&[], judged.iter().map(row))
}

#[cfg(test)]
mod tests;
