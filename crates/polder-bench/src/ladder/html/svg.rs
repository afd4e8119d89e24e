//! Bars and lines as SVG. Colours are those of the page's style sheet, so that they follow light and
//! dark; what a mark stands for is also its tooltip. Figures that are not finite are left out.
//!
//! Drawn by hand, for a library would have to do as well. plotters (0.3), of which this would need
//! the SVG backend alone, has no tooltips, no colours of a style sheet and no dashes of SVG: it
//! cuts lines into pieces that end at whole units of the drawing, and dashed ones get kinks.

use maud::{Markup, html};
use serde::Deserialize;

/// Units of the drawing: as many as pixels on a phone, so that text keeps its size.
const WIDTH: f64 = 440.0;
const NAME_WIDTH: f64 = 172.0;
const VALUE_WIDTH: f64 = 72.0;
const BAR_HEIGHT: f64 = 16.0;
const BAR_STEP: f64 = 26.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 26.0;
/// Those of the style sheet.
const COLOURS: usize = 9;
/// About so many lines across a plot.
const TICKS: f64 = 4.0;

/// A figure with its interval.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) at: f64,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Point {
    fn is_finite(&self) -> bool {
        [self.at, self.value, self.low, self.high].iter().all(|figure| figure.is_finite())
    }

    /// The figure with its interval, for people.
    pub(super) fn shown(&self, show: &dyn Fn(f64) -> String) -> String {
        format!("{} ({} to {})", show(self.value), show(self.low), show(self.high))
    }
}

/// How something looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// Which colour of the style sheet.
    colour: usize,
    dashes: &'static str,
    pale: bool,
}

impl Style {
    /// A side's: the colour says which translation, dashes how pages are held or choose frames.
    pub(super) fn of_side(side: &str) -> Style {
        let base = side.split(['+', ',']).next().unwrap_or(side);
        let plain = base.strip_suffix("-plain").or(base.strip_suffix("-swizzled"));
        let colour = match plain.unwrap_or(base) {
            "array" => 0,
            "hash" => 1,
            "open" => 7,
            "predictive" => 3,
            "simd" => 4,
            "vm" => 2,
            "vm-huge" => 5,
            "swizzle" => 8,
            _ => 6,
        };
        let dashes = match side.rsplit(", ").next() {
            _ if side.contains(", lru") => "8 4",
            _ if side == "swizzle, cooling" => "5 3",
            Some("shared" | "swapped") => "2 4",
            Some("group") => "8 4",
            Some("group:1" | "copy:1") => "4 2",
            Some("core") => "8 3 2 3",
            Some("by hash") => "5 3",
            _ => "",
        };
        let pale = plain.is_some() || side.ends_with("small pages") || side.contains('+');
        Style { colour, dashes, pale }
    }

    /// Of a metric that is compared with others of the same side.
    pub(super) fn numbered(index: usize) -> Style {
        Style { colour: index % COLOURS, dashes: "", pale: false }
    }

    /// Of what is no side.
    pub(super) fn beside() -> Style {
        Style { colour: 6, dashes: "6 4", pale: false }
    }

    fn stroke(self) -> String {
        let dashes = if self.dashes.is_empty() { "none" } else { self.dashes };
        format!("stroke:var(--c{});stroke-dasharray:{dashes}", self.colour)
    }
}

/// A bar.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) style: Style,
    pub(super) point: Point,
}

/// A line.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) style: Style,
    /// Ascending by place.
    pub(super) points: Vec<Point>,
}

impl Series {
    fn finite(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.is_finite())
    }

    /// From point to point, for a line.
    fn way(&self, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
        let place = |point: &Point| format!("{:.1},{:.1}", x(point.at), y(point.value));
        self.finite().map(place).collect::<Vec<_>>().join(" ")
    }
}

/// How values become heights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scale {
    /// From 0, or from below where values are.
    #[default]
    Linear,
    /// Decades; values that are not above 0 lie on the ground.
    Log,
}

/// Bars from left to right, one below the other; `None` if there is nothing to draw.
pub(super) fn bars(bars: &[Bar], show: &dyn Fn(f64) -> String) -> Option<String> {
    let bars: Vec<&Bar> = bars.iter().filter(|bar| bar.point.is_finite()).collect();
    let most = bars.iter().map(|bar| bar.point.high).fold(0.0, f64::max);
    if bars.is_empty() {
        return None;
    }
    let most = if most > 0.0 { most } else { 1.0 };
    let x = |value: f64| NAME_WIDTH + value.max(0.0) / most * (WIDTH - NAME_WIDTH - VALUE_WIDTH);
    let row = |i: usize, Bar { name, style, point }: &Bar| {
        let middle = (i as f64 + 0.5) * BAR_STEP;
        let (text_y, whisker_y) = (units(middle + 4.5), units(middle));
        html! {
            g {
                title { (name) ": " (point.shown(show)) }
                text x=(units(NAME_WIDTH - 8.0)) y=(text_y) text-anchor="end" { (name) }
                rect.bar.pale[style.pale] style={ "fill:var(--c" (style.colour) ")" }
                    x=(NAME_WIDTH) y=(units(middle - BAR_HEIGHT / 2.0))
                    width=(units(x(point.value) - NAME_WIDTH)) height=(BAR_HEIGHT) rx="2" {}
                line.whisker x1=(units(x(point.low))) x2=(units(x(point.high)))
                    y1=(whisker_y) y2=(whisker_y) {}
                text x=(units(x(point.high) + 6.0)) y=(text_y) { (show(point.value)) }
            }
        }
    };
    let rows = html! { @for (i, bar) in bars.iter().enumerate() { (row(i, bar)) } };
    Some(drawing(BAR_STEP * bars.len() as f64, rows))
}

/// Lines over places that stand evenly beside each other; `None` if there is nothing to draw.
pub(super) fn lines(
    series: &[Series],
    scale: Scale,
    show: &dyn Fn(f64) -> String,
) -> Option<String> {
    let points = series.iter().flat_map(Series::finite);
    let mut places: Vec<f64> = points.map(|point| point.at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.is_empty() {
        return None;
    }
    let x = |at: f64| {
        let index = places.iter().position(|place| *place == at).unwrap_or(0) as f64;
        LEFT + (index + 0.5) / places.len() as f64 * (WIDTH - LEFT - RIGHT)
    };
    Some(chart(series, scale, show, &places, x, true))
}

/// Lines over numbers, for many points: without marks and intervals. `None` if there is nothing to
/// draw.
pub(super) fn curves(series: &[Series], show: &dyn Fn(f64) -> String) -> Option<String> {
    let points = series.iter().flat_map(Series::finite);
    let last = points.map(|point| point.at).reduce(f64::max)?;
    let step = round_step(if last > 0.0 { last } else { 1.0 } / TICKS);
    let width = (last / step).ceil().max(1.0) * step;
    let x = |at: f64| LEFT + (at / width).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
    // Of the digits behind what the step has, none means anything.
    let place = |i: u32| (f64::from(i) * step * 1e9).round() / 1e9;
    let places: Vec<f64> = (0..=(width / step).round() as u32).map(place).collect();
    Some(chart(series, Scale::Linear, show, &places, x, false))
}

/// Lines on a grid; with marks, each point has one, and its interval.
fn chart(
    series: &[Series],
    scale: Scale,
    show: &dyn Fn(f64) -> String,
    places: &[f64],
    x: impl Fn(f64) -> f64,
    has_marks: bool,
) -> String {
    let (from, to, ticks) = range(series.iter().flat_map(Series::finite), scale);
    let y = |value: f64| {
        let share = match scale {
            Scale::Linear => (value - from) / (to - from),
            Scale::Log => (value.max(from) / from).ln() / (to / from).ln(),
        };
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    };
    let mark = |name: &str, colour: usize, point: &Point| {
        let x = units(x(point.at));
        html! {
            g style={ "stroke:var(--c" (colour) ");fill:var(--c" (colour) ")" } {
                title { (name) ": " (point.shown(show)) }
                line x1=(x) x2=(x) y1=(units(y(point.low))) y2=(units(y(point.high))) {}
                circle cx=(x) cy=(units(y(point.value))) r="3.5" {}
            }
        }
    };
    let content = html! {
        @for tick in ticks {
            line.grid x1=(LEFT) x2=(units(WIDTH - RIGHT)) y1=(units(y(tick))) y2=(units(y(tick))) {}
            text.faint x=(units(LEFT - 6.0)) y=(units(y(tick) + 4.5)) text-anchor="end" { (show(tick)) }
        }
        @for place in places {
            text.faint x=(units(x(*place))) y=(units(HEIGHT - 6.0)) text-anchor="middle" { (place) }
        }
        @for line in series {
            polyline.line.thin[!has_marks] style=(line.style.stroke()) points=(line.way(&x, y)) {
                title { (line.name) }
            }
            @for point in line.finite().filter(|_| has_marks) {
                (mark(&line.name, line.style.colour, point))
            }
        }
    };
    drawing(HEIGHT, content)
}

/// A length of the drawing, to a tenth.
fn units(length: f64) -> String {
    format!("{length:.1}")
}

fn drawing(height: f64, content: Markup) -> String {
    let view = format!("0 0 {WIDTH} {height}");
    html! { svg.plot viewBox=(view) role="img" { (content) } }.into_string()
}

/// The lowest and highest value of an axis, and where its lines are.
fn range<'p>(points: impl Iterator<Item = &'p Point>, scale: Scale) -> (f64, f64, Vec<f64>) {
    let (mut lowest, mut low, mut high) = (0.0f64, f64::INFINITY, 0.0f64);
    for point in points {
        high = high.max(point.high);
        lowest = lowest.min(point.low);
        if point.low > 0.0 {
            low = low.min(point.low);
        }
    }
    match scale {
        Scale::Linear => {
            let high = if high > lowest { high } else { 1.0 };
            let step = round_step((high - lowest) / TICKS);
            let (from, to) = ((lowest / step).floor() as i32, (high / step).ceil() as i32);
            let tick = |i| f64::from(i) * step;
            (tick(from), tick(to), (from..=to).map(tick).collect())
        }
        Scale::Log => {
            let low = if low.is_finite() { low } else { 1.0 };
            let from = low.log10().floor() as i32;
            let to = (high.max(low).log10().ceil() as i32).max(from + 1);
            let ticks = (from..=to).map(|power| 10f64.powi(power)).collect();
            (10f64.powi(from), 10f64.powi(to), ticks)
        }
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

/// A short piece of a line, for a legend.
pub(super) fn swatch(style: Style) -> Markup {
    html! {
        svg viewBox="0 0 26 10" aria-hidden="true" {
            line style={ (style.stroke()) ";stroke-width:3" } x1="0" x2="26" y1="5" y2="5" {}
        }
    }
}

#[cfg(test)]
mod tests;
