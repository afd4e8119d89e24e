use std::sync::atomic::AtomicBool;

use super::*;

#[test]
fn a_pause_waits_for_writers_and_they_for_it() {
    let quiesce = Quiesce::new();
    let (inside, passes) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _pass = quiesce.enter().unwrap();
                    inside.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    passes.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..300 {
            // Writers come through in between.
            let before = passes.load(Ordering::SeqCst);
            while passes.load(Ordering::SeqCst) < before + 10 {
                thread::yield_now();
            }
            let _pause = quiesce.pause().unwrap();
            let met = (0..50).map(|_| {
                thread::yield_now();
                inside.load(Ordering::SeqCst)
            });
            if met.sum::<u64>() > 0 {
                stop.store(true, Ordering::Relaxed);
                panic!("somebody is inside");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    quiesce.close().unwrap();
    assert!(matches!(quiesce.close(), Err(StoreError::Closed)));
    assert!(matches!(quiesce.enter(), Err(StoreError::Closed)));
    assert!(quiesce.check_open().is_err());
}

#[test]
fn a_thread_that_is_inside_is_not_let_in_again() {
    let (a, b) = (Quiesce::new(), Quiesce::new());
    let outer = a.enter().unwrap();
    let other = b.enter().unwrap();
    assert!(matches!(a.enter(), Err(StoreError::Nested)));
    assert!(matches!(a.pause(), Err(StoreError::Nested)));
    assert!(matches!(a.close(), Err(StoreError::Nested)));
    drop(outer);
    assert!(matches!(b.enter(), Err(StoreError::Nested)));
    drop(a.enter().unwrap());
    drop(other);
    a.close().unwrap();
    assert!(matches!(a.enter(), Err(StoreError::Closed)));
    b.close().unwrap();
}

#[test]
fn a_thread_is_inside_of_a_few_stores_at_most() {
    let quiesces: Vec<_> = (0..=MOST_INSIDE).map(|_| Quiesce::new()).collect();
    let passes: Vec<_> =
        quiesces[..MOST_INSIDE].iter().map(|quiesce| quiesce.enter().unwrap()).collect();
    assert!(matches!(quiesces[MOST_INSIDE].enter(), Err(StoreError::Nested)));
    drop(passes);
    drop(quiesces[MOST_INSIDE].enter().unwrap());
}

#[test]
fn a_child_is_let_in_nowhere() {
    let quiesce = Quiesce::new();
    quiesce.set_forked();
    assert!(quiesce.is_forked());
    assert!(matches!(quiesce.enter(), Err(StoreError::Forked)));
    assert!(matches!(quiesce.check_open(), Err(StoreError::Forked)));
    assert!(matches!(quiesce.close(), Err(StoreError::Forked)));
}
