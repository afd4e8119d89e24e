//! Lookups of resident keys and nothing else, for looking at what the processor does:
//! `scripts/hot-path` counts the instructions of `lookup` and says which of them lock or store.

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
    let options = Options::new(dir.path().join("store")).memory_budget(128 << 20);
    let store = Store::open(options.translation(translation))?;
    let table = store.create_table("records")?;
    let mut keys: Vec<_> = (0..RECORDS).map(key).collect();
    keys.sort_unstable();
    table.bulk_load(keys.iter().map(|key| (key, [key[0]; 120])))?;
    let mut value = [0; 120];
    let mut found = 0;
    for i in 0..lookups {
        let number = i.wrapping_mul(0xD6E8_FEB8_6659_FD93) % RECORDS;
        found += u64::from(hot_path_lookup(&table, &key(number), &mut value));
    }
    assert_eq!(found, lookups);
    println!("{found} keys found");
    Ok(store.close()?)
}
