//! What lookups of resident keys write to cache lines that other threads use: for each translation
//! and read mode. `scripts/shared-writes` builds it so that the pool's atomics count.
//!
//! Not counted are promotions and marks that are taken off: things that a lookup does now and then.
//! Fails if an optimistic lookup writes to a shared line at all, or one that holds pages by cores
//! (measured with a thread on each core): by any translation but those that lock what they look
//! into, `open` and `hash` without versions.
#![allow(clippy::print_stdout)]

#[cfg(not(polder_count))]
fn main() {
    println!("built without counters: run scripts/shared-writes");
}

#[cfg(polder_count)]
fn main() {
    counting::main();
}

#[cfg(polder_count)]
mod counting {
    use std::sync::Barrier;
    use std::thread;

    use polder_format::{ChecksumSeed, PageSize, PhysicalPageNo, SpaceId, StoreId};
    use polder_pool::counted::{self, SharedWrites};
    use polder_pool::{
        Array, Direct, Hash, HashInlined, HashOptimistic, HashOptimisticInlined, HashPreferred,
        Open, Pool, PoolConfig, Predictive, PredictiveHashed, ReadMode, Simd, Translation, Vm,
        VmHuge,
    };
    use polder_testkit::{FaultPlan, Random, SimDisk};
    use polder_tree::{KINDS, Tree};
    use rustix::thread::{CpuSet, sched_setaffinity};

    const KEYS: u64 = 20_000;
    const LOOKUPS: u64 = 2_000;
    const THREADS: u64 = 4;
    /// Whose readers lock a bucket or a partition.
    const LOCKING: [&str; 4] = [Hash::NAME, HashInlined::NAME, HashPreferred::NAME, Open::NAME];

    /// Threads, and whether each keeps to a core of its own.
    fn threads(hold: ReadMode) -> (u64, bool) {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        if hold == ReadMode::Core { (cores.clamp(1, THREADS), true) } else { (THREADS, false) }
    }

    fn keep_to_core(core: usize) {
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).expect("a thread may choose its core");
    }

    /// Writes to shared lines in lookups by several threads at once.
    fn measure<T: Translation>(hold: ReadMode) -> Option<SharedWrites> {
        let config = PoolConfig {
            read_mode: hold,
            ..PoolConfig::new(64 << 20, PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])))
        };
        let disk = SimDisk::new(FaultPlan::new(1));
        let pool = Pool::<T>::open(Box::new(disk), &config, &KINDS).ok()?;
        let tree = Tree::create(pool.create_space().expect("space")).expect("tree");
        for key in 0..KEYS {
            tree.insert(&key.to_be_bytes(), &[7; 120], key).expect("room");
        }
        let (threads, pinned) = threads(hold);
        let barrier = Barrier::new(threads as usize);
        let notes: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let (tree, barrier) = (&tree, &barrier);
                    scope.spawn(move || {
                        let mut random = Random::new(thread);
                        if pinned {
                            keep_to_core(thread as usize);
                        }
                        // Registers with the pool's counters.
                        lookup(tree, 0);
                        barrier.wait();
                        counted::start();
                        (0..LOOKUPS).for_each(|_| lookup(tree, random.below(KEYS)));
                        counted::stop()
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        Some(counted::shared(&notes))
    }

    fn lookup<T: Translation>(tree: &Tree<T>, key: u64) {
        assert!(tree.get(&key.to_be_bytes()).expect("reads").is_some());
    }

    struct Row {
        translation: &'static str,
        hold: ReadMode,
        writes: Option<SharedWrites>,
    }

    fn rows<T: Translation>(rows: &mut Vec<Row>) {
        for hold in ReadMode::ALL.iter().copied() {
            rows.push(Row { translation: T::NAME, hold, writes: measure::<T>(hold) });
        }
    }

    pub(super) fn main() {
        let mut all = Vec::new();
        rows::<Array>(&mut all);
        rows::<Direct>(&mut all);
        rows::<Hash>(&mut all);
        rows::<HashOptimistic>(&mut all);
        rows::<HashInlined>(&mut all);
        rows::<HashPreferred>(&mut all);
        rows::<HashOptimisticInlined>(&mut all);
        rows::<Open>(&mut all);
        rows::<PredictiveHashed>(&mut all);
        rows::<Predictive>(&mut all);
        rows::<Simd>(&mut all);
        rows::<Vm>(&mut all);
        rows::<VmHuge>(&mut all);
        if std::env::args().any(|argument| argument == "--json") {
            print_json(&all);
        } else {
            print_table(&all);
        }
        for Row { translation, hold, writes } in &all {
            let written = writes.map(|writes| writes.stores + writes.updates);
            match hold {
                _ if LOCKING.contains(translation) => {}
                ReadMode::Optimistic => {
                    assert_eq!(written, Some(0), "{translation} writes to shared lines")
                }
                // Some refuse.
                ReadMode::Core => {
                    let none = written.is_none_or(|written| written == 0);
                    assert!(none, "{translation} writes to lines of other cores");
                }
                _ => {}
            }
        }
    }

    fn a_lookup(count: u64, hold: ReadMode) -> f64 {
        count as f64 / (LOOKUPS * threads(hold).0) as f64
    }

    fn print_table(all: &[Row]) {
        println!("writes a lookup, {THREADS} threads (by core: one on each), {KEYS} resident keys");
        println!("{:24} {:11} {:>9} {:>9} {:>12}", "", "", "to lines", "locked", "shared by");
        println!(
            "{:24} {:11} {:>9} {:>9} {:>12}",
            "translation", "holds", "of others", "of those", "chance alone"
        );
        for Row { translation, hold, writes } in all {
            match writes {
                Some(writes) => println!(
                    "{translation:24} {:11} {:9.3} {:9.3} {:12.3}",
                    hold.name(),
                    a_lookup(writes.stores + writes.updates, *hold),
                    a_lookup(writes.updates, *hold),
                    a_lookup(writes.by_neighbourhood, *hold),
                ),
                None => println!("{translation:24} {:11} {:>9}", hold.name(), "refused"),
            }
        }
    }

    fn print_json(all: &[Row]) {
        let rows: Vec<_> = all
            .iter()
            .map(|Row { translation, hold, writes }| {
                let figures = writes.map_or_else(
                    || "null".to_string(),
                    |writes| {
                        format!(
                            r#"{{"stores":{},"updates":{},"by_neighbourhood":{}}}"#,
                            a_lookup(writes.stores, *hold),
                            a_lookup(writes.updates, *hold),
                            a_lookup(writes.by_neighbourhood, *hold)
                        )
                    },
                );
                format!(r#"{{"translation":"{translation}","hold":"{hold}","a_lookup":{figures}}}"#)
            })
            .collect();
        println!(r#"{{"threads":{THREADS},"keys":{KEYS},"sides":[{}]}}"#, rows.join(","));
    }
}
