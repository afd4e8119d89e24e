//! The ladder: every translation in turn, in every regime of access, on the pool and the tree
//! directly, without a store and without a log; and TPC-C on stores.
//!
//! A *part* is a workload, a *side* one translation with one read mode. Each run of a
//! side is a process of its own, so that its memory and its huge pages are fresh. In each round
//! every side of a part has one turn, in an order that moves on by one each round; ratios pair runs
//! of the same round. Parts come one after the other, so that files of one are gone before the next
//! makes its own.
//!
//! [`side`] says what is compared; which sides a part has, which plots there are and what must hold
//! are lists beside the code: `sides.toml`, `html/plots.toml`, `criteria.toml`.
//!
//! From the bottom: [`setup`] and [`clock`] make pools and time threads on them, [`trees`] and
//! [`pages`] fill them, [`stores`] has TPC-C; [`parts`] are the workloads; [`child`] runs one, if
//! need be in a [`memory_group`]; [`results`] and [`criteria`] say what it came to, [`out`] writes it
//! down, [`html`] shows it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use indicatif::ProgressBar;

use crate::child::Child;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::progress::{self, Tell, tell, turns};

mod child;
mod clock;
mod criteria;
mod graph;
mod graph_file;
mod html;
mod measured;
mod memory_group;
mod out;
mod pages;
mod parts;
mod plan;
mod prelude;
mod results;
mod setup;
mod side;
mod stores;
mod trees;
mod writes;

use child::Job;
pub(crate) use child::work as child;
pub(crate) use criteria::{judge, table};
pub(crate) use graph_file::check_all as check_graphs;
use measured::Measured;
use memory_group::{MemoryGroup, check_swap};
pub(crate) use out::{Figures, Out};
pub(crate) use parts::{PARTS, Part};
pub(crate) use plan::Terms;
pub(crate) use results::medians;
use results::{Failure, Results, Run, Skipped};
use side::Side;
pub(crate) use writes::SharedWrites;

/// What to run.
#[derive(Debug)]
pub(crate) struct Ladder {
    pub(crate) terms: Terms,
    pub(crate) parts: Vec<&'static Part>,
    /// Names of the sides that have a turn; empty for all.
    pub(crate) sides: Vec<String>,
    /// Files with graphs.
    pub(crate) graphs: Vec<PathBuf>,
    /// What was counted beforehand.
    pub(crate) writes: Option<SharedWrites>,
    /// Where files are made; removed by the caller.
    pub(crate) dir: PathBuf,
    /// The program to run as child.
    pub(crate) program: PathBuf,
}

impl Ladder {
    /// Runs it, and writes down what is known after each part. A run that fails is noted, and the
    /// next one begins; so is a side that cannot have its turns here. An interrupt ends it with
    /// what was measured so far. Beside the results stands whether their last state was written.
    pub(crate) fn run(
        &self,
        interrupt: &Interrupt,
        out: &Out,
    ) -> Result<(Results, Result<(), BenchError>), BenchError> {
        let mut results = Results {
            terms: self.terms.clone(),
            machine: Machine::here(),
            complete: false,
            writes: self.writes.clone(),
            runs: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
        };
        out.keep(&results)?;
        let mut kept = Ok(());
        let turns = |part: &&Part| self.terms.rounds as usize * self.sides_of(part).len();
        let bar = progress::bar(self.parts.iter().map(turns).sum());
        for (done, part) in (1..).zip(&self.parts) {
            // What could not be written after the last part can be after this one.
            if let Err(error) = &kept {
                say(&bar, error);
            }
            let over = self.part(part, interrupt, &bar, &mut results);
            results.complete = done == self.parts.len() && over.is_ok();
            kept = out.keep(&results);
            match over {
                Err(BenchError::Interrupted) => break,
                other => other?,
            }
        }
        bar.finish_and_clear();
        Ok((results, kept))
    }

    fn sides_of(&self, part: &Part) -> Vec<&'static Side> {
        let is_named = |side: &Side| self.sides.iter().any(|name| name == side.name);
        part.sides().iter().filter(|side| self.sides.is_empty() || is_named(side)).collect()
    }

    /// Whether a side can have its turns here; if not, why not.
    fn can_have_turns(&self, side: &Side) -> Result<(), String> {
        if side.swapped {
            check_swap(self.terms.size.scale().swap_bytes)?;
            MemoryGroup::make()?;
        }
        Ok(())
    }

    /// Fails by an interrupt alone.
    fn part(
        &self,
        part: &Part,
        interrupt: &Interrupt,
        bar: &ProgressBar,
        results: &mut Results,
    ) -> Result<(), BenchError> {
        let name_of = |side: &Side| format!("{}, {}", part.name, side.name);
        let mut sides = self.sides_of(part);
        sides.retain(|side| {
            let Err(why) = self.can_have_turns(side) else { return true };
            say(bar, &format!("{}: skipped: {why}", name_of(side)));
            bar.inc(self.terms.rounds);
            let (part, side) = (part.name.to_owned(), side.name.to_owned());
            results.skipped.push(Skipped { part, side, why });
            false
        });
        for round in 0..self.terms.rounds {
            for turn in turns(round as usize, sides.len()) {
                let (side, name) = (sides[turn], name_of(sides[turn]));
                let done = self.turn(part, side, round, interrupt, &tell(bar, &name));
                let (part, side) = (part.name.to_owned(), side.name.to_owned());
                match done {
                    Ok(figures) => results.runs.push(Run { part, side, round, figures }),
                    Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                    Err(error) => {
                        let why = match error {
                            BenchError::Worker { message, .. } => message,
                            other => other.to_string(),
                        };
                        say(bar, &format!("{name}: {why}"));
                        results.failures.push(Failure { part, side, round, why });
                    }
                }
                bar.inc(1);
            }
        }
        if let Err(error) = remove(&self.dir.join(part.name)) {
            say(bar, &error);
        }
        Ok(())
    }

    /// Has a child run a side, in a directory of its own, and where the side is swapped in a group
    /// of its own.
    fn turn(
        &self,
        part: &Part,
        side: &Side,
        round: u64,
        interrupt: &Interrupt,
        tell: Tell<'_>,
    ) -> Result<Measured, BenchError> {
        interrupt.check()?;
        let shared = self.dir.join(part.name);
        let dir = shared.join("run");
        afresh(&dir)?;
        let group = side.swapped.then(MemoryGroup::make).transpose();
        let group = group.map_err(BenchError::Options)?;
        let job = Job {
            part: part.name.to_owned(),
            side: side.name.to_owned(),
            terms: self.terms.clone(),
            graphs: self.graphs.clone(),
            round,
            dir,
            shared,
            group: group.as_ref().map(|group| group.path().to_owned()),
        };
        let mut child = Child::start(&self.program, child::COMMAND, side.name)?;
        child.order(&job)?;
        child.answer(interrupt, tell)
    }
}

fn say(bar: &ProgressBar, what: &dyn fmt::Display) {
    bar.suspend(|| {
        let _ = writeln!(io::stderr(), "{what}");
    });
}

/// Makes the directory, without what a former run may have left there.
fn afresh(dir: &Path) -> Result<(), BenchError> {
    remove(dir)?;
    fs::create_dir_all(dir).map_err(BenchError::file(dir))
}

fn remove(dir: &Path) -> Result<(), BenchError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BenchError::file(dir)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
