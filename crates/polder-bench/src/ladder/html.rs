//! The page of plots: one file, nothing from elsewhere, for light and dark and for small screens.

mod plots;
mod svg;

use super::criteria::{Judged, Verdict};
use super::plan::Size;
use super::results::{Results, Skipped};
use super::side::Side;
use crate::interval::Median;
use plots::{Axis, Plot, SECTIONS, Section};
use svg::{Bar, Point, Series, bars, curves, escape, lines, swatch};

const STYLE: &str = include_str!("html/style.css");

/// The whole page.
pub(crate) fn page(results: &Results, judged: &[Judged]) -> String {
    let mut body = header(results);
    body += &criteria(judged);
    for Section { title, plots } in SECTIONS.iter() {
        let plots: String = plots
            .iter()
            .flat_map(|plot| plot.for_each_metric(results))
            .map(|plot| figure(results, &plot))
            .collect();
        if !plots.is_empty() {
            body += &format!("<h2>{}</h2>\n<div class=\"plots\">\n{plots}</div>\n", escape(title));
        }
    }
    body += &shared_writes(results);
    body += &skipped(results);
    body += &failures(results);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Polder: the ladder of translations</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn header(results: &Results) -> String {
    let threads: Vec<String> = results.threads.iter().map(usize::to_string).collect();
    let mut text = format!(
        "<h1>The ladder of translations</h1>\n<p>{} data, {} rounds of {} s a measurement, {} \
         threads. {}.</p>\n",
        results.size,
        results.rounds,
        results.seconds,
        threads.join(", "),
        escape(&results.machine.to_string()),
    );
    text += "<p>Each run is a process of its own, and in each round every translation has its turn. \
             Shown are medians over rounds; whiskers and the figures in parentheses are the interval \
             of the median by the exact sign test (at least 95% from 6 rounds on). Ratios compare \
             runs of the same round; verdicts say where what is gone to is less than twice the \
             largest cache.</p>\n";
    if results.size == Size::Small {
        text += "<p class=\"note\">At this size what is timed fits into the processor's caches: \
                 the figures show that everything works, and no more.</p>\n";
    }
    if !results.complete {
        text += "<p class=\"note\">Interrupted: this is what was measured until then.</p>\n";
    }
    text
}

fn criteria(judged: &[Judged]) -> String {
    let mut rows = String::new();
    for judged in judged {
        let (class, sign) = match judged.verdict {
            Verdict::Pass => ("pass", "✓"),
            Verdict::Fail => ("fail", "✗"),
            Verdict::NotMeasured => ("none", "–"),
        };
        rows += &format!(
            "<tr><td>{}</td><td>{}</td><td class=\"figure\">{}</td>\
             <td class=\"{class}\">{sign} {}</td></tr>\n",
            escape(judged.what),
            judged.bound,
            judged.shown(),
            escape(&judged.said),
        );
    }
    format!(
        "<h2>What must hold</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>Ratio</th>\
         <th>Bound</th><th>Measured</th><th>Verdict</th></tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table></div>\n"
    )
}

/// A plot with all that belongs to it.
fn figure(results: &Results, plot: &Plot) -> String {
    let series = series(results, plot);
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
    let drawn =
        drawn.unwrap_or_else(|| "<p class=\"none\">Not measured in this run.</p>\n".to_owned());
    let mut text = format!(
        "<figure>\n<h3>{}</h3>\n<p class=\"unit\">{}{}</p>\n{drawn}",
        escape(&plot.title),
        escape(plot.unit.name()),
        match &plot.axis {
            Axis::Named(name) | Axis::Many(name) => format!(", by {}", escape(name)),
            Axis::Seconds => ", by seconds".to_owned(),
            Axis::At(at) => format!(", {at} thread"),
            Axis::None => String::new(),
        },
    );
    let has_names = matches!(plot.axis, Axis::None | Axis::At(_));
    if !has_names && !series.is_empty() {
        text += &legend(&series);
    }
    text += &format!("<figcaption><b>Paper:</b> {}", escape(&plot.paper));
    if !plot.ours.is_empty() {
        text += &format!(" <b>Here:</b> {}", escape(&plot.ours));
    }
    text += "</figcaption>\n";
    text += &values(&series, plot);
    text + "</figure>\n"
}

/// One for each side, and one for each metric beside the first; of a plot of several metrics of one
/// side, one for each of them.
fn series(results: &Results, plot: &Plot) -> Vec<Series> {
    let points = |metric: &str, side: &Side| -> Vec<Point> {
        let places = match plot.axis {
            Axis::At(at) => vec![at],
            _ => results.places(&plot.part, metric, side.name),
        };
        let point = |at: f64| {
            let Median { value, low, high, .. } = match plot.axis {
                Axis::Seconds => first_round(results, &plot.part, metric, side.name, at),
                _ => results.median(&plot.part, metric, side.name, at),
            }?;
            Some(Point { at, value, low, high })
        };
        places.into_iter().filter_map(point).collect()
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

/// The figure of the first round in which the side ran at all.
fn first_round(results: &Results, part: &str, metric: &str, side: &str, at: f64) -> Option<Median> {
    let runs = results.runs.iter().filter(|run| run.part == part && run.side == side);
    let round = runs.map(|run| run.round).min()?;
    let figures = results.figures(part, metric, side, at);
    Median::of(&[figures.iter().find(|figure| figure.round == round)?.value])
}

fn legend(series: &[Series]) -> String {
    let entry =
        |series: &Series| format!("<li>{}{}</li>\n", swatch(series.style), escape(&series.name));
    format!("<ul class=\"legend\">\n{}</ul>\n", series.iter().map(entry).collect::<String>())
}

/// All figures of a plot as a table, folded away; those of many points are in the other file alone.
fn values(series: &[Series], plot: &Plot) -> String {
    let mut rows = String::new();
    if matches!(plot.axis, Axis::Seconds) {
        return rows;
    }
    for series in series {
        for point in &series.points {
            let place = match plot.axis {
                Axis::Named(_) | Axis::Many(_) => format!("<td class=\"figure\">{}</td>", point.at),
                _ => String::new(),
            };
            let show = |value| escape(&plot.unit.show(value));
            rows += &format!(
                "<tr><td>{}</td>{place}<td class=\"figure\">{} ({} to {})</td></tr>\n",
                escape(&series.name),
                show(point.value),
                show(point.low),
                show(point.high),
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<details><summary>Figures</summary>\n<div class=\"wide\"><table><tbody>\n{rows}</tbody>\
         </table></div>\n</details>\n"
    )
}

fn shared_writes(results: &Results) -> String {
    let Some(writes) = &results.writes else { return String::new() };
    let mut rows = String::new();
    for side in &writes.sides {
        let figures = match side.a_lookup {
            Some(writes) => [writes.stores, writes.updates, writes.by_neighbourhood]
                .map(|count| format!("<td class=\"figure\">{count:.2}</td>"))
                .concat(),
            None => "<td class=\"none\" colspan=\"3\">refused</td>".to_owned(),
        };
        let (translation, hold) = (escape(&side.translation), escape(&side.hold));
        rows += &format!("<tr><td>{translation}</td><td>{hold}</td>{figures}</tr>\n");
    }
    format!(
        "<h2>Writes to shared cache lines</h2>\n<p>Counted, not timed: lookups by {} threads (one on \
         each core where pages are held by cores) among {} resident keys, by a build whose atomics \
         count. This is what many cores would wait for. Pages that move and marks that are taken \
         off are left out.</p>\n<div class=\"wide\"><table>\n<thead><tr><th>Translation</th>\
         <th>Readers hold</th><th>Stores a lookup</th><th>Read-modify-writes</th>\
         <th>Shared by neighbourhood alone</th></tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table></div>\n",
        writes.threads, writes.keys,
    )
}

fn skipped(results: &Results) -> String {
    if results.skipped.is_empty() {
        return String::new();
    }
    let row = |skipped: &Skipped| {
        let (part, side) = (escape(&skipped.part), escape(&skipped.side));
        format!("<li>{part}, {side}: {}</li>\n", escape(&skipped.why))
    };
    let rows: String = results.skipped.iter().map(row).collect();
    format!("<h2>Sides that were skipped</h2>\n<ul>\n{rows}</ul>\n")
}

fn failures(results: &Results) -> String {
    if results.failures.is_empty() {
        return String::new();
    }
    let row = |failure: &super::results::Failure| {
        let (part, side) = (escape(&failure.part), escape(&failure.side));
        let (round, why) = (failure.round + 1, escape(&failure.why));
        format!("<li>{part}, {side}, round {round}: {why}</li>\n")
    };
    let rows: String = results.failures.iter().map(row).collect();
    format!("<h2>Runs that failed</h2>\n<ul>\n{rows}</ul>\n")
}

#[cfg(test)]
mod tests;
