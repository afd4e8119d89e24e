//! The parts of the ladder: what each measures, and on which sides.

use std::fmt;

use super::measured::Measured;
use super::setup::Setup;
use super::side::{self, Side};
use super::translations::{TranslationName, instances};
use crate::error::BenchError;

mod breakdown;
mod graph;
mod growing;
mod heap;
mod lookup;
mod memory;
mod memory_growing;
mod migration;
mod multi;
mod placement;
mod ramp_up;
mod scaling;
mod scan;
mod scans;
mod skew;
mod splits;
mod tiers;
mod tpcc;
mod tpcc_growing;
mod tpcc_larger;

/// What a part does on one translation.
type Run = fn(&Setup<'_>) -> Result<Measured, BenchError>;

/// One part.
pub(crate) struct Part {
    /// What `--parts` calls it.
    pub(crate) name: &'static str,
    /// The list of its sides.
    sides: &'static str,
    /// Whether it works on the files of `--graph`, without which there is nothing to do.
    pub(crate) needs_graphs: bool,
    work: Work,
}

/// Where a part works.
enum Work {
    /// On a pool, by translation: those of its sides, each once.
    OnPools(&'static [(TranslationName, Run)]),
    /// On a store, which chooses among translations by itself.
    OnStores(Run),
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({})", self.name)
    }
}

macro_rules! part {
    ($name:literal, $sides:ident, $module:ident :: $run:ident) => {
        Part {
            name: $name,
            sides: stringify!($sides),
            needs_graphs: false,
            work: Work::OnPools(instances!($sides, $module::$run)),
        }
    };
}

const fn of_stores(name: &'static str, sides: &'static str, run: Run) -> Part {
    Part { name, sides, needs_graphs: false, work: Work::OnStores(run) }
}

/// All parts, in the order in which they run.
pub(crate) static PARTS: [Part; 29] = [
    part!("scan", engines, scan::run),
    part!("heap", peers, heap::run),
    part!("graph", engines, graph::run),
    Part { needs_graphs: true, ..part!("files", peers, graph::run_files) },
    part!("lookup", steps, lookup::run),
    part!("multi", holds, multi::run),
    part!("multi-larger", holds_larger, multi::run_larger),
    part!("splits", copying, splits::run),
    part!("breakdown", broken_down, breakdown::run),
    part!("growing", evicting, growing::run),
    part!("skew", evicting, skew::run),
    part!("cooling", cooled, skew::run_cooling),
    part!("scans", scanned, scans::run),
    part!("placement", promoting, placement::run),
    part!("memory", evicting, memory::run),
    part!("memory-growing", evicting, memory_growing::run),
    of_stores("tpcc", "resident_tpcc", tpcc::run),
    of_stores("features", "features", tpcc::run),
    of_stores("scaling", "swizzle_alone", scaling::run),
    of_stores("tpcc-larger", "evicting", tpcc_larger::run),
    of_stores("tpcc-mixes", "tpcc_holds", tpcc::run_mixes),
    of_stores("tpcc-mixes-larger", "tpcc_holds_larger", tpcc_larger::run_mixes),
    of_stores("tpcc-growing", "designs_and_swap", tpcc_growing::run),
    of_stores("ramp-up", "designs", ramp_up::run),
    part!("tiers", tiered, tiers::run),
    part!("tier-policies", tiered, tiers::run_policies),
    part!("migration", tiered, migration::run),
    of_stores("tpcc-tiers", "designs", tiers::run_tpcc),
    of_stores("tpcc-tier-policies", "designs", tiers::run_tpcc_policies),
];

impl Part {
    /// The part of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Part> {
        PARTS.iter().find(|part| part.name == name)
    }

    /// All names, with commas between.
    pub(crate) fn names() -> String {
        PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ")
    }

    /// Its sides.
    pub(crate) fn sides(&self) -> &'static [Side] {
        side::list(self.sides)
    }

    /// Its side of this name.
    pub(crate) fn side(&self, name: &str) -> Option<Side> {
        self.sides().iter().find(|side| side.name == name).copied()
    }

    /// One side's run.
    pub(crate) fn run(&self, setup: &Setup<'_>) -> Result<Measured, BenchError> {
        let wanted = setup.side.translation;
        let run = match self.work {
            Work::OnPools(runs) => runs.iter().find(|run| run.0 == wanted).map(|(_, run)| *run),
            Work::OnStores(run) => Some(run),
        };
        match run {
            Some(run) => run(setup),
            None => Err(BenchError::Options(format!("{} has no run of {wanted:?}", self.name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, part) in PARTS.iter().enumerate() {
            assert!(PARTS[..i].iter().all(|other| other.name != part.name), "{part:?}");
            assert!(!part.sides().is_empty(), "{part:?}");
            for (k, side) in part.sides().iter().enumerate() {
                assert!(part.sides()[..k].iter().all(|other| other.name != side.name));
                assert_eq!(part.side(side.name), Some(*side));
            }
            assert!(Part::find(part.name).is_some());
        }
    }

    #[test]
    fn parts_run_on_the_translations_of_their_sides_and_on_no_others() {
        for part in &PARTS {
            let Work::OnPools(runs) = part.work else { continue };
            for side in part.sides() {
                let of_side = |run: &&(TranslationName, Run)| run.0 == side.translation;
                assert_eq!(runs.iter().filter(of_side).count(), 1, "{part:?}: {side:?}");
            }
            for (translation, _) in runs {
                let has_side = part.sides().iter().any(|side| side.translation == *translation);
                assert!(has_side, "{part:?} is compiled for {translation:?} in vain");
            }
        }
    }
}
