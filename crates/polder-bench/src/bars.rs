//! A curve in a line of text.

/// A character for each figure, or for some together, by its share of the highest.
pub(crate) fn bars(figures: &[f64]) -> String {
    const MOST: usize = 60;
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = figures.iter().copied().fold(1e-9, f64::max);
    let together = figures.len().div_ceil(MOST).max(1);
    let means = figures.chunks(together).map(|part| part.iter().sum::<f64>() / part.len() as f64);
    means.map(|mean| BARS[((mean / highest * 7.0).round() as usize).min(7)]).collect()
}
