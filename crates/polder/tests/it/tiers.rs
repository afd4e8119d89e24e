//! Memory in tiers, as users of a store choose it.

use std::time::Duration;

use polder::{
    Durability, Migration, OpenError, Options, OptionsError, Store, Tier, TranslationKind,
};

use crate::support::*;

const MIB: u64 = 1 << 20;

/// What the first tier has no room for is in the second, and the store says so.
#[test]
fn a_store_keeps_in_slower_memory_what_fast_memory_has_no_room_for() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new(dir.path().join("store")).durability(Durability::None);
    let store = Store::open(options().tiers([Tier::new(4 * MIB), Tier::new(16 * MIB)])).unwrap();
    assert_eq!(store.memory_budget(), 4 * MIB, "that of the first tier");
    let table = store.open_table("t").unwrap();
    for key in 0..60_000u64 {
        table.put(key.to_be_bytes(), [key as u8; 100]).unwrap();
    }
    for _ in 0..3 {
        for key in (0..60_000u64).step_by(7) {
            assert_eq!(table.get(key.to_be_bytes()).unwrap().unwrap(), [key as u8; 100]);
        }
    }
    let stats = store.stats();
    assert_eq!(
        (stats.pool.tiers.len(), stats.pool.evictions, stats.pool.faults),
        (2, 0, 0),
        "{stats:?}"
    );
    assert_eq!(stats.pool.tiers[1].frames, 16 * MIB / 4096);
    assert!(stats.pool.resident_pages > stats.pool.tiers[0].frames * 3 / 2, "{stats:?}");
    assert!(stats.pool.tiers.iter().all(|tier| tier.hits > 1000), "{:?}", stats.pool.tiers);
    assert!(stats.pool.tier_demotions > 100 && stats.pool.moved_bytes > 100 * 4096, "{stats:?}");
    let json: serde_json::Value = serde_json::from_str(&store.stats_json()).unwrap();
    assert_eq!(json["tiers"][1]["frames"], 16 * MIB / 4096);
    drop(table);
    store.close().unwrap();
    // Nothing on disk depends on it.
    let store = Store::open(options().memory_budget(4 * MIB)).unwrap();
    assert_eq!(store.table("t").unwrap().len(), 60_000);
    assert!(store.stats().pool.tiers.is_empty());
    assert_sound(&store);
}

/// Options that cannot be say what and why, and leave nothing of a store.
#[test]
fn impossible_tiers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = Options::new(&path);
    let [near, far] = [Tier::new(16 * MIB), Tier::new(64 * MIB)];
    let slow = |tier: Tier| tier.simulated(Duration::from_nanos(300));
    for (options, said) in [
        (options.clone().tiers([slow(near), far]), "the first one is the fastest"),
        (options.clone().tiers([near, Tier::new(4096)]), "too few for tier 1"),
        (options.clone().tiers([near, far, far, far, far]), "5 tiers are more than 4"),
        (options.clone().tiers([near, far]).translation(TranslationKind::Direct), "`direct`"),
        (
            options
                .clone()
                .tiers([near, far])
                .migration(Migration { loads_to_slower: f64::NAN, ..Migration::default() }),
            "`loads_to_slower`",
        ),
        // What is known of its pages takes more than there is.
        (options.clone().tiers([near, Tier::new(64 << 30)]), "too few to know of the pages"),
        (options.clone().tiers([near.on_node(1023)]), "no node 1023"),
    ] {
        match Store::open(options) {
            Err(OpenError::Options(OptionsError::Tiers { what })) => {
                assert!(what.contains(said), "{what}");
            }
            other => panic!("{said}: {other:?}"),
        }
        // Files that were begun are empty again.
        for file in ["data", "log"] {
            let len = path.join(file).metadata().map_or(0, |file| file.len());
            assert_eq!(len, 0, "{said}: {file}");
        }
    }
    let slower = options.tiers([near, slow(far)]).validate();
    assert!(slower.is_ok());
}
