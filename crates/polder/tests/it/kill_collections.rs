//! Real kills of a process that changes a collection: a child inserts, replaces and removes vectors with
//! several threads until it is killed, and tells by a pipe which of its steps are acknowledged. These are
//! there; keys, rows and vectors agree. Then it goes on. (It is not killed while it makes the collection:
//! `collections.rs` has that on the simulated disk.)
//!
//! `POLDER_KILLS=200` for a soak.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

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
