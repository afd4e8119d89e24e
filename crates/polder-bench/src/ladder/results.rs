//! What all runs gave, round by round, and what follows: medians with their intervals.

use serde::Serialize;

use super::measured::{Figure, Measured};
use super::plan::Terms;
use super::writes::SharedWrites;
use crate::interval::Median;
use crate::machine::Machine;
use crate::size::show_count;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) part: String,
    pub(crate) side: String,
    /// From 0.
    pub(crate) round: u64,
    pub(crate) figures: Measured,
}

/// A run that gave nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Failure {
    pub(crate) part: String,
    pub(crate) side: String,
    pub(crate) round: u64,
    pub(crate) why: String,
}

/// A side that had no turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Skipped {
    pub(crate) part: String,
    pub(crate) side: String,
    /// What is missing, and what to do.
    pub(crate) why: String,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Results {
    #[serde(flatten)]
    pub(crate) terms: Terms,
    pub(crate) machine: Machine,
    /// False until it is over, and if it was interrupted.
    pub(crate) complete: bool,
    pub(crate) runs: Vec<Run>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) writes: Option<SharedWrites>,
}

/// A figure of one round, and its place on the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OfRound {
    pub(crate) at: f64,
    pub(crate) round: u64,
    pub(crate) value: f64,
}

impl OfRound {
    /// The median of these.
    pub(crate) fn median(figures: &[OfRound]) -> Option<Median> {
        Median::of(&figures.iter().map(|figure| figure.value).collect::<Vec<_>>())
    }
}

/// One figure over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) part: String,
    pub(crate) metric: String,
    pub(crate) side: String,
    pub(crate) at: f64,
    #[serde(flatten)]
    pub(crate) median: Median,
    pub(crate) rounds: usize,
}

impl Results {
    /// All figures of a part, each with its run.
    fn of_part<'r>(&'r self, part: &str) -> impl Iterator<Item = (&'r Run, &'r Figure)> {
        let runs = self.runs.iter().filter(move |run| run.part == part);
        runs.flat_map(|run| run.figures.figures.iter().map(move |figure| (run, figure)))
    }

    /// The figures of one side: from place to place on the axis, and at each place by rounds.
    pub(crate) fn figures(&self, part: &str, metric: &str, side: &str) -> Vec<OfRound> {
        let of_side = self
            .of_part(part)
            .filter(|(run, figure)| run.side == side && figure.metric == metric)
            .map(|(run, figure)| OfRound { at: figure.at, round: run.round, value: figure.value });
        let mut found: Vec<OfRound> = of_side.collect();
        found.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.round.cmp(&b.round)));
        found
    }

    /// The metrics of a part, in the order in which they were measured.
    pub(crate) fn metrics(&self, part: &str) -> Vec<&str> {
        distinct(self.of_part(part).map(|(_, figure)| figure.metric.as_str()))
    }

    /// All medians.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        let mut all = Vec::new();
        for part in distinct(self.runs.iter().map(|run| run.part.as_str())) {
            let sides = distinct(self.of_part(part).map(|(run, _)| run.side.as_str()));
            for metric in self.metrics(part) {
                for side in &sides {
                    for rounds in self.figures(part, metric, side).chunk_by(|a, b| a.at == b.at) {
                        let Some(median) = OfRound::median(rounds) else { continue };
                        let [part, metric, side] = [part, metric, side].map(str::to_owned);
                        let (at, rounds) = (rounds[0].at, rounds.len());
                        all.push(Summary { part, metric, side, at, median, rounds });
                    }
                }
            }
        }
        all
    }
}

/// All medians with their intervals, a line for each, but for what goes with a metric.
pub(crate) fn medians(results: &Results) -> String {
    let show = |value: f64| match value.abs() {
        size if size >= 1000.0 => show_count(value),
        size if size >= 0.01 || size == 0.0 => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    };
    let line = |Summary { part, metric, side, at, median, rounds }: &Summary| {
        let [value, low, high] = [median.value, median.low, median.high].map(show);
        format!("{part}, {metric} at {at}, {side}: {value} ({low} to {high}), {rounds} rounds\n")
    };
    let all = results.summaries();
    all.iter().filter(|of| !of.metric.contains(": ")).map(line).collect()
}

/// Each once, in the order in which they come.
fn distinct<'t>(names: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Made-up results for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::super::plan::Size;
    use super::*;

    /// No runs.
    pub(crate) fn empty() -> Results {
        Results {
            terms: Terms { size: Size::Small, rounds: 3, seconds: 0.1, threads: vec![1, 2] },
            machine: Machine::default(),
            complete: true,
            runs: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
            writes: None,
        }
    }

    impl Results {
        /// Adds a run of one figure for each of these rounds.
        pub(crate) fn with(
            mut self,
            (part, metric, side): (&str, &str, &str),
            at: f64,
            values: &[f64],
        ) -> Results {
            for (value, round) in values.iter().zip(0..) {
                let mut figures = Measured::default();
                figures.push(metric, at, *value);
                let (part, side) = (part.to_owned(), side.to_owned());
                self.runs.push(Run { part, side, round, figures });
            }
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::empty;
    use super::*;

    #[test]
    fn rounds_become_medians() {
        let results = empty().with(("scan", "random", "hash"), 0.0, &[3.0, 1.0, 2.0]).with(
            ("scan", "random", "array"),
            0.0,
            &[5.0],
        );
        let all = results.summaries();
        assert_eq!(all.len(), 2);
        let median = all[0].median;
        assert_eq!((median.value, median.low, median.high, all[0].rounds), (2.0, 1.0, 3.0, 3));
        assert_eq!((all[1].side.as_str(), all[1].median.confidence), ("array", 0.0));
        let rounds = results.figures("scan", "random", "hash");
        assert_eq!(rounds.iter().map(|figure| figure.value).collect::<Vec<_>>(), [3.0, 1.0, 2.0]);
        let lines = medians(&results);
        assert!(
            lines.starts_with("scan, random at 0, hash: 2.0000 (1.0000 to 3.0000), 3 rounds\n")
        );
        assert_eq!(lines.lines().count(), 2);
        assert_eq!(results.figures("scan", "sequential", "hash"), []);
    }
}
