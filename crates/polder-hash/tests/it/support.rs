//! What the index's tests share: pools on a simulated disk, and keys with hashes of one's choice.

use std::collections::{BTreeMap, HashMap};

use polder_format::{PageSize, SpaceId};
use polder_hash::{HashIndex, KINDS, KeyHash};
use polder_pool::{FileState, Pool, PoolConfig, Translation};
use polder_testkit::SimDisk;
pub use polder_testkit::effort::scale;
pub use polder_testkit::pools::{disk, tight as config};

/// The space of the only index of a test.
pub const SPACE: SpaceId = SpaceId::CATALOGUE;

/// What an index must hold.
pub type Model = HashMap<Vec<u8>, Vec<u8>>;

pub fn open_pool<T: Translation>(disk: &SimDisk, config: &PoolConfig) -> Pool<T> {
    Pool::open(Box::new(disk.clone()), config, &KINDS).unwrap()
}

/// A new index, and its pool.
pub fn new_index<T: Translation>(disk: &SimDisk, size: PageSize) -> (Pool<T>, HashIndex<T>) {
    let pool = open_pool(disk, &config::<T>(size, FileState::NEW));
    let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
    (pool, index)
}

/// Flushes, and opens the file with another pool, of another translation if so wished.
pub fn reopen<T: Translation, U: Translation>(
    disk: &SimDisk,
    old: Pool<T>,
    index: HashIndex<T>,
) -> (Pool<U>, HashIndex<U>) {
    old.flush().unwrap();
    let (file, size) = (old.file_state(), old.page_size());
    drop((old, index));
    let pool = open_pool(disk, &config::<U>(size, file));
    let index = HashIndex::open(pool.open_space(SPACE).unwrap());
    (pool, index)
}

/// Everything that `check` looks at is as it should be. Gives the pages of the index.
pub fn assert_sound<T: Translation>(index: &HashIndex<T>, entries: usize) -> u64 {
    let report = index.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, [], "of {} pages", report.pages);
    assert!(!report.stopped);
    assert_eq!(report.entries, entries as u64);
    assert_eq!(index.space().pool().check_maps().unwrap(), Vec::<String>::new());
    assert_eq!(index.space().pool().check_links(), Vec::<String>::new());
    report.pages
}

/// All entries, as a cursor gives them.
pub fn entries_of<T: Translation>(index: &HashIndex<T>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut cursor, mut entries) = (index.cursor(), BTreeMap::new());
    let mut progress = 0.0;
    while let Some((key, value)) = cursor.next().unwrap() {
        assert!(entries.insert(key.to_vec(), value.to_vec()).is_none(), "{key:?} came twice");
        assert!(cursor.progress() >= progress);
        progress = cursor.progress();
    }
    assert_eq!(cursor.progress(), 1.0);
    entries
}

/// Looks each key of the model up, and goes through the index.
pub fn assert_content<T: Translation>(index: &HashIndex<T>, model: &Model) {
    for (key, value) in model {
        assert_eq!(index.get(key).unwrap().as_ref(), Some(value));
        assert_eq!(index.get_with(key, <[u8]>::to_vec).unwrap().as_ref(), Some(value));
        assert!(index.contains_key(key).unwrap());
    }
    let sorted: BTreeMap<_, _> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert!(entries_of(index) == sorted);
}

/// The word that a step of the hash makes `x` of: `docs/format.md` has the step.
fn unstep(mut x: u64) -> u64 {
    let unshift = |x: u64, by: u32| (0..64 / by).fold(x, |y, _| x ^ y >> by);
    x = unshift(x, 31).wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
    x = unshift(x, 27).wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
    unshift(x, 30).wrapping_sub(0x9E37_79B9_7F4A_7C15)
}

/// Of an odd number, modulo 2^64.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

/// A key of 16 bytes with this hash, another one for each number: the first word is the number, and the
/// second is what makes the hash come out.
pub fn key_with_hash(hash: u64, number: u64) -> Vec<u8> {
    let first = number.to_le_bytes();
    // The hash behind the first word is that of a longer key up to there.
    let state = unstep(hash) ^ state_behind(first);
    let key = [first, state.to_le_bytes()].concat();
    assert_eq!(KeyHash::of(&key).bits(), hash);
    key
}

/// The state of the hash of a key of 16 bytes behind its first word.
fn state_behind(first: [u8; 8]) -> u64 {
    // The last step of a key whose second word is zero is a step of that state.
    unstep(KeyHash::of(&[first, [0; 8]].concat()).bits())
}
