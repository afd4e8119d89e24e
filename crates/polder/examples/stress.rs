//! A store under stress, against a model.
//!
//! Round after round a store of the least budget is opened with options that are drawn:
//! translation, replacement, hold, page size, number of threads. Each thread has keys of its own,
//! and knows what they must hold; it also reads the keys of others, and counts up counters that
//! all of them share. Beside them the store is checkpointed and shrunk, and tables are loaded,
//! read and dropped. Behind each round the store is checked, closed, opened again and compared
//! with what the threads know.
//!
//! ```text
//! cargo run --release -p polder --example stress -- [SECONDS] [SEED]
//! ```
//!
//! It ends with an error when a round fails, and names its options; a seed draws the same options
//! again. Two seconds unless told otherwise.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use polder::{
    BatchError, Change, Durability, OpenError, Options, OptionsError, ReadMode, ReplacementKind,
    Store, StoreError, Table, TranslationKind, WriteBatch,
};
use polder_testkit::Random;

/// How long the threads of a round are at work.
const ROUND: Duration = Duration::from_millis(1500);
/// No operation may take longer.
const SLOWEST: Duration = Duration::from_secs(3);
/// An operation that takes this long will not end.
const STUCK: Duration = Duration::from_secs(30);
const KEYS_A_THREAD: u64 = 400;
const COUNTERS: u64 = 20;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let dir = tempfile::tempdir_in(".")?;
    let (begun, mut random) = (Instant::now(), Random::new(seed));
    let (mut rounds, mut total) = (0, Tally::default());
    while rounds == 0 || begun.elapsed().as_secs_f64() < seconds {
        let setup = Setup::draw(&mut random);
        let store = dir.path().join("store");
        let ran = setup.run(&store).map_err(|error| format!("{setup:?}: {error}"))?;
        // Not every translation goes with every read mode, or is built.
        let Some(tally) = ran else { continue };
        std::fs::remove_dir_all(&store)?;
        rounds += 1;
        total.add(&tally);
        println!(
            "{:7.1} s  {:>14} {:>14} {:>10} {:>6} B {:>2} threads: {:>7} operations, slowest {:?}{}",
            begun.elapsed().as_secs_f64(),
            setup.translation.name(),
            setup.replacement.to_string(),
            setup.hold.name(),
            setup.page_size,
            setup.threads,
            tally.operations,
            tally.slowest,
            if tally.exhausted > 0 {
                format!(", {} exhausted", tally.exhausted)
            } else {
                String::new()
            },
        );
    }
    println!(
        "{rounds} rounds, {} operations, slowest {:?}, {} exhausted: all is as the model says",
        total.operations, total.slowest, total.exhausted
    );
    Ok(())
}

/// What a round has seen.
#[derive(Debug, Default)]
struct Tally {
    operations: u64,
    exhausted: u64,
    slowest: Duration,
    /// What is under way, for others to see.
    now: Arc<UnderWay>,
}

/// An operation, and since when.
type UnderWay = Mutex<Option<(&'static str, Instant)>>;

/// An operation that does not end.
fn stuck(all: &[Arc<UnderWay>]) -> Option<String> {
    let look = |slot: &Arc<UnderWay>| *slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let stuck = all.iter().filter_map(look).find(|(_, since)| since.elapsed() > STUCK);
    stuck.map(|(what, since)| format!("{what} has not ended for {:?}", since.elapsed()))
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.exhausted += other.exhausted;
        self.slowest = self.slowest.max(other.slowest);
    }

    /// Times an operation. `None`: it found no frame, where that is excused.
    fn time<R, E: Into<BatchError>>(
        &mut self,
        what: &'static str,
        may_exhaust: bool,
        operation: impl FnOnce() -> Result<R, E>,
    ) -> Result<Option<R>, Failure> {
        let note = |now| *self.now.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = now;
        let begun = Instant::now();
        note(Some((what, begun)));
        let result = operation();
        note(None);
        let took = begun.elapsed();
        self.operations += 1;
        self.slowest = self.slowest.max(took);
        if took > SLOWEST {
            return Err(format!("{what} took {took:?}").into());
        }
        match result.map_err(Into::into) {
            Ok(result) => Ok(Some(result)),
            Err(BatchError::Store(StoreError::PoolExhausted { .. })) if may_exhaust => {
                self.exhausted += 1;
                Ok(None)
            }
            Err(error) => Err(format!("{what}: {error} ({error:?})").into()),
        }
    }
}

#[derive(Debug)]
struct Setup {
    translation: TranslationKind,
    replacement: ReplacementKind,
    hold: ReadMode,
    page_size: u32,
    threads: u64,
    seed: u64,
}

impl Setup {
    fn draw(random: &mut Random) -> Setup {
        Setup {
            translation: TranslationKind::ALL[random.index(TranslationKind::ALL.len())],
            replacement: ReplacementKind::ALL[random.index(ReplacementKind::ALL.len())],
            hold: ReadMode::ALL[random.index(ReadMode::ALL.len())],
            page_size: if random.chance(0.2) { 65536 } else { 4096 },
            threads: 8 + random.below(41),
            seed: random.next_u64(),
        }
    }

    fn evicts(&self) -> bool {
        self.translation.evicts()
    }

    fn options(&self, path: &std::path::Path) -> Options {
        let budget = match self.evicts() {
            true => Options::least_memory_budget(self.page_size),
            // All data must fit.
            false => 256 << 20,
        };
        Options::new(path)
            .memory_budget(budget)
            .page_size(self.page_size)
            .translation(self.translation)
            .replacement(self.replacement)
            .read_mode(self.hold)
            .log_limit(8 << 20)
            .durability(Durability::None)
    }

    fn run(&self, path: &std::path::Path) -> Result<Option<Tally>, Failure> {
        let options = self.options(path);
        let store = match Store::open(options.clone()) {
            Err(OpenError::Options(OptionsError::ReadMode { .. })) => return Ok(None),
            store => store?,
        };
        let (own, pairs) = (store.create_table("own")?, store.create_table("pairs")?);
        let counters = store.create_table("counters")?;
        let stop = AtomicBool::new(false);
        let added: Vec<AtomicU64> = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
        let mut workers: Vec<Worker<'_>> = (0..self.threads)
            .map(|thread| Worker {
                setup: self,
                thread,
                store: &store,
                own: &own,
                pairs: &pairs,
                counters: &counters,
                added: &added,
                random: Random::new(self.seed ^ thread),
                model: BTreeMap::new(),
                paired: BTreeMap::new(),
                tally: Tally::default(),
            })
            .collect();
        let beside_tally = Tally::default();
        let mut under_way: Vec<_> =
            workers.iter().map(|worker| Arc::clone(&worker.tally.now)).collect();
        under_way.push(Arc::clone(&beside_tally.now));
        let tally = thread::scope(|scope| {
            let (store, stop) = (&store, &stop);
            let beside = scope.spawn(move || {
                let worked = self.work_beside(store, stop, beside_tally);
                if worked.is_err() {
                    stop.store(true, Relaxed);
                }
                worked
            });
            let threads: Vec<_> = workers
                .iter_mut()
                .map(|worker| {
                    scope.spawn(move || {
                        let worked = worker.work(stop);
                        if worked.is_err() {
                            stop.store(true, Relaxed);
                        }
                        worked
                    })
                })
                .collect();
            let begun = Instant::now();
            while !threads.iter().all(|thread| thread.is_finished()) || !beside.is_finished() {
                thread::sleep(Duration::from_millis(10));
                if begun.elapsed() > ROUND {
                    stop.store(true, Relaxed);
                }
                if let Some(what) = stuck(&under_way) {
                    // Its thread cannot be waited for.
                    eprintln!("error: {self:?}: {what}");
                    std::process::abort();
                }
            }
            let mut failed = Vec::new();
            for thread in threads {
                failed.extend(joined(thread.join()).err());
            }
            match (joined(beside.join()), failed.pop()) {
                (_, Some(error)) | (Err(error), None) => Err(error),
                (Ok(tally), None) => Ok(tally),
            }
        });
        let mut tally = tally?;
        workers.iter().for_each(|worker| tally.add(&worker.tally));
        let known: Vec<_> = workers
            .into_iter()
            .map(|worker| (worker.thread, worker.model, worker.paired))
            .collect();
        let added: Vec<u64> = added.into_iter().map(AtomicU64::into_inner).collect();
        let compare = |store: &Store| -> Result<(), Failure> {
            let report = store.check(&mut |_, _| true)?;
            if !report.faults.is_empty() {
                return Err(format!("the check has found {:?}", report.faults).into());
            }
            compare(store, &known, &added)
        };
        compare(&store)?;
        drop((own, pairs, counters));
        store.close()?;
        let store = Store::open(options)?;
        compare(&store)?;
        store.close()?;
        Ok(Some(tally))
    }

    /// Checkpoints, shrinks, and loads and drops tables, until the others stop.
    fn work_beside(
        &self,
        store: &Store,
        stop: &AtomicBool,
        mut tally: Tally,
    ) -> Result<Tally, Failure> {
        let mut random = Random::new(!self.seed);
        while !stop.load(Relaxed) {
            match random.below(4) {
                0 => _ = tally.time("checkpoint", true, || store.checkpoint())?,
                // It moves what it can, and says how much; it may take as long as it has to.
                1 => match store.shrink() {
                    Ok(_) | Err(StoreError::PoolExhausted { .. }) => {}
                    Err(error) => return Err(format!("shrink: {error} ({error:?})").into()),
                },
                _ => self.load_and_drop(store, &mut tally, &mut random)?,
            }
        }
        Ok(tally)
    }

    fn load_and_drop(
        &self,
        store: &Store,
        tally: &mut Tally,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let name = format!("of a moment {}", random.below(3));
        let Some(table) = tally.time("create", true, || store.create_table(&name))? else {
            return Ok(());
        };
        let entries = random.below(3000);
        let value = |i: u64| [i as u8; 100];
        let loaded = tally.time("load", true, || {
            table.bulk_load((0..entries).map(|i| (i.to_be_bytes(), value(i))))
        })?;
        if let Some(loaded) = loaded {
            for _ in 0..20 {
                let i = random.below(entries + 10);
                let found = tally.time("get", true, || table.get(i.to_be_bytes()))?;
                if let Some(found) = found
                    && found != (i < loaded).then(|| value(i).to_vec())
                {
                    return Err(format!("{name}: {i} is {found:?}, of {loaded}").into());
                }
            }
        }
        while tally.time("drop", true, || store.drop_table(&name))?.is_none() {}
        Ok(())
    }
}

fn joined<R>(result: thread::Result<Result<R, Failure>>) -> Result<R, Failure> {
    result.unwrap_or_else(|_| Err("a thread has panicked".into()))
}

/// A thread, and what it knows of its keys.
struct Worker<'s> {
    setup: &'s Setup,
    thread: u64,
    store: &'s Store,
    own: &'s Table,
    pairs: &'s Table,
    counters: &'s Table,
    added: &'s [AtomicU64],
    random: Random,
    model: BTreeMap<u64, Vec<u8>>,
    /// In `pairs`, each number stands under two keys, which are written by one batch.
    paired: BTreeMap<u64, Vec<u8>>,
    tally: Tally,
}

/// Keys of all threads are mixed in the tree.
fn key(thread: u64, number: u64) -> Vec<u8> {
    let mut key = polder_testkit::random::scramble(number).to_be_bytes()[..4].to_vec();
    key.extend(thread.to_be_bytes());
    key.extend(number.to_be_bytes());
    key
}

/// A value says whose it is.
fn value(random: &mut Random, thread: u64, number: u64) -> Vec<u8> {
    let long = if random.chance(0.01) { 20_000 } else { 200 };
    let mut value = vec![thread as u8, number as u8];
    value.resize(2 + random.index(long), random.next_u64() as u8);
    value
}

fn check_value(value: &[u8], thread: u64, number: u64) -> Result<(), Failure> {
    match value.starts_with(&[thread as u8, number as u8]) {
        true => Ok(()),
        false => Err(format!("a value of thread {thread}, key {number} is {value:?}").into()),
    }
}

impl Worker<'_> {
    fn work(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        while !stop.load(Relaxed) {
            let number = self.random.below(KEYS_A_THREAD);
            match self.random.below(20) {
                0..6 => self.insert(number)?,
                6..8 => self.remove(number)?,
                8..12 => self.get(number)?,
                12..14 => self.get_of_another(number)?,
                14 => self.range(number)?,
                15..17 => self.count()?,
                17 => self.update(number)?,
                _ => self.batch(number)?,
            }
        }
        Ok(())
    }

    /// Whether it may find no frame: where more threads than frames work.
    fn may_exhaust(&self) -> bool {
        self.setup.evicts() && self.setup.threads >= 24
    }

    fn time<R, E: Into<BatchError>>(
        &mut self,
        what: &'static str,
        operation: impl FnOnce() -> Result<R, E>,
    ) -> Result<Option<R>, Failure> {
        let may_exhaust = self.may_exhaust();
        self.tally.time(what, may_exhaust, operation)
    }

    fn insert(&mut self, number: u64) -> Result<(), Failure> {
        let new = value(&mut self.random, self.thread, number);
        let (own, key) = (self.own, key(self.thread, number));
        if let Some(added) = self.time("insert", || own.put(&key, &new))? {
            let before = self.model.insert(number, new);
            if added != before.is_none() {
                return Err(format!("insert of {number} has added: {added}").into());
            }
        }
        Ok(())
    }

    fn remove(&mut self, number: u64) -> Result<(), Failure> {
        let (own, key) = (self.own, key(self.thread, number));
        if let Some(removed) = self.time("remove", || own.delete(&key))?
            && removed != self.model.remove(&number).is_some()
        {
            return Err(format!("remove of {number} has removed: {removed}").into());
        }
        Ok(())
    }

    fn get(&mut self, number: u64) -> Result<(), Failure> {
        let (own, key) = (self.own, key(self.thread, number));
        match self.time("get", || own.get(&key))? {
            Some(found) if found.as_ref() != self.model.get(&number) => {
                Err(format!("{number} is {found:?}, not {:?}", self.model.get(&number)).into())
            }
            _ => Ok(()),
        }
    }

    fn get_of_another(&mut self, number: u64) -> Result<(), Failure> {
        let thread = self.random.below(self.setup.threads);
        let (own, key) = (self.own, key(thread, number));
        match self.time("get of another", || own.get(&key))?.flatten() {
            Some(found) => check_value(&found, thread, number),
            None => Ok(()),
        }
    }

    /// Some entries in order, of all threads; those of this one are as it knows them.
    fn range(&mut self, number: u64) -> Result<(), Failure> {
        let (own, from) = (self.own, key(self.thread, number));
        let backward = self.random.chance(0.5);
        let read = self.time("range", || match backward {
            false => own.range(from.clone()..).take(50).collect::<Result<Vec<_>, _>>(),
            true => own.range(..=from.clone()).rev().take(50).collect(),
        })?;
        let Some(mut read) = read else { return Ok(()) };
        if backward {
            read.reverse();
        }
        if !read.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err("a range is not in order".into());
        }
        for (key, found) in &read {
            let (thread, number) = parts_of(key)?;
            check_value(found, thread, number)?;
            if thread == self.thread && self.model.get(&number) != Some(found) {
                return Err(format!("in a range {number} is {found:?}").into());
            }
        }
        let (Some(first), Some(last)) = (read.first(), read.last()) else { return Ok(()) };
        let within = |number: &u64| (&first.0..=&last.0).contains(&&key(self.thread, *number));
        let expected = self.model.keys().filter(|number| within(number)).count();
        let found = read.iter().filter(|(key, _)| key[4..12] == self.thread.to_be_bytes()).count();
        if found != expected {
            return Err(format!("a range has {found} keys of {expected}").into());
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Failure> {
        let (counters, at) = (self.counters, self.random.below(COUNTERS));
        let counted = self.time("count", || counters.update_with(at.to_be_bytes(), add_one))?;
        if counted.is_some() {
            self.added[at as usize].fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn update(&mut self, number: u64) -> Result<(), Failure> {
        let (own, key) = (self.own, key(self.thread, number));
        let mut seen = None;
        let new = value(&mut self.random, self.thread, number);
        let change = |old: Option<&[u8]>| {
            seen = old.map(<[u8]>::to_vec);
            Change::Insert(new.clone())
        };
        if self.time("update", || own.update_with(&key, change))?.is_some()
            && seen != self.model.insert(number, new)
        {
            return Err(format!("an update of {number} has seen {seen:?}").into());
        }
        Ok(())
    }

    /// Two keys with one value in one table, a counter twice, and a key of the other table.
    fn batch(&mut self, number: u64) -> Result<(), Failure> {
        let (store, own, pairs, counters) = (self.store, self.own, self.pairs, self.counters);
        let new = value(&mut self.random, self.thread, number);
        let at = self.random.below(COUNTERS);
        let removes = self.random.chance(0.2);
        let keys = [key(self.thread, number), key(!self.thread, number)];
        let applied = self.time("batch", || {
            let mut batch = WriteBatch::new();
            for key in &keys {
                match removes {
                    true => batch.delete(pairs, key),
                    false => batch.put(pairs, key, &new),
                };
            }
            batch.put(own, &keys[0], &new);
            batch.update_with(counters, at.to_be_bytes(), add_one);
            batch.update_with(counters, at.to_be_bytes(), add_one);
            store.apply(batch)
        })?;
        if applied.is_some() {
            self.added[at as usize].fetch_add(2, Relaxed);
            match removes {
                true => self.paired.remove(&number),
                false => self.paired.insert(number, new.clone()),
            };
            self.model.insert(number, new);
        }
        Ok(())
    }
}

fn add_one(old: Option<&[u8]>) -> Change {
    let count = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap_or_default()));
    Change::Insert((count + 1).to_le_bytes().to_vec())
}

fn parts_of(key: &[u8]) -> Result<(u64, u64), Failure> {
    Ok((u64::from_be_bytes(key[4..12].try_into()?), u64::from_be_bytes(key[12..20].try_into()?)))
}

type Known = [(u64, BTreeMap<u64, Vec<u8>>, BTreeMap<u64, Vec<u8>>)];

/// Whether the store holds what the threads know, and nothing else.
fn compare(store: &Store, known: &Known, added: &[u64]) -> Result<(), Failure> {
    let mut own = BTreeMap::new();
    let mut pairs = BTreeMap::new();
    for (thread, model, paired) in known {
        own.extend(model.iter().map(|(number, value)| (key(*thread, *number), value.clone())));
        for (number, value) in paired {
            pairs.insert(key(*thread, *number), value.clone());
            pairs.insert(key(!*thread, *number), value.clone());
        }
    }
    for (name, expected) in [("own", own), ("pairs", pairs)] {
        let table = store.table(name)?;
        let found = table.iter().collect::<Result<BTreeMap<_, _>, _>>()?;
        if found != expected || table.len() != expected.len() as u64 {
            let different = expected.iter().find(|(key, value)| found.get(*key) != Some(*value));
            let more = found.keys().find(|key| !expected.contains_key(*key));
            let lens = (table.len(), found.len(), expected.len());
            return Err(format!("`{name}` differs: {lens:?}, {different:?}, {more:?}").into());
        }
    }
    let counters = store.table("counters")?;
    for (at, expected) in added.iter().enumerate() {
        let found = counters.get((at as u64).to_be_bytes())?;
        let found = found.map_or(0, |v| u64::from_le_bytes(v.try_into().unwrap_or_default()));
        if found != *expected {
            return Err(format!("counter {at} is {found}, not {expected}").into());
        }
    }
    Ok(())
}
