//! Futures that are dropped, and what happens to a store and its device while futures are under way:
//! nothing hangs, nothing is lost, no frame is kept.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use polder::{
    AsyncTable, BatchError, Change, Durability, Store, StoreError, Table, TranslationKind,
    WriteBatch,
};
use polder_format::{PageKind, header_at};
use polder_pool::device::{Batch, Device, Request, RequestQueue};
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};

use crate::futures::*;
use crate::support::*;

/// Each future is dropped after so many polls; what has become of it is seen afterwards.
#[test]
fn a_future_may_be_dropped_at_each_point_at_which_it_waits() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.asynchronous();
    let plain = store.asynchronous();
    let mut random = Random::new(9);
    let (mut made, mut not_made, mut ended) = (0, 0, 0);
    for polls in 0..8 * scale() as usize {
        for round in 0..60 {
            let number = random.below(NUMBERS);
            let (name, old) = (key(number), table.get(key(number)).unwrap());
            let new = value(number + round);
            // Out of memory with it.
            let _ = run_all((0..150).map(|_| later.get(key(random.below(NUMBERS)))).collect());
            let count = Cell::new(0);
            let drops = |_| {
                count.set(count.get() + 1);
                count.get() > polls
            };
            type Made<'f> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + 'f>>;
            let future: Made<'_> = match round % 5 {
                0 => Box::pin(async { later.get(name).await.map(drop) }),
                1 => Box::pin(async { later.put(name, &new).await.map(drop) }),
                2 => Box::pin(async { later.remove(name).await.map(drop) }),
                3 => Box::pin(async {
                    let mut batch = WriteBatch::new();
                    batch.put(&table, name, &new).put(&table, "beside", &new);
                    plain.apply(batch).await.map_err(|error| match error {
                        BatchError::Store(error) => error,
                        other => panic!("{other}"),
                    })
                }),
                _ => Box::pin(async {
                    let mut range = later.range(name..);
                    for _ in 0..200 {
                        range.next().await.transpose()?;
                    }
                    Ok(())
                }),
            };
            let output = run_or_drop(vec![future], drops).pop().unwrap();
            // A job that had begun ends; one that had not never begins. Nothing is half.
            let expected = match round % 5 {
                1 | 3 => Some(new.clone()),
                2 => None,
                _ => old.clone(),
            };
            match output {
                Some(result) => {
                    result.unwrap();
                    ended += 1;
                    assert!(table.get(name).unwrap() == expected);
                }
                None => {
                    // The thread that has begun with it may be at work still.
                    thread::sleep(Duration::from_micros(500));
                    let now = table.get(name).unwrap();
                    assert!(now == expected || now == old, "neither the old value nor the new one");
                    *(if now == old { &mut not_made } else { &mut made }) += 1;
                }
            }
        }
    }
    assert!(ended > 10 && made > 0 && not_made > 10, "{ended} {made} {not_made}");
    assert_no_frame_is_kept(&store);
    assert_sound(&store);
}

/// Thousands that are polled once, and then dropped or kept for ever: their pages come, and go again.
#[test]
fn futures_that_are_never_polled_again_keep_nothing() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.asynchronous();
    let mut kept = Vec::new();
    for number in 0..3000 {
        let mut future = Box::pin(later.get(key(number)));
        let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if number % 2 == 0 {
            kept.push(future);
        }
    }
    assert_no_frame_is_kept(&store);
    for number in 0..500 {
        assert!(table.get(key(number)).unwrap().is_some());
    }
    drop(kept);
    assert_no_frame_is_kept(&store);
    assert_sound(&store);
}

type Mixed<'f> = Pin<Box<dyn Future<Output = Result<bool, StoreError>> + 'f>>;

/// A read, or a write of a key that may be new.
fn mixed(later: &AsyncTable, n: u64) -> Mixed<'_> {
    match n % 3 {
        0 => Box::pin(async { later.get(key(100)).await.map(|_| false) }),
        1 => Box::pin(async move { later.get(key(n)).await.map(|_| false) }),
        _ => Box::pin(later.put(n.to_be_bytes(), [1; 300])),
    }
}

#[test]
fn a_store_is_closed_while_futures_are_under_way() {
    for round in 0..6 * scale() {
        let disks = disk();
        let (store, table) = cold(&disks);
        disks.data.set_plan(FaultPlan::new(round).delay(0.5, Duration::from_micros(100)));
        let later = table.asynchronous();
        drop(table);
        let closed = thread::scope(|scope| {
            let closer = scope.spawn(move || {
                thread::sleep(Duration::from_millis(round));
                match round % 2 {
                    0 => store.close(),
                    _ => block_on(store.asynchronous().close()),
                }
            });
            let later = &later;
            let futures = |_| (0..3000).map(|n| mixed(later, n)).collect();
            let outputs: Vec<_> = (0..4).map(futures).flat_map(run_all::<Mixed<'_>>).collect();
            for (i, output) in outputs.iter().enumerate() {
                assert!(matches!(output, Ok(_) | Err(StoreError::Closed)), "{i}: {output:?}");
            }
            closer.join().unwrap().unwrap();
            outputs.into_iter().filter(|output| matches!(output, Ok(true))).count()
        });
        assert!(matches!(block_on(later.get("a")), Err(StoreError::Closed)));
        assert!(matches!(block_on(later.put("a", "b")), Err(StoreError::Closed)));
        assert!(matches!(block_on(later.range(..).next()), Some(Err(StoreError::Closed))));
        let store = open_on(&disks);
        let table = store.table("t").unwrap();
        assert_eq!(table.len(), NUMBERS + closed as u64);
        assert_sound(&store);
    }
}

#[test]
fn errors_are_those_of_calls() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.asynchronous();
    disks.data.set_plan(FaultPlan::new(1).fail(Operation::Read, When::From(0), Errno::IO));
    let futures = (0..200).map(|n| later.get(key(n))).collect();
    let mut failed = 0;
    for (n, result) in run_all(futures).into_iter().enumerate() {
        let called = table.get(key(n as u64));
        match (result, called) {
            (Err(found), Err(called)) => {
                failed += 1;
                assert_eq!(full_text(&found), full_text(&called));
            }
            (Ok(found), Ok(called)) => assert!(found == called),
            other => panic!("{other:?}"),
        }
    }
    assert!(failed > 100, "{failed}");
    let mut range = later.range(..);
    let mut entries = 0;
    let error = block_on(async {
        loop {
            match range.next().await {
                Some(Ok(_)) => entries += 1,
                Some(Err(error)) => return error,
                None => panic!("it has ended without an error"),
            }
        }
    });
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(block_on(range.next()).is_none());
    // Every third read fails: each future is answered or told so.
    disks.data.set_plan(FaultPlan::new(2).fail(Operation::Read, When::Share(0.3), Errno::IO));
    let futures = (0..2000).map(|n| later.get(key(n))).collect();
    for (n, result) in run_all(futures).into_iter().enumerate() {
        assert!(result.is_err() || result.unwrap() == Some(value(n as u64)));
    }
    // It goes on where it was if it is asked to.
    disks.data.set_plan(FaultPlan::new(1));
    range.resume();
    block_on(async {
        while let Some(entry) = range.next().await {
            entry.unwrap();
            entries += 1;
        }
    });
    assert_eq!(entries, NUMBERS);
    assert_no_frame_is_kept(&store);
    assert_sound(&store);
}

/// A device whose queue of reads panics, once it is told to.
#[derive(Debug, Clone)]
struct Panicking {
    disk: SimDisk,
    panics: Arc<AtomicBool>,
}

#[derive(Debug)]
struct PanickingQueue<'d>(Box<dyn RequestQueue + 'd>, &'d AtomicBool);

impl RequestQueue for PanickingQueue<'_> {
    fn push(&mut self, number: u64, read: Request) {
        self.0.push(number, read);
    }
    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, Request)>) {
        assert!(!self.1.swap(false, Ordering::SeqCst), "the thread dies, as it should");
        self.0.reap(wait, done);
    }
}

impl Device for Panicking {
    fn perform(&self, batch: Batch) -> Batch {
        self.disk.perform(batch)
    }
    fn queue(&self) -> Box<dyn RequestQueue + '_> {
        Box::new(PanickingQueue(self.disk.queue(), &self.panics))
    }
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.disk.allocate(offset, bytes)
    }
    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.disk.truncate(bytes)
    }
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.disk.punch(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
}

#[test]
fn the_thread_that_loads_dies_with_reads_under_way() {
    let disks = disk();
    cold(&disks).0.close().unwrap();
    let data = Panicking { disk: disks.data.clone(), panics: Arc::default() };
    let log = Box::new(disks.log.clone());
    let store = Store::open_on(Box::new(data.clone()), log, tight("dies")).unwrap();
    let later = store.table("t").unwrap().asynchronous();
    for round in 0..3 {
        data.panics.store(round == 1, Ordering::SeqCst);
        let found = run_all((0..1000).map(|n| later.get(key(n + round * 1000))).collect());
        for (n, found) in found.into_iter().enumerate() {
            assert!(found.unwrap() == Some(value(n as u64 + round * 1000)), "{n}");
        }
        assert!(!data.panics.load(Ordering::SeqCst), "it has not died");
    }
    assert_no_frame_is_kept(&store);
    assert_sound(&store);
}

/// A waker that lets the last handle of the store go, on whatever thread it is called.
#[test]
fn the_last_handle_may_go_in_a_waker() {
    struct Last(Mutex<Option<(Store, AsyncTable)>>);
    impl Wake for Last {
        fn wake(self: Arc<Last>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    for write in [false, true] {
        let disks = disk();
        let (store, table) = cold(&disks);
        let later = table.asynchronous();
        drop(table);
        let last = Arc::new(Last(Mutex::new(None)));
        let waker = Waker::from(Arc::clone(&last));
        let mut polled = later.clone();
        let mut future: Pin<Box<dyn Future<Output = ()>>> = match write {
            false => Box::pin(async move { drop(polled.get(key(7)).await) }),
            true => Box::pin(async move {
                polled = polled.with_durability(Durability::Sync);
                drop(polled.put(key(7), "new").await);
            }),
        };
        *last.0.lock().unwrap() = Some((store, later));
        let _ = future.as_mut().poll(&mut Context::from_waker(&waker));
        // The future's own handle, which may be the last one, or not.
        drop(future);
        let begun = Instant::now();
        while last.0.lock().unwrap().is_some() && begun.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(1));
        }
        drop((last, waker));
        // It is closed by another thread, soon.
        thread::sleep(Duration::from_millis(200));
        let (store, table) = cold(&disks);
        assert!(table.get(key(7)).unwrap().is_some());
        assert_sound(&store);
    }
}

/// A waker runs in a thread that may have reads under way which it alone can end: it cannot close the
/// store there, and is told so.
#[test]
fn a_waker_does_not_close_the_store() {
    struct Closes(Store, Mutex<Option<Result<(), StoreError>>>);
    impl Wake for Closes {
        fn wake(self: Arc<Closes>) {
            *self.1.lock().unwrap() = Some(self.0.clone().close());
        }
    }
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.asynchronous();
    let closes = Arc::new(Closes(store.clone(), Mutex::new(None)));
    let waker = Waker::from(Arc::clone(&closes));
    let mut future = Box::pin(later.get(key(7)));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let begun = Instant::now();
    let error = loop {
        match closes.1.lock().unwrap().take() {
            Some(result) => break result.unwrap_err(),
            None => assert!(begun.elapsed() < Duration::from_secs(20), "it waits for itself"),
        }
    };
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(block_on(future).unwrap().is_some());
    assert_sound(&store);
    store.close().unwrap();
}

/// Writers are kept out while a store is checked: a poll does not wait for that.
#[test]
fn a_poll_does_not_wait_where_a_write_has_to() {
    let disks = disk();
    let (store, table) = cold(&disks);
    let later = table.asynchronous();
    let mut polled = None;
    let report = store.check(&mut |_, _| {
        if polled.is_none() {
            let mut future = Box::pin(later.put("k", "v"));
            let flag = flag();
            let waker = Waker::from(Arc::clone(&flag));
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            polled = Some(future);
        }
        true
    });
    assert_eq!(report.unwrap().faults, []);
    assert!(block_on(polled.unwrap()).unwrap());
    assert_eq!(table.get("k").unwrap(), Some(b"v".to_vec()));
}

/// Opens a store of 4000 keys of which so many leaves are as they were before they were split: sound by
/// themselves, and not what the page above says of them.
fn with_old_leaves(leaves: usize) -> impl Fn(TranslationKind) -> (Store, Table) {
    let disks = disk();
    let fill = |numbers: std::ops::Range<u64>, step: u64| {
        let store = disks.open(quick("simulated")).unwrap();
        let table = store.open_table("t").unwrap();
        for number in numbers {
            table.put((number * step + step % 2).to_be_bytes(), [1; 100]).unwrap();
        }
        drop(table);
        store.close().unwrap();
        disks.data.image()
    };
    let (before, mut image) = (fill(0..2000, 2), fill(0..2000, 1));
    let is_old_leaf = |at: &usize| {
        let [old, new] = [&before, &image].map(|image| &image[*at..*at + 4096]);
        let id = header_at::PAGE_ID..header_at::PAGE_ID + 8;
        old != new && old[header_at::KIND] == PageKind::TREE_LEAF.0 && old[id.clone()] == new[id]
    };
    // Neither the first one nor the catalogue's.
    let old: Vec<_> = (0..before.len()).step_by(4096).filter(is_old_leaf).skip(8).collect();
    for at in old.into_iter().step_by(3).take(leaves) {
        image[at..at + 4096].copy_from_slice(&before[at..at + 4096]);
    }
    let log = disks.log.image();
    move |kind| {
        let disk = |image: &[u8]| SimDisk::from_image(image, FaultPlan::new(1));
        let options = quick("damaged").memory_budget(4 << 20).translation(kind);
        let store = Disks { data: disk(&image), log: disk(&log) }.open(options).unwrap();
        let table = store.table("t").unwrap();
        (store, table)
    }
}

/// However often it is asked for, and in whichever way: what was told once does not stay in memory.
#[test]
fn a_page_that_contradicts_the_one_above_is_named_each_time() {
    let open = with_old_leaves(1);
    for &kind in TranslationKind::ALL {
        let (store, table) = open(kind);
        let get = |number: u64| table.get(number.to_be_bytes()).err().map(|error| (number, error));
        let (number, called) = (0..4000).find_map(get).unwrap();
        assert!(matches!(called, StoreError::Corrupt { .. }), "{called}");
        let (key, called) = (number.to_be_bytes(), full_text(&called));
        for _ in 0..3 {
            assert_eq!(full_text(&table.get(key).unwrap_err()), called, "{kind:?}");
            let again = table.get_many(&[key], |_, _| ()).unwrap_err();
            let StoreError::Key { source, .. } = &again else { panic!("{again}") };
            assert_eq!(full_text(source), called, "{kind:?}");
            let again = block_on(table.asynchronous().get(key)).unwrap_err();
            assert_eq!(full_text(&again), called, "{kind:?}");
        }
        drop(store);
    }
}

/// Lookups that are under way beside one that fails load pages, too, which are looked at.
#[test]
fn each_page_that_contradicts_the_one_above_is_named() {
    let open = with_old_leaves(3);
    for &kind in TranslationKind::ALL {
        let (_store, table) = open(kind);
        let keys: Vec<_> = (0..2000u64).step_by(8).map(u64::to_be_bytes).collect();
        let fails = |table: &Table| -> Vec<_> {
            keys.iter().filter(|key| table.get(key).is_err()).collect()
        };
        let bad = fails(&table);
        // At least one key of each of the three leaves.
        assert!(bad.len() >= 3);
        let (_store, table) = open(kind);
        // What tells where leaves lie must be in memory, for many reads to be under way.
        table.get(keys.last().unwrap()).unwrap();
        table.get_many(&keys, |_, _| ()).unwrap_err();
        assert_eq!(fails(&table), bad, "{kind:?}");
    }
}

#[test]
fn a_page_that_contradicts_the_one_above_is_named() {
    let open = with_old_leaves(1);
    let open = || open(TranslationKind::default());
    let (store, table) = open();
    let get = |number: u64| table.get(number.to_be_bytes()).err().map(|error| (number, error));
    let (number, called) = (0..4000).find_map(get).unwrap();
    assert!(matches!(called, StoreError::Corrupt { .. }), "{called}");
    drop(store);
    let (_store, table) = open();
    let error = block_on(table.asynchronous().get(number.to_be_bytes())).unwrap_err();
    assert_eq!(full_text(&error), full_text(&called));
    let (_store, table) = open();
    let mut range = table.asynchronous().range(number.to_be_bytes()..);
    let error = block_on(range.next()).unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(block_on(range.next()).is_none());
    // And where it is loaded with others for what will be written.
    let keys: Vec<_> = (number.saturating_sub(200)..number + 200).step_by(10).collect();
    let keys: Vec<_> = keys.into_iter().map(u64::to_be_bytes).collect();
    let rows: Vec<_> = keys.iter().map(|key| (key, [2; 100])).collect();
    for updates in [false, true] {
        let (store, table) = open();
        let mut batch = WriteBatch::new();
        for (key, value) in &rows {
            match updates {
                true => batch.update_with(&table, key, |_| Change::Insert(vec![2; 100])),
                false => batch.put(&table, key, value),
            };
        }
        let error = store.apply(batch).unwrap_err();
        assert!(matches!(error, BatchError::Store(StoreError::Corrupt { .. })), "{error}");
    }
    let (_store, table) = open();
    let error = table.put_many(&rows).unwrap_err();
    let StoreError::Key { index, source } = &error else { panic!("{error}") };
    assert!(matches!(**source, StoreError::Corrupt { .. }), "{error}");
    let kept = |key: &[u8; 8]| table.get(key).is_ok_and(|value| value == Some(vec![2; 100]));
    assert!(keys[..*index].iter().all(kept), "those before number {index} are not all written");
}
