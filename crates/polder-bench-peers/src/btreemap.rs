//! `std::collections::BTreeMap` behind a read-write lock: what an in-memory program would use.
//!
//! * `btreemap` has a box for each value; `btreemap:inline` keeps values of 120 bytes, the default
//!   size, in the nodes (and boxes others). Compared on 2 and 5 million records on a busy machine,
//!   boxes load in 0.7 to 0.9 of the processor time, and lookups could not be told apart.
//! * A phase that only reads holds the read guard throughout: a lookup pays for no lock. A load
//!   holds the write guard for as many inserts as other engines put into a transaction. Mixed
//!   phases lock each operation.
//! * A bulk load collects the sorted input, which gives full nodes; inserts in ascending order
//!   would leave them half empty. On the way, all of it is in a vector once more, which shows in
//!   the peak resident set.
//! * There is no cache to limit: everything is in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use polder_bench::engine::{Access, ChangeValue, Engine, EngineError, EngineKind, Session, Visit};
use polder_bench::records::Key;
use polder_bench::{Durability, SortedRecords};

use crate::WRITES_PER_LOAD;

/// The engines `btreemap` and `btreemap:inline`.
pub(crate) const KINDS: [EngineKind; 2] = [
    EngineKind {
        name: "btreemap",
        about: "std's BTreeMap behind a read-write lock; all in memory, ignores --pool",
        is_bare: false,
        lends: false,
        durability,
        create: |_| Ok(Box::new(Map::<Box<[u8]>>::new())),
    },
    EngineKind {
        name: "btreemap:inline",
        about: "the same with values in the nodes, where they have 120 bytes",
        is_bare: false,
        lends: false,
        durability,
        create: |setup| match setup.conditions.value_size {
            INLINE_BYTES => Ok(Box::new(Map::<[u8; INLINE_BYTES]>::new())),
            _ => Ok(Box::new(Map::<Box<[u8]>>::new())),
        },
    },
];

fn durability(durability: Durability) -> Result<(), &'static str> {
    match durability {
        Durability::None => Ok(()),
        Durability::Sync | _ => Err("it is in memory alone"),
    }
}

/// The value size that is worth a type of its own.
const INLINE_BYTES: usize = 120;

/// How values lie in the map.
trait Stored: AsRef<[u8]> + AsMut<[u8]> + Send + Sync + Sized + 'static {
    fn store(value: &[u8]) -> Result<Self, EngineError>;
}

impl Stored for Box<[u8]> {
    fn store(value: &[u8]) -> Result<Self, EngineError> {
        Ok(value.into())
    }
}

impl Stored for [u8; INLINE_BYTES] {
    fn store(value: &[u8]) -> Result<Self, EngineError> {
        Ok(value.try_into()?)
    }
}

struct Map<V> {
    map: RwLock<BTreeMap<Key, V>>,
}

impl<V: Stored> Map<V> {
    fn new() -> Map<V> {
        Map { map: RwLock::new(BTreeMap::new()) }
    }

    // A panic while the lock is held ends the benchmark anyway, so poison says nothing new.
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Key, V>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Key, V>> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Stored> Engine for Map<V> {
    fn session(&self, access: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(match access {
            Access::Read => Box::new(Reader(self.read())),
            Access::Mixed => Box::new(Mixed(self)),
            Access::Load => Box::new(Loader { map: self, guard: None, left: 0 }),
        })
    }

    fn bulk_load(&self, entries: &mut SortedRecords) -> Result<(), EngineError> {
        let mut failure = None;
        let stored = entries.map_while(|(key, value)| match V::store(value.as_ref()) {
            Ok(value) => Some((key, value)),
            Err(error) => {
                failure = Some(error);
                None
            }
        });
        let map = stored.collect();
        *self.write() = map;
        failure.map_or(Ok(()), Err)
    }
}

fn get<V: Stored>(map: &BTreeMap<Key, V>, key: &Key, value: &mut Vec<u8>) -> bool {
    let Some(found) = map.get(key) else {
        return false;
    };
    value.clear();
    value.extend_from_slice(found.as_ref());
    true
}

fn scan<V: Stored>(
    map: &BTreeMap<Key, V>,
    start: &Key,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) {
    for (key, value) in map.range((Bound::Included(*start), Bound::Unbounded)) {
        if !visit(key, value.as_ref()) {
            break;
        }
    }
}

fn read_only() -> EngineError {
    "this phase only reads".into()
}

/// Holds the read guard for the phase.
struct Reader<'a, V>(RwLockReadGuard<'a, BTreeMap<Key, V>>);

impl<V: Stored> Session for Reader<'_, V> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        Ok(get(&self.0, key, value))
    }

    fn put(&mut self, _: &Key, _: &[u8]) -> Result<(), EngineError> {
        Err(read_only())
    }

    fn modify(&mut self, _: &Key, _: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        Err(read_only())
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.0, start, visit);
        Ok(())
    }
}

/// Locks each operation.
struct Mixed<'a, V>(&'a Map<V>);

impl<V: Stored> Session for Mixed<'_, V> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        Ok(get(&self.0.read(), key, value))
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.0.write().insert(*key, V::store(value)?);
        Ok(())
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        let mut map = self.0.write();
        for (key, value) in entries {
            map.insert(*key, V::store(value)?);
        }
        Ok(())
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        Ok(match self.0.write().get_mut(key) {
            Some(value) => {
                change(value.as_mut());
                true
            }
            None => false,
        })
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.0.read(), start, visit);
        Ok(())
    }
}

/// Holds the write guard for many inserts.
struct Loader<'a, V> {
    map: &'a Map<V>,
    guard: Option<RwLockWriteGuard<'a, BTreeMap<Key, V>>>,
    /// Inserts until the guard is given up.
    left: usize,
}

impl<V: Stored> Session for Loader<'_, V> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.finish()?;
        Mixed(self.map).get(key, value)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        if self.left == 0 {
            self.guard = None;
            self.left = WRITES_PER_LOAD;
        }
        self.left -= 1;
        let map = self.guard.get_or_insert_with(|| self.map.write());
        map.insert(*key, V::store(value)?);
        Ok(())
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        self.finish()?;
        Mixed(self.map).put_batch(entries)
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        self.finish()?;
        Mixed(self.map).modify(key, change)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.finish()?;
        Mixed(self.map).scan(start, visit)
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.guard = None;
        self.left = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_bench::records;

    #[test]
    fn a_batch_is_stored_in_every_phase_that_writes() {
        let entry = |record: u64, salt: u64| {
            let key = records::key(record);
            let mut value = vec![0; INLINE_BYTES];
            records::fill(key, salt, &mut value);
            (key, value)
        };
        let map = Map::<[u8; INLINE_BYTES]>::new();
        for (access, salt) in [(Access::Mixed, 1), (Access::Load, 2)] {
            let mut session = map.session(access).unwrap();
            session.put(&entry(0, 0).0, &entry(0, 0).1).unwrap();
            let batch: Vec<_> = (0..100).map(|record| entry(record, salt)).collect();
            session.put_batch(&batch).unwrap();
            let mut value = Vec::new();
            for (key, expected) in &batch {
                assert!(session.get(key, &mut value).unwrap());
                assert_eq!(&value, expected);
            }
        }
        let mut session = map.session(Access::Read).unwrap();
        assert!(session.put_batch(&[entry(0, 3)]).is_err());
    }
}
