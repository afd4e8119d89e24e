//! The power fails at a random moment, or the process is killed; writes that were not synced are
//! kept, torn or dropped, and the store is opened again: everything that was acknowledged is there,
//! nothing is there by half, and the check finds no fault. Then it goes on.
//!
//! Each seed is a store of its own, of one of a closed list of configurations. Threads write keys
//! of their own, so that for each of them what is found must be what it had after some number of
//! its operations: at least those that were acknowledged (`Sync`) or known to be flushed.
//!
//! `POLDER_CRASH_SEEDS=a..b` chooses the seeds: a single one to replay it, many for a soak.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use polder::{
    Change, Durability, OpenError, Options, ReadMode, ReplacementKind, ShrinkProgress, Store,
    StoreError, Table, TranslationKind,
};
use polder_testkit::{Errno, FaultPlan, Operation, Random, When, effort};

use crate::stack::Stacks;
use crate::support::{Disks, full_text, in_tiers, to_read};

/// Seeds that an ordinary run tries: each configuration ten times.
const FEW_SEEDS: u64 = 180;
/// Seeds that a long run tries: each configuration some dozens of times. Soaks run others.
const ALL_SEEDS: u64 = 1000;
/// Lives of a store: each ends with a crash, the last one is only looked at.
const LIVES: u64 = 3;
/// What a disk writes as a whole that promises nothing.
const SECTOR_BYTES: usize = 512;
/// Operations of a thread in one life, at most.
const OPERATIONS: u64 = 60;

#[derive(Debug, Clone, Copy)]
struct Config {
    name: &'static str,
    threads: u64,
    page_size: u32,
    /// Each time that the store is opened, one of these that goes with the rest.
    translations: &'static [TranslationKind],
    replacements: &'static [ReplacementKind],
    holds: &'static [ReadMode],
    /// Budgets: the least one times this.
    memory: u64,
    /// Tiers of memory behind the first, as small as may be.
    slower_tiers: u64,
    durability: Durability,
    /// Devices answer late and out of order.
    delays: bool,
    /// Much is removed, and the store is shrunk often.
    shrinks: bool,
}

const BASE: Config = Config {
    name: "one thread, sync",
    threads: 1,
    page_size: 4096,
    translations: &[TranslationKind::Array],
    replacements: &[ReplacementKind::S3Fifo],
    holds: &[ReadMode::Optimistic],
    memory: 1,
    slower_tiers: 0,
    durability: Durability::Sync,
    delays: false,
    shrinks: false,
};

const CONFIGS: [Config; 18] = [
    BASE,
    Config { name: "four threads, sync", threads: 4, ..BASE },
    Config { name: "four threads, none", threads: 4, durability: Durability::None, ..BASE },
    Config {
        name: "three threads, periodic",
        threads: 3,
        durability: Durability::Periodic(Duration::from_millis(2)),
        ..BASE
    },
    Config { name: "two threads, delayed devices", threads: 2, delays: true, memory: 4, ..BASE },
    Config { name: "two threads, pages of 16 KiB", threads: 2, page_size: 16384, ..BASE },
    Config {
        name: "two threads, no eviction",
        threads: 2,
        translations: TranslationKind::RESIDENT,
        memory: 8,
        ..BASE
    },
    // With room for pages to stay, so that checkpoints write the same ones again and again.
    Config {
        name: "one thread, none, more memory",
        durability: Durability::None,
        memory: 4,
        ..BASE
    },
    Config {
        name: "two threads, any translation",
        threads: 2,
        translations: TranslationKind::EVICTING,
        ..BASE
    },
    // Pages that move to other frames while checkpoints look for dirty ones.
    Config {
        name: "three threads whose pages move, none",
        threads: 3,
        durability: Durability::None,
        // Array moves pages as well.
        #[cfg(feature = "predictive")]
        translations: &[TranslationKind::Predictive],
        memory: 3,
        ..BASE
    },
    Config {
        name: "two threads, any translation and policy, none",
        threads: 2,
        durability: Durability::None,
        translations: TranslationKind::EVICTING,
        replacements: ReplacementKind::ALL,
        memory: 2,
        ..BASE
    },
    Config {
        name: "three threads that hold pages",
        threads: 3,
        durability: Durability::None,
        translations: TranslationKind::EVICTING,
        holds: &[ReadMode::Shared, ReadMode::Group, ReadMode::Core],
        memory: 2,
        ..BASE
    },
    // Nodes that are changed in other frames than their pages are in.
    Config {
        name: "three threads that take snapshots",
        threads: 3,
        durability: Durability::None,
        translations: TranslationKind::EVICTING,
        holds: &[ReadMode::Copy],
        memory: 2,
        ..BASE
    },
    Config { name: "one thread that shrinks, sync", shrinks: true, ..BASE },
    Config {
        name: "three threads that shrink, any translation",
        threads: 3,
        durability: Durability::None,
        translations: TranslationKind::EVICTING,
        memory: 2,
        shrinks: true,
        ..BASE
    },
    Config {
        name: "two threads that shrink, snapshots, delayed devices",
        threads: 2,
        durability: Durability::Periodic(Duration::from_millis(2)),
        translations: TranslationKind::EVICTING,
        holds: &[ReadMode::Copy],
        memory: 2,
        delays: true,
        shrinks: true,
        ..BASE
    },
    // Pages that go from tier to tier while checkpoints look for dirty ones.
    Config {
        name: "three threads, two tiers, any policy, none",
        threads: 3,
        durability: Durability::None,
        translations: TranslationKind::EVICTING,
        replacements: ReplacementKind::ALL,
        slower_tiers: 1,
        ..BASE
    },
    Config {
        name: "two threads that shrink, three tiers, delayed devices",
        threads: 2,
        durability: Durability::Periodic(Duration::from_millis(2)),
        translations: TranslationKind::EVICTING,
        holds: &[ReadMode::Optimistic, ReadMode::Shared],
        slower_tiers: 2,
        delays: true,
        shrinks: true,
        ..BASE
    },
];

type Content = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

const TABLES: [&str; 2] = ["left", "right"];
/// Each thread has a table of its own as well, which comes and goes.
const OWN: usize = 2;
/// And, in a test of their own, a stack: what lies in it, by its place.
const STACK: usize = 3;

fn own_stack(thread: u64) -> String {
    format!("stack {thread}")
}

/// The names that it has by turns.
fn own_tables(thread: u64) -> [String; 2] {
    [format!("own {thread}"), format!("another {thread}")]
}

/// The name that it has now, and the one that it could have; `None` if it is not there.
fn own_table(store: &Store, thread: u64) -> Option<[String; 2]> {
    let [one, other] = own_tables(thread);
    match [&one, &other].map(|name| store.table(name).is_ok()) {
        [false, false] => None,
        [true, false] => Some([one, other]),
        [false, true] => Some([other, one]),
        [true, true] => panic!("the table of thread {thread} is there under both names"),
    }
}

/// One thing that a thread does, which is there as a whole afterwards or not at all.
#[derive(Debug, Clone)]
enum Step {
    Insert(usize, Vec<u8>, Vec<u8>),
    Remove(usize, Vec<u8>),
    Append(usize, Vec<u8>, u8),
    /// Values, or `None` to remove.
    Batch(Vec<(usize, Vec<u8>, Option<Vec<u8>>)>),
    Flush,
    /// Drops the thread's own table, if it is there.
    Drop,
    /// Makes the file shorter, in so many steps at most.
    Shrink(u64),
    /// Makes the thread's own table again, and fills it in order.
    Load(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Gives the thread's own table, if it is there, its other name.
    Rename,
    Push(u64),
    Pop,
}

impl Step {
    /// What a thread does next: one step, or two that belong together.
    fn random(random: &mut Random, config: &Config, thread: u64) -> Vec<Step> {
        let table = random.index(2);
        let key = |random: &mut Random| {
            let mut key = vec![thread as u8];
            let number = random.below(120);
            key.extend_from_slice(&number.to_be_bytes());
            // Long keys make few entries fit, so that nodes split and merge.
            key.resize(9 + (number as usize % 7) * 40, 7);
            key
        };
        let value = |random: &mut Random| {
            let len = match random.below(20) {
                0 => 3000 + random.index(20_000),
                1..=8 => random.index(600),
                _ => random.index(60),
            };
            let mut value = vec![0; len];
            random.fill(&mut value);
            value
        };
        let drawn = match random.below(32) {
            24..=27 if config.shrinks => 20,
            24.. if config.shrinks => 10,
            drawn => drawn % 24,
        };
        let step = match drawn {
            0..=9 => Step::Insert(table, key(random), value(random)),
            10..=14 => Step::Remove(table, key(random)),
            15..=16 => Step::Append(table, key(random), random.below(256) as u8),
            17..=18 => {
                let count = 1 + random.index(12);
                let change = |random: &mut Random| {
                    let value = random.chance(0.7).then(|| value(random));
                    (random.index(2), key(random), value)
                };
                Step::Batch((0..count).map(|_| change(random)).collect())
            }
            19 => {
                let count = random.below(60);
                let entries = (0..count).map(|_| (key(random), value(random))).collect();
                return vec![Step::Drop, Step::Load(entries)];
            }
            20 if random.chance(0.3) => Step::Shrink(random.below(40)),
            20 => Step::Shrink(u64::MAX),
            21..=22 => Step::Rename,
            _ => Step::Flush,
        };
        vec![step]
    }

    fn model(&self, content: &mut Content, thread: u64) {
        match self {
            Step::Push(number) => {
                let place = content.keys().filter(|(table, _)| *table == STACK).count();
                content.insert(in_stack(thread, place), number.to_le_bytes().to_vec());
            }
            Step::Pop => {
                let count = content.keys().filter(|(table, _)| *table == STACK).count();
                content.remove(&in_stack(thread, count.saturating_sub(1)));
            }
            Step::Insert(table, key, value) => {
                content.insert((*table, key.clone()), value.clone());
            }
            Step::Remove(table, key) => {
                content.remove(&(*table, key.clone()));
            }
            Step::Append(table, key, byte) => {
                content.entry((*table, key.clone())).or_default().push(*byte);
            }
            Step::Batch(changes) => {
                for (table, key, value) in changes {
                    match value {
                        Some(value) => content.insert((*table, key.clone()), value.clone()),
                        None => content.remove(&(*table, key.clone())),
                    };
                }
            }
            Step::Flush | Step::Shrink(_) | Step::Rename => {}
            Step::Drop => content.retain(|(table, _), _| *table != OWN),
            Step::Load(entries) => content
                .extend(entries.iter().map(|(key, value)| ((OWN, key.clone()), value.clone()))),
        }
    }

    fn run(&self, store: &Store, tables: &[Table], thread: u64) -> Result<(), StoreError> {
        let stack = || store.open_structure::<Stacks>(&own_stack(thread));
        match self {
            Step::Push(number) => stack()?.write(|stack| stack.push(*number)),
            Step::Pop => stack()?.write(|stack| stack.pop().map(drop)),
            Step::Insert(table, key, value) => tables[*table].put(key, value).map(|_| ()),
            Step::Remove(table, key) => tables[*table].delete(key).map(|_| ()),
            Step::Append(table, key, byte) => tables[*table].update_with(key, |old| {
                let mut new = old.unwrap_or_default().to_vec();
                new.push(*byte);
                Change::Insert(new)
            }),
            Step::Batch(changes) => {
                let mut batch = polder::WriteBatch::new();
                for (table, key, value) in changes {
                    match value {
                        Some(value) => batch.put(&tables[*table], key, value),
                        None => batch.delete(&tables[*table], key),
                    };
                }
                store.apply(batch).map(|_| ()).map_err(|error| match error {
                    polder::BatchError::Store(error) => error,
                    other => panic!("no expectation was made: {other}"),
                })
            }
            Step::Flush => store.flush(),
            Step::Shrink(steps) => {
                let mut steps = *steps;
                let progress = &mut |_: &ShrinkProgress<'_>| {
                    steps = steps.saturating_sub(1);
                    steps > 0
                };
                store.shrink_with(progress).map(|_| ())
            }
            Step::Drop => match own_table(store, thread) {
                None => Ok(()),
                Some([name, _]) => store.drop_table(&name),
            },
            Step::Load(entries) => {
                store.create_table(&own_tables(thread)[0])?.bulk_load(entries).map(|_| ())
            }
            Step::Rename => match own_table(store, thread) {
                None => Ok(()),
                Some([name, other]) => store.rename_table(&name, &other),
            },
        }
    }
}

/// A number of a thread's stack among what the thread has.
fn in_stack(thread: u64, place: usize) -> (usize, Vec<u8>) {
    (STACK, [&[thread as u8][..], &place.to_be_bytes()].concat())
}

/// What a thread did in one life.
#[derive(Default)]
struct History {
    steps: Mutex<Vec<Step>>,
    /// So many of the steps are durable.
    durable: AtomicUsize,
}

fn options(config: &Config, ways: &mut Random) -> Options {
    let memory = Options::least_memory_budget(config.page_size) * config.memory;
    let options = Options::new("simulated").structure::<Stacks>().page_size(config.page_size);
    let read_mode = config.holds[ways.index(config.holds.len())];
    let mut translations = config.translations.to_vec();
    translations.retain(|kind| {
        kind.why_not(read_mode).is_none()
            && (config.slower_tiers == 0 || kind.why_no_tiers().is_none())
    });
    in_tiers(options, memory, config.page_size, config.slower_tiers)
        .translation(translations[ways.index(translations.len())])
        .replacement(config.replacements[ways.index(config.replacements.len())])
        .read_mode(read_mode)
        .durability(config.durability)
        .log_limit(4 << 20)
}

/// One thread at work until it has done its steps, or the machine is gone.
fn work(
    store: &Store,
    config: &Config,
    history: &History,
    thread: u64,
    seed: u64,
    (with_stacks, stop): (bool, &AtomicBool),
) {
    let mut random = Random::new(seed ^ (thread << 32));
    let tables = TABLES.map(|name| store.open_table(name).unwrap());
    let turns = 1 + random.below(OPERATIONS);
    // From numbers of their own, so that the steps of a seed stay what they are.
    let mut numbers = Random::new(!seed ^ (thread << 32));
    let mut stack_steps = || {
        let count = if with_stacks { numbers.below(12) } else { 0 };
        let step =
            |i| if numbers.chance(0.6) { Step::Push(numbers.next_u64() ^ i) } else { Step::Pop };
        (0..count).map(step).collect::<Vec<_>>()
    };
    let steps = (0..turns)
        .flat_map(|_| [Step::random(&mut random, config, thread), stack_steps()].concat());
    for (number, step) in steps.enumerate() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        history.steps.lock().unwrap().push(step.clone());
        step.run(store, &tables, thread)
            .unwrap_or_else(|error| panic!("{step:?}: {}", full_text(&error)));
        if config.durability == Durability::Sync || matches!(step, Step::Flush) {
            history.durable.store(number + 1, Ordering::SeqCst);
        }
    }
}

/// What the store holds, by the thread that wrote it.
fn content(store: &Store, threads: u64) -> Vec<Content> {
    let mut found = vec![Content::new(); threads as usize];
    let own = (0..threads).filter_map(|thread| Some((OWN, own_table(store, thread)?[0].clone())));
    let shared = TABLES.iter().map(|name| (*name).to_string()).enumerate();
    for (t, name) in shared.chain(own) {
        let Ok(table) = store.table(&name) else { continue };
        let mut entries = 0;
        for entry in table.iter() {
            let (key, value) = entry.unwrap();
            entries += 1;
            found[key[0] as usize].insert((t, key), value);
        }
        assert_eq!(table.len(), entries, "entries of `{name}`");
    }
    // A stack tells what is in it only as it is popped.
    for thread in (0..threads).filter(|_| !store.is_read_only()) {
        let Ok(stack) = store.structure::<Stacks>(&own_stack(thread)) else { continue };
        let stack = stack.with_durability(Durability::None);
        let numbers = || stack.write(|stack| stack.pop()).unwrap();
        let mut numbers: Vec<u64> = std::iter::from_fn(numbers).collect();
        numbers.reverse();
        for (place, number) in numbers.into_iter().enumerate() {
            stack.write(|stack| stack.push(number)).unwrap();
            let (key, bytes) = (in_stack(thread, place), number.to_le_bytes().to_vec());
            found[thread as usize].insert(key, bytes);
        }
        store.flush().unwrap();
    }
    found
}

fn open(disks: &Disks, config: &Config, ways: &mut Random) -> Store {
    disks.open(options(config, ways)).unwrap_or_else(|error| panic!("{}", full_text(&error)))
}

/// What is left if the power fails now, or seldom: if only the process is killed. (Not where a sync
/// has failed: what caches show is not what is on the disk then, until the power fails.)
fn end(disks: &Disks, random: &mut Random) -> Disks {
    let seed = random.next_u64();
    let failed = disks.data.counts().failures + disks.log.counts().failures > 0;
    if random.chance(0.25) && !failed { disks.kill(seed) } else { disks.crash(seed) }
}

/// What a reader finds that recovers nothing, without a write, or a change, of any kind. `None`: no
/// store was made.
fn read(disks: &Disks, config: &Config, seed: u64) -> Option<Vec<Content>> {
    // Of its own, so that what is done to the store itself depends on its own seed alone.
    let disks = disks.kill(seed);
    let (mut ways, images) = (Random::new(seed), [disks.data.image(), disks.log.image()]);
    let store = match disks.open(to_read(options(config, &mut ways))) {
        Err(OpenError::NotFound { .. }) => return None,
        store => store.unwrap_or_else(|error| panic!("to read: {}", full_text(&error))),
    };
    assert_eq!(store.check(&mut |_, _| true).unwrap().faults, [], "to read");
    let found = content(&store, config.threads);
    store.close().unwrap();
    for (disk, image) in [&disks.data, &disks.log].into_iter().zip(images) {
        assert_eq!((disk.counts().writes, disk.counts().syncs), (0, 0));
        assert!(disk.image() == image, "a disk has changed");
    }
    Some(found)
}

/// Opens the store and lets the machine die on the way, a few times.
fn die_while_opening(
    mut disks: Disks,
    config: &Config,
    random: &mut Random,
    ways: &mut Random,
    often: f64,
) -> Disks {
    while random.chance(often) {
        let survives = random.below(60);
        for disk in [&disks.data, &disks.log] {
            let plan = FaultPlan::new(random.next_u64());
            let syncs = random.below(6);
            disk.set_plan(plan.fail(Operation::Write, When::From(survives), Errno::IO).fail(
                Operation::Sync,
                When::From(syncs),
                Errno::IO,
            ));
        }
        // It may also succeed.
        drop(disks.open(options(config, ways)));
        disks = end(&disks, random);
    }
    disks
}

/// What a thread may have left behind.
struct Left {
    /// What it began with.
    base: Content,
    history: Arc<History>,
    /// So many of its steps were durable when the machine died.
    durable: usize,
}

impl Left {
    fn assert_holds(&self, found: &Content, life: u64, thread: usize) {
        let steps = self.history.steps.lock().unwrap();
        let mut model = self.base.clone();
        let mut fits = self.durable == 0 && model == *found;
        for (i, step) in steps.iter().enumerate() {
            step.model(&mut model, thread as u64);
            fits |= i + 1 >= self.durable && model == *found;
        }
        assert!(
            fits,
            "life {life}: what thread {thread} finds is not what it had after any of its steps \
             from {} to {}",
            self.durable,
            steps.len(),
        );
    }
}

fn run(seed: u64, with_stacks: bool) {
    let config = &CONFIGS[(seed % CONFIGS.len() as u64) as usize];
    let mut random = Random::new(seed);
    let mut ways = Random::new(!seed);
    let mut disks = Disks::new();
    let mut left: Vec<Left> = Vec::new();
    for life in 0..=LIVES {
        // The first one is made, which takes more steps.
        let often = if life == 0 { 0.6 } else { 0.3 };
        disks = die_while_opening(disks, config, &mut random, &mut ways, often);
        if config.delays {
            for disk in [&disks.data, &disks.log] {
                disk.set_plan(FaultPlan::new(random.next_u64()).delay(0.3, Duration::ZERO));
            }
        }
        // What the data file's disk promises to write as a whole: nothing, less than a page, or as
        // much. (Also another one than in the life before: somebody has moved the store.)
        let atomic = [0, SECTOR_BYTES, SECTOR_BYTES, config.page_size as usize][ways.index(4)];
        disks.data.write_atomically(atomic);
        let read = read(&disks, config, seed ^ life);
        let store = open(&disks, config, &mut ways);
        let report = store.check(&mut |_, _| true).unwrap();
        assert_eq!(report.faults, [], "life {life}");
        let found = content(&store, config.threads);
        let in_tables = |content: &Content| {
            let entries = content.clone().into_iter();
            entries.filter(|((table, _), _)| *table != STACK).collect::<Content>()
        };
        let recovered: Vec<_> = found.iter().map(in_tables).collect();
        assert!(read.is_none_or(|read| read == recovered), "life {life}: read is not recovered");
        left.iter()
            .zip(&found)
            .enumerate()
            .for_each(|(thread, (left, found))| left.assert_holds(found, life, thread));
        if life == LIVES {
            break;
        }
        let histories: Vec<_> = (0..config.threads).map(|_| Arc::new(History::default())).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..config.threads)
            .map(|t| {
                let (store, history, stop) =
                    (store.clone(), Arc::clone(&histories[t as usize]), Arc::clone(&stop));
                let (config, seed) = (*config, random.next_u64());
                thread::spawn(move || {
                    work(&store, &config, &history, t, seed, (with_stacks, &stop))
                })
            })
            .collect();
        // Checkpoints are made beside the writers, and die with them.
        let checkpointer = {
            let (store, stop, mut random) =
                (store.clone(), Arc::clone(&stop), Random::new(random.next_u64()));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if random.chance(0.1) {
                        store.checkpoint().unwrap();
                    }
                    thread::yield_now();
                }
            })
        };
        let writes = |disks: &Disks| disks.data.counts().writes + disks.log.counts().writes;
        let last = writes(&disks) + random.below(100 * config.threads);
        while writes(&disks) < last && !workers.iter().all(thread::JoinHandle::is_finished) {
            thread::yield_now();
        }
        let durable = histories.iter().map(|history| history.durable.load(Ordering::SeqCst));
        let durable: Vec<_> = durable.collect();
        let ended = end(&disks, &mut random);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        checkpointer.join().unwrap();
        drop(store);
        disks = ended;
        left = found
            .into_iter()
            .zip(histories)
            .zip(durable)
            .map(|((base, history), durable)| Left { base, history, durable })
            .collect();
    }
}

#[test]
fn what_was_acknowledged_survives() {
    run_seeds(false, [FEW_SEEDS, ALL_SEEDS]);
}

/// The same with a structure of others beside the tables.
#[test]
fn so_does_what_was_put_into_structures() {
    run_seeds(true, [FEW_SEEDS, ALL_SEEDS].map(|seeds| seeds / 5));
}

fn run_seeds(with_stacks: bool, [few, all]: [u64; 2]) {
    let next = Mutex::new(effort::seeds("POLDER_CRASH_SEEDS", few, all));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(seed) = next.lock().unwrap().next() else { return };
                    let config = CONFIGS[(seed % CONFIGS.len() as u64) as usize].name;
                    let ran = std::panic::catch_unwind(|| run(seed, with_stacks));
                    if ran.is_err() {
                        panic!("seed {seed} ({config}); again: POLDER_CRASH_SEEDS={seed}");
                    }
                }
            });
        }
    });
}
