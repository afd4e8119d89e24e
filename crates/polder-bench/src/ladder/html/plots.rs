//! What each plot shows, and how its values are written: the plots themselves are in `plots.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::super::results::Results;
use super::super::side::{self, Side};
use super::svg::Scale;

/// What the values are.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    /// So many of these.
    Count(String),
    /// Seconds, shown as microseconds.
    Seconds(String),
    /// A part of one, shown in percent.
    Share(String),
}

impl Unit {
    pub(super) fn name(&self) -> &str {
        match self {
            Unit::Count(name) | Unit::Seconds(name) | Unit::Share(name) => name,
        }
    }

    /// A value for people: three digits that mean something.
    pub(super) fn show(&self, value: f64) -> String {
        let (value, of) = match self {
            Unit::Count(_) if value >= 1e9 => (value / 1e9, " G"),
            Unit::Count(_) if value >= 1e6 => (value / 1e6, " M"),
            Unit::Count(_) if value >= 1e3 => (value / 1e3, " k"),
            Unit::Count(_) => (value, ""),
            Unit::Seconds(_) => (value * 1e6, ""),
            Unit::Share(_) => (value * 100.0, "%"),
        };
        let digits = match value.abs() {
            v if v >= 100.0 => 0,
            v if v >= 10.0 => 1,
            v if v >= 0.01 || v == 0.0 => 2,
            v if v >= 0.0001 => 4,
            _ => return format!("{value:.0e}{of}"),
        };
        let shown = format!("{value:.digits$}");
        let is_whole = digits == 0;
        let short =
            if is_whole { &*shown } else { shown.trim_end_matches('0').trim_end_matches('.') };
        format!("{short}{of}")
    }
}

/// What stands along the bottom.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Axis {
    /// Nothing: bars.
    #[default]
    None,
    /// Bars of the figures at this place.
    At(f64),
    /// Lines over this.
    Named(String),
    /// Lines of many points over this, a number.
    Many(String),
    /// The same over seconds, of the first round alone: medians of rounds would not show what
    /// happens in each of them at another time.
    Seconds,
}

/// A heading, and what stands below it.
#[derive(Debug, Deserialize)]
pub(super) struct Section {
    pub(super) title: String,
    #[serde(rename = "plot")]
    pub(super) plots: Vec<Plot>,
}

/// A plot; `plots.toml` explains what each field means.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Plot {
    pub(super) part: String,
    pub(super) metrics: Vec<String>,
    pub(super) title: String,
    pub(super) unit: Unit,
    #[serde(default)]
    pub(super) axis: Axis,
    #[serde(default)]
    pub(super) scale: Scale,
    sides: String,
    #[serde(default)]
    pub(super) paper: String,
    #[serde(default)]
    pub(super) ours: String,
}

/// All plots.
pub(super) static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    let read = read(include_str!("plots.toml"));
    read.expect("a test reads each plot of the file")
});

fn read(text: &str) -> Result<Vec<Section>, toml::de::Error> {
    #[derive(Deserialize)]
    struct Page {
        section: Vec<Section>,
    }
    let mut sections = toml::from_str::<Page>(text)?.section;
    for section in &mut sections {
        let (mut paper, mut ours) = (String::new(), String::new());
        for plot in &mut section.plots {
            for (own, before) in [(&mut plot.paper, &mut paper), (&mut plot.ours, &mut ours)] {
                match own.is_empty() {
                    true => own.clone_from(before),
                    false => before.clone_from(own),
                }
            }
        }
    }
    Ok(sections)
}

impl Plot {
    /// The sides that it shows.
    pub(super) fn sides(&self) -> &'static [Side] {
        side::list(&self.sides)
    }

    /// Whether it shows several metrics of one side.
    pub(super) fn compares_metrics(&self) -> bool {
        self.sides().len() == 1 && self.metrics.len() > 1
    }

    /// The plots that it stands for; none if its part was not run.
    pub(super) fn for_each_metric(&self, results: &Results) -> Vec<Plot> {
        let measured = results.metrics(&self.part);
        if measured.is_empty() {
            return Vec::new();
        }
        let Some(begin) = self.metrics.first().and_then(|first| first.strip_suffix('*')) else {
            return vec![self.clone()];
        };
        let of_begin = measured.into_iter().filter(|metric| !metric.contains(": "));
        let of_begin = of_begin.filter_map(|metric| Some((metric, metric.strip_prefix(begin)?)));
        let plot = |(metric, rest): (&str, &str)| Plot {
            metrics: vec![metric.to_owned()],
            title: format!("{}{rest}", self.title),
            ..self.clone()
        };
        of_begin.map(plot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::results::testing::empty;
    use super::*;
    use crate::ladder::parts::Part;

    #[test]
    fn plots_are_of_parts_and_sides_that_there_are() {
        for plot in SECTIONS.iter().flat_map(|section| &section.plots) {
            let (part, title) = (Part::find(&plot.part).unwrap(), &plot.title);
            assert!(!plot.sides().is_empty(), "{title}");
            assert!(plot.sides().iter().all(|side| part.side(side.name) == Some(*side)), "{title}");
            assert!(!plot.paper.is_empty() && !plot.ours.is_empty(), "{title}");
        }
        assert_eq!(SECTIONS.iter().map(|section| section.plots.len()).sum::<usize>(), 81);
    }

    #[test]
    fn a_star_stands_for_each_metric() {
        let results = empty()
            .with(("tpcc-mixes-larger", "transactions, 0:100", "hash, copy"), 1.0, &[1.0])
            .with(("tpcc-mixes-larger", "transactions, 0:100: cpu", "hash, copy"), 1.0, &[1.0])
            .with(("tpcc-mixes-larger", "transactions, standard", "hash, copy"), 1.0, &[1.0]);
        let mut plots = SECTIONS.iter().flat_map(|section| &section.plots);
        let listed = plots.find(|plot| plot.part == "tpcc-mixes-larger").unwrap();
        let titles: Vec<String> =
            listed.for_each_metric(&results).into_iter().map(|plot| plot.title).collect();
        assert_eq!(
            titles,
            ["Data 29 times the budget: 0:100", "Data 29 times the budget: standard"]
        );
        assert!(listed.for_each_metric(&empty()).is_empty());
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(Unit::Share(String::new()).show(0.03472), "3.47%");
        assert_eq!(Unit::Seconds(String::new()).show(1.234e-5), "12.3");
        assert_eq!(Unit::Count(String::new()).show(0.0), "0");
        assert_eq!(Unit::Count(String::new()).show(2.54e10), "25.4 G");
        assert_eq!(Unit::Count(String::new()).show(-0.00123), "-0.0012");
        let counts =
            [1e7, 15e9, 1500.0, 200.0, 0.0].map(|value| Unit::Count(String::new()).show(value));
        assert_eq!(counts, ["10 M", "15 G", "1.5 k", "200", "0"]);
        assert_eq!(
            [0.25, 1.0].map(|value| Unit::Share(String::new()).show(value)),
            ["25%", "100%"]
        );
    }
}
