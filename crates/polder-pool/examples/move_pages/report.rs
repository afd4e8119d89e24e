//! What was measured, as a table and as JSON.

use crate::failures::{Call, Cause, Outcome};
use crate::speed::{Turn, Way};

/// All turns of a way, one a round.
pub struct Row {
    pub way: Way,
    pub turns: Vec<Turn>,
}

impl Row {
    pub fn new(way: Way) -> Row {
        Row { way, turns: Vec::new() }
    }
}

/// The middle of what the rounds gave, the least and the most.
#[derive(Debug, Clone, Copy)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Spread { median: at(values.len() / 2), least: at(0), most: at(values.len().max(1) - 1) }
    }

    fn with_range(self) -> String {
        format!("{:.3} ({:.3} to {:.3})", self.median, self.least, self.most)
    }

    fn json(self) -> String {
        format!("[{:.4}, {:.4}, {:.4}]", self.median, self.least, self.most)
    }
}

/// The whole comparison.
pub struct Report {
    pub seconds: f64,
    pub rows: Vec<Row>,
    pub failures: Vec<(Cause, Call, Outcome)>,
}

/// What pages of the others are compared with: what the kernel has, in the batches that it takes.
const COMPARED_WITH: Way = Way::Move { pages: 512 };

impl Report {
    /// Each round's ratio to another way's turn in the same round.
    fn ratios(&self, row: &Row, to: Way, value: impl Fn(&Turn) -> f64) -> Spread {
        let others = self.rows.iter().find(|row| row.way == to).map_or(&[][..], |row| &row.turns);
        Spread::of(row.turns.iter().zip(others).map(|(turn, other)| value(turn) / value(other)))
    }

    fn of_pages(&self, row: &Row) -> Spread {
        self.ratios(row, COMPARED_WITH, |turn| turn.pages_per_second)
    }

    fn of_reads(&self, row: &Row) -> Spread {
        self.ratios(row, Way::Nothing, |turn| turn.reads_per_second)
    }

    fn pages(row: &Row) -> Spread {
        Spread::of(row.turns.iter().map(|turn| turn.pages_per_second))
    }

    fn flushes(row: &Row) -> Option<Spread> {
        let counted: Option<Vec<f64>> =
            row.turns.iter().map(|turn| turn.flushes_per_page).collect();
        counted.map(|counted| Spread::of(counted.into_iter()))
    }

    pub fn table(&self, has_move_pages2: bool) -> String {
        let rounds = self.rows.first().map_or(0, |row| row.turns.len());
        let mut lines = vec![format!(
            "pages moved to the other node and back, {} s a turn, {rounds} rounds: median (least to most)",
            self.seconds
        )];
        if !has_move_pages2 {
            lines.push("this kernel has no move_pages2: left out".to_owned());
        }
        let columns = ["", "pages/s", "by move_pages 512", "reads", "flushes/page"];
        lines.push(speed_line(columns.map(str::to_owned)));
        lines.extend(self.rows.iter().map(|row| self.speed(row)));
        lines.push(
            "Reads are those of two threads, by what they read while nothing moves.".to_owned(),
        );
        lines.push("\n4096 pages with one call, of which some cannot be moved".to_owned());
        let columns = ["", "", "returns", "moved", "told truly", "flushes"];
        lines.push(failure_line(columns.map(str::to_owned)));
        lines.extend(self.failures.iter().map(failure));
        lines.join("\n")
    }

    fn speed(&self, row: &Row) -> String {
        let flushes = Report::flushes(row).map(|flushes| format!("{:.4}", flushes.median));
        let pages = (row.way != Way::Nothing).then(|| {
            [format!("{:.0}", Report::pages(row).median), self.of_pages(row).with_range()]
        });
        let nothing = || "-".to_owned();
        let [pages, ratio] = pages.unwrap_or_else(|| [nothing(), nothing()]);
        let reads = self.of_reads(row).with_range();
        speed_line([row.way.to_string(), pages, ratio, reads, flushes.unwrap_or_else(nothing)])
    }

    pub fn json(&self) -> String {
        let ways = self.rows.iter().map(|row| {
            format!(
                r#"{{"way": "{}", "pages_per_second": {}, "by_move_pages_512": {}, "reads": {}, "flushes_per_page": {}}}"#,
                row.way,
                Report::pages(row).json(),
                self.of_pages(row).json(),
                self.of_reads(row).json(),
                Report::flushes(row).map_or("null".to_owned(), Spread::json),
            )
        });
        let failures = self.failures.iter().map(|(cause, call, outcome)| {
            let (returned, error) = match outcome.returned {
                Ok(left) => (left.to_string(), "null".to_owned()),
                Err(error) => ("null".to_owned(), error.to_string()),
            };
            format!(
                r#"{{"cause": "{}", "call": "{}", "returned": {returned}, "error": {error}, "moved": {}, "told_truly": {}, "flushes": {}}}"#,
                cause.name(),
                name(*call),
                outcome.moved,
                outcome.told,
                outcome.flushes.map_or("null".to_owned(), |flushes| flushes.to_string()),
            )
        });
        format!(
            "{{\"seconds\": {}, \"ways\": [\n{}\n], \"failures\": [\n{}\n]}}",
            self.seconds,
            ways.collect::<Vec<_>>().join(",\n"),
            failures.collect::<Vec<_>>().join(",\n")
        )
    }
}

fn speed_line([way, pages, ratio, reads, flushes]: [String; 5]) -> String {
    format!("{way:27} {pages:>9}  {ratio:>24}  {reads:>24}  {flushes:>12}")
}

fn failure_line([cause, call, returned, moved, told, flushes]: [String; 6]) -> String {
    format!("{cause:17} {call:23} {returned:>9} {moved:>6} {told:>11} {flushes:>8}")
}

fn failure((cause, call, outcome): &(Cause, Call, Outcome)) -> String {
    let returned = match outcome.returned {
        Ok(left) => left.to_string(),
        Err(error) => format!("error {error}"),
    };
    let (moved, told) = (outcome.moved.to_string(), outcome.told.to_string());
    let flushes = outcome.flushes.map_or("-".to_owned(), |flushes| flushes.to_string());
    failure_line([cause.name().to_owned(), name(*call), returned, moved, told, flushes])
}

fn name(call: Call) -> String {
    call.map_or("move_pages".to_owned(), |mode| format!("move_pages2 {}", mode.name()))
}
