//! The ladder: every translation in turn, in every regime of access, on the pool and the tree
//! directly, without a store and without a log; and TPC-C on stores.
//!
//! A *part* is a workload, a *side* one translation with one way of holding pages. Each run of a
//! side is a process of its own, so that its memory and its huge pages are fresh. In each round
//! every side of a part has one turn, in an order that moves on by one each round; ratios pair runs
//! of the same round. Parts come one after the other, so that files of one are gone before the next
//! makes its own.
//!
//! [`translations`] and [`side`] say what is compared; which sides a part has, which plots there are
//! and what must hold are lists beside the code: `sides.toml`, `html/plots.toml`, `criteria.toml`.
//!
//! From the bottom: [`setup`] and [`clock`] make pools and time threads on them, [`trees`],
//! [`pages`] and [`graph`] fill them, [`stores`] has TPC-C, [`watched`] looks at it; [`parts`] are
//! the workloads; [`child`] runs one, if need be in a [`memory_group`]; [`results`] and [`criteria`]
//! say what it came to, [`out`] writes it down, [`html`] shows it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use indicatif::ProgressBar;

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
mod results;
mod setup;
mod side;
mod stores;
mod translations;
mod trees;
mod watched;
mod writes;

pub(crate) use child::work as child;
use child::{Job, delegate};
pub(crate) use criteria::{judge, table};
pub(crate) use graph_file::check_all as check_graphs;
use measured::Measured;
use memory_group::{MemoryGroup, check_swap};
pub(crate) use out::Out;
pub(crate) use parts::{PARTS, Part};
pub(crate) use plan::Size;
pub(crate) use results::medians;
use results::{Failure, Results, Run, Skipped};
use side::Side;
pub(crate) use writes::SharedWrites;

/// What to run.
#[derive(Debug)]
pub(crate) struct Ladder {
    pub(crate) size: Size,
    pub(crate) parts: Vec<&'static Part>,
    /// Names of the sides that have a turn; empty for all.
    pub(crate) sides: Vec<String>,
    pub(crate) rounds: u64,
    /// Of each measurement.
    pub(crate) seconds: f64,
    pub(crate) threads: Vec<usize>,
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
    /// next one begins; so is a side that cannot have its turns here. An interrupt ends it with what was measured so far. Beside the results
    /// stands whether their last state was written.
    pub(crate) fn run(
        &self,
        interrupt: &Interrupt,
        out: &Out,
    ) -> Result<(Results, Result<(), BenchError>), BenchError> {
        let mut results = Results {
            size: self.size,
            rounds: self.rounds,
            seconds: self.seconds,
            threads: self.threads.clone(),
            machine: Machine::here(),
            complete: false,
            writes: self.writes.clone(),
            runs: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
        };
        let mut kept = out.keep(&results);
        if let Err(error) = kept {
            out.give_up();
            return Err(error);
        }
        let turns = |part: &&Part| self.rounds as usize * self.sides_of(part).len();
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
            check_swap(self.size.scale().swap_bytes)?;
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
        let shared = self.dir.join(part.name);
        let mut sides = self.sides_of(part);
        sides.retain(|side| {
            let Err(why) = self.can_have_turns(side) else { return true };
            say(bar, &format!("{}, {}: skipped: {why}", part.name, side.name));
            bar.inc(self.rounds);
            let (part, side) = (part.name.to_owned(), side.name.to_owned());
            results.skipped.push(Skipped { part, side, why });
            false
        });
        for round in 0..self.rounds {
            for turn in turns(round as usize, sides.len()) {
                let side = sides[turn];
                let mut job = Job {
                    part: part.name.to_owned(),
                    side: side.name.to_owned(),
                    size: self.size,
                    seconds: self.seconds,
                    threads: self.threads.clone(),
                    round,
                    dir: shared.join("run"),
                    shared: shared.clone(),
                    graphs: self.graphs.clone(),
                    group: None,
                };
                let tell = tell(bar, &job.name());
                let done = self.run_job(side, &mut job, interrupt, &tell);
                match done {
                    Ok(figures) => {
                        results.runs.push(Run { part: job.part, side: job.side, round, figures });
                    }
                    Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                    Err(error) => {
                        let why = match error {
                            BenchError::Worker { message, .. } => message,
                            other => other.to_string(),
                        };
                        say(bar, &format!("{}: {why}", job.name()));
                        let (part, side) = (job.part, job.side);
                        results.failures.push(Failure { part, side, round, why });
                    }
                }
                bar.inc(1);
            }
        }
        if let Err(error) = remove(&shared) {
            say(bar, &error);
        }
        Ok(())
    }

    /// In a directory of its own, and where the side is swapped in a group of its own.
    fn run_job(
        &self,
        side: &Side,
        job: &mut Job,
        interrupt: &Interrupt,
        tell: Tell<'_>,
    ) -> Result<Measured, BenchError> {
        interrupt.check()?;
        afresh(&job.dir)?;
        let group =
            side.swapped.then(MemoryGroup::make).transpose().map_err(BenchError::Options)?;
        job.group = group.as_ref().map(|group| group.path().to_owned());
        delegate(&self.program, job, interrupt, tell)
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
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    fn ladder(dir: &Path) -> Ladder {
        Ladder {
            size: Size::Small,
            parts: vec![Part::find("scan").unwrap(), Part::find("heap").unwrap()],
            sides: Vec::new(),
            rounds: 1,
            seconds: 0.01,
            threads: vec![1],
            graphs: Vec::new(),
            writes: None,
            dir: dir.to_owned(),
            program: PathBuf::from("/nowhere/at/all"),
        }
    }

    #[test]
    fn a_run_without_a_place_or_a_program_is_a_failure_among_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (place, why) in [(&*file, "file/scan/run"), (dir.path(), "/nowhere/at/all")] {
            let at = dir.path().join(why.replace('/', "-"));
            let out = Out::claim(&at).unwrap();
            let (results, kept) = ladder(place).run(&Interrupt::silent(), &out).unwrap();
            kept.unwrap();
            let sides = ["scan", "heap"].map(|part| Part::find(part).unwrap().sides().len());
            assert_eq!((results.failures.len(), results.runs.len()), (sides.iter().sum(), 0));
            assert!(results.complete);
            assert!(results.failures[0].why.contains(why), "{:?}", results.failures[0]);
            let text = fs::read_to_string(at.join("translations.json")).unwrap();
            assert!(text.contains(why) && text.contains("\"complete\": true"));
        }
    }

    fn write_program(at: &Path, lines: &str) {
        fs::write(at, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// Its children keep what is written by then, and fail.
    #[test]
    fn each_part_finds_the_figures_of_those_before_it_written() {
        let dir = tempfile::tempdir().unwrap();
        let [script, seen] = ["child", "seen"].map(|name| dir.path().join(name));
        let out = Out::claim(&dir.path().join("out")).unwrap();
        let (from, to) = (out.json().display(), seen.display());
        write_program(&script, &format!("cp '{from}' '{to}'"));
        let ladder = Ladder { program: script, ..ladder(dir.path()) };
        let (results, _) = ladder.run(&Interrupt::silent(), &out).unwrap();
        assert!(results.complete);
        let seen = fs::read_to_string(&seen).unwrap();
        assert!(seen.contains("\"part\": \"scan\"") && !seen.contains("\"part\": \"heap\""));
        assert!(seen.contains("\"complete\": false"));
    }

    #[test]
    fn an_interrupt_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        let out = Out::claim(&dir.path().join("out")).unwrap();
        let interrupt = Interrupt::silent();
        interrupt.set();
        let echo = Ladder { program: PathBuf::from("cat"), ..ladder(dir.path()) };
        let (results, _) = echo.run(&interrupt, &out).unwrap();
        assert!(!results.complete && results.failures.is_empty());
    }

    /// Its first child answers, and its second never does.
    #[test]
    fn what_was_measured_before_an_interrupt_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let [script, first, second] =
            ["child", "first", "second"].map(|name| dir.path().join(name));
        let (one, two) = (first.display(), second.display());
        let figure = r#"{"metric":"random","at":0,"value":7}"#;
        let lines = format!(
            "if mkdir '{one}' 2>/dev/null; then read order; echo '{{\"answer\":[{figure}]}}'; exit; fi\n\
             touch '{two}'\nexec sleep 600"
        );
        write_program(&script, &lines);
        let out = Out::claim(&dir.path().join("out")).unwrap();
        let interrupt = Interrupt::silent();
        let ladder = Ladder { program: script, ..ladder(dir.path()) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..6000 {
                    if second.exists() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                interrupt.set();
            });
            ladder.run(&interrupt, &out).unwrap().1.unwrap();
        });
        let text = fs::read_to_string(out.json()).unwrap();
        let written: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written["complete"], false);
        let runs = written["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0]["figures"][0]["value"], 7.0);
    }

    #[test]
    fn what_cannot_be_written_is_an_error_at_the_beginning_and_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let [script, at] = ["child", "out"].map(|name| dir.path().join(name));
        let in_the_way = at.join("translations.json.new");
        write_program(&script, &format!("mkdir -p '{}'", in_the_way.display()));
        let ladder = Ladder { program: script, ..ladder(dir.path()) };
        let out = Out::claim(&at).unwrap();
        let (results, kept) = ladder.run(&Interrupt::silent(), &out).unwrap();
        assert!(results.complete);
        assert!(kept.unwrap_err().to_string().contains("translations.json.new"));

        fs::remove_file(out.json()).unwrap();
        let out = Out::claim(&at).unwrap();
        assert!(ladder.run(&Interrupt::silent(), &out).is_err());
        assert!(!out.json().exists(), "the next run finds a file without anything in it");
    }
}
