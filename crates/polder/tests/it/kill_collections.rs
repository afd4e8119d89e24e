//! Real kills of a process that changes a collection: a child inserts, replaces and removes vectors with
//! several threads until it is killed, and tells by a pipe which of its steps are acknowledged. These are
//! there; keys, rows and vectors agree. Then it goes on. (It is not killed while it makes the collection:
//! `collections.rs` has that on the simulated disk.)
//!
//! Another child loads many rows at once, and is killed while they are placed, or while they are linked. The rows
//! that it has told of are there, and the same load, made again, brings and links the rest.
//!
//! `POLDER_KILLS=200` for a soak.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use polder::vector::{VectorBuf, VectorRef};
use polder::{Collection, Durability, Options, Store};
use polder_testkit::Random;

use crate::collections::*;
use crate::killing::*;
use crate::support::*;

const THREADS: u64 = 3;
const KILLS: u64 = 4;
/// Keys of a thread, which no other one changes.
const KEYS: u64 = 40;

/// What tells the child its work: the store, and which index.
const PATH: &str = "POLDER_TEST_KILL_COLLECTION";
const INDEX: &str = "POLDER_TEST_KILL_INDEX";

const INDEXES: [Index; 3] = [Index::Graph, Index::Steered, Index::Lists];

/// What a thread does in its `n`th step, always the same: the number of a key, and its seed, or `None` to
/// remove it.
fn step(thread: u64, n: u64) -> (u64, Option<u64>) {
    let mut random = Random::new(thread << 48 | n);
    let number = thread * KEYS + random.below(KEYS);
    (number, random.chance(0.7).then(|| random.below(1 << 20)))
}

fn apply(model: &mut Docs, (number, seed): (u64, Option<u64>)) {
    match seed {
        Some(seed) => model.insert(key(number), seed),
        None => model.remove(&key(number)),
    };
}

fn options_of(path: &Path) -> Options {
    tight(path).memory_budget(2 * Options::least_memory_budget(4096)).durability(Durability::Sync)
}

/// Not a test of its own: what the child does.
#[test]
fn child_that_changes_until_it_is_killed() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let begin = begun().unwrap();
    let index = INDEXES[std::env::var(INDEX).unwrap().parse::<usize>().unwrap()];
    let store = Store::open(options_of(Path::new(&path))).unwrap();
    let docs = match begin.iter().all(|begin| *begin == 0) {
        true => create(&store, index),
        false => store.collection(NAME).unwrap(),
    };
    thread::scope(|scope| {
        for (t, begin) in (0..).zip(begin) {
            let docs = &docs;
            scope.spawn(move || {
                for n in begin.. {
                    match step(t, n) {
                        (number, Some(seed)) => insert(docs, number, seed),
                        (number, None) => docs.remove(key(number)).unwrap(),
                    };
                    tell(t, n + 1);
                }
            });
        }
    });
}

/// One store, killed again and again.
struct Victim {
    path: PathBuf,
    index: usize,
    /// How many steps of each thread are there, and with what result.
    steps: Vec<u64>,
    models: Vec<Docs>,
}

impl Victim {
    fn live_and_die(&mut self, life: Duration) {
        let test = "kill_collections::child_that_changes_until_it_is_killed";
        let index = self.index.to_string();
        let told = [(PATH, self.path.as_os_str()), (INDEX, index.as_ref())];
        let acknowledged = kill(test, &told, &self.steps, life);
        self.look(&acknowledged);
    }

    fn look(&mut self, acknowledged: &[u64]) {
        let store = Store::open(options_of(&copy_of(&self.path)))
            .unwrap_or_else(|e| panic!("{}", full_text(&e)));
        let docs = store.collection(NAME).unwrap();
        assert_eq!(docs.check(&mut |_| true).unwrap().faults, [""; 0]);
        assert_sound(&store);
        // The first change settles what the kill has left.
        assert!(!docs.remove("no such key").unwrap());
        let mut all = Docs::new();
        for t in 0..THREADS {
            let found = of_thread(&docs, t);
            self.find(t, acknowledged[t as usize], &found);
            all.extend(found);
        }
        assert_is(&docs, &all);
        store.close().unwrap();
    }

    /// Finds out after which of its steps a thread had what is there. A step that was not acknowledged may be.
    fn find(&mut self, t: u64, acknowledged: u64, found: &Docs) {
        let (steps, model) = (&mut self.steps[t as usize], &mut self.models[t as usize]);
        while *steps < acknowledged {
            apply(model, step(t, *steps));
            *steps += 1;
        }
        if model != found {
            apply(model, step(t, *steps));
            *steps += 1;
        }
        assert!(
            model == found,
            "thread {t} lacks some of {acknowledged} steps, or more than one is there"
        );
    }
}

/// The keys of a thread that are there, with their seeds.
fn of_thread(docs: &Collection, t: u64) -> Docs {
    let there = |number| {
        let payload = docs.payload(key(number)).unwrap()?;
        Some((key(number), seed_of(&payload)))
    };
    (t * KEYS..(t + 1) * KEYS).filter_map(there).collect()
}

#[test]
fn killed_children_leave_collections_whole() {
    let kills = std::env::var("POLDER_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut random = Random::new(u64::from(std::process::id()));
    for index in 0..INDEXES.len() {
        let mut victim = Victim {
            path: dir.path().join(index.to_string()),
            index,
            steps: vec![0; THREADS as usize],
            models: vec![Docs::new(); THREADS as usize],
        };
        for _ in 0..kills {
            victim.live_and_die(Duration::from_micros(random.below(200_000)));
        }
        let is_alive = |steps: &u64| *steps > 0 || kills < KILLS;
        assert!(victim.steps.iter().all(is_alive), "{:?}", victim.steps);
    }
}

/// Rows of a load. There is memory for a part of them at once.
const ROWS: u64 = 3000;

/// What a child tells of a load, in place of the steps of threads: how many rows are placed, and how far their
/// linking is, from 1 as it begins to `LINKED_ALL`, and `ENDED` when the load has returned.
const PLACED: usize = 0;
const LINKED: usize = 1;
const LINKED_ALL: u64 = 100;
const ENDED: u64 = LINKED_ALL + 1;

/// What tells the child that loads its work: the store.
const LOADED: &str = "POLDER_TEST_KILL_LOAD";

fn rows() -> impl Iterator<Item = (Vec<u8>, VectorBuf, Vec<u8>)> {
    (0..ROWS).map(|number| (key(number), VectorBuf::from(&vector(number)), payload(number)))
}

/// Not a test of its own: what the child does that loads. Rows are durable when it tells of them.
#[test]
fn child_that_loads_until_it_is_killed() {
    let Some(path) = std::env::var_os(LOADED) else { return };
    begun().unwrap();
    let store = Store::open(options_of(Path::new(&path))).unwrap();
    let docs = match store.collections().unwrap().is_empty() {
        true => create(&store, Index::Steered),
        false => store.collection(NAME).unwrap(),
    };
    // So the log is cut off anywhere, not only where something is told.
    let flushed = store.clone();
    thread::spawn(move || {
        loop {
            flushed.flush().unwrap();
        }
    });
    let (mut linked_from, mut last) = (None, None);
    let loaded = docs.load(rows(), 2, &mut |done| {
        let placed = docs.len();
        let linked = if placed == ROWS {
            let from = *linked_from.get_or_insert(done);
            1 + (LINKED_ALL - 1) * (done - from) / (ROWS - from).max(1)
        } else {
            0
        };
        if last != Some((placed, linked)) {
            last = Some((placed, linked));
            store.flush().unwrap();
            tell(PLACED as u64, placed);
            tell(LINKED as u64, linked);
        }
        true
    });
    assert!(!loaded.unwrap().stopped);
    // If nobody listens any more, this ends it.
    loop {
        tell(LINKED as u64, ENDED);
        thread::sleep(Duration::from_millis(1));
    }
}

/// A child goes on with a load, and dies so long after it is time. Gives how many rows are placed then, and
/// whether they are linked.
fn load_and_die(path: &Path, is_time: impl Fn(&[u64]) -> bool, life: Duration) -> (u64, bool) {
    let test = "kill_collections::child_that_loads_until_it_is_killed";
    let told = kill_when(test, &[(LOADED, path.as_os_str())], &[0, 0], is_time, life);
    let store =
        Store::open(options_of(&copy_of(path))).unwrap_or_else(|e| panic!("{}", full_text(&e)));
    let docs = store.collection(NAME).unwrap();
    assert_eq!(docs.check(&mut |_| true).unwrap().faults, [""; 0]);
    assert_sound(&store);
    let (placed, is_linked) = (docs.len(), docs.is_linked().unwrap());
    assert!(placed >= told[PLACED], "of {} rows {placed} are there", told[PLACED]);
    assert!(!is_linked || placed == 0 || placed == ROWS, "said to be linked with {placed} rows");
    assert!(is_linked || told[LINKED] < ENDED, "the load has ended, and they are not linked");
    let loaded = docs.load(rows(), 2, &mut |_| true).unwrap();
    assert_eq!((loaded.inserted, loaded.passed_over), (ROWS - placed, placed));
    assert_is_loaded(&docs);
    assert_sound(&store);
    store.close().unwrap();
    (placed, is_linked)
}

/// All rows are there, and searches find what is near.
fn assert_is_loaded(docs: &Collection) {
    assert!(docs.is_linked().unwrap(), "it is not linked");
    assert_is(docs, &(0..ROWS).map(|number| (key(number), number)).collect());
    let queries: Vec<_> = (0..50).map(|seed| vector(1 << 20 | seed)).collect();
    let queries: Vec<VectorRef<'_>> = queries.iter().map(VectorRef::from).collect();
    let probed = docs.probe(&queries, 10, &[40], None, &mut |_| true).unwrap().unwrap();
    assert!(probed.widths[0].recall >= 0.96, "{probed:?}");
}

#[test]
fn killed_loads_go_on_where_they_were() {
    let kills = std::env::var("POLDER_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let [mut placing, mut linking] = [0; 2];
    // Of each store a child is killed while it places rows, and the next one while it links them.
    for _ in 0..kills.div_ceil(2) {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = dir.path().join("store");
        let mut life = || Duration::from_micros(random.below(20_000));
        let lives = [life(), life()];
        let (rows, links) = (random.below(ROWS / 2), 1 + random.below(LINKED_ALL / 2));
        let (placed, _) = load_and_die(&path, |told| told[PLACED] >= rows, lives[0]);
        placing += u64::from(0 < placed && placed < ROWS);
        // Where all were placed, the next child passes over them before it links them, and tells the same.
        let places = placed < ROWS;
        let (placed, is_linked) = load_and_die(&path, |told| told[LINKED] >= links, lives[1]);
        linking += u64::from(places && placed == ROWS && !is_linked);
    }
    assert!((placing > 0 && linking > 0) || kills < KILLS, "{placing} {linking}");
}
