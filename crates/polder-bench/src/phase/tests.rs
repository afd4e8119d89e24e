//! Phases on a small engine that can be told to lie: every lie must be noticed.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::engine::{ChangeValue, EngineError, Visit};
use crate::records::Key;
use crate::sorted::SortedRecords;

const RECORDS: u64 = 2000;
const VALUE_SIZE: usize = 40;

/// What is wrong with the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    None,
    /// Some writes are forgotten.
    Forgets,
    /// Values come back with a byte changed.
    Garbles,
    /// Values come back shorter than they were.
    Shortens,
    /// Scans repeat an entry.
    Repeats,
    /// Scans begin behind the entry that they should begin with.
    Skips,
    /// Every call fails.
    Fails,
}

struct Liar {
    lie: Lie,
    map: Mutex<BTreeMap<Key, Vec<u8>>>,
}

impl Liar {
    fn told(&self, value: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        match self.lie {
            Lie::Garbles => value[20] ^= 1,
            Lie::Shortens => value.truncate(VALUE_SIZE - 1),
            _ => {}
        }
        value
    }

    fn fail(&self) -> Result<(), EngineError> {
        if self.lie == Lie::Fails { Err("as told".into()) } else { Ok(()) }
    }
}

impl Engine for Liar {
    fn session(&self, _: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(Box::new(self))
    }

    fn bulk_load(&self, _: &mut SortedRecords) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Session for &Liar {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.fail()?;
        let found = self.map.lock().unwrap().get(key).map(|value| self.told(value));
        Ok(found.map(|found| *value = found).is_some())
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.fail()?;
        if self.lie != Lie::Forgets || key[7] > 8 {
            self.map.lock().unwrap().insert(*key, value.to_vec());
        }
        Ok(())
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        entries.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        self.fail()?;
        let mut map = self.map.lock().unwrap();
        let Some(value) = map.get_mut(key) else { return Ok(false) };
        let mut changed = self.told(value);
        change(&mut changed);
        *value = changed;
        Ok(true)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.fail()?;
        let map = self.map.lock().unwrap();
        let skipped = usize::from(self.lie == Lie::Skips);
        let twice = if self.lie == Lie::Repeats { 2 } else { 1 };
        for (key, value) in map.range(*start..).skip(skipped) {
            for _ in 0..twice {
                if !visit(key, &self.told(value)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn plan(bench: Bench, threads: usize) -> Plan {
    let usual = Plan::usual();
    let (records, value_size) = (RECORDS, VALUE_SIZE);
    let conditions = Conditions { threads, records, value_size, ..usual.conditions };
    Plan { bench, conditions, seconds: 0.02, ..usual }
}

/// Does `work` with an engine that lies from the beginning on.
fn with_liar<T>(lie: Lie, plan: &Plan, interrupt: &Interrupt, work: impl Fn(&Phase<'_>) -> T) -> T {
    let liar = Liar { lie, map: Mutex::default() };
    let named = Named::find(&crate::engine::built_in(), "device").unwrap();
    let seconds = Some(plan.seconds);
    work(&Phase { named: &named, engine: &liar, plan, interrupt, number: 0, seconds })
}

fn run(bench: Bench, lie: Lie, threads: usize) -> Result<Outcome, BenchError> {
    run_plan(plan(bench, threads), lie)
}

fn run_plan(plan: Plan, lie: Lie) -> Result<Outcome, BenchError> {
    let (bench, threads) = (plan.bench, plan.conditions.threads);
    with_liar(lie, &plan, &Interrupt::silent(), |phase| {
        let whole = Phase { seconds: None, ..*phase };
        assert_eq!(whole.load()?.ops, RECORDS);
        match (bench.mix(), bench.dist()) {
            (Some(mix), Some(dist)) => phase.mixed(mix, dist, &RecordSpace::new(RECORDS, threads)),
            _ => whole.scan(RECORDS),
        }
    })
}

/// All workloads that need records to be there.
const USERS: [Bench; 9] = [
    Bench::Scan,
    Bench::Lookup,
    Bench::YcsbA,
    Bench::YcsbB,
    Bench::YcsbC,
    Bench::YcsbD,
    Bench::YcsbE,
    Bench::YcsbF,
    Bench::Commit,
];

#[test]
fn an_honest_engine_passes_every_workload() {
    for threads in [1, 3] {
        for bench in USERS {
            let outcome = run(bench, Lie::None, threads).unwrap();
            assert!(outcome.ops > 0 && outcome.seconds > 0.0, "{bench:?}");
            assert_eq!(outcome.latencies.is_empty(), bench == Bench::Scan);
        }
    }
}

#[test]
fn every_lie_is_noticed_in_every_workload_that_can_see_it() {
    for bench in USERS {
        let sees = |lie| match bench {
            Bench::Scan | Bench::YcsbE => lie != Lie::None,
            Bench::Commit => lie == Lie::Fails,
            _ => !matches!(lie, Lie::None | Lie::Repeats | Lie::Skips),
        };
        let lies =
            [Lie::Forgets, Lie::Garbles, Lie::Shortens, Lie::Repeats, Lie::Skips, Lie::Fails];
        for lie in lies.into_iter().filter(|&lie| sees(lie)) {
            assert!(run(bench, lie, 2).is_err(), "{bench:?} does not see {lie:?}");
        }
    }
}

#[test]
fn a_scan_without_a_limit_counts_every_entry_once() {
    for threads in [1, 2, 5] {
        assert_eq!(run(Bench::Scan, Lie::None, threads).unwrap().ops, RECORDS);
    }
}

#[test]
fn a_commit_writes_its_batch_and_is_one_call() {
    let of_batch = |batch: u64| {
        let mut commit = plan(Bench::Commit, 2);
        commit.conditions.batch = batch;
        commit
    };
    let single = run_plan(of_batch(1), Lie::None).unwrap();
    assert_eq!((single.ops, single.written), (single.latencies.len(), single.latencies.len()));
    let batches = run_plan(of_batch(7), Lie::None).unwrap();
    assert_eq!(batches.ops, 7 * batches.latencies.len());
    assert_eq!(batches.written, batches.ops);
    assert!(run_plan(of_batch(7), Lie::Fails).is_err());
}

#[test]
fn written_records_are_counted_in_every_mix() {
    for (bench, least, most) in [
        (Bench::Lookup, 0.0, 0.0),
        (Bench::YcsbA, 0.3, 0.7),
        (Bench::YcsbD, 0.0, 0.2),
        (Bench::YcsbF, 0.3, 0.7),
        (Bench::Commit, 1.0, 1.0),
    ] {
        let outcome = run(bench, Lie::None, 2).unwrap();
        let share = outcome.written as f64 / outcome.ops as f64;
        assert!((least..=most).contains(&share), "{bench:?}: {share}");
    }
}

#[test]
fn a_rate_is_that_of_all_threads_and_of_single_records() {
    let mut plan = Plan { seconds: 0.1, ..plan(Bench::Commit, 2) };
    (plan.conditions.rate_per_s, plan.conditions.batch) = (Some(10_000), 10);
    let outcome = run_plan(plan, Lie::None).unwrap();
    // 100 commits were due.
    assert_eq!(outcome.latencies.len(), 100);
    assert!(outcome.ops <= 1000 && outcome.seconds >= 0.1);
}

#[test]
fn an_interrupt_ends_a_phase() {
    let interrupt = Interrupt::silent();
    interrupt.set();
    let loaded = with_liar(Lie::None, &plan(Bench::Load, 2), &interrupt, |phase| phase.load());
    assert!(matches!(loaded, Err(BenchError::Interrupted)));
}
