//! Doing a batch: in the order of keys, with what its updates answer.

use std::sync::Arc;

use polder_format::Lsn;
use polder_pool::Translation;
use polder_tree::{BatchAction, BatchOp, BatchOutcome, Change, Expected, Warmed, apply_batch};

use super::ready::{Answer, Ready, ReadyAction, Value};
use super::{Action, BatchError, Part, WriteBatch};
use crate::any::{Variant, dispatch};
use crate::catalogue::TAG_KEY;
use crate::durability::Durability;
use crate::engine::{Engine, TableCore};
use crate::error::{CATALOGUE, StoreError};
use crate::handle::Store;

impl Store {
    /// Makes all changes of a batch, or none.
    ///
    /// While it is made, all pages that a batch changes stay in memory, and its records go to the
    /// log as one. It may change as many pages as half of the memory budget pays for: keys that
    /// lie far from each other need a page each, neighbours share one. In the smallest store that
    /// are 64 pages; with a budget of 64 MiB, some 8000. Its records (keys and values, and about 50
    /// bytes for each; long values are not among them) may take a quarter of the log's limit, and
    /// of the memory budget, beside which they stand: with the default options 64 MiB.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::WriteBatch;
    /// let (names, numbers) = (store.create_table("names")?, store.create_table("numbers")?);
    /// let mut batch = WriteBatch::new();
    /// batch.put(&names, 7u64.to_be_bytes(), "Ada").put(&numbers, "Ada", 7u64.to_be_bytes());
    /// store.apply(batch)?;
    /// assert_eq!((names.len(), numbers.len()), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BatchError::Unexpected`]; [`StoreError::BatchTooLarge`] and [`StoreError::ChangeTooLarge`]
    /// if it is too large; and those of [`Table::put`](crate::Table::put). Nothing has changed then.
    pub fn apply(&self, mut batch: WriteBatch<'_>) -> Result<(), BatchError> {
        self.apply_mut(&mut batch)
    }

    /// The same; the batch stays as it is, to be applied again or, when it is cleared
    /// ([`WriteBatch::clear`]), filled again without new memory.
    ///
    /// # Errors
    /// Those of [`Store::apply`].
    pub fn apply_mut(&self, batch: &mut WriteBatch<'_>) -> Result<(), BatchError> {
        #[cfg(feature = "vector")]
        if let Some(around) = batch.around.take() {
            let applied = around.apply_around(self, batch);
            batch.around = Some(around);
            return applied;
        }
        self.apply_tables(batch, &|_| ())
    }

    /// The same for a batch without changes of collections. `changes` is that of [`apply`].
    pub(crate) fn apply_tables(
        &self,
        batch: &mut WriteBatch<'_>,
        changes: &dyn Fn(bool),
    ) -> Result<(), BatchError> {
        dispatch!(&self.engine, engine => {
            let (lsn, durability) = apply(engine, batch, changes)?;
            // Durable as asked, after this writer has left: so a thread that pauses writers does not
            // wait for the device as well.
            Ok(engine.commit(lsn, durability)?)
        })
    }

    /// The tag of the last batch that had one.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::WriteBatch;
    /// assert_eq!(store.tag()?, None);
    /// let mut batch = WriteBatch::new();
    /// batch.tag("entry 17 of the replicated log");
    /// store.apply(batch)?;
    /// assert_eq!(store.tag()?, Some(b"entry 17 of the replicated log".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading.
    pub fn tag(&self) -> Result<Option<Vec<u8>>, StoreError> {
        dispatch!(&self.engine, engine => {
            engine.quiesce.check_open()?;
            engine.catalogue.get(TAG_KEY).map_err(|error| StoreError::of(CATALOGUE, error))
        })
    }
}

/// Gives up to where the log must be durable for it, and whether that is to be waited for. `changes` is
/// told when entries begin to change, and when all that have are seen.
pub(crate) fn apply<T: Variant>(
    engine: &Arc<Engine<T>>,
    batch: &mut WriteBatch<'_>,
    changes: &dyn Fn(bool),
) -> Result<(Lsn, Durability), BatchError> {
    // 1. The tables are those of this store.
    let _pass = engine.quiesce.enter()?;
    let WriteBatch { tables, parts, bytes, tag, durability, .. } = batch;
    // None: of another store, and no part names it.
    let mut cores = Vec::with_capacity(tables.len());
    for (number, table) in tables.iter().enumerate() {
        let own = T::of(table).filter(|table| Arc::ptr_eq(&table.engine, engine));
        // A batch that was cleared may hold tables in which it changes nothing any more.
        if own.is_none() && parts.iter().any(|part| part.table == number) {
            let table = dispatch!(table, table => table.name.get().to_string());
            return Err(BatchError::Foreign { table });
        }
        cores.push(own.map(|table| &**table));
    }
    let lsn = loop {
        // 2. The parts are sorted by table and key; those of one key stay as they came.
        let answers;
        let mut ready = prepare(parts, &cores, bytes);
        if let Some(tag) = tag {
            ready.push(Ready::of_tag(&engine.catalogue, tag));
        }
        ready.sort_unstable_by(|a, b| a.order(b));
        // 3. Updates are asked, each with what the parts before it make of its key.
        if parts.iter().any(|part| matches!(part.action, Action::Update(_))) {
            answers = ask(parts, &ready, cores.len())?;
            for part in ready.iter_mut().filter(|part| part.table.is_some()) {
                answers[part.index].iter().for_each(|answer| part.take(answer));
            }
        }
        // 4. Of several writes of a key the last is made, and all parts as one, if every
        // expectation holds. Where an update was asked about a value that is there no more, all
        // begins again.
        keep_last_writes(&mut ready);
        let changing = Changing::begin(changes);
        let outcome = apply_ready(engine, &ready)?;
        drop(changing);
        match outcome {
            BatchOutcome::Done { effects, lsn } => {
                for (part, effect) in ready.iter().zip(effects) {
                    part.table.iter().for_each(|table| table.count(effect));
                }
                break lsn;
            }
            BatchOutcome::Unexpected(index) if ready[index].may_try_again => {}
            BatchOutcome::Unexpected(index) => {
                let part = &ready[index];
                let table = part.table.map_or(CATALOGUE, |table| table.name.get());
                return Err(BatchError::Unexpected {
                    table: table.to_string(),
                    key: part.key.to_vec(),
                    expected: part.expect.and_then(|Expected(version)| version),
                });
            }
        }
    };
    if let Some(Durability::Periodic(period)) = *durability {
        engine.log().sync_within(period);
    }
    Ok((lsn, durability.unwrap_or(engine.durability)))
}

/// Entries change.
struct Changing<'c>(&'c dyn Fn(bool));

impl<'c> Changing<'c> {
    fn begin(changes: &'c dyn Fn(bool)) -> Changing<'c> {
        changes(true);
        Changing(changes)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        (self.0)(false);
    }
}

/// The keys of one table that updates will look at, in their order. Their leaves are made ready together.
#[derive(Default)]
struct Asked<'b> {
    keys: Vec<&'b [u8]>,
    next: usize,
    warmed: Warmed,
}

/// Asks the updates in their order. `ready` are in the order of their keys; `tables` is how many tables the
/// batch names.
fn ask<'b, T: Translation>(
    parts: &mut [Part<'_>],
    ready: &[Ready<'b, T>],
    tables: usize,
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
    let mut asked: Vec<Asked<'_>> = Vec::new();
    asked.resize_with(tables, Asked::default);
    for (part, at) in parts.iter().zip(&in_order) {
        if let (Action::Update(_), Some((at, _))) = (&part.action, at) {
            asked[part.table].keys.push(ready[*at].key);
        }
    }
    let mut values = vec![Value::Unchanged; keys + 1];
    for (index, (at, key)) in in_order.into_iter().enumerate().filter_map(|(i, p)| Some((i, p?))) {
        let (part, value, number) = (&ready[at], &mut values[key], parts[index].table);
        match (&mut parts[index].action, part.table) {
            (Action::Update(change), Some(table)) => {
                let asked = &mut asked[number];
                let ready = asked.warmed.reach(&table.tree, &asked.keys, asked.next);
                ready.map_err(|error| table.error(error))?;
                asked.next += 1;
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
