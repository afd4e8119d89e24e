//! The parts of the ladder: what each measures, and on which sides.

use polder_pool::Translation as _;

use super::measured::Measured;
use super::setup::Setup;
use super::side::{self, Side};
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

/// What a part does for one side.
type Run = fn(&Setup<'_>) -> Result<Measured, BenchError>;

/// One part.
#[derive(Debug)]
pub(crate) struct Part {
    /// What `--parts` calls it.
    pub(crate) name: &'static str,
    /// The list of its sides.
    sides: &'static str,
    /// By translation: those of its sides, each once. Without one where it works on a store, which
    /// chooses among translations by itself.
    runs: &'static [(Option<&'static str>, Run)],
}

/// A part on stores; or one on pools, for the translations of its sides and no others, since each takes
/// its time to compile: sections of the pool's list (`list.rs` there), and some by name.
macro_rules! part {
    ($name:literal, $sides:literal, $module:ident::$run:ident) => {
        Part { name: $name, sides: $sides, runs: &[(None, $module::$run)] }
    };
    ($name:literal, $sides:literal, $module:ident::$run:ident, $which:ident [$($more:ident)*]) => {
        Part {
            name: $name,
            sides: $sides,
            runs: polder_pool::translations!(runs($which $module $run [$($more)*])),
        }
    };
}

/// What a part does for each translation of some sections.
macro_rules! runs {
    (
        $which:ident $module:ident $run:ident [$($more:ident)*]
        evicting { $($(#[$e:meta])* $evicting:ident as $em:ident,)* }
        resident { $($(#[$r:meta])* $resident:ident as $rm:ident,)* }
        steps { $($(#[$s:meta])* $step:ident as $sm:ident,)* }
        $($rest:tt)*
    ) => {
        runs!(@ $which $module $run [$($more)*] [$($evicting)*] [$($resident)*] [$($step)*])
    };
    (@ evicting $m:ident $r:ident [$($t:ident)*] [$($e:ident)*] $resident:tt $steps:tt) => {
        runs!(= $m $r $($e)* $($t)*)
    };
    (@ peers $m:ident $r:ident [$($t:ident)*] [$($e:ident)*] [$($f:ident)*] $steps:tt) => {
        runs!(= $m $r $($e)* $($f)* $($t)*)
    };
    (@ all $m:ident $r:ident [$($t:ident)*] [$($e:ident)*] [$($f:ident)*] [$($s:ident)*]) => {
        runs!(= $m $r $($e)* $($f)* $($s)* $($t)*)
    };
    (@ only $m:ident $r:ident [$($t:ident)*] $evicting:tt $resident:tt $steps:tt) => {
        runs!(= $m $r $($t)*)
    };
    (= $module:ident $run:ident $($translation:ident)*) => {
        &[$((
            Some(polder_pool::$translation::NAME),
            $module::$run::<polder_pool::$translation> as Run,
        )),*]
    };
}

/// All parts, in the order in which they run.
pub(crate) static PARTS: &[Part] = &[
    part!("scan", "engines", scan::run, peers [ArrayPlain PredictiveHashed SimdPlain]),
    part!("heap", "peers", heap::run, peers []),
    part!("graph", "engines", graph::run, peers [ArrayPlain PredictiveHashed SimdPlain]),
    part!("files", "peers", graph::run_files, peers []),
    part!("lookup", "steps", lookup::run, all []),
    part!("multi", "holds", multi::run, only [Array Hash Simd SimdPlain]),
    part!("multi-larger", "holds_larger", multi::run_larger, only [Array Hash SimdPlain]),
    part!("splits", "copying", splits::run, only [Array Hash Simd]),
    part!("breakdown", "broken_down", breakdown::run, only [Array Hash Simd]),
    part!("growing", "evicting", growing::run, evicting []),
    part!("skew", "evicting", skew::run, evicting []),
    part!("cooling", "swizzle_alone", skew::run_cooling, only[Swizzle]),
    part!("scans", "scanned", scans::run, only [Array Hash Simd Swizzle Vm]),
    part!("placement", "promoting", placement::run, only [Array Predictive PredictiveHashed Simd]),
    part!("memory", "evicting", memory::run, evicting []),
    part!("memory-growing", "evicting", memory_growing::run, evicting []),
    part!("tpcc", "resident_tpcc", tpcc::run),
    part!("features", "features", tpcc::run),
    part!("scaling", "swizzle_alone", scaling::run),
    part!("tpcc-larger", "evicting", tpcc_larger::run),
    part!("tpcc-mixes", "tpcc_holds", tpcc::run_mixes),
    part!("tpcc-mixes-larger", "tpcc_holds_larger", tpcc_larger::run_mixes),
    part!("tpcc-growing", "designs_and_swap", tpcc_growing::run),
    part!("ramp-up", "designs", ramp_up::run),
    part!("tiers", "tiered", tiers::run, only [Array Hash Predictive Simd Swizzle Vm]),
    part!("tier-policies", "tiered", tiers::run_policies, only [
        Array Hash Predictive Simd Swizzle Vm
    ]),
    part!("migration", "tiered", migration::run, only [Array Hash Predictive Simd Swizzle Vm]),
    part!("tpcc-tiers", "designs", tiers::run_tpcc),
    part!("tpcc-tier-policies", "designs", tiers::run_tpcc_policies),
];

impl Part {
    /// The part of this name.
    pub(crate) fn find(name: &str) -> Result<&'static Part, String> {
        let found = PARTS.iter().find(|part| part.name == name);
        found.ok_or_else(|| format!("there is no part {name:?}; there are: {}", Part::names()))
    }

    /// All names, with commas between.
    pub(crate) fn names() -> String {
        PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ")
    }

    /// Whether it works on the files of `--graph`, without which there is nothing to do.
    pub(crate) fn needs_graphs(&self) -> bool {
        self.name == "files"
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
        let found = self.runs.iter().find(|(of, _)| of.is_none_or(|name| name == wanted));
        found.expect("a test finds the translation of each side").1(setup)
    }
}

#[cfg(test)]
mod tests {
    use polder::TranslationKind;

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
            assert_eq!(Part::find(part.name).unwrap().name, part.name);
        }
    }

    #[test]
    fn parts_run_on_the_translations_of_their_sides_and_on_no_others() {
        for part in PARTS {
            for side in part.sides() {
                let is_of_side = |(of, _): &&(Option<&str>, Run)| *of == Some(side.translation);
                match part.runs {
                    [(None, _)] => {
                        let of_stores = side.translation.parse::<TranslationKind>();
                        assert!(of_stores.is_ok(), "{part:?}: {side:?}");
                    }
                    runs => {
                        let count = runs.iter().filter(is_of_side).count();
                        assert_eq!(count, 1, "{part:?}: {side:?}");
                    }
                }
            }
            for name in part.runs.iter().filter_map(|run| run.0) {
                let has_side = part.sides().iter().any(|side| side.translation == name);
                assert!(has_side, "{part:?} is compiled for {name} in vain");
            }
        }
        assert!("simd-plain".parse::<TranslationKind>().is_err());
    }
}
