//! Batches: many changes of any tables, as one.

use std::sync::Arc;

use polder_pool::Translation;
use polder_tree::{BatchAction, BatchOp, BatchOutcome, Change, Expected, Tree, apply_batch};

use crate::any::{Any, Tables, Variant, dispatch};
use crate::catalogue::TAG_KEY;
use crate::durability::Durability;
use crate::engine::{Engine, TableCore};
use crate::error::{CATALOGUE, StoreError};
use crate::store::Store;
use crate::table::Table;

/// Changes that are made all together or not at all ([`Store::apply`]): in memory and on disk.
///
/// Several changes of one key are made in their order. Expectations are about what was there before
/// the batch. (Until there are snapshots, a reader that is at work meanwhile may see part of it.)
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # use polder::{BatchError, Options, Store, WriteBatch};
/// # let store = Store::open(Options::new(dir.path().join("s")).memory_budget(16 << 20))?;
/// let (accounts, log) = (store.open_table("accounts")?, store.open_table("log")?);
/// accounts.insert(b"a", b"10")?;
/// let seen = accounts.version(b"a")?;
///
/// let transfer = |version| {
///     let mut batch = WriteBatch::new();
///     batch.expect(&accounts, b"a", version);
///     batch.insert(&accounts, b"a", b"7").insert(&accounts, b"b", b"3");
///     batch.insert(&log, b"1", b"a to b: 3").tag(b"entry 1");
///     batch
/// };
/// store.apply(transfer(seen))?;
/// assert_eq!(accounts.get(b"b")?.as_deref(), Some(&b"3"[..]));
/// assert_eq!(store.tag()?.as_deref(), Some(&b"entry 1"[..]));
/// // `a` is another one by now: nothing is done.
/// let again = store.apply(transfer(seen));
/// assert!(matches!(again, Err(BatchError::Unexpected { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct WriteBatch<'c> {
    parts: Vec<Part<'c>>,
    tag: Option<Vec<u8>>,
    durability: Option<Durability>,
}

struct Part<'c> {
    table: Any<Tables>,
    key: Vec<u8>,
    action: Action<'c>,
}

enum Action<'c> {
    Insert(Vec<u8>),
    Remove,
    Expect(Option<u64>),
    Update(Box<ChangeFn<'c>>),
}

/// What an update does, given the value before the batch.
type ChangeFn<'c> = dyn FnMut(Option<&[u8]>) -> Change + 'c;

/// Why a batch was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// An expectation did not hold.
    #[error("nothing was changed: key {} of table `{table}` is not the one that was expected", key.escape_ascii())]
    Unexpected {
        /// The table.
        table: String,
        /// The key.
        key: Vec<u8>,
        /// The version word that was expected; none: the key was not to be there.
        expected: Option<u64>,
    },
    /// A table in the batch belongs to another store.
    #[error("table `{table}` belongs to another store")]
    Foreign {
        /// The table.
        table: String,
    },
    /// It could not be made.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl std::fmt::Debug for WriteBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WriteBatch({} parts)", self.parts.len())
    }
}

impl<'c> WriteBatch<'c> {
    /// A batch of nothing.
    pub fn new() -> WriteBatch<'c> {
        WriteBatch::default()
    }

    fn push(&mut self, table: &Table, key: &[u8], action: Action<'c>) -> &mut Self {
        self.parts.push(Part { table: table.core.clone(), key: key.to_vec(), action });
        self
    }

    /// Gives `key` a value.
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> &mut Self {
        self.push(table, key, Action::Insert(value.to_vec()))
    }

    /// Removes `key`, if it is there.
    pub fn remove(&mut self, table: &Table, key: &[u8]) -> &mut Self {
        self.push(table, key, Action::Remove)
    }

    /// Changes `key` as [`Table::update_with`] does. `change` sees what was there before the batch;
    /// it is called again if that was changed meanwhile.
    pub fn update_with(
        &mut self,
        table: &Table,
        key: &[u8],
        change: impl FnMut(Option<&[u8]>) -> Change + 'c,
    ) -> &mut Self {
        self.push(table, key, Action::Update(Box::new(change)))
    }

    /// Lets the batch be done only if `key` still has this version word ([`Table::version`]), or is
    /// still not there (`None`).
    pub fn expect(&mut self, table: &Table, key: &[u8], version: Option<u64>) -> &mut Self {
        self.push(table, key, Action::Expect(version))
    }

    /// Bytes that are kept with the batch, in place of those of the batch before: an index of a
    /// replicated log that was applied, say. [`Store::tag`] reads them. At most 64 MiB, as a value.
    pub fn tag(&mut self, tag: &[u8]) -> &mut Self {
        self.tag = Some(tag.to_vec());
        self
    }

    /// When the batch is durable; by default as the store's other writes.
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = Some(durability);
        self
    }

    /// How many changes and expectations there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.tag.is_none()
    }
}

impl Store {
    /// Makes all changes of a batch, or none.
    ///
    /// A batch must fit in memory, with its leaves and its records in the log: a few thousand keys
    /// do in the smallest store.
    ///
    /// # Errors
    /// [`BatchError::Unexpected`], [`StoreError::Log`] and [`StoreError::PoolExhausted`] if it is
    /// too large, and those of [`Table::insert`]. Nothing has changed then.
    pub fn apply(&self, batch: WriteBatch<'_>) -> Result<(), BatchError> {
        dispatch!(&self.engine, engine => apply(engine, batch))
    }

    /// The tag of the last batch that had one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn tag(&self) -> Result<Option<Vec<u8>>, StoreError> {
        dispatch!(&self.engine, engine => {
            engine.passage.check_open()?;
            engine.catalogue.get(TAG_KEY).map_err(|error| StoreError::of(CATALOGUE, error))
        })
    }
}

/// One part of a batch, ready to be done.
struct Ready<T: Translation> {
    /// None: the catalogue, for the tag.
    table: Option<Arc<TableCore<T>>>,
    key: Vec<u8>,
    expect: Option<Expected>,
    /// The expectation is the batch's own: an update that looked at another value is tried again.
    may_try_again: bool,
    action: ReadyAction,
}

enum ReadyAction {
    Look,
    Insert(Vec<u8>),
    Remove,
}

fn apply<T: Variant>(engine: &Arc<Engine<T>>, mut batch: WriteBatch<'_>) -> Result<(), BatchError> {
    let pass = engine.passage.enter()?;
    let durability = batch.durability.unwrap_or(engine.durability);
    let mut tables = Vec::with_capacity(batch.parts.len());
    for part in &batch.parts {
        match T::of(&part.table).filter(|table| Arc::ptr_eq(&table.engine, engine)) {
            Some(table) => tables.push(Arc::clone(table)),
            None => {
                let table = dispatch!(&part.table, table => table.name.clone());
                return Err(BatchError::Foreign { table });
            }
        }
    }
    let lsn = loop {
        let mut ready = Vec::with_capacity(batch.parts.len() + 1);
        for (part, table) in batch.parts.iter_mut().zip(&tables) {
            ready.push(prepare(part, table)?);
        }
        if let Some(tag) = &batch.tag {
            ready.push(Ready {
                table: None,
                key: TAG_KEY.to_vec(),
                expect: None,
                may_try_again: false,
                action: ReadyAction::Insert(tag.clone()),
            });
        }
        let space = |part: &Ready<T>| tree(engine, part).space().id();
        ready.sort_by(|a, b| (space(a), &a.key).cmp(&(space(b), &b.key)));
        keep_last_writes(&mut ready, |a, b| space(a) == space(b) && a.key == b.key);
        match apply_ready(engine, &ready)? {
            BatchOutcome::Done { effects, lsn } => {
                for (part, effect) in ready.iter().zip(effects) {
                    part.table.iter().for_each(|table| table.count(effect));
                }
                break lsn;
            }
            BatchOutcome::Unexpected(index) if ready[index].may_try_again => {}
            BatchOutcome::Unexpected(index) => {
                let part = &ready[index];
                let table = part.table.as_ref().map_or(CATALOGUE, |table| &table.name);
                return Err(BatchError::Unexpected {
                    table: table.to_string(),
                    key: part.key.clone(),
                    expected: part.expect.and_then(|Expected(version)| version),
                });
            }
        }
    };
    drop(pass);
    Ok(engine.commit(lsn, durability)?)
}

/// Of several writes of one key only the last one is made.
fn keep_last_writes<T: Translation>(
    ready: &mut [Ready<T>],
    is_same: impl Fn(&Ready<T>, &Ready<T>) -> bool,
) {
    let mut written = None;
    for index in (0..ready.len()).rev() {
        let again = written.is_some_and(|written: usize| is_same(&ready[index], &ready[written]));
        match ready[index].action {
            ReadyAction::Look => {}
            _ if again => ready[index].action = ReadyAction::Look,
            _ => written = Some(index),
        }
    }
}

fn tree<'e, T: Translation>(engine: &'e Engine<T>, part: &'e Ready<T>) -> &'e Tree<T> {
    part.table.as_ref().map_or(&engine.catalogue, |table| &table.tree)
}

/// What a part will do, given what is there now.
fn prepare<T: Translation>(
    part: &mut Part<'_>,
    table: &Arc<TableCore<T>>,
) -> Result<Ready<T>, StoreError> {
    let mut expect = None;
    let mut may_try_again = false;
    let action = match &mut part.action {
        Action::Insert(value) => ReadyAction::Insert(value.clone()),
        Action::Remove => ReadyAction::Remove,
        Action::Expect(version) => {
            expect = Some(Expected(*version));
            ReadyAction::Look
        }
        Action::Update(change) => {
            let seen = table.tree.versioned(&part.key).map_err(|error| table.error(error))?;
            expect = Some(Expected(seen.as_ref().map(|(version, _)| *version)));
            may_try_again = true;
            match change(seen.as_ref().map(|(_, value)| value.as_slice())) {
                Change::Keep => ReadyAction::Look,
                Change::Insert(value) => ReadyAction::Insert(value),
                Change::Remove => ReadyAction::Remove,
            }
        }
    };
    let (table, key) = (Some(Arc::clone(table)), part.key.clone());
    Ok(Ready { table, key, expect, may_try_again, action })
}

fn apply_ready<T: Translation>(
    engine: &Engine<T>,
    ready: &[Ready<T>],
) -> Result<BatchOutcome, StoreError> {
    let mut ops = Vec::with_capacity(ready.len());
    for part in ready {
        let action = match &part.action {
            ReadyAction::Look => BatchAction::Look,
            ReadyAction::Insert(value) => BatchAction::Insert(value, engine.stamps().take()),
            ReadyAction::Remove => BatchAction::Remove,
        };
        ops.push(BatchOp { tree: tree(engine, part), key: &part.key, expect: part.expect, action });
    }
    apply_batch(&ops).map_err(|error| StoreError::of("(batch)", error))
}
