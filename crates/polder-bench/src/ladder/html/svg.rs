//! Bars and lines as SVG text. Colours are those of the page's style sheet, so that they follow
//! light and dark; what a mark stands for is also its tooltip. Figures that are not finite are
//! left out.
//!
//! Drawn by hand, for a library would have to do as well. plotters (0.3), of which this would need
//! the SVG backend alone, has no tooltips, no colours of a style sheet and no dashes of SVG: it
//! cuts lines into pieces that end at whole units of the drawing, and dashed ones get kinks.

use std::fmt::Write as _;

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
        format!(
            "stroke:var(--c{});stroke-dasharray:{}",
            self.colour,
            match self.dashes {
                "" => "none",
                dashes => dashes,
            }
        )
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

/// Text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
    let mut out = open(BAR_STEP * bars.len() as f64);
    for (i, Bar { name, style, point }) in bars.into_iter().enumerate() {
        let (top, middle) = (i as f64 * BAR_STEP, (i as f64 + 0.5) * BAR_STEP);
        let (value, name) = (escape(&show(point.value)), escape(name));
        let pale = if style.pale { " pale" } else { "" };
        let _ = writeln!(
            out,
            "<g><title>{name}: {value} ({} to {})</title>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
             <rect class=\"bar{pale}\" style=\"fill:var(--c{})\" x=\"{NAME_WIDTH}\" y=\"{:.1}\" \
             width=\"{:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>\
             <line class=\"whisker\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{value}</text></g>",
            escape(&show(point.low)),
            escape(&show(point.high)),
            NAME_WIDTH - 8.0,
            middle + 4.5,
            style.colour,
            top + (BAR_STEP - BAR_HEIGHT) / 2.0,
            x(point.value) - NAME_WIDTH,
            x(point.low),
            x(point.high),
            x(point.high) + 6.0,
            middle + 4.5,
        );
    }
    Some(out + "</svg>\n")
}

/// Lines over places that stand evenly beside each other; `None` if there is nothing to draw.
pub(super) fn lines(
    series: &[Series],
    scale: Scale,
    show: &dyn Fn(f64) -> String,
) -> Option<String> {
    let points = || series.iter().flat_map(Series::finite);
    let mut places: Vec<f64> = points().map(|point| point.at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.is_empty() {
        return None;
    }
    let (from, to, ticks) = range(points(), scale);
    let y = |value: f64| {
        let share = match scale {
            Scale::Linear => (value - from) / (to - from),
            Scale::Log => (value.max(from) / from).ln() / (to / from).ln(),
        };
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    };
    let x = |at: f64| {
        let index = places.iter().position(|place| *place == at).unwrap_or(0) as f64;
        LEFT + (index + 0.5) / places.len() as f64 * (WIDTH - LEFT - RIGHT)
    };
    let mut out = open(HEIGHT) + &grid(&ticks, y, show);
    for at in &places {
        out += &place(x(*at), *at);
    }
    for line in series {
        let Series { name, style, .. } = line;
        let (stroke, way) = (style.stroke(), line.way(x, y));
        let _ = writeln!(out, "<polyline class=\"line\" style=\"{stroke}\" points=\"{way}\"/>",);
        for p in line.finite() {
            let _ = writeln!(
                out,
                "<g style=\"stroke:var(--c{0});fill:var(--c{0})\"><title>{1}: {2} ({3} to \
                 {4})</title><line x1=\"{5:.1}\" x2=\"{5:.1}\" y1=\"{6:.1}\" y2=\"{7:.1}\"/>\
                 <circle cx=\"{5:.1}\" cy=\"{8:.1}\" r=\"3.5\"/></g>",
                style.colour,
                escape(name),
                escape(&show(p.value)),
                escape(&show(p.low)),
                escape(&show(p.high)),
                x(p.at),
                y(p.low),
                y(p.high),
                y(p.value),
            );
        }
    }
    Some(out + "</svg>\n")
}

/// Lines over numbers, for many points: without marks and intervals. `None` if there is nothing to
/// draw.
pub(super) fn curves(series: &[Series], show: &dyn Fn(f64) -> String) -> Option<String> {
    let points = || series.iter().flat_map(Series::finite);
    let last = points().map(|point| point.at).reduce(f64::max)?;
    let (_, to, ticks) = range(points(), Scale::Linear);
    let step = round_step(if last > 0.0 { last } else { 1.0 } / TICKS);
    let width = (last / step).ceil().max(1.0) * step;
    let x = |at: f64| LEFT + (at / width).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - (value / to).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);
    let mut out = open(HEIGHT) + &grid(&ticks, y, show);
    for i in 0..=(width / step).round() as u32 {
        // Of the digits behind what the step has, none means anything.
        let at = (f64::from(i) * step * 1e9).round() / 1e9;
        out += &place(x(at), at);
    }
    for line in series {
        let (stroke, way) = (line.style.stroke(), line.way(x, y));
        let name = escape(&line.name);
        let _ = writeln!(
            out,
            "<polyline class=\"line thin\" style=\"{stroke}\" points=\"{way}\"><title>{name}</title>\
             </polyline>",
        );
    }
    Some(out + "</svg>\n")
}

/// The lines across a plot, with what they stand for.
fn grid(ticks: &[f64], y: impl Fn(f64) -> f64, show: &dyn Fn(f64) -> String) -> String {
    let mut out = String::new();
    for tick in ticks {
        let (y, label) = (y(*tick), escape(&show(*tick)));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"faint\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.5,
        );
    }
    out
}

/// What stands below a place on the axis.
fn place(x: f64, what: f64) -> String {
    format!(
        "<text class=\"faint\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{what}</text>\n",
        HEIGHT - 6.0
    )
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
pub(super) fn swatch(style: Style) -> String {
    format!(
        "<svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><line style=\"{};stroke-width:3\" x1=\"0\" \
         x2=\"26\" y1=\"5\" y2=\"5\"/></svg>",
        style.stroke()
    )
}

fn open(height: f64) -> String {
    format!("<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n")
}

#[cfg(test)]
mod tests;
