//! A child of a process that has a store open.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use polder::{Store, StoreError, Table};

use crate::support::*;

/// Runs this in a child, which must end well in time.
fn in_child(run: impl FnOnce() -> bool) {
    // SAFETY: the child runs `run` in its only thread, and ends without running anything else.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        let is_good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(false);
        // SAFETY: it ends the process.
        unsafe { libc::_exit(if is_good { 0 } else { 1 }) };
    }
    let (begun, mut status) = (Instant::now(), 0);
    loop {
        // SAFETY: the child is ours, and `status` is valid.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if begun.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            0 => {
                // SAFETY: the child is ours.
                unsafe { libc::kill(child, libc::SIGKILL) };
                panic!("the child hangs");
            }
            _ => break,
        }
    }
    assert_eq!(status, 0, "the child has failed");
}

fn is_refused(store: &Store, table: &Table) -> bool {
    let results: Vec<Result<(), StoreError>> = vec![
        table.put(b"k", b"2").map(drop),
        table.get(b"k").map(drop),
        table.iter().next().map_or(Ok(()), |entry| entry.map(drop)),
        store.flush(),
        store.checkpoint(),
        store.create_table("u").map(drop),
        store.check(&mut |_, _| true).map(drop),
        store.clone().close(),
    ];
    results.iter().all(|result| matches!(result, Err(StoreError::Forked)))
}

#[test]
fn a_forked_child_is_refused_and_disturbs_nobody() {
    let _turn = crate::my_turn();
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("store"), dir.path().join("other"));
    let store = Store::open(quick(&path)).unwrap();
    let table = store.open_table("t").unwrap();
    table.put(b"k", b"1").unwrap();
    let handles = (store.clone(), table.clone());
    in_child(|| {
        let (store, table) = handles;
        let refused = is_refused(&store, &table);
        // The handles go; and it may have stores of its own.
        drop((store, table));
        let own = Store::open(quick(&other)).unwrap();
        own.open_table("t").unwrap().put(b"k", b"child").unwrap();
        own.close().unwrap();
        refused
    });
    // The lock is held still, others are told of the store, and it is whole.
    assert!(polder::live_stats(&path).unwrap().contains("\"process\""));
    in_child(|| Store::open(quick(&path)).is_err());
    table.put(b"l", b"2").unwrap();
    assert_eq!(table.get(b"k").unwrap(), Some(b"1".to_vec()));
    assert_sound(&store);
    drop(table);
    store.close().unwrap();
    let store = Store::open(quick(&path)).unwrap();
    assert_eq!(store.table("t").unwrap().len(), 2);
    let own = Store::open(quick(&other)).unwrap();
    assert_eq!(own.table("t").unwrap().get(b"k").unwrap(), Some(b"child".to_vec()));
}

/// Some wait for pages, some for a sync, one for a thread that makes it.
#[test]
fn futures_are_refused_in_a_forked_child_and_go_on_in_its_parent() {
    let _turn = crate::my_turn();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(tight(dir.path())).unwrap();
    let table = store.open_table("t").unwrap();
    table.bulk_load((0..20_000u64).map(|i| (i.to_be_bytes(), [1; 100]))).unwrap();
    let (later, whole) = (&table.asynchronous(), &store.asynchronous());
    type Made<'f> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + 'f>>;
    let mut cx = Context::from_waker(Waker::noop());
    for round in 0..20 {
        let mut range = later.range((round * 777u64).to_be_bytes()..);
        let mut futures: Vec<Made<'_>> = (0..200u64)
            .map(move |n| -> Made<'_> {
                let key = (n * 100 + round).to_be_bytes();
                match n % 4 {
                    0 => Box::pin(async move { later.put("k", "v").await.map(drop) }),
                    1 => Box::pin(async move { later.put("l", vec![1; 20_000]).await.map(drop) }),
                    2 => Box::pin(async move { whole.flush().await }),
                    _ => Box::pin(async move { later.get(key).await.map(drop) }),
                }
            })
            .collect();
        futures.push(Box::pin(async { range.next().await.transpose().map(drop) }));
        futures.retain_mut(|future| future.as_mut().poll(&mut cx).is_pending());
        in_child(|| {
            let mut is_refused = |future: &mut Made<'_>| {
                matches!(future.as_mut().poll(&mut cx), Poll::Ready(Err(StoreError::Forked)))
            };
            let refused = futures.iter_mut().all(&mut is_refused);
            futures.clear();
            refused
        });
        for future in futures {
            futures_lite::future::block_on(future).unwrap();
        }
    }
    assert_sound(&store);
    store.close().unwrap();
}
