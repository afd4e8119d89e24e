//! A comparison: engines in processes of their own take turns, round by round. Both ends.
//!
//! All are prepared one after the other before the first round, and stay. In each round every
//! engine has one turn while the others idle; the order moves on by one each round, so that none
//! always comes first. A ratio pairs turns of the same round.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bed::Bed;
use crate::child::{self, Child};
use crate::engine::{EngineKind, Named};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::progress::{bar, tell, turns};
use crate::report::{Comparison, EngineSummary, RunResult};

/// To an engine's process. All but the last are answered: by no result, once it is prepared, and by the
/// result of each round.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    /// The first: what to do, and in which directory.
    Prepare(Box<Plan>, PathBuf),
    /// Run one round.
    Go,
    /// End.
    Quit,
}

/// Has engines take turns, one for each of these plans, which differ in the engine alone and work in
/// the same directory. Each result is handed to `report` as it comes.
pub(crate) fn run(
    plans: &[Plan],
    dir: &Path,
    rounds: usize,
    interrupt: &Interrupt,
    report: &mut dyn FnMut(&RunResult) -> Result<(), BenchError>,
) -> Result<Comparison, BenchError> {
    let bar = bar(plans.len() * (rounds + 1));
    let mut children = Vec::<Child<Option<RunResult>>>::new();
    for plan in plans {
        let mut child = Child::start(Path::new(child::PROGRAM), "worker", &plan.engine)?;
        child.order(&Order::Prepare(Box::new(plan.clone()), dir.to_owned()))?;
        child.answer(interrupt, &tell(&bar, &plan.engine))?;
        children.push(child);
        bar.inc(1);
    }
    let mut results: Vec<Vec<RunResult>> = vec![Vec::new(); plans.len()];
    for round in 0..rounds {
        for turn in turns(round, plans.len()) {
            let child = &mut children[turn];
            child.order(&Order::Go)?;
            let result = child.answer(interrupt, &tell(&bar, &plans[turn].engine))?;
            result.iter().try_for_each(&mut *report)?;
            results[turn].extend(result);
            bar.inc(1);
        }
    }
    for mut child in children {
        child.order(&Order::Quit)?;
        child.end(interrupt)?;
    }
    bar.finish_and_clear();
    let summaries = plans.iter().zip(&results).filter_map(|(plan, rounds)| {
        Some((plan.engine.clone(), EngineSummary::new(rounds, &results[0])?))
    });
    Ok(Comparison { bench: plans[0].bench, engines: summaries.collect() })
}

/// An engine's process: takes orders from standard input until it is told to quit or nobody is there
/// any more.
pub(crate) fn serve(engines: &[EngineKind]) -> Result<(), BenchError> {
    child::serve(|first, orders, interrupt| {
        let Order::Prepare(plan, dir) = first else {
            return Err(BenchError::Options(format!("the first order was {first:?}")));
        };
        let named = Named::find(engines, &plan.engine)?;
        let mut bed = Bed::prepare(named, &plan, &dir, interrupt, &child::tell)?;
        child::answer(None::<RunResult>);
        while let Ok(Order::Go) = orders.recv() {
            child::answer(Some(bed.round(&child::tell)?));
        }
        Ok(())
    })
}
