//! What a lookup spends its time on (scalecache-2025 2.1, figure 1): uniform ones in a tree that is
//! all resident.
//!
//! A timer within a lookup would measure itself. So the same lookups run in four ways, each in a
//! pool of its own, and what is given are differences of processor time a lookup:
//!
//! | | readers hold pages | what it is |
//! |---|---|---|
//! | *rest* | not at all, by `direct` | keys, nodes, values, validation: no table is asked |
//! | *translation* | not at all, less the rest | asking the table (by `hash`: with its latch) |
//! | *pin* | by slices of groups of cores, less not at all | counting oneself at each page, where few others count |
//! | *latch* | by the page's state word, less by slices | counting in the one word that all readers share |
//!
//! A hold is a pin and a shared latch in one here, where the paper's baseline counts twice at each
//! page. So the last two are steps on one way. Slices have a price of their own: to find the core,
//! and to look at the word again. A step that saves time comes out below zero.

use polder_pool::{Direct, ReadMode};

use crate::ladder::prelude::*;
use crate::ladder::setup::Streams;

/// The ways, and what each adds to the one before.
const STEPS: [(&str, ReadMode); 4] = [
    ("rest", ReadMode::Optimistic),
    ("translation", ReadMode::Optimistic),
    ("pin", ReadMode::Group),
    ("latch", ReadMode::Shared),
];
/// The first of them, which is by `direct`.
const REST: usize = 0;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let mut ways = STEPS.map(|_| Vec::new());
    // Another one begins in each round.
    for turn in turns(setup.round as usize, STEPS.len()) {
        let (name, hold) = STEPS[turn];
        (setup.tell)(&format!("with {name}"));
        // The same requests in each.
        let streams = Streams::new(setup.round);
        let setup = Setup { side: Side { hold, ..setup.side }, streams: &streams, ..*setup };
        ways[turn] = if turn == REST { lookups::<Direct>(&setup)? } else { lookups::<T>(&setup)? };
    }
    let mut measured = Measured::default();
    for (at, threads) in setup.threads.iter().enumerate() {
        let seconds = |way: &Vec<f64>| way.get(at).copied().unwrap_or(0.0);
        let mut before = 0.0;
        for ((name, _), way) in STEPS.iter().zip(&ways) {
            measured.push(*name, *threads as f64, seconds(way) - before);
            before = seconds(way);
        }
        measured.push("all", *threads as f64, before);
    }
    Ok(measured)
}

/// Processor time of a lookup, by numbers of threads.
fn lookups<T: Translation>(setup: &Setup<'_>) -> Result<Vec<f64>, BenchError> {
    let subject = Subject::<T>::resident(setup, setup.scale.records)?;
    subject.settle(Dist::Uniform)?;
    let of_one = |&threads: &usize| {
        subject.lookups(threads, Dist::Uniform).map(|driven| driven.an_op(driven.cpu_s))
    };
    setup.threads.iter().map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use polder_pool::Hash;

    use super::*;
    use crate::ladder::setup::testing::run;

    #[test]
    fn steps_add_up_to_the_whole() {
        run(|setup| {
            for round in 0..2 {
                let measured = super::run::<Hash>(&Setup { round, ..*setup }).unwrap();
                let of = |metric: &str, threads: f64| {
                    let mut figures = measured.figures.iter();
                    let found = figures.find(|f| f.metric == metric && f.at == threads);
                    found.unwrap().value
                };
                for threads in [1.0, 2.0] {
                    let sum: f64 = STEPS.iter().map(|(name, _)| of(name, threads)).sum();
                    assert!((sum / of("all", threads) - 1.0).abs() < 1e-9);
                    assert!(of("rest", threads) > 0.0 && of("all", threads) > 0.0);
                }
            }
        });
    }
}
