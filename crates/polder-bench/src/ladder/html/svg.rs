//! Lines as SVG, and bars. Colours are those of the page's style sheet, so that they follow light and
//! dark; what a mark stands for is also its tooltip.
//!
//! Drawn by hand, for a library would have to do as well. plotters (0.3), of which this would need
//! the SVG backend alone, has no tooltips, no colours of a style sheet and no dashes of SVG: it
//! cuts lines into pieces that end at whole units of the drawing, and dashed ones get kinks.

use maud::{Markup, html};
use polder_pool::Translation as _;
use serde::Deserialize;

use super::super::side::list;

/// Units of the drawing: as many as pixels on a phone, so that text keeps its size.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 26.0;
/// About so many lines across a plot.
const TICKS: f64 = 4.0;
/// So many the style sheet has. The first is grey: that of the yardstick, and of what no translation
/// is behind.
const COLOURS: usize = 9;
const GREY: usize = 0;
const YARDSTICK: &str = polder_pool::Direct::NAME;
/// Of lines of the same colour: the first is solid.
const DASHES: [&str; 6] = ["none", "8 4", "2 4", "5 3", "8 3 2 3", "4 2"];

/// A figure with its interval.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) at: f64,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Point {
    /// The figure with its interval, for people.
    pub(super) fn shown(&self, show: &dyn Fn(f64) -> String) -> String {
        format!("{} ({} to {})", show(self.value), show(self.low), show(self.high))
    }
}

/// A line, or, of one point, a bar.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    colour: usize,
    /// How many of the same colour there were before.
    variant: usize,
    /// Ascending by place.
    pub(super) points: Vec<Point>,
}

impl Series {
    /// The series behind these. Figures that are not finite are left out.
    pub(super) fn behind(others: &[Series], name: &str, mut points: Vec<Point>) -> Series {
        let colour = colour_of(name);
        let variant = others.iter().filter(|other| other.colour == colour).count();
        points.retain(|of| {
            [of.at, of.value, of.low, of.high].iter().all(|figure| figure.is_finite())
        });
        Series { name: name.to_owned(), colour, variant, points }
    }

    /// The same in the colour of this number.
    pub(super) fn numbered(self, index: usize) -> Series {
        Series { colour: numbered(index), variant: 0, ..self }
    }

    fn stroke(&self) -> String {
        let dashes = DASHES[self.variant % DASHES.len()];
        format!("stroke:var(--c{});stroke-dasharray:{dashes}", self.colour)
    }

    /// A short piece of the line, for a legend.
    pub(super) fn swatch(&self) -> Markup {
        html! {
            svg viewBox="0 0 26 10" aria-hidden="true" {
                line style={ (self.stroke()) ";stroke-width:3" } x1="0" x2="26" y1="5" y2="5" {}
            }
        }
    }
}

/// The colour of what has this name: that of the design with which it begins. Designs have the colours
/// behind the grey one in the order of the pool's list.
fn colour_of(name: &str) -> usize {
    let known = designs().iter().position(|of| Some(*of) == design_of(name));
    known.map_or(GREY, numbered)
}

/// The colour of this number behind the grey one.
fn numbered(index: usize) -> usize {
    1 + index % (COLOURS - 1)
}

/// The designs that have a colour.
fn designs() -> Vec<&'static str> {
    let peers = list("peers").iter().filter(|side| side.name != YARDSTICK);
    let mut designs = Vec::new();
    for design in peers.filter_map(|side| design_of(side.name)) {
        if !designs.contains(&design) {
            designs.push(design);
        }
    }
    designs
}

/// A name up to what stands behind the name of a design.
fn design_of(name: &str) -> Option<&str> {
    name.split(['+', ',', '-']).next()
}

/// How figures become places on an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scale {
    /// From 0, or from below where figures are.
    #[default]
    Linear,
    /// Decades; figures that are not above 0 lie on the ground.
    Log,
    /// Each beside the one before, whatever lies between.
    #[serde(skip)]
    Even,
}

/// An axis from the first of its ticks to the last.
#[derive(Debug)]
struct Axis {
    scale: Scale,
    ticks: Vec<f64>,
}

impl Axis {
    /// On which all of these figures are; `None` if there are none.
    fn of(mut figures: Vec<f64>, scale: Scale) -> Option<Axis> {
        figures.sort_by(f64::total_cmp);
        figures.dedup();
        let highest = *figures.last()?;
        let ticks = match scale {
            Scale::Even => figures,
            Scale::Linear => {
                let lowest = figures[0].min(0.0);
                let high = if highest > lowest { highest } else { 1.0 };
                let step = round_step((high - lowest) / TICKS);
                let (from, to) = ((lowest / step).floor() as i32, (high / step).ceil() as i32);
                // Of the digits behind what the step has, none means anything.
                (from..=to).map(|i| (f64::from(i) * step * 1e9).round() / 1e9).collect()
            }
            Scale::Log => {
                let low = figures.into_iter().find(|figure| *figure > 0.0).unwrap_or(1.0);
                let from = low.log10().floor() as i32;
                let to = (highest.max(low).log10().ceil() as i32).max(from + 1);
                (from..=to).map(|power| 10f64.powi(power)).collect()
            }
        };
        Some(Axis { scale, ticks })
    }

    /// How far along the axis a figure is, from 0 to 1.
    fn share(&self, figure: f64) -> f64 {
        let (from, to) = (self.ticks[0], self.ticks[self.ticks.len() - 1]);
        let share = match self.scale {
            Scale::Linear => (figure - from) / (to - from),
            Scale::Log => (figure.max(from) / from).ln() / (to / from).ln(),
            Scale::Even => {
                let index = self.ticks.iter().position(|tick| *tick == figure).unwrap_or(0);
                (index as f64 + 0.5) / self.ticks.len() as f64
            }
        };
        share.clamp(0.0, 1.0)
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

/// A length without the digits that nobody sees.
fn tenths(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

/// Bars from left to right, one below the other, with their intervals; `None` if there is nothing to
/// draw. A table, which has the figures as well.
pub(super) fn bars(series: &[Series], show: &dyn Fn(f64) -> String) -> Option<Markup> {
    let bars: Vec<_> = series.iter().filter_map(|of| Some((of, of.points.first()?))).collect();
    let axis = Axis::of(bars.iter().map(|(_, point)| point.high).collect(), Scale::Linear)?;
    let most = bars.iter().map(|(_, point)| point.high).fold(0.0, f64::max);
    let percent = |value: f64| tenths(axis.share(value) / axis.share(most).max(1e-9) * 100.0);
    Some(html! {
        table.bars {
            @for (of, point) in &bars {
                @let (low, high) = (percent(point.low), percent(point.high));
                tr title={ (of.name) ": " (point.shown(show)) } {
                    td { (of.name) }
                    td.drawn {
                        div.bar.pale[of.variant > 0] style={
                            "width:" (percent(point.value)) "%;background:var(--c" (of.colour) ")"
                        } {}
                        div.whisker style={ "left:" (low) "%;width:" (tenths(high - low)) "%" } {}
                    }
                    td.figure { (point.shown(show)) }
                }
            }
        }
    })
}

/// Lines on a grid, over places that stand evenly beside each other, or over numbers; `None` if there is
/// nothing to draw. Over numbers there are many points. Else each has a mark, and its interval.
pub(super) fn lines(
    series: &[Series],
    (across, up): (Scale, Scale),
    show: &dyn Fn(f64) -> String,
) -> Option<Markup> {
    let points = || series.iter().flat_map(|of| &of.points);
    let places = Axis::of(points().map(|point| point.at).collect(), across)?;
    let values = Axis::of(points().flat_map(|point| [point.low, point.high]).collect(), up)?;
    let x = |at: f64| tenths(LEFT + places.share(at) * (WIDTH - LEFT - RIGHT));
    let y = |value: f64| tenths(HEIGHT - BOTTOM - values.share(value) * (HEIGHT - TOP - BOTTOM));
    let way = |of: &Series| {
        let points = of.points.iter().map(|point| format!("{},{}", x(point.at), y(point.value)));
        points.collect::<Vec<_>>().join(" ")
    };
    let has_marks = across == Scale::Even;
    let mark = |of: &Series, point: &Point| {
        let x = x(point.at);
        html! {
            g style={ "stroke:var(--c" (of.colour) ");fill:var(--c" (of.colour) ")" } {
                title { (of.name) ": " (point.shown(show)) }
                line x1=(x) x2=(x) y1=(y(point.low)) y2=(y(point.high)) {}
                circle cx=(x) cy=(y(point.value)) r="3.5" {}
            }
        }
    };
    Some(html! {
        svg.plot viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" {
            @for tick in &values.ticks {
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y(*tick)) y2=(y(*tick)) {}
                text.faint x=(LEFT - 6.0) y=(y(*tick) + 4.5) text-anchor="end" { (show(*tick)) }
            }
            @for place in &places.ticks {
                text.faint x=(x(*place)) y=(HEIGHT - 6.0) text-anchor="middle" { (place) }
            }
            @for of in series {
                polyline.line.thin[!has_marks] style=(of.stroke()) points=(way(of)) {
                    title { (of.name) }
                }
                @if has_marks { @for point in &of.points { (mark(of, point)) } }
            }
        }
    })
}

#[cfg(test)]
mod tests;
