//! What a run gives: figures.

use serde::{Deserialize, Serialize};

use super::clock::Driven;

/// The metric that says how many bytes of pages a measurement goes to again and again.
pub(crate) const TOUCHED: &str = "touched bytes";
/// What the processor loads for any byte.
pub(crate) const LINE_BYTES: u64 = 64;

/// What an operation costs beside time: metrics that go with that of its rate.
const COSTS: [&str; 2] = ["cpu", "shootdowns"];

/// Whether a metric says what the operations of another one cost ([`Measured::push_driven`]).
pub(crate) fn goes_with_another(metric: &str) -> bool {
    metric.rsplit_once(": ").is_some_and(|(_, cost)| COSTS.contains(&cost))
}

/// One figure of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) metric: String,
    /// Where on its axis, as number of threads or bytes of a row; 0 where there is no axis.
    pub(crate) at: f64,
    pub(crate) value: f64,
}

/// All figures of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Measured {
    pub(crate) figures: Vec<Figure>,
}

impl Measured {
    /// Adds a figure.
    pub(crate) fn push(&mut self, metric: impl Into<String>, at: f64, value: f64) {
        self.figures.push(Figure { metric: metric.into(), at, value });
    }

    /// The values of a metric, in the order in which they came.
    #[cfg(test)]
    pub(crate) fn of(&self, metric: &str) -> Vec<f64> {
        let of_metric = |figure: &&Figure| figure.metric == metric;
        self.figures.iter().filter(of_metric).map(|figure| figure.value).collect()
    }

    /// Says how many lines of pages are gone to.
    pub(crate) fn push_touched(&mut self, lines: u64) {
        self.push(TOUCHED, 0.0, (lines * LINE_BYTES) as f64);
    }

    /// Adds a rate, and what an operation cost beside time.
    pub(crate) fn push_driven(&mut self, metric: &str, at: f64, driven: &Driven) {
        self.push(metric, at, driven.per_s());
        let [cpu, flushed] = COSTS.map(|cost| format!("{metric}: {cost}"));
        self.push(cpu, at, driven.an_op(driven.cpu_s));
        if let Some(shootdowns) = driven.shootdowns {
            self.push(flushed, at, driven.an_op(shootdowns as f64));
        }
    }
}
