//! Batches: many changes of any tables, as one.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use polder_format::SpaceId;
use polder_pool::Translation;
use polder_tree::{BatchAction, BatchOp, BatchOutcome, Change, Expected, Tree, apply_batch};

use crate::any::{Any, Tables, Variant, dispatch};
use crate::catalogue::TAG_KEY;
use crate::durability::Durability;
use crate::engine::{Engine, TableCore};
use crate::error::{CATALOGUE, StoreError};
use crate::handle::Store;
use crate::table::Table;

/// Changes that are made all together or not at all ([`Store::apply`]): in memory and on disk.
///
/// Several changes of one key are made in their order, and an update sees what those before it have
/// made of its key. Expectations are about what was there before the batch. A reader that is at work
/// meanwhile may see part of it.
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
    /// Each table that a part names, once.
    tables: Vec<Any<Tables>>,
    parts: Vec<Part<'c>>,
    /// Keys and values of the parts, one behind the other.
    bytes: Vec<u8>,
    /// Changes and expectations: a part may be one of each.
    len: usize,
    tag: Option<Vec<u8>>,
    durability: Option<Durability>,
}

/// What is asked of one key. What is in `bytes` is named by its place there.
struct Part<'c> {
    /// Which of the tables.
    table: usize,
    key: Range<usize>,
    expect: Option<Expected>,
    action: Action<'c>,
}

enum Action<'c> {
    Look,
    Insert(Range<usize>),
    Remove,
    Update(Box<ChangeFn<'c>>),
}

/// What an update does, given the value that the parts before it leave.
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
        write!(f, "WriteBatch({} parts)", self.len)
    }
}

impl<'c> WriteBatch<'c> {
    /// A batch of nothing.
    pub fn new() -> WriteBatch<'c> {
        WriteBatch::default()
    }

    /// Empties the batch and keeps its memory, and its handles of tables, so that the next one needs
    /// no new: see [`Store::apply_mut`].
    pub fn clear(&mut self) {
        self.parts.clear();
        self.bytes.clear();
        self.len = 0;
        self.tag = None;
        self.durability = None;
    }

    fn push(
        &mut self,
        table: &Table,
        key: &[u8],
        expect: Option<Expected>,
        action: Action<'c>,
    ) -> &mut Self {
        self.len += 1;
        let table = self.number_of(&table.core);
        let key = self.keep(key);
        self.parts.push(Part { table, key, expect, action });
        self
    }

    /// A write. If the part before is an expectation about the same key, both are one.
    fn write(&mut self, table: &Table, key: &[u8], action: Action<'c>) -> &mut Self {
        if let Some(last) = self.parts.last_mut()
            && matches!(last.action, Action::Look)
            && &self.bytes[last.key.clone()] == key
            && self.tables[last.table].is_same(&table.core)
        {
            last.action = action;
            self.len += 1;
            return self;
        }
        self.push(table, key, None, action)
    }

    /// Which of the tables this is. A batch has few of them, and several parts for each in a row.
    fn number_of(&mut self, table: &Any<Tables>) -> usize {
        let known = self.tables.iter().rposition(|known| known.is_same(table));
        known.unwrap_or_else(|| {
            self.tables.push(table.clone());
            self.tables.len() - 1
        })
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        begin..self.bytes.len()
    }

    /// Gives `key` a value.
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> &mut Self {
        let value = self.keep(value);
        self.write(table, key, Action::Insert(value))
    }

    /// Removes `key`, if it is there.
    pub fn remove(&mut self, table: &Table, key: &[u8]) -> &mut Self {
        self.write(table, key, Action::Remove)
    }

    /// Changes `key` as [`Table::update_with`] does. `change` sees what the parts before this one make
    /// of the key; it is called again if what was there before the batch was changed meanwhile. It may
    /// read the store, and not write to it ([`StoreError::Nested`]).
    pub fn update_with(
        &mut self,
        table: &Table,
        key: &[u8],
        change: impl FnMut(Option<&[u8]>) -> Change + 'c,
    ) -> &mut Self {
        self.push(table, key, None, Action::Update(Box::new(change)))
    }

    /// Lets the batch be done only if `key` still has this version word ([`Table::version`]), or is
    /// still not there (`None`).
    pub fn expect(&mut self, table: &Table, key: &[u8], version: Option<u64>) -> &mut Self {
        self.push(table, key, Some(Expected(version)), Action::Look)
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
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.tag.is_none()
    }
}

impl Store {
    /// Makes all changes of a batch, or none.
    ///
    /// While it is made, all pages that a batch changes stay in memory, and its records go to the log
    /// as one. It may change as many pages as half of the memory budget pays for: keys that lie
    /// far from each other need a page each, neighbours share one. In the smallest store that are 64
    /// pages; with a budget of 64 MiB, some 8000.
    ///
    /// # Errors
    /// [`BatchError::Unexpected`]; [`StoreError::BatchTooLarge`] and [`StoreError::Log`] if it is
    /// too large; and those of [`Table::insert`]. Nothing has changed then.
    pub fn apply(&self, mut batch: WriteBatch<'_>) -> Result<(), BatchError> {
        self.apply_mut(&mut batch)
    }

    /// The same; the batch stays as it is, to be applied again or, when it is cleared
    /// ([`WriteBatch::clear`]), filled again without new memory.
    ///
    /// # Errors
    /// Those of [`Store::apply`].
    pub fn apply_mut(&self, batch: &mut WriteBatch<'_>) -> Result<(), BatchError> {
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

/// What an update answered.
struct Answer {
    change: Change,
    /// What was there when it was asked; none if parts before it say what it saw.
    seen: Option<Expected>,
}

/// What the parts so far make of a key.
#[derive(Clone, Copy)]
enum Value<'b> {
    /// None of them writes it: it is as it was before the batch.
    Unchanged,
    Is(&'b [u8]),
    /// As this part, an update, has answered.
    Answered(usize),
    Gone,
}

/// One part of a batch, ready to be done. Parts are sorted by it: by tree and key, and those of one
/// key as they came.
struct Ready<'b, T: Translation> {
    space: SpaceId,
    /// The first eight bytes of the key, as a number in the same order: most comparisons end there.
    head: u64,
    key: &'b [u8],
    /// Which part it was.
    index: usize,
    /// None: the catalogue, for the tag.
    table: Option<&'b TableCore<T>>,
    expect: Option<Expected>,
    /// The expectation is the batch's own: an update that looked at another value is tried again.
    may_try_again: bool,
    action: ReadyAction<'b>,
}

#[derive(Clone, Copy)]
enum ReadyAction<'b> {
    Look,
    Insert(&'b [u8]),
    Remove,
}

fn apply<T: Variant>(
    engine: &Arc<Engine<T>>,
    batch: &mut WriteBatch<'_>,
) -> Result<(), BatchError> {
    let pass = engine.passage.enter()?;
    let WriteBatch { tables, parts, bytes, tag, durability, .. } = batch;
    // None: of another store, and no part names it.
    let mut cores = Vec::with_capacity(tables.len());
    for (number, table) in tables.iter().enumerate() {
        let own = T::of(table).filter(|table| Arc::ptr_eq(&table.engine, engine));
        // A batch that was cleared may hold tables in which it changes nothing any more.
        if own.is_none() && parts.iter().any(|part| part.table == number) {
            let table = dispatch!(table, table => table.name.clone());
            return Err(BatchError::Foreign { table });
        }
        cores.push(own.map(|table| &**table));
    }
    let lsn = loop {
        let answers;
        let mut ready = prepare(parts, &cores, bytes);
        if let Some(tag) = tag {
            ready.push(Ready::of_tag(&engine.catalogue, tag));
        }
        ready.sort_unstable_by(|a, b| a.order(b));
        if parts.iter().any(|part| matches!(part.action, Action::Update(_))) {
            answers = ask(parts, &ready)?;
            for part in ready.iter_mut().filter(|part| part.table.is_some()) {
                answers[part.index].iter().for_each(|answer| part.take(answer));
            }
        }
        keep_last_writes(&mut ready);
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
                let table = part.table.map_or(CATALOGUE, |table| &table.name);
                return Err(BatchError::Unexpected {
                    table: table.to_string(),
                    key: part.key.to_vec(),
                    expected: part.expect.and_then(|Expected(version)| version),
                });
            }
        }
    };
    drop(pass);
    Ok(engine.commit(lsn, durability.unwrap_or(engine.durability))?)
}

/// Asks the updates in their order. `ready` are in the order of their keys.
fn ask<'b, T: Translation>(
    parts: &mut [Part<'_>],
    ready: &[Ready<'b, T>],
) -> Result<Vec<Option<Answer>>, StoreError> {
    let mut answers: Vec<Option<Answer>> = Vec::new();
    answers.resize_with(parts.len(), || None);
    // The parts in their order, and for each key what has become of it.
    let mut in_order: Vec<Option<(usize, usize)>> = vec![None; parts.len()];
    let mut keys = 0;
    for (at, part) in ready.iter().enumerate() {
        keys += usize::from(at > 0 && !part.is_about_key_of(&ready[at - 1]));
        if part.table.is_some() {
            in_order[part.index] = Some((at, keys));
        }
    }
    let mut values = vec![Value::Unchanged; keys + 1];
    for (index, (at, key)) in in_order.into_iter().enumerate().filter_map(|(i, p)| Some((i, p?))) {
        let (part, value) = (&ready[at], &mut values[key]);
        match (&mut parts[index].action, part.table) {
            (Action::Update(change), Some(table)) => {
                let answer = part.ask(table, change, *value, &answers)?;
                match &answer.change {
                    Change::Keep => {}
                    Change::Insert(_) => *value = Value::Answered(index),
                    Change::Remove => *value = Value::Gone,
                }
                answers[index] = Some(answer);
            }
            _ => match part.action {
                ReadyAction::Look => {}
                ReadyAction::Insert(bytes) => *value = Value::Is(bytes),
                ReadyAction::Remove => *value = Value::Gone,
            },
        }
    }
    Ok(answers)
}

/// What the parts will do, in the order of their keys, but for the answers of updates.
fn prepare<'b, T: Translation>(
    parts: &[Part<'_>],
    tables: &[Option<&'b TableCore<T>>],
    bytes: &'b [u8],
) -> Vec<Ready<'b, T>> {
    let mut ready = Vec::with_capacity(parts.len() + 1);
    for (index, part) in parts.iter().enumerate() {
        let (Some(table), key) = (tables[part.table], &bytes[part.key.clone()]) else { continue };
        let action = match &part.action {
            Action::Insert(value) => ReadyAction::Insert(&bytes[value.clone()]),
            Action::Remove => ReadyAction::Remove,
            Action::Look | Action::Update(_) => ReadyAction::Look,
        };
        let new = Ready::new(&table.tree, key, action);
        ready.push(Ready { index, table: Some(table), expect: part.expect, ..new });
    }
    ready
}

impl<'b, T: Translation> Ready<'b, T> {
    fn new(tree: &Tree<T>, key: &'b [u8], action: ReadyAction<'b>) -> Ready<'b, T> {
        let mut head = [0; 8];
        let len = key.len().min(head.len());
        head[..len].copy_from_slice(&key[..len]);
        Ready {
            space: tree.space().id(),
            head: u64::from_be_bytes(head),
            key,
            index: 0,
            table: None,
            expect: None,
            may_try_again: false,
            action,
        }
    }

    fn of_tag(catalogue: &Tree<T>, tag: &'b [u8]) -> Ready<'b, T> {
        Ready::new(catalogue, TAG_KEY, ReadyAction::Insert(tag))
    }

    /// Asks an update, which sees this value.
    fn ask(
        &self,
        table: &TableCore<T>,
        change: &mut ChangeFn<'_>,
        value: Value<'_>,
        answers: &[Option<Answer>],
    ) -> Result<Answer, StoreError> {
        let value = match value {
            Value::Unchanged => {
                let found = table.tree.versioned(self.key).map_err(|error| table.error(error))?;
                let seen = Some(Expected(found.as_ref().map(|(version, _)| *version)));
                let change = change(found.as_ref().map(|(_, value)| value.as_slice()));
                return Ok(Answer { change, seen });
            }
            Value::Is(bytes) => Some(bytes),
            Value::Answered(index) => match answers[index].as_ref().map(|answer| &answer.change) {
                Some(Change::Insert(bytes)) => Some(&bytes[..]),
                _ => None,
            },
            Value::Gone => None,
        };
        Ok(Answer { change: change(value), seen: None })
    }

    /// Takes over what an update has answered.
    fn take(&mut self, answer: &'b Answer) {
        self.action = match &answer.change {
            Change::Keep => ReadyAction::Look,
            Change::Insert(value) => ReadyAction::Insert(value),
            Change::Remove => ReadyAction::Remove,
        };
        (self.expect, self.may_try_again) = (answer.seen, answer.seen.is_some());
    }

    fn is_about_key_of(&self, other: &Ready<'_, T>) -> bool {
        (self.space, self.head, self.key) == (other.space, other.head, other.key)
    }

    fn order(&self, other: &Ready<'_, T>) -> Ordering {
        let all = |part: &Ready<'_, T>| (part.space, part.head);
        let by_rest = || self.key.cmp(other.key).then(self.index.cmp(&other.index));
        all(self).cmp(&all(other)).then_with(by_rest)
    }

    fn tree(&self, engine: &'b Engine<T>) -> &'b Tree<T> {
        self.table.map_or(&engine.catalogue, |table| &table.tree)
    }
}

/// Of several writes of one key only the last one is made.
fn keep_last_writes<T: Translation>(ready: &mut [Ready<'_, T>]) {
    let mut written = None;
    for part in ready.iter_mut().rev() {
        let key = (part.space, part.key);
        match part.action {
            ReadyAction::Look => {}
            _ if written == Some(key) => part.action = ReadyAction::Look,
            _ => written = Some(key),
        }
    }
}

fn apply_ready<T: Translation>(
    engine: &Engine<T>,
    ready: &[Ready<'_, T>],
) -> Result<BatchOutcome, StoreError> {
    let mut ops = Vec::with_capacity(ready.len());
    for part in ready {
        let action = match part.action {
            ReadyAction::Look => BatchAction::Look,
            ReadyAction::Insert(value) => BatchAction::Insert(value, engine.stamps().take()),
            ReadyAction::Remove => BatchAction::Remove,
        };
        ops.push(BatchOp { tree: part.tree(engine), key: part.key, expect: part.expect, action });
    }
    apply_batch(&ops).map_err(|error| StoreError::of("(batch)", error))
}
