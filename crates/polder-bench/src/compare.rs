//! A comparison: engines in processes of their own take turns, round by round.
//!
//! All are prepared one after the other before the first round, and stay. In each round every
//! engine has one turn while the others idle; the order moves on by one each round, so that none
//! always comes first. A ratio pairs turns of the same round.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use crate::child::Child;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::progress::{self, Tell, tell, turns};
use crate::protocol::{Answer, Order};
use crate::report::{Comparison, EngineSummary, RunResult};

/// The hidden command of a worker.
const COMMAND: &str = "worker";

/// What to compare.
#[derive(Debug)]
pub(crate) struct Contest {
    /// One for each engine; they differ in the engine alone.
    pub(crate) plans: Vec<Plan>,
    pub(crate) rounds: usize,
    /// The program to run as worker.
    pub(crate) program: PathBuf,
}

impl Contest {
    /// Runs it; each result is handed to `report` as it comes.
    pub(crate) fn run(
        &self,
        interrupt: &Interrupt,
        report: &mut dyn FnMut(&RunResult) -> Result<(), BenchError>,
    ) -> Result<Comparison, BenchError> {
        let bench = match self.plans.first() {
            Some(plan) => plan.bench,
            None => {
                return Err(BenchError::Options("there is no engine to compare".to_owned()));
            }
        };
        let bar = progress::bar(self.plans.len() * (self.rounds + 1));
        let mut children = Vec::new();
        for plan in &self.plans {
            children.push(start(&self.program, plan, interrupt, &bar)?);
        }
        let mut results: Vec<Vec<RunResult>> = vec![Vec::new(); children.len()];
        for round in 0..self.rounds {
            for turn in turns(round, children.len()) {
                let child = &mut children[turn];
                let result = round_of(child, interrupt, &tell(&bar, child.name()))?;
                bar.inc(1);
                report(&result)?;
                results[turn].push(result);
            }
        }
        for mut child in children {
            child.order(&Order::Quit)?;
            child.end(interrupt)?;
        }
        bar.finish_and_clear();
        let first = results.first().cloned().unwrap_or_default();
        let summaries = self.plans.iter().zip(&results).filter_map(|(plan, rounds)| {
            Some((plan.engine.clone(), EngineSummary::new(rounds, &first)?))
        });
        Ok(Comparison { bench, engines: summaries.collect() })
    }
}

/// Starts an engine's process and waits until it is prepared.
fn start(
    program: &Path,
    plan: &Plan,
    interrupt: &Interrupt,
    bar: &ProgressBar,
) -> Result<Child<Answer>, BenchError> {
    let mut child = Child::start(program, COMMAND, &plan.engine)?;
    child.order(&Order::Prepare(Box::new(plan.clone())))?;
    match child.answer(interrupt, &tell(bar, &plan.engine))? {
        Answer::Ready => {}
        other => return Err(child.failure(format!("it should be ready, and said {other:?}"))),
    }
    bar.inc(1);
    Ok(child)
}

/// One turn of an engine.
fn round_of(
    child: &mut Child<Answer>,
    interrupt: &Interrupt,
    tell: Tell<'_>,
) -> Result<RunResult, BenchError> {
    child.order(&Order::Go)?;
    match child.answer(interrupt, tell)? {
        Answer::Result(result) => Ok(*result),
        other => Err(child.failure(format!("it should give a result, and said {other:?}"))),
    }
}
