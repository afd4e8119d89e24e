//! Counts words with a hash index: several threads on one file, and a pool that holds a part of it.
//!
//! `cargo run -p polder-hash --example words [FILE]`
//!
//! Without a file it makes up words, some of them often.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use polder_format::{ChecksumSeed, PageSize, SpaceId, StoreId};
use polder_hash::{HashError, HashIndex, KINDS, KeyHash};
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{FileState, Pool, PoolConfig, Swizzle};
use polder_testkit::Random;

const THREADS: usize = 4;
const MADE_UP: u64 = 200_000;

fn count_of(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_le_bytes)
}

/// Counts what it is sent. Each word goes to one thread: to read and to write a key are two steps.
fn count(index: &HashIndex<Swizzle>, words: Receiver<String>) -> Result<(), HashError> {
    for word in words {
        let key = word.as_bytes();
        // Longer ones than a page takes do not count.
        if key.len() + 8 <= index.max_entry_len() {
            let count = index.get_with(key, count_of)?.unwrap_or(0);
            index.insert(key, &(count + 1).to_le_bytes())?;
        }
    }
    Ok(())
}

fn words(path: Option<String>) -> Result<Box<dyn Iterator<Item = String>>, Box<dyn Error>> {
    let Some(path) = path else {
        let mut random = Random::new(1);
        let word = move |_| {
            // The half of the numbers up to 10, a quarter up to 100, and so on.
            let digits = 1 + (random.next_u64() | 1 << 5).trailing_zeros();
            format!("word-{}", random.below(10u64.pow(digits)))
        };
        return Ok(Box::new((0..MADE_UP).map(word)));
    };
    let lines = BufReader::new(std::fs::File::open(path)?).lines().map_while(Result::ok);
    let words = |line: String| line.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>();
    Ok(Box::new(lines.flat_map(words)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data");
    let config = |file| PoolConfig {
        file,
        ..PoolConfig::new(
            PoolConfig::least_budget(PageSize::MIN),
            PageSize::MIN,
            ChecksumSeed::new(StoreId([1; 16])),
        )
    };
    let device = Box::new(FileDevice::open(&path, OpenKind::Create)?);
    let pool: Pool<Swizzle> = Pool::open(device, &config(FileState::NEW), &KINDS)?;
    let index = HashIndex::create(pool.create_space()?)?;

    let mut total = 0u64;
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let (senders, threads): (Vec<_>, Vec<_>) = (0..THREADS)
            .map(|_| {
                let (sender, receiver) = channel();
                let index = &index;
                (sender, scope.spawn(move || count(index, receiver)))
            })
            .unzip();
        for word in words(std::env::args().nth(1))? {
            total += 1;
            let thread = KeyHash::of(word.as_bytes()).bits() as usize % THREADS;
            senders[thread].send(word)?;
        }
        drop(senders);
        for thread in threads {
            thread.join().map_err(|_| "a thread has panicked")??;
        }
        Ok(())
    })?;
    let stats = pool.stats();
    println!("{total} words; {} faults, {} evictions", stats.faults, stats.evictions);

    // What `file_state` tells must be kept somewhere: a store writes it into a superblock.
    pool.flush()?;
    let file = pool.file_state();
    drop((index, pool));

    let device = Box::new(FileDevice::open(&path, OpenKind::Existing)?);
    let pool: Pool<Swizzle> = Pool::open(device, &config(file), &KINDS)?;
    let index = HashIndex::open(pool.open_space(SpaceId::CATALOGUE)?);
    let (mut cursor, mut counts) = (index.cursor(), Vec::new());
    while let Some((word, count)) = cursor.next()? {
        counts.push((count_of(count), String::from_utf8_lossy(word).into_owned()));
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let report = index.check(&mut |_| true)?;
    println!("{} different ones in {} pages, most often:", counts.len(), report.pages);
    for (count, word) in counts.iter().take(5) {
        println!("{count:8} {word}");
    }
    Ok(())
}
