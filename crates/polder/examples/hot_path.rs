//! Lookups of resident keys and nothing else, for looking at what the processor does:
//! `scripts/hot-path` counts the instructions of `lookup` and says which of them lock or store.
//!
//! Arguments: how many lookups, the translation, and `sampled` for a store that finds out miss ratios:
//! then a few lookups tell the sampler.

use std::time::Instant;

use polder::{Options, Store, Table, TranslationKind};

const RECORDS: u64 = 200_000;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// The function that is looked at.
#[inline(never)]
#[unsafe(no_mangle)]
fn hot_path_lookup(table: &Table, key: &[u8; 8], value: &mut [u8; 120]) -> bool {
    matches!(table.get_with(key, |found| value.copy_from_slice(found)), Ok(Some(())))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lookups: u64 = std::env::args().nth(1).map_or(Ok(100_000), |n| n.parse())?;
    let translation: TranslationKind =
        std::env::args().nth(2).map_or(Ok(TranslationKind::default()), |name| name.parse())?;
    let dir = tempfile::tempdir_in(".")?;
    let is_sampled = std::env::args().nth(3).is_some_and(|how| how == "sampled");
    let options = Options::new(dir.path().join("store")).memory_budget(128 << 20);
    let store = Store::open(options.translation(translation).miss_ratios(is_sampled))?;
    let table = store.create_table("records")?;
    let mut keys: Vec<_> = (0..RECORDS).map(key).collect();
    keys.sort_unstable();
    table.bulk_load(keys.iter().map(|key| (key, [key[0]; 120])))?;
    let mut value = [0; 120];
    let mut found = 0;
    let begun = Instant::now();
    for i in 0..lookups {
        let number = i.wrapping_mul(0xD6E8_FEB8_6659_FD93) % RECORDS;
        found += u64::from(hot_path_lookup(&table, &key(number), &mut value));
    }
    assert_eq!(found, lookups);
    let ns = begun.elapsed().as_nanos() as f64 / lookups.max(1) as f64;
    println!("{found} keys found, {ns:.1} ns each");
    if let Some(ratios) = store.stats().pool.miss_ratios {
        println!("{} of {} accesses were noted", ratios.noted, ratios.accesses);
    }
    Ok(store.close()?)
}
