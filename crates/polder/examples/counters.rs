//! Counters that many threads raise at once, and a sum over a range of them.
//!
//! `update_with` reads, changes and writes a key as one step. A closure that finds bytes that are no
//! counter leaves them as they are, and says so through a variable of its caller.

use polder::{Change, Durability, Error, Options, Store, StoreError, Table};

/// Adds to the counter of a page and gives the new count; none if what is there is no counter.
fn count(visits: &Table, page: &str, add: u64) -> Result<Option<u64>, StoreError> {
    let mut count = None;
    visits.update_with(page, |old| {
        // May be called again: whatever was found out before does not count.
        count = match old.map(<[u8; 8]>::try_from) {
            None => Some(add),
            Some(Ok(old)) => u64::from_be_bytes(old).checked_add(add),
            Some(Err(_)) => None,
        };
        match count {
            Some(count) => Change::Insert(count.to_be_bytes().to_vec()),
            None => Change::Keep,
        }
    })?;
    Ok(count)
}

/// The sum of all counters whose names begin with this.
fn sum(visits: &Table, prefix: &str) -> Result<u64, StoreError> {
    let mut range = visits.prefix(prefix);
    let mut sum = 0;
    // Lent, not copied.
    while let Some((_, value)) = range.next_entry()? {
        sum += value.try_into().map_or(0, u64::from_be_bytes);
    }
    Ok(sum)
}

fn main() -> Result<(), Error> {
    const THREADS: u64 = 8;
    const VISITS: u64 = 2000;
    let path = std::env::temp_dir().join(format!("polder-counters-{}", std::process::id()));
    // Nobody waits for the device here; `flush` makes all of it durable at the end.
    let options = Options::new(&path).memory_budget(16 << 20).durability(Durability::None);
    let store = Store::open(options)?;
    let visits = store.open_table("visits")?;

    let highest = std::thread::scope(|scope| -> Result<Option<u64>, StoreError> {
        let work = |thread| {
            let visits = &visits;
            scope.spawn(move || -> Result<Option<u64>, StoreError> {
                let mut last = None;
                for visit in 0..VISITS {
                    last = last.max(count(visits, "nl/home", 1)?);
                    count(visits, &format!("nl/page {}", (visit + thread) % 10), 1)?;
                }
                Ok(last)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        let mut highest = None;
        for thread in threads {
            highest = highest.max(thread.join().expect("a thread panicked")?);
        }
        Ok(highest)
    })?;
    // No visit was lost, and one thread was told of the last one.
    assert_eq!(highest, Some(THREADS * VISITS));
    assert_eq!(sum(&visits, "nl/page")?, THREADS * VISITS);
    assert_eq!(sum(&visits, "nl/")?, 2 * THREADS * VISITS);

    // What is no counter stays what it is.
    visits.put("be/home", "not a number")?;
    assert_eq!(count(&visits, "be/home", 1)?, None);
    assert_eq!(visits.remove("be/home")?, Some(b"not a number".to_vec()));

    store.flush()?;
    store.close()?;
    std::fs::remove_dir_all(path).expect("the store can be removed");
    println!("{} visits counted", 2 * THREADS * VISITS);
    Ok(())
}
