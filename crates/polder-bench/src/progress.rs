//! Whose turn it is, and what people see of it while they wait.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Receives a line for people about what goes on.
pub(crate) type Tell<'a> = &'a dyn Fn(&str);

/// Whose turn it is within a round: the order of the sides, moved on by one each round.
pub(crate) fn turns(round: usize, sides: usize) -> impl Iterator<Item = usize> {
    (0..sides).map(move |turn| (round + turn) % sides)
}

/// A bar for so many turns.
pub(crate) fn bar(turns: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} turns, {eta} left: {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(turns as u64).with_style(style)
}

/// What turns while there is no telling how much is left.
pub(crate) fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}

/// Shows on the bar what a side does.
pub(crate) fn tell(bar: &ProgressBar, side: &str) -> impl Fn(&str) + use<> {
    let (bar, side) = (bar.clone(), side.to_owned());
    move |what| bar.set_message(format!("{side}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_turns_moves_on() {
        let order = |round| turns(round, 3).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(1), [1, 2, 0]);
        assert_eq!(order(5), [2, 0, 1]);
    }
}
