//! Real kills: a child writes with several threads until it is killed, and tells by a pipe which of
//! its steps are acknowledged. What was acknowledged under `Sync` is there; under `Periodic` and
//! `None` each thread finds what it had after some number of its steps. Then it goes on.
//!
//! `POLDER_KILLS=200` for a soak.
//!
//! The same where memory is in tiers; on a machine with two nodes of memory, of these nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use polder::{Durability, Options, Store, Table, Tier, WriteBatch};
use polder_testkit::Random;

use crate::killing::*;
use crate::support::*;

const THREADS: u64 = 3;
const KILLS: u64 = 10;
const TABLES: [&str; 2] = ["a", "b"];

const LEVELS: [Durability; 3] =
    [Durability::Sync, Durability::Periodic(Duration::from_millis(5)), Durability::None];

/// What tells the child its work: the store, the level's number, and which memory.
const PATH: &str = "POLDER_TEST_KILL_STORE";
const LEVEL: &str = "POLDER_TEST_KILL_LEVEL";
const MEMORY: &str = "POLDER_TEST_KILL_MEMORY";

type Content = BTreeMap<(usize, Vec<u8>), Vec<u8>>;
/// Values of keys, or `None` to remove one.
type Changes = Vec<(usize, Vec<u8>, Option<Vec<u8>>)>;

/// What a thread does in its `n`th step, always the same.
fn step(thread: u64, n: u64) -> Changes {
    let mut random = Random::new(thread << 48 | n);
    let count = if random.chance(0.2) { 2 + random.index(6) } else { 1 };
    let change = |_| {
        let key = [&[thread as u8][..], &random.below(400).to_be_bytes()].concat();
        let len = if random.chance(0.03) { 12_000 } else { random.index(500) };
        let value = random.chance(0.8).then(|| vec![n as u8; len]);
        (random.index(2), key, value)
    };
    (0..count).map(change).collect()
}

fn apply(content: &mut Content, changes: Changes) {
    for (table, key, value) in changes {
        match value {
            Some(value) => content.insert((table, key), value),
            None => content.remove(&(table, key)),
        };
    }
}

/// The memory of a store: one tier; two of which no node is named; two on the first two nodes.
const ONE_TIER: &str = "one tier";
const TWO_TIERS: &str = "two tiers";
const TWO_NODES: &str = "two nodes";

fn options(path: &Path, level: usize, memory: &str) -> Options {
    let options = tight(path).durability(LEVELS[level]);
    let least = Options::least_memory_budget(4096) + (128 << 10);
    let tiers = [Tier::new(least), Tier::new(64 * 4096)];
    match memory {
        TWO_TIERS => options.tiers(tiers),
        TWO_NODES => options.tiers((0..).zip(tiers).map(|(node, tier)| tier.on_node(node))),
        _ => options,
    }
}

fn write(store: &Store, tables: &[Table], changes: Changes) {
    if let [(table, key, value)] = &changes[..] {
        match value {
            Some(value) => tables[*table].put(key, value).unwrap(),
            None => tables[*table].delete(key).unwrap(),
        };
        return;
    }
    let mut batch = WriteBatch::new();
    for (table, key, value) in &changes {
        match value {
            Some(value) => batch.put(&tables[*table], key, value),
            None => batch.delete(&tables[*table], key),
        };
    }
    store.apply(batch).unwrap();
}

/// Not a test of its own: what the child does.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let begin = begun().unwrap();
    let number = |name| std::env::var(name).unwrap();
    let level = number(LEVEL).parse().unwrap();
    let store = Store::open(options(Path::new(&path), level, &number(MEMORY))).unwrap();
    thread::scope(|scope| {
        for (t, begin) in begin.into_iter().enumerate() {
            let store = &store;
            scope.spawn(move || {
                let tables = TABLES.map(|name| store.open_table(name).unwrap());
                for n in begin.. {
                    write(store, &tables, step(t as u64, n));
                    tell(t as u64, n + 1);
                }
            });
        }
    });
}

/// What each thread finds of its own.
fn content(store: &Store) -> Vec<Content> {
    let mut found = vec![Content::new(); THREADS as usize];
    for (t, name) in TABLES.into_iter().enumerate() {
        let Ok(table) = store.table(name) else { continue };
        assert_eq!(table.len(), table.iter().count() as u64);
        for entry in table.iter() {
            let (key, value) = entry.unwrap();
            found[key[0] as usize].insert((t, key), value);
        }
    }
    found
}

/// One store, killed again and again.
struct Victim {
    path: PathBuf,
    level: usize,
    memory: &'static str,
    /// How many steps of each thread are there, and with what result.
    steps: Vec<u64>,
    contents: Vec<Content>,
}

impl Victim {
    fn live_and_die(&mut self, life: Duration) {
        let test = "kill::child_that_writes_until_it_is_killed";
        let level = self.level.to_string();
        let told = [
            (PATH, self.path.as_os_str()),
            (LEVEL, level.as_ref()),
            (MEMORY, self.memory.as_ref()),
        ];
        let acknowledged = kill(test, &told, &self.steps, life);
        let copy = copy_of(&self.path);
        let open = |options: Options| {
            let failed = |error| {
                panic!("{:?} after {life:?}: {}", LEVELS[self.level], full_text(&error));
            };
            Store::open(options).unwrap_or_else(failed)
        };
        // To read it recovers nothing, and finds the same.
        let before = files(&copy);
        let options = || options(&copy, self.level, self.memory);
        let reader = open(to_read(options()));
        assert_sound(&reader);
        let deep = reader.check_deep(&mut |_, _, _| true).unwrap();
        assert!(deep.is_sound(), "{deep:?}");
        let (read, recovery) = (content(&reader), reader.recovery());
        reader.close().unwrap();
        assert!(files(&copy) == before, "a file has changed");
        let store = open(options());
        // (How many records are redone depends on which pages were evicted on the way.)
        let told = |r: polder::Recovery| (r.log_bytes, r.groups, r.restored_pages, r.cut_short);
        assert_eq!(told(store.recovery()), told(recovery));
        assert_sound(&store);
        assert!(content(&store) == read, "what was read is not what is recovered");
        assert_eq!(store.stats().pool.tiers.len() > 1, self.memory != ONE_TIER);
        for (t, found) in content(&store).into_iter().enumerate() {
            self.find(t, acknowledged[t], found);
        }
        store.close().unwrap();
    }

    /// Finds out after which of its steps a thread had what it finds. A step that was not
    /// acknowledged may be there.
    fn find(&mut self, t: usize, acknowledged: u64, found: Content) {
        let mut model = self.contents[t].clone();
        let mut there = None;
        for n in self.steps[t]..=acknowledged + 1 {
            let enough = LEVELS[self.level] != Durability::Sync || n >= acknowledged;
            if enough && model == found {
                there = Some(n);
            }
            apply(&mut model, step(t as u64, n));
        }
        let Some(there) = there else {
            panic!(
                "{:?}: thread {t} finds what it had after none of its steps from {} to {acknowledged}",
                LEVELS[self.level], self.steps[t],
            );
        };
        self.steps[t] = there;
        self.contents[t] = found;
    }
}

/// Children that are killed so many times, at each level of durability in turn.
fn kill_children(dir: &Path, memory: &'static str, kills: u64) {
    let kills = std::env::var("POLDER_KILLS").map_or(kills, |kills| kills.parse().unwrap());
    let dir = tempfile::tempdir_in(dir).unwrap();
    let mut victims: Vec<_> = (0..LEVELS.len())
        .map(|level| Victim {
            path: dir.path().join(level.to_string()),
            level,
            memory,
            steps: vec![0; THREADS as usize],
            contents: vec![Content::new(); THREADS as usize],
        })
        .collect();
    let mut random = Random::new(u64::from(std::process::id()));
    for kill in 0..kills {
        let life = Duration::from_micros(random.below(300_000));
        victims[kill as usize % LEVELS.len()].live_and_die(life);
    }
    // A short life may end before each thread had its turn.
    for mut victim in victims {
        let mut lives = 0;
        while victim.steps.contains(&0) {
            assert!(lives < 20, "{:?} after {lives} longer lives", victim.steps);
            victim.live_and_die(Duration::from_millis(300));
            lives += 1;
        }
    }
}

#[test]
fn killed_children_keep_their_word() {
    kill_children(Path::new(env!("CARGO_TARGET_TMPDIR")), ONE_TIER, KILLS);
}

#[test]
fn killed_children_keep_their_word_in_tiers() {
    kill_children(Path::new(env!("CARGO_TARGET_TMPDIR")), TWO_TIERS, KILLS / 2);
}

mod real_nodes {
    use super::*;

    #[test]
    fn killed_children_keep_their_word_in_tiers_on_nodes() {
        if !Path::new("/sys/devices/system/node/node1").exists() {
            println!("left out: this machine has one node, or tells of no more");
            return;
        }
        kill_children(&std::env::temp_dir(), TWO_NODES, KILLS);
    }
}
