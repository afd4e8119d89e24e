//! The ladder: every translation in turn, in every regime of access, on the pool and the tree
//! directly, without a store and without a log.
//!
//! A *part* is a workload, a *side* one translation with one way of holding pages. Each run of a
//! side is a process of its own, so that its memory and its huge pages are fresh. In each round
//! every side of a part has one turn, in an order that moves on by one each round; ratios pair runs
//! of the same round. Parts come one after the other, so that files of one are gone before the next
//! makes its own.
//!
//! From the bottom: [`setup`] and [`clock`] make pools and time threads on them, [`trees`],
//! [`pages`] and [`graph`] fill them; [`parts`] are the workloads; [`child`] runs one; [`results`]
//! and [`criteria`] say what it came to, [`html`] shows it.

use std::fs;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use serde::Serialize;

use crate::compare::{progress, tell, turns};
use crate::error::BenchError;
use crate::interrupt::Interrupt;

mod child;
mod clock;
mod criteria;
mod graph;
mod graph_file;
mod html;
mod measured;
mod pages;
mod parts;
mod plan;
mod results;
mod setup;
mod side;
mod trees;

pub(crate) use child::work as child;
pub(crate) use criteria::{judge, table};
pub(crate) use parts::{PARTS, Part};
pub(crate) use plan::Size;
pub(crate) use results::Results;

use child::{Job, delegate};
use criteria::Judged;
use results::{Failure, Machine, Run, Summary};

/// What to run.
#[derive(Debug)]
pub(crate) struct Ladder {
    pub(crate) size: Size,
    pub(crate) parts: Vec<&'static Part>,
    pub(crate) rounds: u64,
    /// Of each measurement.
    pub(crate) seconds: f64,
    pub(crate) threads: Vec<usize>,
    pub(crate) graphs: Vec<PathBuf>,
    /// Where files are made; removed by the caller.
    pub(crate) dir: PathBuf,
    /// The program to run as child.
    pub(crate) program: PathBuf,
}

impl Ladder {
    /// Runs it. An interrupt ends it with what was measured so far; a run that fails is noted, and
    /// the next one begins.
    pub(crate) fn run(&self, interrupt: &Interrupt) -> Result<Results, BenchError> {
        let mut results = Results {
            size: self.size,
            rounds: self.rounds,
            seconds: self.seconds,
            threads: self.threads.clone(),
            machine: Machine::here(),
            complete: true,
            runs: Vec::new(),
            failures: Vec::new(),
        };
        let parts =
            || self.parts.iter().filter(|part| !part.needs_graphs || !self.graphs.is_empty());
        let count: u64 = parts().map(|part| self.rounds_of(part) * part.sides.len() as u64).sum();
        let bar = progress(count as usize);
        for part in parts() {
            match self.part(part, interrupt, &bar, &mut results) {
                Err(BenchError::Interrupted) => {
                    results.complete = false;
                    break;
                }
                other => other?,
            }
        }
        bar.finish_and_clear();
        Ok(results)
    }

    fn rounds_of(&self, part: &Part) -> u64 {
        if part.once { 1 } else { self.rounds }
    }

    fn part(
        &self,
        part: &Part,
        interrupt: &Interrupt,
        bar: &ProgressBar,
        results: &mut Results,
    ) -> Result<(), BenchError> {
        let shared = self.dir.join(part.name);
        let own = shared.join("run");
        make(&shared)?;
        for round in 0..self.rounds_of(part) {
            for turn in turns(round as usize, part.sides.len()) {
                let side = part.sides[turn].name;
                make(&own)?;
                let job = Job {
                    part: part.name.to_owned(),
                    side: side.to_owned(),
                    size: self.size,
                    seconds: self.seconds,
                    threads: self.threads.clone(),
                    round,
                    dir: own.clone(),
                    shared: shared.clone(),
                    graphs: self.graphs.clone(),
                };
                let tell = tell(bar, &format!("{}, {side}", part.name));
                match delegate(&self.program, &job, interrupt, &tell) {
                    Ok(figures) => {
                        results.runs.push(Run { part: job.part, side: job.side, round, figures });
                    }
                    Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                    Err(error) => {
                        let why = error.to_string();
                        bar.suspend(|| eprintln!("{why}"));
                        results.failures.push(Failure {
                            part: job.part,
                            side: job.side,
                            round,
                            why,
                        });
                    }
                }
                fs::remove_dir_all(&own).map_err(BenchError::file(&own))?;
                bar.inc(1);
            }
        }
        fs::remove_dir_all(&shared).map_err(BenchError::file(&shared))
    }
}

fn make(dir: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(dir).map_err(BenchError::file(dir))
}

/// The JSON file.
#[derive(Serialize)]
struct File<'r> {
    criteria: &'r [Judged],
    medians: &'r [Summary],
    #[serde(flatten)]
    results: &'r Results,
}

/// Writes `translations.json` and `translations.html` into a directory, and gives their paths.
pub(crate) fn write(
    results: &Results,
    judged: &[Judged],
    dir: &Path,
) -> Result<[PathBuf; 2], BenchError> {
    make(dir)?;
    let medians = results.summaries();
    let file = File { criteria: judged, medians: &medians, results };
    let text = serde_json::to_string_pretty(&file)
        .map_err(|error| BenchError::Options(error.to_string()))?;
    let paths = [dir.join("translations.json"), dir.join("translations.html")];
    for (path, text) in paths.iter().zip([text, html::page(results, judged)]) {
        fs::write(path, text).map_err(BenchError::file(path))?;
    }
    Ok(paths)
}
