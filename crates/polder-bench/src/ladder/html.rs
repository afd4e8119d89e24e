//! The page of plots: one file, nothing from elsewhere, for light and dark and for small screens.

mod plots;
mod svg;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::criteria::{Judged, Verdict};
use super::plan::{Size, Terms};
use super::results::{OfRound, Results};
use super::side::Side;
use super::writes::Writes;
use crate::interval::Median;
use plots::{Axis, Plot, SECTIONS};
use svg::{Point, Scale, Series, bars, lines};

const STYLE: &str = include_str!("html/style.css");
/// How verdicts begin.
const PASS: char = '✓';
const FAIL: char = '✗';

/// The whole page.
pub(crate) fn page(results: &Results, judged: &[Judged]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Polder: the ladder of translations" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (header(results))
                    (criteria(judged))
                    @for section in SECTIONS.iter() {
                        @let plots: Vec<Plot> =
                            section.plots.iter().flat_map(|plot| plot.for_each_metric(results)).collect();
                        @if !plots.is_empty() {
                            h2 { (section.title) }
                            div.plots { @for plot in &plots { (figure(results, plot)) } }
                        }
                    }
                    (shared_writes(results))
                    (missing(results))
                }
            }
        }
    };
    page.into_string()
}

fn header(results: &Results) -> Markup {
    let Terms { size, rounds, seconds, threads } = &results.terms;
    let threads: Vec<String> = threads.iter().map(usize::to_string).collect();
    html! {
        h1 { "The ladder of translations" }
        p {
            (size) " data, " (rounds) " rounds of " (seconds)
            " s a measurement, " (threads.join(", ")) " threads. " (results.machine) "."
        }
        p {
            "Each run is a process of its own, and in each round every translation has its turn. Shown \
             are medians over rounds; whiskers and the figures in parentheses are the interval of the \
             median by the exact sign test (at least 95% from 6 rounds on). Ratios compare runs of the \
             same round; verdicts say where what is gone to is less than twice the largest cache."
        }
        @if *size == Size::Small {
            p.note {
                "At this size what is timed fits into the processor's caches: the figures show that \
                 everything works, and no more."
            }
        }
        @if !results.complete {
            p.note { "Interrupted: this is what was measured until then." }
        }
    }
}

fn criteria(judged: &[Judged]) -> Markup {
    let row = |judged: &Judged| {
        let sign = match judged.verdict {
            Verdict::Pass => PASS,
            Verdict::Fail => FAIL,
            Verdict::NotMeasured => '–',
        };
        let said = format!("{sign} {}", judged.said);
        vec![judged.what.to_owned(), judged.bound.clone(), judged.shown(), said]
    };
    html! {
        h2 { "What must hold" }
        (table(&["Ratio", "Bound", "Measured", "Verdict"], judged.iter().map(row)))
    }
}

/// Verdicts are told by their colour as well.
fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Markup {
    let class = |cell: &str| match cell.chars().next()? {
        PASS => Some("pass"),
        FAIL => Some("fail"),
        _ => None,
    };
    html! {
        div.wide {
            table {
                @if !titles.is_empty() { thead { tr { @for title in titles { th { (title) } } } } }
                tbody {
                    @for row in rows { tr { @for cell in row { td class=[class(&cell)] { (cell) } } } }
                }
            }
        }
    }
}

/// A plot with all that belongs to it.
fn figure(results: &Results, plot: &Plot) -> Markup {
    let series = series(results, plot);
    let show = |value: f64| plot.unit.show(value);
    let (by, across) = match &plot.axis {
        Axis::None => (String::new(), None),
        Axis::At(at) => (format!(", {at} thread"), None),
        Axis::Named(name) => (format!(", by {name}"), Some(Scale::Even)),
        Axis::Many(name) => (format!(", by {name}"), Some(Scale::Linear)),
        Axis::Seconds => (", by seconds".to_owned(), Some(Scale::Linear)),
    };
    let drawn = match across {
        Some(across) => lines(&series, (across, plot.scale), &show),
        None => bars(&series, &show),
    };
    html! {
        figure {
            h3 { (plot.title) }
            p.unit { (plot.unit.name()) (by) }
            (drawn.unwrap_or_else(|| html! { p.none { "Not measured in this run." } }))
            @if across.is_some() && !series.is_empty() {
                ul.legend { @for of in &series { li { (of.swatch()) (of.name) } } }
            }
            figcaption {
                b { "Paper:" } " " (plot.paper)
                @if !plot.ours.is_empty() { " " b { "Here:" } " " (plot.ours) }
            }
            @if matches!(plot.axis, Axis::Named(_) | Axis::Many(_)) { (values(&series, &show)) }
        }
    }
}

/// One for each side, and one for each metric beside the first; of a plot of several metrics of one
/// side, one for each of them.
fn series(results: &Results, plot: &Plot) -> Vec<Series> {
    let points = |metric: &str, side: &Side| -> Vec<Point> {
        let mut figures = results.figures(&plot.part, metric, side.name);
        let first = figures.iter().map(|figure| figure.round).min();
        figures.retain(|figure| match plot.axis {
            Axis::At(at) => figure.at == at,
            Axis::Seconds => Some(figure.round) == first,
            _ => true,
        });
        let point = |rounds: &[OfRound]| {
            let Median { value, low, high, .. } = OfRound::median(rounds)?;
            Some(Point { at: rounds[0].at, value, low, high })
        };
        figures.chunk_by(|a, b| a.at == b.at).filter_map(point).collect()
    };
    let mut all = Vec::new();
    for (i, metric) in plot.metrics.iter().enumerate() {
        let of_sides = plot.sides().iter().map(|side| (side.name, points(metric, side)));
        let of_sides = of_sides.filter(|(_, points)| !points.is_empty());
        for (side, points) in of_sides.take(if i == 0 { usize::MAX } else { 1 }) {
            let is_metric = i > 0 || plot.compares_metrics();
            let series = Series::behind(&all, if is_metric { metric } else { side }, points);
            all.push(if plot.compares_metrics() { series.numbered(i) } else { series });
        }
    }
    all
}

/// All figures of lines as a table, folded away; those over seconds are in the other file alone.
fn values(series: &[Series], show: &dyn Fn(f64) -> String) -> Markup {
    let rows = series.iter().flat_map(|of| {
        of.points.iter().map(|at| vec![of.name.clone(), at.at.to_string(), at.shown(show)])
    });
    html! { @if !series.is_empty() { details { summary { "Figures" } (table(&[], rows)) } } }
}

fn shared_writes(results: &Results) -> Markup {
    let Some(writes) = &results.writes else { return Markup::default() };
    let titles = [
        "Translation",
        "Readers hold",
        "Stores a lookup",
        "Read-modify-writes",
        "Shared by neighbourhood alone",
    ];
    let rows = writes.sides.iter().map(|side| {
        let mut row = vec![side.translation.clone(), side.hold.clone()];
        match side.a_lookup {
            Some(Writes { stores, updates, by_neighbourhood }) => {
                row.extend([stores, updates, by_neighbourhood].map(|count| format!("{count:.2}")));
            }
            None => row.push("refused".to_owned()),
        }
        row
    });
    html! {
        h2 { "Writes to shared cache lines" }
        p {
            "Counted, not timed: lookups by " (writes.threads) " threads (one on each core where pages \
             are held by cores) among " (writes.keys) " resident keys, by a build whose atomics count. \
             This is what many cores would wait for. Pages that move and marks that are taken off are \
             left out."
        }
        (table(&titles, rows))
    }
}

/// Sides that had no turn, and runs that gave nothing.
fn missing(results: &Results) -> Markup {
    let skipped = results.skipped.iter().map(|of| format!("{}, {}: {}", of.part, of.side, of.why));
    let failed = results
        .failures
        .iter()
        .map(|of| format!("{}, {}, round {}: {}", of.part, of.side, of.round + 1, of.why));
    let list = |title: &str, lines: Vec<String>| {
        html! {
            @if !lines.is_empty() {
                h2 { (title) }
                ul { @for line in lines { li { (line) } } }
            }
        }
    };
    html! {
        (list("Sides that were skipped", skipped.collect()))
        (list("Runs that failed", failed.collect()))
    }
}

#[cfg(test)]
mod tests;
