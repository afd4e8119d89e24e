//! Phases on a small engine that can be told to lie: every lie must be noticed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::engine::{ChangeValue, EngineError, ReadMany, Visit, VisitMany};
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
    /// Most lookups, writes and scans that were made by one call.
    most: [AtomicUsize; 3],
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

    fn get_many(&mut self, keys: &[Key], read: &mut ReadMany<'_>) -> Result<(), EngineError> {
        self.most[0].fetch_max(keys.len(), Ordering::Relaxed);
        let mut value = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            let is_there = self.get(key, &mut value)?;
            read(i, is_there.then_some(&value[..]));
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        self.most[1].fetch_max(entries.len(), Ordering::Relaxed);
        entries.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn scan_many(&mut self, starts: &[Key], visit: &mut VisitMany<'_>) -> Result<(), EngineError> {
        self.most[2].fetch_max(starts.len(), Ordering::Relaxed);
        starts
            .iter()
            .enumerate()
            .try_for_each(|(i, start)| self.scan(start, &mut |key, value| visit(i, key, value)))
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

/// Does `work` with an engine of this name that lies from the beginning on. Gives as well how many lookups,
/// writes and scans it was given by one call at most.
fn with_liar<T>(
    name: &str,
    lie: Lie,
    plan: &Plan,
    interrupt: &Interrupt,
    work: impl Fn(&Phase<'_>) -> T,
) -> (T, [usize; 3]) {
    let liar = Liar { lie, map: Mutex::default(), most: Default::default() };
    let named = Named::find(&crate::engine::built_in(), name).unwrap();
    let seconds = Some(plan.seconds);
    let done = work(&Phase { named: &named, engine: &liar, plan, interrupt, number: 0, seconds });
    (done, liar.most.map(AtomicUsize::into_inner))
}

fn run(bench: Bench, lie: Lie, threads: usize) -> Result<Outcome, BenchError> {
    run_plan(plan(bench, threads), lie)
}

fn run_plan(plan: Plan, lie: Lie) -> Result<Outcome, BenchError> {
    run_as("device", plan, lie).0
}

fn run_as(name: &str, plan: Plan, lie: Lie) -> (Result<Outcome, BenchError>, [usize; 3]) {
    let (bench, threads) = (plan.bench, plan.conditions.threads);
    // Records get in one by one.
    let one = Named::find(&crate::engine::built_in(), "device").unwrap();
    with_liar(name, lie, &plan, &Interrupt::silent(), |phase| {
        let whole = Phase { seconds: None, named: &one, ..*phase };
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
fn operations_that_go_by_one_call_are_looked_at_as_closely() {
    const MANY: &str = "polder:array+many:7";
    let calls = [(Bench::Lookup, [7, 0, 0]), (Bench::YcsbA, [7, 7, 0]), (Bench::YcsbE, [0, 0, 7])];
    for (bench, expected) in calls {
        let (outcome, most) = run_as(MANY, plan(bench, 2), Lie::None);
        assert!(outcome.unwrap().ops > 0, "{bench:?}");
        assert_eq!(most, expected, "{bench:?}");
        for lie in [Lie::Forgets, Lie::Garbles, Lie::Shortens, Lie::Fails] {
            assert!(run_as(MANY, plan(bench, 2), lie).0.is_err(), "{bench:?} does not see {lie:?}");
        }
    }
    for (name, expected) in [("polder:array", 0), (MANY, 7)] {
        let plan = plan(Bench::Load, 1);
        let (ops, most) = with_liar(name, Lie::None, &plan, &Interrupt::silent(), |phase| {
            Phase { seconds: None, ..*phase }.load().unwrap().ops
        });
        assert_eq!((ops, most), (RECORDS, [0, expected, 0]), "{name}");
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
    let plan = plan(Bench::Load, 2);
    let (loaded, _) = with_liar("device", Lie::None, &plan, &interrupt, |phase| phase.load());
    assert!(matches!(loaded, Err(BenchError::Interrupted)));
}
