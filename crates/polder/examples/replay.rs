//! How fast a store is replayed after it was killed, beside how fast it was written.
//!
//!     cargo run --release -p polder --example replay -- RECORDS UPDATES MEMORY_MIB
//!
//! A child fills a store, makes a checkpoint, updates random records with `Durability::None`, and
//! dies without closing. Then the store is opened, which reads the log and does the updates again.
//! Few records and many updates show the speed of replay itself; many records and few updates that
//! of reading cold pages.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use polder::{Durability, Options, Store};

const TABLE: &str = "records";
const LOG_LIMIT: u64 = 4 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |arg| arg.parse());
    let (records, updates, memory) = (number(0, 20_000)?, number(1, 100_000)?, number(2, 64)?);
    let dir = env::current_dir()?.join("replay.polder");
    if args.get(3).is_some_and(|arg| arg == "child") {
        return child(&dir, records, updates, memory << 20);
    }
    // Left over from a run that was stopped, if it is there at all.
    let _ = fs::remove_dir_all(&dir);
    let shown = process::Command::new(env::current_exe()?)
        .args([records, updates, memory].map(|arg| arg.to_string()))
        .arg("child")
        .output()?;
    let written: u64 = String::from_utf8(shown.stdout)?.trim().parse()?;
    let written = Duration::from_nanos(written);

    let begun = Instant::now();
    let store = Store::open(Options::new(&dir).memory_budget(memory << 20))?;
    let replayed = begun.elapsed();
    let recovery = store.recovery();
    let reads = store.stats().pool.device_reads;
    assert_eq!(store.table(TABLE)?.len(), records);
    store.close()?;
    let begun = Instant::now();
    let store = Store::open(Options::new(&dir).memory_budget(memory << 20))?;
    let reopened = begun.elapsed();
    drop(store);
    fs::remove_dir_all(&dir)?;

    let rate = |number: u64, time: Duration| number as f64 / time.as_secs_f64() / 1e3;
    println!("{updates} updates of {records} records, {memory} MiB of memory");
    println!("written:  {:8.1} thousand a second", rate(updates, written));
    println!(
        "replayed: {:8.1} thousand a second, {:.2} times as fast; {:.1} thousand pages read a second; {} MiB of log",
        rate(updates, replayed),
        written.as_secs_f64() / replayed.as_secs_f64(),
        rate(reads, replayed),
        recovery.log_bytes >> 20,
    );
    println!("opened again after a close: {:.1} ms", reopened.as_secs_f64() * 1e3);
    Ok(())
}

/// Writes and dies; prints how many nanoseconds the updates took.
fn child(dir: &Path, records: u64, updates: u64, memory: u64) -> Result<(), Box<dyn Error>> {
    let options = Options::new(dir).memory_budget(memory).log_limit(LOG_LIMIT);
    let store = Store::open(options.durability(Durability::None))?;
    let table = store.create_table(TABLE)?;
    table.bulk_load((0..records).map(|key| (key.to_be_bytes(), [1; 120])))?;
    store.checkpoint()?;
    let mut random = 1u64;
    let begun = Instant::now();
    for _ in 0..updates {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (random >> 33) % records;
        table.put(key.to_be_bytes(), random.to_le_bytes().repeat(15))?;
    }
    let written = begun.elapsed();
    store.flush()?;
    println!("{}", written.as_nanos());
    process::abort();
}
