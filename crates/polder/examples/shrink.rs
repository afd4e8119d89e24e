//! What must hold of shrinking: a store of which 95% was removed at random becomes at most one and a
//! half times as long as what a bulk load of the rest takes, while a reader and a writer are at work;
//! their p99.9 at most doubles.
//!
//! ```text
//! cargo run --release -p polder --example shrink -- [records] [percent removed] [none|sync]
//! ```
//!
//! Records have 8 + 120 bytes. The reader and the writer draw keys of those that are left; they
//! work for a while before, during and after. The last word is how durable the writer's updates are.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use polder::{Durability, Options, Store};
use polder_testkit::Random;
use polder_testkit::random::scramble;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const VALUE: [u8; 120] = [7; 120];
/// How long the reader and the writer work before and after.
const WHILE: Duration = Duration::from_secs(4);
const PHASES: [&str; 3] = ["before", "during", "after"];

fn key(number: u64) -> [u8; 8] {
    scramble(number).to_be_bytes()
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let removed: u64 = arguments.next().map_or(Ok(95), |text| text.parse())?;
    let durability = match arguments.next().as_deref() {
        None | Some("none") => Durability::None,
        Some("sync") => Durability::Sync,
        Some(other) => return Err(format!("`{other}` is neither `none` nor `sync`").into()),
    };
    let dir = tempfile::tempdir_in(".")?;
    let options = |name| Options::new(dir.path().join(name)).durability(Durability::None);
    let store = Store::open(options("store"))?;
    let table = store.open_table("t")?;
    for number in 0..records {
        table.put(key(number), VALUE)?;
    }
    let writes = table.with_durability(durability);
    let (phase, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (begin, begins) = mpsc::channel::<()>();
    let (left, before_bytes, took, lasts) = thread::scope(|scope| -> Result<_, Failure> {
        // It waits in its first step, so that the store does not begin by itself meanwhile.
        let (sparse, now) = (&store, &phase);
        let shrinks = scope.spawn(move || shrink(sparse, &begins, now));
        let (mut random, mut left) = (Random::new(1), Vec::new());
        for number in 0..records {
            match random.below(100) < removed {
                true => _ = table.delete(key(number))?,
                false => left.push(key(number)),
            }
        }
        left.sort_unstable();
        let before_bytes = store.stats().pool.file_bytes;
        let read = |key: &[u8]| Ok(table.get_with(key, |value| value.len())?.is_some());
        let write = |key: &[u8]| Ok(!writes.put(key, VALUE)?);
        let (took, lasts) = thread::scope(|scope| -> Result<_, Failure> {
            let reader = scope.spawn(|| work(&left, &phase, &stop, 2, read));
            let writer = scope.spawn(|| work(&left, &phase, &stop, 3, write));
            thread::sleep(WHILE);
            let began = begin.send(());
            let took = shrinks.join();
            thread::sleep(WHILE);
            stop.store(true, Ordering::Relaxed);
            let lasts = [reader.join(), writer.join()];
            began?;
            let panicked = |_| "a thread has panicked";
            let [read, written] = lasts.map(|lasts| lasts.map_err(panicked));
            Ok((took.map_err(panicked)??, [read??, written??]))
        })?;
        Ok((left, before_bytes, took, lasts))
    })?;
    let report = store.check(&mut |_, _| true)?;
    if !report.faults.is_empty() || table.len() != left.len() as u64 {
        return Err(format!("{} entries, {:?}", table.len(), report.faults).into());
    }
    drop((table, writes));
    store.close()?;
    let after_bytes = data_bytes(&dir.path().join("store"))?;
    let loaded = Store::open(options("loaded"))?;
    loaded.create_table("t")?.bulk_load(left.iter().map(|key| (key, VALUE)))?;
    loaded.close()?;
    let loaded_bytes = data_bytes(&dir.path().join("loaded"))?;
    println!("{records} records, {} left, shrunk in {took:?}", left.len());
    println!("data file: {before_bytes} bytes before, {after_bytes} after");
    let times = after_bytes as f64 / loaded_bytes as f64;
    println!("a bulk load takes {loaded_bytes}: {times:.2} times that (at most 1.5)");
    ["reader", "writer"].into_iter().zip(lasts).try_for_each(|(who, lasts)| tell(who, lasts))
}

/// Begins when it is told to. Gives how long it took from there.
fn shrink(
    store: &Store,
    begins: &mpsc::Receiver<()>,
    phase: &AtomicUsize,
) -> Result<Duration, Failure> {
    let (mut since, mut steps) = (None, Vec::new());
    store.shrink_with(&mut |progress| {
        if steps.last().is_none_or(|(step, _)| *step != progress.step) {
            steps.push((progress.step, Instant::now()));
        }
        since.get_or_insert_with(|| {
            // If nobody tells, the caller has failed, and says so.
            let _ = begins.recv();
            phase.store(1, Ordering::Relaxed);
            Instant::now()
        });
        true
    })?;
    phase.store(2, Ordering::Relaxed);
    for (step, began) in steps {
        println!("{step:?} until {:?} before the end", began.elapsed());
    }
    Ok(since.map_or(Duration::ZERO, |since| since.elapsed()))
}

fn tell(who: &str, phases: [Vec<u32>; 3]) -> Result<(), Failure> {
    let mut longest = Vec::new();
    for (phase, mut lasts) in PHASES.into_iter().zip(phases) {
        lasts.sort_unstable();
        let count = lasts.len();
        let at = |part: f64| lasts.get((count.saturating_sub(1) as f64 * part) as usize);
        let (Some(p50), Some(p99), Some(p999)) = (at(0.5), at(0.99), at(0.999)) else {
            return Err(format!("the {who} did nothing {phase}").into());
        };
        println!("{who} {phase}: {count} operations, ns: p50 {p50}, p99 {p99}, p99.9 {p999}");
        longest.push(f64::from(*p999));
    }
    println!("{who}: p99.9 is {:.2} times that before (at most 2)", longest[1] / longest[0]);
    Ok(())
}

fn data_bytes(store: &Path) -> Result<u64, Failure> {
    Ok(std::fs::metadata(store.join("data"))?.len())
}

/// Does one operation after the other, and times each; by phases.
fn work(
    keys: &[[u8; 8]],
    phase: &AtomicUsize,
    stop: &AtomicBool,
    seed: u64,
    operation: impl Fn(&[u8]) -> Result<bool, Failure>,
) -> Result<[Vec<u32>; 3], Failure> {
    let (mut random, mut lasts) = (Random::new(seed), [const { Vec::new() }; 3]);
    while !stop.load(Ordering::Relaxed) {
        let (key, phase) = (&keys[random.index(keys.len())], phase.load(Ordering::Relaxed));
        let begun = Instant::now();
        if !operation(key)? {
            return Err("a key is missing".into());
        }
        lasts[phase].push(begun.elapsed().as_nanos() as u32);
    }
    Ok(lasts)
}
