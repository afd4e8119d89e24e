//! Thousands of lookups under way at once, from one thread: a service in which each request is a task.
//!
//! Any executor will do; here it is that of smol, on the thread of `main`. What is in memory is answered
//! by the first poll of its future; while a page comes from the device the other tasks go on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_executor::LocalExecutor;
use futures_lite::StreamExt;
use futures_lite::future::block_on;
use polder::{AsyncTable, Error, Options, Store, StoreError, WriteBatch};

const USERS: u64 = 100_000;
const REQUESTS: u64 = 5000;

/// Names of users lie all over the table.
fn name(user: u64) -> [u8; 8] {
    user.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// One task for each request. Gives how many were found, and how many tasks waited at once.
fn look_all_up(users: &AsyncTable) -> Result<(usize, usize), StoreError> {
    let (under_way, most) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
    let executor = LocalExecutor::new();
    let task = |request| async move {
        most.fetch_max(under_way.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let found = users.get(name(request * 17 % USERS)).await;
        under_way.fetch_sub(1, Ordering::Relaxed);
        found
    };
    let tasks: Vec<_> = (0..REQUESTS).map(|request| executor.spawn(task(request))).collect();
    block_on(executor.run(async {
        let mut found = 0;
        for task in tasks {
            found += usize::from(task.await?.is_some());
        }
        Ok((found, most.load(Ordering::Relaxed)))
    }))
}

fn main() -> Result<(), Error> {
    let path = std::env::temp_dir().join(format!("polder-futures-{}", std::process::id()));
    // A tenth of the data fits into memory.
    let store = Store::open(Options::new(&path).memory_budget(2 << 20))?;
    let users = store.create_table("users")?;
    // To load in bulk, and to open stores and tables, is for threads that may wait.
    let mut names: Vec<_> = (0..USERS).map(name).collect();
    names.sort_unstable();
    users.bulk_load(names.iter().map(|name| (name, [7; 200])))?;

    let (users, begun) = (users.asynchronous(), Instant::now());
    let (found, most) = look_all_up(&users)?;
    let time = begun.elapsed();
    println!("{found} of {REQUESTS} found, up to {most} at once, in {time:.2?}, by one thread");
    assert_eq!(found as u64, REQUESTS);

    block_on(async {
        // Durable when the future is ready, and nobody's thread waits for the device.
        users.put("ada", "lovelace").await?;
        let mut batch = WriteBatch::new();
        batch.delete(users.table(), "ada").put(users.table(), "grace", "hopper");
        store.asynchronous().apply(batch).await?;
        assert_eq!(users.get("ada").await?, None);
        // A range is a stream.
        let mut late = users.range(&b"\xff"[..]..);
        let mut bytes = 0;
        while let Some((_, value)) = late.try_next().await? {
            bytes += value.len();
        }
        println!("{bytes} bytes of users with late names");
        Ok::<(), Error>(())
    })?;
    drop(users);
    store.close()?;
    std::fs::remove_dir_all(path).expect("the store can be removed");
    Ok(())
}
