//! Medians, and how far they can be trusted.
//!
//! The interval of a median is the one of the exact sign test: of `n` sorted figures, the `k`-th
//! lowest and the `k`-th highest. Each figure lies below the true median with probability one half,
//! whatever the distribution is, so the interval misses it with probability `2 P(B < k)`, `B`
//! binomial of `n` and one half. `k` is the largest for which that is at most 5%. Below 6 figures
//! no `k` does it: the interval then spans all figures, and its confidence, which is said with it,
//! is lower. Nothing is assumed of the noise but that rounds are independent; a few wild rounds
//! cannot move it.

use serde::Serialize;

/// The interval holds the true median with at least this probability, if there are enough figures.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Median {
    #[serde(rename = "median")]
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// With which probability the interval holds the true median.
    pub(crate) confidence: f64,
}

impl Median {
    /// Of these figures, in any order; `None` where there are none or some are not numbers.
    pub(crate) fn of(figures: &[f64]) -> Option<Median> {
        if figures.is_empty() || figures.iter().any(|figure| figure.is_nan()) {
            return None;
        }
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let value = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let (depth, confidence) = depth(n);
        Some(Median { value, low: sorted[depth - 1], high: sorted[n - depth], confidence })
    }
}

/// The median of figures alone.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let figures: Vec<f64> = figures.into_iter().collect();
    Median::of(&figures).map(|median| median.value)
}

/// How deep in the sorted figures the interval ends, from 1, and its confidence.
fn depth(n: usize) -> (usize, f64) {
    // The tail P(B < k), grown term by term; it starts with P(B = 0) for k = 1.
    let mut term = 0.5f64.powi(n as i32);
    let mut tail = term;
    let mut depth = 1;
    loop {
        term *= (n - depth + 1) as f64 / depth as f64;
        let deeper = tail + term;
        if 2.0 * deeper > 1.0 - CONFIDENCE {
            return (depth, 1.0 - 2.0 * tail);
        }
        tail = deeper;
        depth += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{RngExt, stream};

    #[test]
    fn depths_are_those_of_the_tables_of_the_sign_test() {
        let expected = [
            (1, 1, 0.0),
            (5, 1, 0.9375),
            (6, 1, 0.96875),
            (8, 1, 0.99219),
            (9, 2, 0.96094),
            (11, 2, 0.98828),
            (12, 3, 0.96143),
            (15, 4, 0.96484),
            (20, 6, 0.95861),
            (25, 8, 0.95671),
        ];
        for (n, k, confidence) in expected {
            let (found, sure) = depth(n);
            assert_eq!(found, k, "{n} figures");
            assert!((sure - confidence).abs() < 1e-5, "{n} figures: {sure}");
        }
    }

    #[test]
    fn medians_of_odd_and_even_numbers_of_figures() {
        assert_eq!(Median::of(&[]), None);
        assert_eq!(Median::of(&[1.0, f64::NAN]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        let found = Median::of(&nine).unwrap();
        assert_eq!((found.low, found.value, found.high), (2.0, 5.0, 8.0));
    }

    #[test]
    fn the_interval_holds_the_true_median_as_often_as_it_says() {
        let mut random = stream(1, 0);
        let trials = 20_000;
        let held = (0..trials)
            .filter(|_| {
                // A skewed distribution: the square of a uniform number; its median is 1/4.
                let figures: Vec<f64> = (0..9).map(|_| random.random::<f64>().powi(2)).collect();
                let found = Median::of(&figures).unwrap();
                found.low <= 0.25 && 0.25 <= found.high
            })
            .count();
        let share = held as f64 / f64::from(trials);
        assert!((share - 0.96094).abs() < 0.007, "{share}");
    }
}
