//! Futures: their answers are those of calls, on whatever runtime. (What may happen to them, and to the
//! store: `futures_faults.rs`.)

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use polder::{AsyncTable, Durability, Store, StoreError, Table, WriteBatch};
use polder_testkit::{
    Entry, FaultPlan, KeyShape, Mix, Model, Ordered, Random, ValueShape, Workload, compare,
};

use crate::support::*;

/// Whether a task was woken, and its thread.
pub struct Flag {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

pub fn flag() -> Arc<Flag> {
    Arc::new(Flag { is_woken: AtomicBool::new(true), thread: thread::current() })
}

/// Polls all of them until they are ready, each when it was woken; some are dropped before, if `drops`
/// says so after a poll. The plainest executor that there is.
pub fn run_or_drop<F: Future>(
    futures: Vec<F>,
    mut drops: impl FnMut(usize) -> bool,
) -> Vec<Option<F::Output>> {
    let mut outputs: Vec<_> = futures.iter().map(|_| None).collect();
    let mut tasks: Vec<_> =
        futures.into_iter().map(|future| Some((Box::pin(future), flag()))).collect();
    while tasks.iter().any(Option::is_some) {
        let mut is_moving = false;
        for (i, place) in tasks.iter_mut().enumerate() {
            let Some((future, flag)) = place else { continue };
            if !flag.is_woken.swap(false, Ordering::SeqCst) {
                continue;
            }
            is_moving = true;
            let waker = Waker::from(Arc::clone(flag));
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                outputs[i] = Some(output);
                *place = None;
            } else if drops(i) {
                *place = None;
            }
        }
        if !is_moving {
            let begun = Instant::now();
            thread::park_timeout(Duration::from_secs(30));
            assert!(begun.elapsed() < Duration::from_secs(29), "a task is not woken");
        }
    }
    outputs
}

pub fn run_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    run_or_drop(futures, |_| false).into_iter().map(Option::unwrap).collect()
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    run_all(vec![future]).pop().unwrap()
}

pub fn key(number: u64) -> [u8; 8] {
    polder_testkit::random::scramble(number).to_be_bytes()
}

/// Some fill a quarter of a page, some are longer than one.
pub fn value(number: u64) -> Vec<u8> {
    let len = match number % 50 {
        0 => 9000,
        1 => 900,
        _ => 100,
    };
    vec![number as u8; len]
}

pub const NUMBERS: u64 = 20_000;

/// A store whose data is several times its memory, opened anew.
pub fn cold(disks: &Disks) -> (Store, Table) {
    {
        let store = disks.open(quick("simulated")).unwrap();
        let table = store.open_table("t").unwrap();
        if table.is_empty() {
            let mut numbers: Vec<_> = (0..NUMBERS).collect();
            numbers.sort_by_key(|number| key(*number));
            table.bulk_load(numbers.into_iter().map(|n| (key(n), value(n)))).unwrap();
        }
        drop(table);
        store.close().unwrap();
    }
    let store = disks.open(tight("simulated")).unwrap();
    let table = store.table("t").unwrap();
    (store, table)
}

/// Every frame holds a page or is free, and none is kept: half of the pool can be held at once.
pub fn assert_no_frame_is_kept(store: &Store) {
    store.checkpoint().unwrap();
    let stats = store.stats();
    assert_eq!(stats.pool.resident_pages + stats.pool.frames_free, stats.pool.frames);
    let table = store.open_table("t").unwrap();
    for round in 0..3 {
        let mut batch = WriteBatch::new();
        for number in 0..stats.pool.frames / 2 - 16 {
            // Far from each other.
            let key = (number * (u64::MAX / stats.pool.frames * 2)).to_be_bytes();
            batch.put(&table, key, [round]);
        }
        store.apply(batch).unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.pool.resident_pages + stats.pool.frames_free, stats.pool.frames);
}

#[test]
fn thousands_of_gets_of_one_thread_are_under_way_at_once() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let delays = FaultPlan::new(3).delay(0.3, Duration::from_micros(50));
    disks.data.set_plan(delays);
    let later = table.asynchronous();
    let mut random = Random::new(5);
    for _ in 0..3 {
        // A third is not there; some are long; some come twice.
        let numbers: Vec<_> = (0..2000).map(|_| random.below(NUMBERS * 3 / 2)).collect();
        let found = run_all(numbers.iter().map(|number| later.get(key(*number))).collect());
        for (number, found) in numbers.into_iter().zip(found) {
            assert!(found.unwrap() == (number < NUMBERS).then(|| value(number)), "{number}");
        }
    }
    let most = disks.data.counts().most_queued;
    assert!(most > 1, "{most} reads were under way at once");
    assert_no_frame_is_kept(&store);
    assert_sound(&store);
}

#[test]
fn futures_answer_as_calls_do() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.asynchronous();
    block_on(async {
        for number in (0..NUMBERS + 50).step_by(97) {
            let key = key(number);
            assert_eq!(later.get(key).await.unwrap(), table.get(key).unwrap());
            assert_eq!(later.version(key).await.unwrap(), table.version(key).unwrap());
            assert_eq!(later.get_versioned(key).await.unwrap(), table.get_versioned(key).unwrap());
            assert_eq!(later.contains_key(key).await.unwrap(), number < NUMBERS);
        }
        assert_eq!(later.first().await.unwrap(), table.first().unwrap());
        assert_eq!(later.last().await.unwrap(), table.last().unwrap());
        let long = vec![0; polder::MAX_VALUE_BYTES as usize + 1];
        for error in [
            later.put("k", &long).await.map(drop).unwrap_err(),
            later.put(vec![1; 4096], "v").await.map(drop).unwrap_err(),
        ] {
            assert!(matches!(
                error,
                StoreError::ValueTooLong { .. } | StoreError::KeyTooLong { .. }
            ));
        }
    });
    assert_no_frame_is_kept(&store);
}

/// A table as an ordered key-value store, each operation awaited.
struct Later(AsyncTable);

impl Ordered for Later {
    type Error = StoreError;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        block_on(async {
            match value.len().is_multiple_of(2) {
                true => Ok(!self.0.put(key, value).await?),
                false => Ok(self.0.insert(key, value).await?.is_some()),
            }
        })
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, StoreError> {
        block_on(async {
            match key.len().is_multiple_of(2) {
                true => self.0.delete(key).await,
                false => Ok(self.0.remove(key).await?.is_some()),
            }
        })
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        block_on(self.0.get(key))
    }

    fn range(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let range = self.0.range((from, to));
        let mut range = if reverse { range.backward() } else { range };
        block_on(async {
            let mut entries = Vec::new();
            while entries.len() < limit
                && let Some(entry) = range.next().await
            {
                entries.push(entry?);
            }
            Ok(entries)
        })
    }
}

#[test]
fn a_table_by_futures_is_what_the_model_is() {
    for seed in 0..2 * scale() {
        let disks = disk();
        let store = disks.open(quick("simulated")).unwrap();
        let table = store.open_table("t").unwrap();
        let mut model = Model::default();
        let workload = Workload::new(seed)
            .keys(KeyShape::Mixed { key_bytes_max: 300 }, 2000)
            .values(ValueShape::Pages { page_bytes: 4096 })
            .mix(Mix::GROWING);
        let result = compare(workload.take(3000), &mut Later(table.asynchronous()), &mut model);
        if let Err(difference) = result {
            panic!("seed {seed}: {difference}");
        }
        assert_content(&table, &model);
        assert_sound(&store);
    }
}

#[test]
fn many_writes_of_one_thread_are_made_and_share_syncs() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.asynchronous();
    let syncs = disks.log.counts().syncs;
    let written = run_all((0..2000).map(|n| later.insert(key(n * 11), value(n + 1))).collect());
    for (n, old) in written.into_iter().enumerate() {
        let number = n as u64 * 11;
        assert!(old.unwrap() == (number < NUMBERS).then(|| value(number)), "{number}");
    }
    let syncs = disks.log.counts().syncs - syncs;
    assert!(syncs < 1000, "{syncs} syncs");
    let removed = run_all((0..1000).map(|n| later.remove(key(n * 22))).collect());
    for (n, old) in removed.into_iter().enumerate() {
        assert!(old.unwrap() == Some(value(n as u64 * 2 + 1)), "{n}");
    }
    // What was awaited outlives the power.
    let crashed = disks.crash(7);
    drop((later, table, store));
    let store = open_on(&crashed);
    let table = store.table("t").unwrap();
    for n in 0..2000 {
        let expected = (n % 2 == 1).then(|| value(n + 1));
        assert!(table.get(key(n * 11)).unwrap() == expected, "{n}");
    }
    assert_no_frame_is_kept(&store);
    assert_sound(&store);
}

/// More is written than the least log has room for.
#[test]
fn futures_outrun_the_log() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.with_durability(Durability::None).asynchronous();
    for round in 0..6 * scale() {
        let futures = (0..3000).map(|n| later.put(key(n * 5), vec![round as u8; 500])).collect();
        for result in run_all(futures) {
            result.unwrap();
        }
    }
    assert_sound(&store);
    assert_no_frame_is_kept(&store);
}

/// Leaves that futures have emptied are merged, also where a poll could not.
#[test]
fn what_futures_remove_gives_room() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.with_durability(Durability::None).asynchronous();
    let pages = || store.check(&mut |_, _| true).unwrap().pages;
    let before = pages();
    for chunk in (0..NUMBERS).collect::<Vec<_>>().chunks(1000) {
        for result in run_all(chunk.iter().map(|n| later.delete(key(*n))).collect()) {
            assert!(result.unwrap());
        }
    }
    assert!(table.is_empty());
    // The last merges are made behind them.
    let begun = Instant::now();
    while pages() > before / 4 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{} of {before} pages", pages());
        thread::sleep(Duration::from_millis(10));
    }
    assert_sound(&store);
}

#[test]
fn a_range_is_a_stream_of_what_a_call_gives() {
    use futures_lite::StreamExt;
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.asynchronous();
    let expected: Vec<_> = table.iter().map(Result::unwrap).collect();
    let found: Vec<_> = block_on(later.range(..).map(Result::unwrap).collect());
    assert!(found == expected);
    let found: Vec<_> = block_on(later.range(..).backward().map(Result::unwrap).collect());
    assert!(found.iter().eq(expected.iter().rev()));
    // Each `next` is dropped after its first poll, as in a `select` with something faster: no entry is
    // lost, and none comes twice.
    let mut range = later.range(..);
    let mut found = Vec::new();
    loop {
        let mut next = pin!(range.next());
        let mut cx = Context::from_waker(Waker::noop());
        match next.as_mut().poll(&mut cx) {
            Poll::Ready(Some(entry)) => found.push(entry.unwrap()),
            Poll::Ready(None) => break,
            Poll::Pending => thread::yield_now(),
        }
    }
    assert!(found == expected);
    let prefix = &key(3)[..1];
    let found: Vec<_> = block_on(later.prefix(prefix).map(Result::unwrap).collect());
    assert!(found == table.prefix(prefix).map(Result::unwrap).collect::<Vec<_>>());
    assert_no_frame_is_kept(&store);
}

/// What runs on each runtime: tasks that write and read, each its own keys.
async fn task(later: AsyncTable, task: u64) -> u64 {
    let mut sum = 0;
    for i in 0..50 {
        let name = (u64::MAX / 64 * task + i).to_be_bytes();
        later.put(name, i.to_be_bytes()).await.unwrap();
        let found = later.get(name).await.unwrap().unwrap();
        sum += u64::from_be_bytes(found.try_into().unwrap());
        later.get(key(task * 50 + i)).await.unwrap().unwrap();
    }
    sum
}

#[test]
fn any_runtime_will_do() {
    const TASKS: u64 = 64;
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.with_durability(Durability::None).asynchronous();
    let begin = |n| task(later.clone(), n);
    let expected = (0..50).sum::<u64>() * TASKS;
    // None.
    assert_eq!(run_all((0..TASKS).map(begin).collect()).iter().sum::<u64>(), expected);
    // tokio, on two threads and on this one.
    let two = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let one = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tasks: Vec<_> = (0..TASKS).map(|n| two.spawn(begin(n))).collect();
    let sum = one.block_on(async {
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, expected);
    // That of smol.
    let executor = async_executor::Executor::new();
    let tasks: Vec<_> = (0..TASKS).map(|n| executor.spawn(begin(n))).collect();
    let sum = futures_lite::future::block_on(executor.run(async {
        let mut sum = 0;
        for task in tasks {
            sum += task.await;
        }
        sum
    }));
    assert_eq!(sum, expected);
    assert_sound(&store);
    assert_no_frame_is_kept(&store);
}

/// Writers by futures and by calls, of the same keys; and readers by futures. All see one order of the
/// writes of a key.
#[test]
fn futures_and_calls_share_a_table() {
    const KEYS: u64 = 300;
    let disks = disk();
    let (store, table) = cold(&disks);
    let table = table.with_durability(Durability::None);
    for n in 0..KEYS {
        table.put(key(n * 60), 0u64.to_be_bytes()).unwrap();
    }
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..2 {
            let (table, done, written) = (&table, &done, &written);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                while !done.load(Ordering::Relaxed) {
                    let number = random.below(KEYS);
                    let raise = |old: Option<&[u8]>| {
                        let old = u64::from_be_bytes(old.unwrap().try_into().unwrap());
                        polder::Change::Insert((old + 1).to_be_bytes().to_vec())
                    };
                    table.update_with(key(number * 60), raise).unwrap();
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let later = table.asynchronous();
        let mut last = BTreeMap::new();
        for _ in 0..10 * scale() {
            let values = run_all((0..KEYS).map(|n| later.get(key(n * 60))).collect());
            for (n, value) in values.into_iter().enumerate() {
                let value = u64::from_be_bytes(value.unwrap().unwrap().try_into().unwrap());
                assert!(last.insert(n, value).is_none_or(|before| before <= value));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let sum: u64 = (0..KEYS)
        .map(|n| {
            let value = table.get(key(n * 60)).unwrap().unwrap();
            u64::from_be_bytes(value.try_into().unwrap())
        })
        .sum();
    assert_eq!(sum, written.into_inner());
    assert_sound(&store);
    assert_no_frame_is_kept(&store);
}
