//! A curve in a line of text.

/// A character for each figure, or for some together, by its share of `most`.
pub(crate) fn bars(figures: &[f64], most: f64) -> String {
    const MOST: usize = 60;
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let together = figures.len().div_ceil(MOST).max(1);
    let means = figures.chunks(together).map(|part| part.iter().sum::<f64>() / part.len() as f64);
    means.map(|mean| BARS[((mean / most * 7.0).round() as usize).min(7)]).collect()
}

/// The same where the highest one is the scale.
pub(crate) fn bars_of(figures: &[f64]) -> String {
    const LEAST: f64 = 1e-9;
    bars(figures, figures.iter().copied().fold(LEAST, f64::max))
}
