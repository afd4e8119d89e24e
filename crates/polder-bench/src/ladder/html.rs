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
use svg::{Bar, Point, Series, bars, curves, lines, swatch};

const STYLE: &str = include_str!("html/style.css");

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
    let verdict = |judged: &Judged| match judged.verdict {
        Verdict::Pass => ("pass", "✓"),
        Verdict::Fail => ("fail", "✗"),
        Verdict::NotMeasured => ("none", "–"),
    };
    let rows = html! {
        @for judged in judged {
            @let (class, sign) = verdict(judged);
            tr {
                td { (judged.what) }
                td { (judged.bound) }
                td.figure { (judged.shown()) }
                td class=(class) { (sign) " " (judged.said) }
            }
        }
    };
    html! {
        h2 { "What must hold" }
        (table(&["Ratio", "Bound", "Measured", "Verdict"], rows))
    }
}

fn table(titles: &[&str], rows: Markup) -> Markup {
    html! {
        div.wide {
            table {
                @if !titles.is_empty() { thead { tr { @for title in titles { th { (title) } } } } }
                tbody { (rows) }
            }
        }
    }
}

/// A plot with all that belongs to it.
fn figure(results: &Results, plot: &Plot) -> Markup {
    let series = series(results, plot);
    let has_names = matches!(plot.axis, Axis::None | Axis::At(_));
    let drawn = match &plot.axis {
        Axis::None | Axis::At(_) => {
            let bar = |series: &Series| {
                let point = series.points.first()?;
                Some(Bar { name: series.name.clone(), style: series.style, point: point.clone() })
            };
            bars(&series.iter().filter_map(bar).collect::<Vec<_>>(), &|v| plot.unit.show(v))
        }
        Axis::Named(_) => lines(&series, plot.scale, &|v| plot.unit.tick(v)),
        Axis::Many(_) | Axis::Seconds => curves(&series, &|v| plot.unit.tick(v)),
    };
    html! {
        figure {
            h3 { (plot.title) }
            p.unit {
                (plot.unit.name())
                @match &plot.axis {
                    Axis::Named(name) | Axis::Many(name) => { ", by " (name) },
                    Axis::Seconds => { ", by seconds" },
                    Axis::At(at) => { ", " (at) " thread" },
                    Axis::None => {},
                }
            }
            @match drawn {
                Some(drawn) => { (PreEscaped(drawn)) },
                None => { p.none { "Not measured in this run." } },
            }
            @if !has_names && !series.is_empty() {
                ul.legend { @for line in &series { li { (swatch(line.style)) (line.name) } } }
            }
            figcaption {
                b { "Paper:" } " " (plot.paper)
                @if !plot.ours.is_empty() { " " b { "Here:" } " " (plot.ours) }
            }
            (values(&series, plot))
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
        let has_figures = |side: &&Side| !points(metric, side).is_empty();
        let shown = plot.sides().iter().filter(has_figures);
        for side in shown.take(if i == 0 { usize::MAX } else { 1 }) {
            let (name, style) = match i {
                _ if plot.compares_metrics() => (metric.clone(), svg::Style::numbered(i)),
                0 => (side.name.to_owned(), svg::Style::of_side(side.name)),
                _ => (metric.clone(), svg::Style::beside()),
            };
            all.push(Series { name, style, points: points(metric, side) });
        }
    }
    all
}

/// All figures of a plot as a table, folded away; those of many points are in the other file alone.
fn values(series: &[Series], plot: &Plot) -> Markup {
    let has_place = matches!(plot.axis, Axis::Named(_) | Axis::Many(_));
    let points =
        || series.iter().flat_map(|of| of.points.iter().map(move |point| (&of.name, point)));
    if points().next().is_none() || matches!(plot.axis, Axis::Seconds) {
        return Markup::default();
    }
    let rows = html! {
        @for (name, point) in points() {
            tr {
                td { (name) }
                @if has_place { td.figure { (point.at) } }
                td.figure { (point.shown(&|value| plot.unit.show(value))) }
            }
        }
    };
    html! { details { summary { "Figures" } (table(&[], rows)) } }
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
    let figures = |of: Writes| [of.stores, of.updates, of.by_neighbourhood];
    let rows = html! {
        @for side in &writes.sides {
            tr {
                td { (side.translation) }
                td { (side.hold) }
                @match side.a_lookup {
                    Some(writes) => {
                        @for count in figures(writes) { td.figure { (format!("{count:.2}")) } }
                    },
                    None => { td.none colspan="3" { "refused" } },
                }
            }
        }
    };
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
    html! {
        @if !results.skipped.is_empty() {
            h2 { "Sides that were skipped" }
            ul {
                @for skipped in &results.skipped {
                    li { (skipped.part) ", " (skipped.side) ": " (skipped.why) }
                }
            }
        }
        @if !results.failures.is_empty() {
            h2 { "Runs that failed" }
            ul {
                @for failed in &results.failures {
                    li {
                        (failed.part) ", " (failed.side) ", round " (failed.round + 1) ": " (failed.why)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
