//! What the store's tests share.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use polder::{Durability, OpenError, OpenMode, Options, Store, StoreError, Table, Tier};
pub use polder_testkit::effort::scale;
use polder_testkit::{Change, Entry, FaultPlan, Model, Ordered, SimDisk};

/// The least log.
pub const LOG_LIMIT: u64 = 4 << 20;

/// The least budget, at the smallest page size, and the least log.
pub fn tight(path: impl AsRef<Path>) -> Options {
    let options = Options::new(path.as_ref()).log_limit(LOG_LIMIT);
    options.memory_budget(Options::least_memory_budget(4096))
}

/// As [`tight`], where nobody waits for the device.
pub fn quick(path: impl AsRef<Path>) -> Options {
    tight(path).durability(Durability::None)
}

/// Opens it, and writes nothing.
pub fn to_read(options: Options) -> Options {
    options.mode(OpenMode::ReadOnly)
}

/// All files of a directory: what they hold, and when they and what is said of them were changed
/// last (seconds and nanoseconds).
pub type Files = BTreeMap<std::ffi::OsString, (Vec<u8>, [i64; 4])>;

pub fn files(path: &Path) -> Files {
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let about = entry.metadata().unwrap();
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
        (entry.file_name(), (std::fs::read(entry.path()).unwrap(), times))
    };
    std::fs::read_dir(path).unwrap().map(file).collect()
}

/// The disks of a simulated machine: one for the data file, one for the log.
#[derive(Clone)]
pub struct Disks {
    pub data: SimDisk,
    pub log: SimDisk,
}

impl Disks {
    pub fn new() -> Disks {
        let disk = || SimDisk::new(FaultPlan::new(1));
        Disks { data: disk(), log: disk() }
    }

    pub fn open(&self, options: Options) -> Result<Store, OpenError> {
        Store::open_on(Box::new(self.data.clone()), Box::new(self.log.clone()), options)
    }

    /// The same plan for both.
    pub fn set_plan(&self, plan: &FaultPlan) {
        self.data.set_plan(plan.clone());
        self.log.set_plan(plan.clone());
    }

    /// A copy, which goes on by itself. All that was written must be synced; the log may have been made
    /// longer since.
    pub fn copy(&self) -> Disks {
        assert_eq!((self.data.unsynced_bytes(), self.log.unsynced_bytes()), (0, 0));
        self.crash(1)
    }

    /// The disks as the next process finds them, if this one is killed now.
    pub fn kill(&self, seed: u64) -> Disks {
        let [data, log] = SimDisk::kill_all([&self.data, &self.log], seed);
        Disks { data, log }
    }

    /// The disks as the power comes back, if it fails now.
    pub fn crash(&self, seed: u64) -> Disks {
        let [data, log] = SimDisk::crash_all([&self.data, &self.log], seed);
        Disks { data, log }
    }
}

pub fn disk() -> Disks {
    Disks::new()
}

pub fn open_on(disks: &Disks) -> Store {
    disks.open(tight("simulated")).unwrap()
}

/// An error and all of its causes, as people see it.
pub fn full_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

pub fn assert_sound(store: &Store) {
    let report = store.check(&mut |_, _| true).unwrap();
    assert_eq!(report.faults, []);
    assert!(!report.stopped);
}

/// The table is what the model is, by every way of looking.
pub fn assert_content(table: &Table, model: &Model) {
    assert_eq!(table.len(), model.entries.len() as u64);
    assert_eq!(table.is_empty(), model.entries.is_empty());
    let owned = |entry: (&Vec<u8>, &Vec<u8>)| (entry.0.clone(), entry.1.clone());
    assert_eq!(table.first().unwrap(), model.entries.first_key_value().map(owned));
    assert_eq!(table.last().unwrap(), model.entries.last_key_value().map(owned));
    for (key, value) in &model.entries {
        assert_eq!(table.get(key).unwrap().as_ref(), Some(value));
        assert_eq!(table.get_with(key, <[u8]>::to_vec).unwrap().as_ref(), Some(value));
    }
    assert!(table.iter().map(Result::unwrap).eq(model.entries.iter().map(owned)));
    assert!(table.iter().rev().map(Result::unwrap).eq(model.entries.iter().rev().map(owned)));
}

/// A table as an ordered key-value store.
pub struct Subject<'t>(pub &'t Table);

impl Ordered for Subject<'_> {
    type Error = StoreError;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        if value.len().is_multiple_of(2) {
            return Ok(!self.0.put(key, value)?);
        }
        let before = self.0.get(key)?;
        let old = self.0.insert(key, value)?;
        assert_eq!(old, before);
        Ok(old.is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, StoreError> {
        let before = self.0.get(key)?;
        if before.as_ref().is_some_and(|value| value.len().is_multiple_of(2)) {
            return self.0.delete(key);
        }
        let old = self.0.remove(key)?;
        assert_eq!(old, before);
        Ok(old.is_some())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.0.get(key)?;
        assert_eq!(self.0.contains_key(key)?, value.is_some());
        assert_eq!(self.0.get_with(key, <[u8]>::to_vec)?, value);
        Ok(value)
    }

    fn range(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let range = self.0.range((from, to));
        if reverse { range.rev().take(limit).collect() } else { range.take(limit).collect() }
    }

    fn update(&mut self, key: &[u8], change: &Change) -> Result<(), StoreError> {
        self.0.update_with(key, |old| match change.apply(old) {
            Some(value) => polder::Change::Insert(value),
            None => polder::Change::Remove,
        })
    }

    fn first(&mut self) -> Result<Option<Entry>, StoreError> {
        self.0.first()
    }

    fn last(&mut self) -> Result<Option<Entry>, StoreError> {
        self.0.last()
    }

    fn count(&mut self) -> Result<u64, StoreError> {
        Ok(self.0.len())
    }
}

/// So many tiers behind a first one of so many bytes, as small as may be; pages go to and fro.
pub fn in_tiers(options: Options, first: u64, page_size: u32, slower: u64) -> Options {
    if slower == 0 {
        return options.memory_budget(first);
    }
    let pages = 64;
    // What is known of the pages of slower tiers, and larger buffers through which pages are written.
    let first = Tier::new(first + pages * slower * (512 + u64::from(page_size) / 8));
    let tiers =
        [first].into_iter().chain((0..slower).map(|_| Tier::new(pages * u64::from(page_size))));
    options.tiers(tiers).migration(polder_testkit::pools::RESTLESS)
}
