//! What the log says of an index, done again after a crash: at every point of the log, and over a file of
//! which any part was written.

use std::sync::Arc;
use std::thread;

use polder_format::log::{LoggedValue, Operation};
use polder_format::{PageSize, SpaceId};
use polder_hash::bucket::{BucketMut, BucketRef};
use polder_hash::{HashIndex, KINDS, KeyHash, Prefix, redo};
use polder_pool::bytes::PageBuf;
use polder_pool::{Array, FileState, Pool, PoolConfig, Swizzle, Translation};
use polder_testkit::random::scramble;
use polder_testkit::recovery::{self, LoggedGroup, MemoryLog};
use polder_testkit::{FaultPlan, Random, SimDisk};
use polder_tree::Tree;
use proptest::prelude::*;

use crate::support::*;

fn logged_pool<T: Translation>(disk: &SimDisk, log: &Arc<MemoryLog>, times: u64) -> Pool<T> {
    pool_of(disk, log.behind(config::<T>(PageSize::MIN, FileState::NEW)), times)
}

fn unlogged_pool(disk: &SimDisk, times: u64, file: FileState) -> Pool<Array> {
    pool_of(disk, config::<Array>(PageSize::MIN, file), times)
}

fn pool_of<T: Translation>(disk: &SimDisk, config: PoolConfig, times: u64) -> Pool<T> {
    let config = PoolConfig { memory_budget: config.memory_budget * times, ..config };
    let kinds = [KINDS.as_slice(), polder_tree::KINDS.as_slice()].concat();
    Pool::open(Box::new(disk.clone()), &config, &kinds).unwrap()
}

fn replay(pool: &Pool<Array>, groups: &[LoggedGroup]) {
    recovery::replay(pool, &[SPACE], groups);
}

/// A key; some have hashes in common, one of which differs from another in its last bit, and one from all
/// others in its first.
fn key(number: u64) -> Vec<u8> {
    match number % 3 {
        0 => key_with_hash([0, 1, 1 << 63][number as usize / 3 % 3], number),
        _ => scramble(number).to_le_bytes().to_vec(),
    }
}

/// Changes of all kinds; tells after each how many groups there were and what the index held.
fn work<T: Translation>(
    index: &HashIndex<T>,
    log: &MemoryLog,
    model: &mut Model,
    steps: u64,
    random: &mut Random,
) -> Vec<(usize, Model)> {
    let mut history = vec![(log.count(), model.clone())];
    for step in 0..steps {
        let key = key(random.below(240));
        // Grows, and shrinks to nearly nothing.
        let removes = if step < steps / 2 { 0.2 } else { 0.85 };
        if random.chance(removes) {
            index.remove(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![step as u8; random.index(600)];
            if index.insert(&key, &value).is_ok() {
                model.insert(key, value);
            }
        }
        history.push((log.count(), model.clone()));
    }
    history
}

/// Nothing was written in place yet: what the log has is all there is.
#[test]
fn each_prefix_of_the_log_gives_what_was_there() {
    let log = Arc::new(MemoryLog::default());
    let pool = logged_pool::<Swizzle>(&disk(), &log, 16);
    let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
    let created = log.count();
    let mut model = Model::new();
    let history = work(&index, &log, &mut model, 900, &mut Random::new(1));
    let groups = log.groups();
    let mut reshapes = 0;
    // Each prefix where pages are split or joined, and some of the others.
    for prefix in created..=groups.len() {
        let done = history.partition_point(|(at, _)| *at <= prefix);
        let (at, before) = &history[done - 1];
        let within = *at < prefix;
        reshapes += usize::from(within);
        if !within && prefix % 16 != 0 {
            continue;
        }
        let pool = unlogged_pool(&disk(), 16, FileState::NEW);
        replay(&pool, &groups[..prefix]);
        let index = HashIndex::open(pool.open_space(SPACE).unwrap());
        // The change itself is one group, the first or the last of its operation.
        let there: Model = entries_of(&index).into_iter().collect();
        let after = history.get(done).filter(|_| within).map(|(_, after)| after);
        assert!(there == *before || Some(&there) == after, "after {prefix} groups");
        assert_sound(&index, there.len());
        assert_content(&index, &there);
        assert_eq!(recovery::entries(&groups[..prefix]), there.len() as i64, "as the log counts");
        // It goes on behind them.
        index.insert(b"more", b"").unwrap();
        assert_sound(&index, there.len() + 1);
    }
    assert!(reshapes > 50, "{reshapes} prefixes end within an operation");
}

/// A bucket with a chain is split time and again, by keys whose hashes agree with the chain's for longer
/// and longer; then it gets shorter and goes.
#[test]
fn chains_that_are_split_come_back() {
    let log = Arc::new(MemoryLog::default());
    let pool = logged_pool::<Swizzle>(&disk(), &log, 16);
    let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
    let created = log.count();
    let hash = 0x5555_5555_5555_5555;
    let mut history = vec![(created, 0)];
    let chained: Vec<_> = (0..40).map(|number| key_with_hash(hash, number)).collect();
    let others: Vec<_> = (0..14).map(|bit| key_with_hash(hash ^ 1 << (63 - bit), bit)).collect();
    for key in chained.iter().chain(&others) {
        index.insert(key, &[1; 300]).unwrap();
        history.push((log.count(), history.len()));
    }
    let all = history.len() - 1;
    for (removed, key) in others.iter().chain(&chained).enumerate() {
        index.remove(key).unwrap();
        history.push((log.count(), all - removed - 1));
    }
    let groups = log.groups();
    for prefix in created..=groups.len() {
        let pool = unlogged_pool(&disk(), 16, FileState::NEW);
        replay(&pool, &groups[..prefix]);
        let index = HashIndex::open(pool.open_space(SPACE).unwrap());
        let there = entries_of(&index).len();
        let done = history.partition_point(|(at, _)| *at <= prefix);
        let possible = [history.get(done - 1), history.get(done)];
        assert!(possible.into_iter().flatten().any(|(_, entries)| *entries == there));
        let pages = assert_sound(&index, there);
        assert!(prefix < groups.len() || pages == 1);
    }
}

/// A tiny pool writes pages all the time; whatever of them the file has, the log brings the rest, and
/// what it has already stays as it is.
#[test]
fn the_log_mends_a_file_of_any_age() {
    for seed in 0..6 * scale() {
        let log = Arc::new(MemoryLog::default());
        let disk = disk();
        let pool = logged_pool::<Swizzle>(&disk, &log, 1);
        let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
        let tree = Tree::create(pool.create_space().unwrap()).unwrap();
        let (mut model, mut random) = (Model::new(), Random::new(seed));
        let mut images = Vec::new();
        for number in 0..6000u64 {
            let (key, value) = (scramble(number).to_le_bytes(), vec![3; random.index(300)]);
            if number % 3 == 0 {
                tree.insert(&key, &value, number).unwrap();
            } else {
                index.insert(&key, &value).unwrap();
                model.insert(key.to_vec(), value);
            }
            if number % 2000 == 1999 {
                images.push(disk.image());
                let gone: Vec<_> = model.keys().take(1000).cloned().collect();
                for key in gone {
                    index.remove(&key).unwrap();
                    model.remove(&key);
                }
            }
        }
        work(&index, &log, &mut model, 300, &mut random);
        images.push(disk.image());
        let groups = log.groups();
        for image in images {
            let disk = SimDisk::from_image(&image, FaultPlan::new(1));
            let pool = unlogged_pool(&disk, 1, FileState::NEW);
            replay(&pool, &groups);
            let index = HashIndex::open(pool.open_space(SPACE).unwrap());
            assert_content(&index, &model);
            // What a page has is not done to it again.
            replay(&pool, &groups);
            assert_sound(&index, model.len());
            let trees = SpaceId::new(u64::from(SPACE.get()) + 1).unwrap();
            let tree = Tree::open(pool.open_space(trees).unwrap());
            assert_eq!(tree.check(&mut |_| true).unwrap().faults, []);
            pool.flush().unwrap();
            let again = unlogged_pool(&disk, 1, pool.file_state());
            let index = HashIndex::open(again.open_space(SPACE).unwrap());
            assert_content(&index, &model);
        }
    }
}

/// For each page the order of the log is the order of its changes.
#[test]
fn what_threads_logged_gives_their_entries() {
    let log = Arc::new(MemoryLog::default());
    let pool = logged_pool::<Swizzle>(&disk(), &log, 1);
    let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
    thread::scope(|scope| {
        for t in 0..6 {
            let index = index.clone();
            scope.spawn(move || {
                let mut random = Random::new(t);
                for step in 0..2000 * scale() {
                    let key = key(random.below(900));
                    if random.chance(if step / 500 % 2 == 0 { 0.1 } else { 0.8 }) {
                        index.remove(&key).unwrap();
                    } else {
                        let _ = index.insert(&key, &vec![t as u8; random.index(500)]);
                    }
                }
            });
        }
    });
    let there = entries_of(&index);
    let recovered = unlogged_pool(&disk(), 1, FileState::NEW);
    replay(&recovered, &log.groups());
    let index = HashIndex::open(recovered.open_space(SPACE).unwrap());
    assert!(entries_of(&index) == there);
    assert_sound(&index, there.len());
}

fn bucket(prefix: Prefix, entries: &[(Vec<u8>, Vec<u8>)]) -> PageBuf {
    let mut page = PageBuf::new(PageSize::MIN);
    let mut bucket = BucketMut::new(page.page_mut());
    bucket.init(prefix);
    for (key, value) in entries {
        let hash = KeyHash::of(key);
        if let Err(place) = bucket.bucket().search(key, hash)
            && prefix.covers(hash)
        {
            let _ = bucket.insert(place, hash, key, value);
        }
    }
    page
}

fn some_entries() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let key = prop::collection::vec(any::<u8>(), 0..20);
    prop::collection::vec((key, prop::collection::vec(any::<u8>(), 0..1200)), 0..40)
}

proptest! {
    /// Whatever a record says, the bucket keeps its shape, or the page is thrown away.
    #[test]
    fn a_record_that_does_not_fit_is_refused(
        there in some_entries(),
        keys in some_entries(),
        bits in 0..4u8,
        number in 0..30u32,
    ) {
        let there: Vec<_> = there.into_iter().filter(|(_, value)| value.len() < 900).collect();
        let prefix = Prefix::of(KeyHash::new(0), bits);
        let mut page = bucket(prefix, &there);
        for (key, value) in &keys {
            let operations = [
                Operation::Insert { added: true, version: 9, key, value: LoggedValue::Inline(value) },
                Operation::Insert { added: true, version: 9, key, value: LoggedValue::Long { len: 9, run: 1, link: 9 } },
                Operation::Remove { key },
                Operation::InsertChild { link: 5, separator: key },
                Operation::RemoveChild { index: number },
                Operation::Split { left_count: number, right: 8, separator: &[] },
                Operation::Split { left_count: number, right: 8, separator: b"k" },
                Operation::Loaded { entries: 1 },
            ];
            for operation in operations {
                if redo(&operation, page.page_mut()).is_err() {
                    page = bucket(prefix, &there);
                }
                prop_assert_eq!(BucketRef::new(page.page()).verify_whole(), Ok(()));
            }
        }
    }
}
