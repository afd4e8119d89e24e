//! What all runs gave, round by round, and what follows: medians with their intervals.

use serde::Serialize;

use super::measured::{Figure, Measured, goes_with_another};
use super::plan::Terms;
use super::writes::SharedWrites;
use crate::interval::Median;
use crate::machine::Machine;
use crate::size::show_count;
use crate::table::table;

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

    /// What one side has of another at a place on the axis: the median of the ratios of all rounds.
    fn ratio(&self, part: &str, metric: &str, sides: [&str; 2], at: f64) -> Option<Median> {
        let [own, others] = sides.map(|side| self.figures(part, metric, side));
        let ratio = |figure: &OfRound| {
            let is_same = |other: &&OfRound| other.at == at && other.round == figure.round;
            others.iter().find(is_same).map(|other| figure.value / other.value)
        };
        let ratios: Vec<f64> = own.iter().filter(|own| own.at == at).filter_map(ratio).collect();
        Median::of(&ratios).filter(|median| median.low.is_finite() && median.high.is_finite())
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

/// Where a metric has more places on its axis than this they are the rows of its table.
const PLACES_IN_A_ROW: usize = 6;
/// Rows of such a table; of more places it has one in so many.
const MOST_ROWS: usize = 40;
/// Where a metric has more places than this a cell is the median alone.
const RATIOS_IN_A_ROW: usize = 3;

/// All medians, each with the ratio by the first side of its metric and the ratio's interval: a table
/// for each metric, but for what goes with a metric.
pub(crate) fn medians(results: &Results) -> String {
    let all = results.summaries();
    let of_metrics = all.chunk_by(|a, b| a.part == b.part && a.metric == b.metric);
    of_metrics
        .filter(|of| !goes_with_another(&of[0].metric))
        .map(|of| table_of(results, of))
        .collect()
}

/// A row for each side and a column for each place on the axis, or the other way round; one line where
/// all sides have the same.
fn table_of(results: &Results, of_metric: &[Summary]) -> String {
    let Summary { part, metric, rounds, median: first, .. } = &of_metric[0];
    let title = format!("{part}, {metric}, {rounds} round(s)");
    if of_metric.len() > 1 && of_metric.iter().all(|of| is_always(of.median, first.value)) {
        return format!("{title}: {} everywhere\n\n", show(first.value));
    }
    let sides = distinct(of_metric.iter().map(|of| of.side.as_str()));
    let mut places: Vec<f64> = of_metric.iter().map(|of| of.at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let cell = |side: &str, at: f64| {
        let found = of_metric.iter().find(|of| of.side == side && of.at == at);
        let Some(found) = found else { return "-".to_owned() };
        let ratio = results.ratio(part, metric, [side, sides[0]], at);
        let value = show(found.median.value);
        match ratio.filter(|_| side != sides[0] && places.len() <= RATIOS_IN_A_ROW) {
            Some(ratio) if found.rounds == 1 => format!("{value} = {:.2}", ratio.value),
            Some(Median { value: ratio, low, high, .. }) => {
                format!("{value} = {ratio:.2} ({low:.2} to {high:.2})")
            }
            None => value,
        }
    };
    let name_of = |at: &f64| if places == [0.0] { "median".to_owned() } else { at.to_string() };
    let names: Vec<String> = places.iter().map(name_of).collect();
    let rows = |first: &str, titles: &[&str], rows: Vec<Vec<String>>| {
        let titles: Vec<&str> = [first].iter().chain(titles).copied().collect();
        let rows = table(&titles, rows);
        match rows.contains(" = ") {
            true => format!("{title}; = by {}\n{rows}\n", sides[0]),
            false => format!("{title}\n{rows}\n"),
        }
    };
    if places.len() > PLACES_IN_A_ROW {
        let row = |(at, name): (&f64, &String)| {
            let cells = sides.iter().map(|side| cell(side, *at));
            std::iter::once(name.clone()).chain(cells).collect()
        };
        let step = places.len().div_ceil(MOST_ROWS);
        // The last one is among them.
        let shown = places.iter().zip(&names).skip((places.len() - 1) % step).step_by(step);
        let first = if step == 1 { "at" } else { &format!("at, 1 of {step}") };
        return rows(first, &sides, shown.map(row).collect());
    }
    let row = |side: &&str| {
        let cells = places.iter().map(|at| cell(side, *at));
        std::iter::once((*side).to_owned()).chain(cells).collect()
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    rows("side", &names, sides.iter().map(row).collect())
}

fn is_always(median: Median, value: f64) -> bool {
    [median.value, median.low, median.high] == [value; 3]
}

fn show(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => show_count(value),
        size if size >= 0.01 || size == 0.0 => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    }
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
        assert_eq!(results.figures("scan", "sequential", "hash"), []);
    }

    #[test]
    fn each_metric_has_a_table() {
        let results = empty()
            .with(("scan", "random", "hash"), 1.0, &[3.0, 1.0, 2.0])
            .with(("scan", "random", "hash"), 2.0, &[4000.0])
            .with(("scan", "random", "array"), 1.0, &[6.0, 3.0, 2.0])
            .with(("scan", "random", "open"), 2.0, &[0.0])
            .with(("scan", "random: cpu", "array"), 2.0, &[7.0]);
        let text = medians(&results);
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0].join(" "), "scan, random, 3 round(s); = by hash");
        assert_eq!(words[1], ["side", "1", "2"]);
        assert_eq!(words[2].join(" "), "hash 2.0000 4.0 k");
        assert_eq!(words[3].join(" "), "array 3.0000 = 2.00 (1.00 to 3.00) -");
        assert_eq!(words[4].join(" "), "open - 0.0000 = 0.00");
        assert!(!text.contains("cpu"), "{text}");

        let alike = [1.0, 2.0].map(|at| (("scan", "touched", "hash"), at));
        let results = alike.into_iter().fold(empty(), |all, (of, at)| all.with(of, at, &[64.0; 3]));
        assert_eq!(medians(&results), "scan, touched, 3 round(s): 64.0000 everywhere\n\n");

        let seconds = (0..7).map(f64::from);
        let results =
            seconds.fold(empty(), |all, at| all.with(("ramp", "rate", "hash"), at, &[at]));
        let text = medians(&results);
        let rows: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(rows.len(), 2 + 7 + 1, "{text}");
        assert_eq!(rows[1].split_whitespace().collect::<Vec<_>>(), ["at", "hash"]);
        assert_eq!(rows[8].split_whitespace().collect::<Vec<_>>(), ["6", "6.0000"]);

        let steps = (1..=100).map(f64::from);
        let results = steps.fold(empty(), |all, at| all.with(("ramp", "rate", "hash"), at, &[at]));
        let text = medians(&results);
        let rows: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(rows.len(), 2 + 34 + 1, "{text}");
        assert!(rows[1].starts_with("at, 1 of 3"), "{text}");
        assert_eq!(rows[35].split_whitespace().collect::<Vec<_>>(), ["100", "100.0000"]);
    }
}
