//! A bar on standard error while something takes long; nothing where that is no terminal.
//!
//! The thread that works draws it: it needs no other thread, which a process that is short of
//! memory or threads may not get.

use std::fmt::Write;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::failure::{Failure, note};
use crate::interrupt::Interrupt;
use crate::units::count;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, shown in powers of 1024.
    Bytes,
    /// Milliseconds that pass anyway.
    Milliseconds,
    /// Anything else, by its name in the plural.
    Things(&'static str),
}

/// A bar; it is removed when dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar with rate and time left, or, if it is not known how many there will be, a counter
    /// with its rate.
    pub fn new(label: &str, unit: Unit, total: Option<u64>) -> Progress {
        // A template that is wrong costs the bar its looks, not the command.
        let style = ProgressStyle::with_template(&template(unit, total.is_some()))
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                // Writing to a string does not fail.
                let _ = write!(out, "{}/s", count(state.per_sec() as u64));
            })
            .progress_chars("=> ");
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::no_length(),
        };
        bar.set_style(style);
        bar.set_message(label.to_owned());
        // From here on it is drawn when it moves: a thread that draws it might not be to be had.
        bar.tick();
        Progress(bar)
    }

    /// So much is done.
    pub fn at(&self, position: u64) {
        self.0.set_position(position);
    }

    /// So much is done. Gives whether the work is to go on.
    pub fn goes_on(&self, position: u64, stop: &Interrupt) -> bool {
        self.at(position);
        !stop.requested()
    }

    /// So much there is in all.
    pub fn of(&self, total: u64) {
        self.0.set_length(total);
    }

    /// Removes the bar for good.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }

    /// Prints a line on standard error, above the bar if there is one.
    pub fn note(&self, line: &str) {
        self.0.suspend(|| note(line));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The bars of something that takes long and goes through phases: each phase has its own.
#[derive(Debug)]
pub struct Phases<'c> {
    stop: &'c Interrupt,
    /// The label of the phase that is shown, and its bar.
    shown: Option<(String, Progress)>,
}

impl Phases<'_> {
    /// Nothing is shown yet. Whoever makes `stop` true ends the work.
    pub fn new(stop: &Interrupt) -> Phases<'_> {
        Phases { stop, shown: None }
    }

    /// So much is done of the phase with this label, of so much in all. Gives whether the work is to
    /// go on.
    pub fn at(&mut self, label: &str, unit: Unit, done: u64, all: u64) -> bool {
        let shown = self.shown.take().filter(|(of, _)| of == label);
        // The bar of the phase before is gone here.
        let shown =
            shown.unwrap_or_else(|| (label.to_owned(), Progress::new(label, unit, Some(all))));
        shown.1.of(all);
        let goes_on = shown.1.goes_on(done, self.stop);
        self.shown = Some(shown);
        goes_on
    }

    /// The work has ended, and its last bar goes.
    ///
    /// # Errors
    /// If it was stopped.
    pub fn end(self) -> Result<(), Failure> {
        self.stop.check()
    }
}

fn template(unit: Unit, total_known: bool) -> String {
    match (unit, total_known) {
        (Unit::Bytes, true) => {
            "{msg} [{wide_bar}] {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left".into()
        }
        (Unit::Bytes, false) => "{spinner} {msg} {bytes}, {binary_bytes_per_sec}".into(),
        (Unit::Milliseconds, _) => "{msg} [{wide_bar}] {eta} left".into(),
        (Unit::Things(things), true) => {
            format!("{{msg}} [{{wide_bar}}] {{human_pos}} {things}, {{rate}}, {{eta}} left")
        }
        (Unit::Things(things), false) => {
            format!("{{spinner}} {{msg}} {{human_pos}} {things}, {{rate}}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_are_understood() {
        for unit in [Unit::Bytes, Unit::Milliseconds, Unit::Things("rows")] {
            for total_known in [false, true] {
                assert!(ProgressStyle::with_template(&template(unit, total_known)).is_ok());
            }
        }
    }

    #[test]
    fn each_phase_has_a_bar_until_somebody_stops_the_work() {
        let stop = Interrupt::default();
        let mut phases = Phases::new(&stop);
        let bar = |phases: &Phases<'_>| phases.shown.as_ref().unwrap().1.0.clone();
        assert!(phases.at("reading", Unit::Bytes, 1, 5));
        let first = bar(&phases);
        assert!(phases.at("reading", Unit::Bytes, 2, 7));
        assert_eq!((first.position(), first.length()), (2, Some(7)));
        assert!(phases.at("writing", Unit::Bytes, 1, 9));
        assert!(first.is_finished());
        let second = bar(&phases);
        assert_eq!((second.position(), second.length()), (1, Some(9)));
        stop.request();
        assert!(!phases.at("writing", Unit::Bytes, 2, 9));
    }
}
