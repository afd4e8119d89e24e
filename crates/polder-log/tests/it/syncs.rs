//! After a sync that failed nothing is promised any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::Lsn;
use polder_log::{AwaitedSync, Log, LogOptions, WalWriter};
use polder_pool::device::Device;
use polder_pool::journal::{Journal, SharedError};
use polder_testkit::{Errno, FaultPlan, When};

use crate::support::*;
use crate::sync_disk::SyncDisk;

#[test]
fn a_log_that_cannot_be_synced_is_poisoned() {
    let disk = disk();
    let log = begin(&disk);
    let lsn = append(&log, 1, 100);
    log.await_durable(lsn).unwrap();
    let plan = FaultPlan::new(2);
    disk.set_plan(plan.fail(
        polder_testkit::Operation::Sync,
        polder_testkit::When::Nth(0),
        polder_testkit::Errno::IO,
    ));
    let lost = append(&log, 2, 100);
    let error = log.await_durable(lost).unwrap_err();
    assert!(error.to_string().contains("open the store again"), "{error}");
    // It is not tried again, although it would go well now.
    assert!(log.await_durable(lost).is_err());
    assert!(log.reserve(100).is_err());
    assert!(log.begin_checkpoint().is_err());
    assert_eq!(log.durable().0, lsn.0.next_multiple_of(4096));
}

/// The next sync fails.
fn failing_sync(seed: u64) -> FaultPlan {
    FaultPlan::new(seed).fail(polder_testkit::Operation::Sync, When::Nth(0), Errno::IO)
}

/// Of two threads that sync at the same time a kernel tells one that a write was lost, and the
/// other that all is well: nobody may believe that.
#[test]
fn no_sync_goes_well_beside_one_that_fails() {
    let device = SyncDisk::new(&disk());
    let log = begin_with(Arc::clone(&device) as Arc<dyn Device>, OPTIONS);
    let kept = append(&log, 1, 100);
    log.await_durable(kept).unwrap();
    let durable = log.durable();
    let syncs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&syncs);
    device.sync_by(move |disk| {
        if count.fetch_add(1, Ordering::SeqCst) > 0 {
            return disk.sync();
        }
        let begin = Instant::now();
        while count.load(Ordering::SeqCst) < 2 && begin.elapsed() < Duration::from_millis(200) {
            thread::yield_now();
        }
        Err(Errno::IO.into())
    });
    let lost = append(&log, 2, 100);
    let (done, ended) = mpsc::channel();
    let start = |who: &'static str, work: fn(&Log, Lsn) -> Result<(), SharedError>| {
        let (log, done) = (Arc::clone(&log), done.clone());
        thread::spawn(move || done.send((who, work(&log, lost))));
    };
    start("the leader", |log, lost| log.await_durable(lost));
    await_that(|| syncs.load(Ordering::SeqCst) > 0);
    start("who waits for it", |log, lost| log.await_durable(lost));
    start("a checkpoint", |log, _| log.begin_checkpoint().map(|_| ()));
    for _ in 0..3 {
        let (who, result) = ended.recv_timeout(Duration::from_secs(10)).expect("it hangs");
        assert!(result.is_err(), "{who} was told that all is well");
    }
    assert_eq!(log.durable(), durable);
}

/// A sync that fails is one, also where it is only about a new segment.
#[test]
fn a_log_whose_growth_cannot_be_synced_is_poisoned() {
    let disk = disk();
    let options = LogOptions { buffer_bytes: 1 << 20, ..OPTIONS };
    let log = begin_with(Arc::new(disk.clone()), options);
    let kept = append(&log, 0, 100);
    log.await_durable(kept).unwrap();
    let durable = log.durable();
    disk.set_plan(failing_sync(2));
    // It writes segments ahead, as somebody has waited for a sync; in this time nobody else syncs.
    let wal_writer = WalWriter::start(&log, |_| ()).unwrap();
    let filled = Arc::clone(&log);
    let last = in_time(move || {
        let mut last = kept;
        for number in 1..400 {
            match try_append(&filled, number, 1000) {
                Ok(lsn) => last = lsn,
                Err(_) => break,
            }
        }
        last
    });
    await_that(|| log.reserve(1).map(|()| log.release(1)).is_err());
    let waiting = Arc::clone(&log);
    assert!(in_time(move || waiting.await_durable(last)).is_err());
    assert_eq!(log.durable(), durable);
    drop(wal_writer);
    drop(log);
    assert_eq!(replayed(&disk), [0]);
}

/// After a failed sync the disk shows groups that no later sync makes durable: the next life must
/// not go on behind them.
#[test]
fn what_a_failed_sync_left_in_caches_is_not_gone_on_from() {
    let options = LogOptions { buffer_bytes: 1 << 20, ..OPTIONS };
    // A single block is lost, or several, or more than the first segment has room for; or that
    // segment is full, to its last block, with what is kept.
    for (seed, kept, lost) in [(1, 10, 1), (2, 10, 30), (3, 10, 350), (4, 62, 30)] {
        let disk = disk();
        let log = begin_with(Arc::new(disk.clone()), options);
        for number in 0..kept {
            let lsn = append(&log, number, 1000);
            log.await_durable(lsn).unwrap();
        }
        disk.set_plan(failing_sync(seed));
        for number in 0..lost {
            append(&log, 100 + number, 1000);
        }
        assert!(log.flush().is_err());
        drop(log);
        let mut expected: Vec<u64> = (0..kept).collect();
        assert_eq!(replayed(&disk), expected);
        for seed in 0..20 {
            assert!(replayed(&disk.crash(seed)).starts_with(&expected));
        }
        let log = go_on(&disk, 2);
        for number in 1000..1010 {
            let lsn = append(&log, number, 1000);
            log.await_durable(lsn).unwrap();
            expected.push(number);
        }
        for seed in 0..50 {
            assert_eq!(
                replayed(&disk.crash(seed)),
                expected,
                "{kept} kept, {lost} lost, crash {seed}"
            );
        }
    }
}

/// Notes the thread that calls it.
#[derive(Default)]
struct Caller(Mutex<Option<String>>);

impl Wake for Caller {
    fn wake(self: Arc<Caller>) {
        *self.0.lock().unwrap() = Some(thread::current().name().unwrap_or_default().to_owned());
    }
}

/// `DURABLE-3`: whoever makes the log durable, or finds that it has failed, may hold anything: wakers
/// are called by another thread, which holds nothing.
#[test]
fn wakers_are_called_by_the_log_syncer() {
    let device = SyncDisk::new(&disk());
    let log = begin_with(Arc::clone(&device) as Arc<dyn Device>, OPTIONS);
    let _wal_writer = WalWriter::start(&log, |_| ()).unwrap();
    for fails in [false, true] {
        let (begun, (go, goes)) = (Arc::new(AtomicU32::new(0)), mpsc::channel::<()>());
        let (count, goes) = (Arc::clone(&begun), Mutex::new(goes));
        device.sync_by(move |disk| {
            count.fetch_add(1, Ordering::SeqCst);
            // Later ones find that nobody tells them any more.
            let _ = goes.lock().unwrap().recv();
            if fails { Err(Errno::IO.into()) } else { disk.sync() }
        });
        let lsn = append(&log, 1, 100);
        thread::scope(|scope| {
            let leader = scope.spawn(|| log.await_durable(lsn));
            await_that(|| begun.load(Ordering::SeqCst) > 0);
            let caller = Arc::new(Caller::default());
            let waker = Waker::from(Arc::clone(&caller));
            let mut awaited = AwaitedSync::new(&log, lsn);
            assert!(awaited.poll(&waker).is_pending());
            drop(go);
            assert_eq!(leader.join().unwrap().is_err(), fails);
            await_that(|| caller.0.lock().unwrap().is_some());
            assert_eq!(caller.0.lock().unwrap().as_deref(), Some("polder-sync"));
            match awaited.poll(&waker) {
                Poll::Ready(result) => assert_eq!(result.is_err(), fails),
                Poll::Pending => panic!("it was woken for nothing"),
            }
        });
    }
}
