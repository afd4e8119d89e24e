//! One engine with its data, on which rounds of a workload run.
//!
//! A workload that reads is prepared once: load, a full scan where everything should be resident
//! (so that no engine pays its first touches inside a round), a short run that is not counted.
//! A workload that loads has a new store each round; the old one is gone before the clock starts.
//! A round that writes ends, behind the clock, with everything on the device.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use polder::Store;

use crate::bench::Bench;
use crate::counters::Counts;
use crate::engine::{Engine, EngineError, Named, Setup};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter;
use crate::phase::Phase;
use crate::plan::{LoadOrder, Plan};
use crate::progress::Tell;
use crate::report::RunResult;
use crate::sorted::SortedKeys;
use crate::space::RecordSpace;
use crate::team::Outcome;
use crate::tpcc::{self, Run, Scale, Tables, Tally};
use crate::usage::{Usage, return_free_memory};

/// The number of the phase that warms up; rounds count from 0.
const WARMUP: u64 = u64::MAX >> 16;

/// An engine and what it is to do.
pub(crate) struct Bed<'a> {
    named: Named,
    plan: &'a Plan,
    /// Where stores are made; may be shared with other engines.
    dir: &'a Path,
    interrupt: &'a Interrupt,
    /// `None` between rounds that fill stores.
    engine: Option<Box<dyn Engine>>,
    /// Of TPC-C alone.
    tables: Option<Tables>,
    space: RecordSpace,
    rounds: u64,
}

impl<'a> Bed<'a> {
    /// An engine with everything that comes before the first round.
    pub(crate) fn prepare(
        named: Named,
        plan: &'a Plan,
        dir: &'a Path,
        interrupt: &'a Interrupt,
        tell: Tell<'_>,
    ) -> Result<Bed<'a>, BenchError> {
        let space = RecordSpace::new(plan.conditions.records, plan.conditions.threads);
        let (engine, tables, rounds) = (None, None, 0);
        let mut bed = Bed { named, plan, dir, interrupt, engine, tables, space, rounds };
        if plan.bench == Bench::Bulk {
            tell("sorting keys");
            bed.sorted_keys()?;
        }
        if plan.bench.fills() {
            return Ok(bed);
        }
        tell("loading");
        bed.engine = Some(bed.create()?);
        if plan.bench == Bench::Tpcc {
            let tables = Tables::open(bed.store())?;
            let warehouses = plan.tpcc.warehouses;
            tpcc::load(&tables, Scale::FULL, warehouses, plan.seed, interrupt, tell)?;
            bed.tables = Some(tables);
            bed.settle(tell)?;
        } else if !bed.named.kind.is_bare {
            match plan.load {
                LoadOrder::Sorted => bed.bulk()?,
                LoadOrder::Random => bed.phase(0, None).load()?,
            };
            bed.settle(tell)?;
            if plan.conditions.is_resident() {
                tell("touching everything");
                bed.phase(WARMUP, None).scan(plan.conditions.records)?;
            }
        }
        tell("warming up");
        if plan.warmup > 0.0 {
            bed.workload(WARMUP, plan.warmup)?;
            if plan.bench.writes() {
                bed.settle(tell)?;
            }
        }
        Ok(bed)
    }

    /// Runs one round.
    pub(crate) fn round(&mut self, tell: Tell<'_>) -> Result<RunResult, BenchError> {
        let round = self.rounds;
        self.rounds += 1;
        if self.plan.bench.fills() {
            tell("making an empty store");
            self.engine = Some(self.create()?);
        }
        tell("measuring");
        let before = Usage::now(self.engine().device_stats());
        let (outcome, tally) = self.workload(round, self.plan.seconds)?;
        let mut used = Usage::now(self.engine().device_stats()).since(before);
        if self.plan.bench.writes() {
            self.settle(tell)?;
        }
        // What the round has caused is written by now.
        used.written_bytes = Usage::now(None).since(before).written_bytes;
        let check_s = self.check(tell)?;
        let result = RunResult::new(self.plan, &outcome, tally.as_ref(), used, check_s);
        if self.plan.bench.fills() {
            tell("removing the store");
            self.engine = None;
            return_free_memory();
            let dir = self.store_dir();
            fs::remove_dir_all(&dir).map_err(BenchError::file(&dir))?;
        }
        Ok(result)
    }

    /// Looks at the consistency conditions of TPC-C, if that is wanted; gives how long it took.
    fn check(&self, tell: Tell<'_>) -> Result<Option<f64>, BenchError> {
        let Some(tables) = self.tables.as_ref().filter(|_| self.plan.tpcc.check) else {
            return Ok(None);
        };
        tell("looking at the consistency conditions");
        let started = Instant::now();
        match tpcc::check(tables, self.plan.tpcc.warehouses, self.interrupt)? {
            wrong if wrong.is_empty() => Ok(Some(started.elapsed().as_secs_f64())),
            wrong => Err(BenchError::Inconsistent(wrong)),
        }
    }

    /// Has the engine bring everything to the device, so that no engine's writes go on in the turn
    /// of another, and all that a round has caused is counted in that round.
    fn settle(&self, tell: Tell<'_>) -> Result<(), BenchError> {
        tell("writing down what was written");
        self.engine().settle().map_err(|error| self.failed(error))
    }

    /// One phase of it; with what is counted of transactions, of TPC-C alone.
    fn workload(&self, number: u64, seconds: f64) -> Result<(Outcome, Option<Tally>), BenchError> {
        if let Some(tables) = &self.tables {
            let run = Run {
                store: self.store(),
                tables,
                scale: Scale::FULL,
                plan: self.plan.tpcc,
                team: self.plan.team(self.interrupt),
                seed: self.plan.seed,
                number,
                seconds,
                interval: tpcc::interval(seconds),
                until: None,
                many: self.named.many() > 1,
                tasks: self.named.tasks(),
            };
            return run.run().map(|(outcome, tally)| (outcome, Some(tally)));
        }
        let Plan { bench, ref conditions, .. } = *self.plan;
        let timed = self.phase(number, Some(seconds));
        let outcome = match (bench, bench.mix(), conditions.dist) {
            (Bench::Load, ..) => self.phase(number, None).load(),
            (Bench::Bulk, ..) => self.bulk(),
            (_, Some(mix), Some(dist)) => timed.mixed(mix, dist, &self.space),
            _ => timed.scan(conditions.records),
        };
        Ok((outcome?, None))
    }

    fn phase(&self, number: u64, seconds: Option<f64>) -> Phase<'_> {
        let Bed { named, plan, interrupt, .. } = self;
        Phase { named, engine: self.engine(), plan, interrupt, number, seconds }
    }

    fn engine(&self) -> &dyn Engine {
        self.engine.as_deref().expect("a store is made before anything is done with it")
    }

    fn store(&self) -> &Store {
        self.engine().polder().expect("TPC-C is refused to engines that are not Polder")
    }

    fn failed(&self, error: EngineError) -> BenchError {
        BenchError::engine(self.named.kind.name)(error)
    }

    /// Loads all records in key order, in one thread.
    fn bulk(&self) -> Result<Outcome, BenchError> {
        let conditions = &self.plan.conditions;
        let mut entries = self.sorted_keys()?.records(conditions.value_size, self.interrupt)?;
        let started = Instant::now();
        let loaded = self.engine().bulk_load(&mut entries);
        let seconds = started.elapsed().as_secs_f64();
        // What stopped the input explains an error of the engine, so it comes first.
        self.interrupt.check()?;
        loaded.map_err(|error| self.failed(error))?;
        entries.finish()?;
        let (ops, latencies) = (conditions.records, meter::new_histogram());
        Ok(Outcome { seconds, ops, written: ops, latencies, counts: Counts::new() })
    }

    fn sorted_keys(&self) -> Result<SortedKeys, BenchError> {
        let records = self.plan.conditions.records;
        SortedKeys::prepare(&self.dir.join("sorted-keys"), records, self.interrupt)
    }

    fn store_dir(&self) -> PathBuf {
        self.dir.join(self.named.to_string().replace(':', "-"))
    }

    fn create(&self) -> Result<Box<dyn Engine>, BenchError> {
        let dir = self.store_dir();
        fs::create_dir(&dir).map_err(BenchError::file(&dir))?;
        let Plan { bench, conditions, .. } = self.plan;
        let setup = Setup { named: &self.named, dir: &dir, bench: *bench, conditions };
        (self.named.kind.create)(&setup).map_err(|error| self.failed(error))
    }
}
