//! What the tree's tests share: pools on a simulated disk, and the tree as the test kit sees it.

use std::ops::Bound;

use polder_format::{PageSize, SpaceId};
use polder_pool::{FileState, Pool, PoolConfig, ReadMode, Translation};
pub use polder_testkit::effort::scale;
pub use polder_testkit::pools::disk;
use polder_testkit::pools::tight;
use polder_testkit::random::scramble;
use polder_testkit::{Change, Entry, Model, Ordered, SimDisk};
use polder_tree::{Effect, KINDS, Place, Tree, TreeError};

/// The space of the only tree of a test.
pub const SPACE: SpaceId = SpaceId::CATALOGUE;

pub fn pages_of(bytes: u32) -> PageSize {
    PageSize::new(bytes).unwrap()
}

/// A pool of the least budget, or one that the tests' data fits if the translation cannot evict.
pub fn pool<T: Translation>(disk: &SimDisk, size: PageSize, file: FileState) -> Pool<T> {
    pool_held(disk, size, file, ReadMode::Optimistic)
}

/// The same, whose readers hold pages in this way.
pub fn pool_held<T: Translation>(
    disk: &SimDisk,
    size: PageSize,
    file: FileState,
    hold: ReadMode,
) -> Pool<T> {
    let config = PoolConfig { read_mode: hold, ..tight::<T>(size, file) };
    Pool::open(Box::new(disk.clone()), &config, &KINDS).unwrap()
}

/// A new tree, and its pool.
pub fn new_tree<T: Translation>(disk: &SimDisk, size: PageSize) -> (Pool<T>, Tree<T>) {
    new_tree_held(disk, size, ReadMode::Optimistic)
}

/// The same, where readers hold pages in this way.
pub fn new_tree_held<T: Translation>(
    disk: &SimDisk,
    size: PageSize,
    hold: ReadMode,
) -> (Pool<T>, Tree<T>) {
    let pool = pool_held(disk, size, FileState::NEW, hold);
    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    (pool, tree)
}

/// Flushes, and opens the file with another pool.
pub fn reopen<T: Translation>(disk: &SimDisk, old: Pool<T>, tree: Tree<T>) -> (Pool<T>, Tree<T>) {
    old.flush().unwrap();
    let (file, size, hold) = (old.file_state(), old.page_size(), old.read_mode());
    drop((old, tree));
    let pool = pool_held(disk, size, file, hold);
    let tree = Tree::open(pool.open_space(SPACE).unwrap());
    (pool, tree)
}

/// Everything that `check` looks at is as it should be. Gives the pages of the tree.
pub fn assert_sound<T: Translation>(tree: &Tree<T>, entries: u64) -> u64 {
    let report = tree.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, [], "of {} pages", report.pages);
    assert!(!report.stopped);
    assert_eq!(report.entries, entries);
    assert_eq!(tree.space().pool().check_maps().unwrap(), Vec::<String>::new());
    assert_eq!(tree.space().pool().check_links(), Vec::<String>::new());
    report.pages
}

/// Looks each key of the model up, and goes through the tree in both directions.
pub fn assert_content<T: Translation>(tree: &Tree<T>, model: &Model) {
    for (key, value) in &model.entries {
        assert_eq!(tree.get(key).unwrap().as_ref(), Some(value));
        assert_eq!(tree.get_with(key, <[u8]>::to_vec).unwrap().as_ref(), Some(value));
        assert!(tree.contains_key(key).unwrap());
    }
    let mut cursor = tree.cursor_first().unwrap();
    for (key, value) in &model.entries {
        assert_eq!(cursor.next().unwrap(), Some((key.as_slice(), value.as_slice())));
    }
    assert_eq!(cursor.next().unwrap(), None);
    let mut cursor = tree.cursor_last().unwrap();
    for (key, value) in model.entries.iter().rev() {
        assert_eq!(cursor.previous().unwrap(), Some((key.as_slice(), value.as_slice())));
    }
    assert_eq!(cursor.previous().unwrap(), None);
}

/// A key so long that an inner node holds seven of them, and that a separator must hold as well.
pub fn wide(key: u64) -> Vec<u8> {
    let mut wide: Vec<u8> =
        (0..60).flat_map(|i| scramble(key / 8 + (i << 32)).to_be_bytes()).collect();
    wide.extend(key.to_be_bytes());
    wide
}

/// A tree as an ordered key-value store.
pub struct Subject<'t, T: Translation> {
    pub tree: &'t Tree<T>,
    pub version: u64,
}

impl<T: Translation> Subject<'_, T> {
    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}

impl<T: Translation> Ordered for Subject<'_, T> {
    type Error = TreeError;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, TreeError> {
        let version = self.next_version();
        if version.is_multiple_of(2) {
            return Ok(self.tree.insert(key, value, version)?.effect == Effect::Same);
        }
        let before = self.tree.get(key)?;
        let (applied, old) = self.tree.replace(key, value, version)?;
        assert_eq!(old, before);
        assert_eq!(applied.effect, if old.is_some() { Effect::Same } else { Effect::Added });
        Ok(old.is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, TreeError> {
        if self.next_version().is_multiple_of(2) {
            return Ok(self.tree.remove(key)?.effect == Effect::Removed);
        }
        let before = self.tree.get(key)?;
        let (applied, old) = self.tree.take(key)?;
        assert_eq!(old, before);
        assert_eq!(applied.effect == Effect::Removed, old.is_some());
        Ok(old.is_some())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        let value = self.tree.get(key)?;
        assert_eq!(self.tree.get_with(key, <[u8]>::to_vec)?, value);
        assert_eq!(self.tree.contains_key(key)?, value.is_some());
        Ok(value)
    }

    fn range(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, TreeError> {
        let tree = self.tree;
        let mut cursor = match (reverse, from, to) {
            (false, Bound::Unbounded, _) => tree.cursor_first()?,
            (false, Bound::Included(key), _) => tree.cursor_at(key)?,
            (false, Bound::Excluded(key), _) => tree.cursor_behind(key)?,
            (true, _, Bound::Unbounded) => tree.cursor_last()?,
            (true, _, Bound::Included(key)) => tree.cursor_behind(key)?,
            (true, _, Bound::Excluded(key)) => tree.cursor_at(key)?,
        };
        let inside = |key: &[u8]| match (reverse, from, to) {
            (false, _, Bound::Unbounded) | (true, Bound::Unbounded, _) => true,
            (false, _, Bound::Included(to)) => key <= to,
            (false, _, Bound::Excluded(to)) => key < to,
            (true, Bound::Included(from), _) => key >= from,
            (true, Bound::Excluded(from), _) => key > from,
        };
        let mut entries = Vec::new();
        while entries.len() < limit {
            let entry = if reverse { cursor.previous()? } else { cursor.next()? };
            match entry.filter(|(key, _)| inside(key)) {
                Some((key, value)) => entries.push((key.to_vec(), value.to_vec())),
                None => break,
            }
        }
        let mut place = match reverse {
            true => Place::below(tree, to)?,
            false => Place::above(tree, from)?,
        };
        let mut bounded = Vec::new();
        while bounded.len() < limit {
            let entry = if reverse { place.previous(tree, from)? } else { place.next(tree, to)? };
            let Some((key, value)) = entry else { break };
            bounded.push((key.to_vec(), value.to_vec()));
        }
        assert_eq!(bounded, entries);
        if entries.len() < limit {
            assert_eq!(tree.count(from, to)?, entries.len() as u64);
        }
        Ok(entries)
    }

    fn update(&mut self, key: &[u8], change: &Change) -> Result<(), TreeError> {
        let mut version = self.version;
        let decide = |old: Option<&[u8]>| match change.apply(old) {
            Some(value) => polder_tree::Change::Insert(value),
            None => polder_tree::Change::Remove,
        };
        self.tree.update_with(key, decide, || {
            version += 1;
            version
        })?;
        self.version = version;
        Ok(())
    }
}
