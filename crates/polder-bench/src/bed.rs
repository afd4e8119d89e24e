//! One engine with its data, on which rounds of a workload run.
//!
//! A workload that reads is prepared once: load, a full scan where everything should be resident
//! (so that no engine pays its first touches inside a round), a short run that is not counted.
//! A workload that loads has a new store each round; the old one is gone before the clock starts.
//! A round that writes ends, behind the clock, with everything on the device.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use polder::Store;

use crate::bench::Bench;
use crate::engine::{Engine, Named, Setup};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::phase::Phase;
use crate::plan::{LoadOrder, Plan};
use crate::progress::Tell;
use crate::report::{Cost, RunResult};
use crate::sorted::SortedKeys;
use crate::space::RecordSpace;
use crate::team::Outcome;
use crate::tpcc::{self, Run, Scale, Tables, Tally, TpccPlan};
use crate::usage::{self, Usage};

/// The number of the phase that warms up; rounds count from 0.
const WARMUP: u64 = u64::MAX >> 16;

/// An engine and what it is to do.
pub(crate) struct Bed<'a> {
    named: Named,
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    /// `None` between rounds that fill stores.
    engine: Option<Box<dyn Engine>>,
    /// Of TPC-C alone.
    tables: Option<Tables>,
    space: RecordSpace,
    rounds: u64,
}

impl<'a> Bed<'a> {
    /// Nothing happens yet.
    pub(crate) fn new(named: Named, plan: &'a Plan, interrupt: &'a Interrupt) -> Bed<'a> {
        let space = RecordSpace::new(plan.records, plan.threads);
        Bed { named, plan, interrupt, engine: None, tables: None, space, rounds: 0 }
    }

    /// Does everything that comes before the first round.
    pub(crate) fn prepare(&mut self, tell: Tell<'_>) -> Result<(), BenchError> {
        if self.plan.bench.fills() {
            if self.plan.bench == Bench::Bulk {
                tell("sorting keys");
                self.sorted_keys()?;
            }
            return Ok(());
        }
        tell("loading");
        self.engine = Some(self.create()?);
        if let Some(tpcc) = self.plan.tpcc {
            self.load_tpcc(tpcc, tell)?;
        } else if !self.named.kind.is_bare {
            match self.plan.load {
                LoadOrder::Sorted => self.bulk()?,
                LoadOrder::Random => self.phase(0, None)?.load()?,
            };
            tell("writing down what was loaded");
            self.settle()?;
            if self.plan.is_resident() {
                tell("touching everything");
                self.phase(WARMUP, None)?.scan(self.plan.records)?;
            }
        }
        tell("warming up");
        if self.plan.warmup_seconds > 0.0 {
            self.workload(WARMUP, self.plan.warmup_seconds)?;
            if self.plan.bench.writes() {
                self.settle()?;
            }
        }
        Ok(())
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
        let device_before = self.engine()?.device_stats();
        let usage_before = Usage::now();
        let (outcome, tally) = self.workload(round, self.plan.seconds)?;
        let usage = Usage::now();
        let device = match (device_before, self.engine()?.device_stats()) {
            (Some(before), Some(now)) => {
                (now.reads.saturating_sub(before.reads), now.writes.saturating_sub(before.writes))
            }
            _ => (
                usage.device_reads.saturating_sub(usage_before.device_reads),
                usage.device_writes.saturating_sub(usage_before.device_writes),
            ),
        };
        if self.plan.bench.writes() {
            tell("writing down what was written");
            self.settle()?;
        }
        let cost = Cost {
            cpu_s: usage.cpu_s - usage_before.cpu_s,
            device_reads: device.0,
            device_writes: device.1,
            written_bytes: Usage::now()
                .written_bytes
                .zip(usage_before.written_bytes)
                .map(|(now, before)| now.saturating_sub(before)),
            peak_rss_bytes: usage::peak_rss_bytes(),
        };
        let check_s = self.check(tell)?;
        let result = RunResult::new(self.plan, &outcome, tally.as_ref(), &cost, check_s);
        if self.plan.bench.fills() {
            tell("removing the store");
            self.engine = None;
            usage::return_free_memory();
            self.remove_store()?;
        }
        Ok(result)
    }

    fn load_tpcc(&mut self, tpcc: TpccPlan, tell: Tell<'_>) -> Result<(), BenchError> {
        let tables = Tables::open(self.store()?)?;
        let seed = self.plan.seed;
        tpcc::load(&tables, Scale::FULL, tpcc.warehouses, seed, self.interrupt, tell)?;
        self.tables = Some(tables);
        tell("writing down what was loaded");
        self.settle()
    }

    /// Looks at the consistency conditions of TPC-C, if that is wanted; gives how long it took.
    fn check(&self, tell: Tell<'_>) -> Result<Option<f64>, BenchError> {
        let (Some(tpcc), Some(tables)) = (self.plan.tpcc, &self.tables) else { return Ok(None) };
        if !tpcc.check {
            return Ok(None);
        }
        tell("looking at the consistency conditions");
        let started = Instant::now();
        match tpcc::check(tables, tpcc.warehouses, self.interrupt)? {
            wrong if wrong.is_empty() => Ok(Some(started.elapsed().as_secs_f64())),
            wrong => Err(BenchError::Inconsistent(wrong)),
        }
    }

    /// Has the engine bring everything to the device, so that no engine's writes go on in the turn
    /// of another, and all that a round has caused is counted in that round.
    fn settle(&self) -> Result<(), BenchError> {
        self.engine()?.settle().map_err(BenchError::engine(self.named.kind.name))
    }

    /// One phase of it; with what is counted of transactions, of TPC-C alone.
    fn workload(&self, number: u64, seconds: f64) -> Result<(Outcome, Option<Tally>), BenchError> {
        if let (Some(plan), Some(tables)) = (self.plan.tpcc, &self.tables) {
            let (outcome, tally) = self.transactions(plan, tables, number, seconds)?;
            return Ok((outcome, Some(tally)));
        }
        let timed = self.phase(number, Some(seconds))?;
        let outcome = match (self.plan.bench, self.plan.bench.mix(), self.plan.dist) {
            (Bench::Load, ..) => self.phase(number, None)?.load(),
            (Bench::Bulk, ..) => self.bulk(),
            (_, Some(mix), Some(dist)) => timed.mixed(mix, dist, &self.space),
            _ => timed.scan(self.plan.records),
        };
        Ok((outcome?, None))
    }

    fn transactions(
        &self,
        plan: TpccPlan,
        tables: &Tables,
        number: u64,
        seconds: f64,
    ) -> Result<(Outcome, Tally), BenchError> {
        let run = Run {
            store: self.store()?,
            tables,
            scale: Scale::FULL,
            plan,
            threads: self.plan.threads,
            seed: self.plan.seed,
            counters: self.plan.counters,
            interrupt: self.interrupt,
            number,
            seconds,
            interval: tpcc::interval(seconds),
            until: None,
            many: self.named.many() > 1,
        };
        run.run()
    }

    fn phase(&self, number: u64, seconds: Option<f64>) -> Result<Phase<'_>, BenchError> {
        Ok(Phase {
            name: self.named.kind.name,
            engine: self.engine()?,
            plan: self.plan,
            interrupt: self.interrupt,
            number,
            seconds,
            many: self.named.many(),
            lends: self.named.lends(),
        })
    }

    fn engine(&self) -> Result<&dyn Engine, BenchError> {
        let none = || BenchError::Options("the engine was not prepared".to_owned());
        self.engine.as_deref().ok_or_else(none)
    }

    fn store(&self) -> Result<&Store, BenchError> {
        let none = || BenchError::Options(format!("{} is not Polder", self.named));
        self.engine()?.polder().ok_or_else(none)
    }

    /// Loads all records in key order, in one thread.
    fn bulk(&self) -> Result<Outcome, BenchError> {
        let mut entries = self.sorted_keys()?.records(self.plan.value_size, self.interrupt)?;
        let started = Instant::now();
        let loaded = self.engine()?.bulk_load(&mut entries);
        let seconds = started.elapsed().as_secs_f64();
        // What stopped the input explains an error of the engine, so it comes first.
        self.interrupt.check()?;
        loaded.map_err(BenchError::engine(self.named.kind.name))?;
        entries.finish()?;
        Ok(Outcome {
            seconds,
            ops: self.plan.records,
            written: self.plan.records,
            latencies: crate::meter::new_histogram(),
            counts: None,
        })
    }

    fn sorted_keys(&self) -> Result<SortedKeys, BenchError> {
        SortedKeys::prepare(&self.plan.dir.join("sorted-keys"), self.plan.records, self.interrupt)
    }

    fn store_dir(&self) -> PathBuf {
        self.plan.dir.join(self.named.to_string().replace(':', "-"))
    }

    fn create(&self) -> Result<Box<dyn Engine>, BenchError> {
        let dir = self.store_dir();
        fs::create_dir(&dir).map_err(BenchError::file(&dir))?;
        let setup = Setup {
            engine: self.named.kind.name,
            dir: &dir,
            cache_bytes: self.plan.pool_bytes,
            prefault: self.plan.prefault,
            records: self.plan.records,
            value_size: self.plan.value_size,
            data_bytes: self.plan.data_bytes(),
            device_bytes: self.plan.device_bytes,
            durability: self.plan.durability,
            log_limit_bytes: self.plan.log_limit_bytes,
            replacement: self.named.replacement(),
            hold: self.named.hold(),
            memory: self.named.memory(),
            threads: self.plan.threads,
        };
        (self.named.kind.create)(&setup).map_err(BenchError::engine(self.named.kind.name))
    }

    fn remove_store(&self) -> Result<(), BenchError> {
        let dir = self.store_dir();
        fs::remove_dir_all(&dir).map_err(BenchError::file(&dir))
    }
}
