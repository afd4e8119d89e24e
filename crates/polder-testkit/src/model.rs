//! Operations on an ordered key-value store, and what they answer.
//!
//! A test implements [`Ordered`] for its structure, lets [`compare`] apply the operations of a
//! [`Workload`](crate::Workload) to it and to a [`Model`], and gets the first [`Difference`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::ops::Bound;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Sets the value of a key.
    Insert {
        /// The key.
        key: Vec<u8>,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Removes a key.
    Remove {
        /// The key.
        key: Vec<u8>,
    },
    /// Looks a key up.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Changes the value of a key, depending on what it is.
    Update {
        /// The key.
        key: Vec<u8>,
        /// What to make of its value.
        change: Change,
    },
    /// Reads some entries in order. `from` may lie behind `to`: then there are none.
    Range {
        /// Where the smallest key may lie.
        from: Bound<Vec<u8>>,
        /// Where the greatest key may lie.
        to: Bound<Vec<u8>>,
        /// Whether to begin with the greatest.
        reverse: bool,
        /// How many entries to read at most.
        limit: usize,
    },
    /// Reads the entry with the smallest key.
    First,
    /// Reads the entry with the greatest key.
    Last,
    /// Counts the entries.
    Count,
}

/// What an update makes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds to its end; a key that is not there gets these bytes as its value.
    Append(Vec<u8>),
    /// Cuts it to this length.
    Cut(usize),
    /// Removes it.
    Remove,
}

impl Change {
    /// The new value for the old one; None: the key is not there.
    pub fn apply(&self, old: Option<&[u8]>) -> Option<Vec<u8>> {
        match self {
            Change::Append(bytes) => Some([old.unwrap_or(&[]), bytes].concat()),
            Change::Cut(len) => old.map(|old| old[..old.len().min(*len)].to_vec()),
            Change::Remove => None,
        }
    }
}

/// What an operation answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but that it is done.
    Done,
    /// Whether the key was there before.
    WasThere(bool),
    /// The value, if the key is there.
    Value(Option<Vec<u8>>),
    /// The entries in the order asked for.
    Entries(Vec<Entry>),
    /// How many entries there are.
    Count(u64),
}

/// An ordered key-value store, as tests see it.
pub trait Ordered {
    /// Why an operation could not be done.
    type Error: fmt::Debug;

    /// Sets the value of a key. Whether the key was there before.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Self::Error>;

    /// Removes a key. Whether it was there.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Self::Error>;

    /// The value of a key.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Up to `limit` entries between the bounds, the greatest first if `reverse`. None if the
    /// bounds cross.
    fn range(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, Self::Error>;

    /// Changes the value of a key.
    fn update(&mut self, key: &[u8], change: &Change) -> Result<(), Self::Error> {
        match change.apply(self.get(key)?.as_deref()) {
            Some(value) => self.insert(key, &value)?,
            None => self.remove(key)?,
        };
        Ok(())
    }

    /// The entry with the smallest key.
    fn first(&mut self) -> Result<Option<Entry>, Self::Error> {
        Ok(self.range(Bound::Unbounded, Bound::Unbounded, false, 1)?.pop())
    }

    /// The entry with the greatest key.
    fn last(&mut self) -> Result<Option<Entry>, Self::Error> {
        Ok(self.range(Bound::Unbounded, Bound::Unbounded, true, 1)?.pop())
    }

    /// How many entries there are.
    fn count(&mut self) -> Result<u64, Self::Error> {
        let all = self.range(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?;
        Ok(all.len() as u64)
    }
}

impl Op {
    /// Reads everything in order.
    pub fn everything(reverse: bool) -> Op {
        Op::Range { from: Bound::Unbounded, to: Bound::Unbounded, reverse, limit: usize::MAX }
    }

    /// Applies the operation.
    pub fn apply<O: Ordered + ?Sized>(&self, to: &mut O) -> Result<Answer, O::Error> {
        let entries = |entry: Option<Entry>| Answer::Entries(entry.into_iter().collect());
        Ok(match self {
            Op::Insert { key, value } => Answer::WasThere(to.insert(key, value)?),
            Op::Remove { key } => Answer::WasThere(to.remove(key)?),
            Op::Get { key } => Answer::Value(to.get(key)?),
            Op::Update { key, change } => {
                to.update(key, change)?;
                Answer::Done
            }
            Op::Range { from, to: end, reverse, limit } => {
                let (from, end) = (from.as_ref(), end.as_ref());
                let bounds = (from.map(Vec::as_slice), end.map(Vec::as_slice));
                Answer::Entries(to.range(bounds.0, bounds.1, *reverse, *limit)?)
            }
            Op::First => entries(to.first()?),
            Op::Last => entries(to.last()?),
            Op::Count => Answer::Count(to.count()?),
        })
    }
}

/// What every ordered key-value store should be: a map in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// The entries.
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    /// Applies an operation and says what it should answer.
    pub fn apply(&mut self, op: &Op) -> Answer {
        match op.apply(self) {
            Ok(answer) => answer,
        }
    }
}

impl Ordered for Model {
    type Error = Infallible;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Infallible> {
        Ok(self.entries.insert(key.to_vec(), value.to_vec()).is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Infallible> {
        Ok(self.entries.remove(key).is_some())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.entries.get(key).cloned())
    }

    fn range(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, Infallible> {
        let crossed = match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from >= to,
        };
        if crossed {
            return Ok(Vec::new()); // where BTreeMap panics or has nothing
        }
        let entries = self.entries.range::<[u8], _>((from, to));
        let copy = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        Ok(if reverse {
            entries.rev().take(limit).map(copy).collect()
        } else {
            entries.take(limit).map(copy).collect()
        })
    }

    fn count(&mut self) -> Result<u64, Infallible> {
        Ok(self.entries.len() as u64)
    }
}

/// Applies operations to a structure and to the model until they differ. Returns how many.
pub fn compare<O: Ordered + ?Sized>(
    ops: impl IntoIterator<Item = Op>,
    subject: &mut O,
    model: &mut Model,
) -> Result<u64, Box<Difference>> {
    let mut index = 0;
    for op in ops {
        let expected = model.apply(&op);
        let found = op.apply(subject).map_err(|error| format!("{error:?}"));
        if found.as_ref() != Ok(&expected) {
            return Err(Box::new(Difference { index, op, expected, found }));
        }
        index += 1;
    }
    Ok(index)
}

/// Where a structure and the model part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// How many operations went well before.
    pub index: u64,
    /// The operation.
    pub op: Op,
    /// What the model answers.
    pub expected: Answer,
    /// What the structure answers, or its error.
    pub found: Result<Answer, String>,
}

impl Error for Difference {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}, {}: expected {}", self.index, self.op, self.expected)?;
        match &self.found {
            Ok(found) => write!(f, ", found {found}"),
            Err(error) => write!(f, ", failed with {error}"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Insert { key, value } => write!(f, "insert {} {}", Brief(key), Brief(value)),
            Op::Remove { key } => write!(f, "remove {}", Brief(key)),
            Op::Get { key } => write!(f, "get {}", Brief(key)),
            Op::Update { key, change: Change::Append(bytes) } => {
                write!(f, "append to {} {}", Brief(key), Brief(bytes))
            }
            Op::Update { key, change } => write!(f, "update {} by {change:?}", Brief(key)),
            Op::Range { from, to, reverse, limit } => {
                let (from, to) = (from.as_ref().map(|k| Brief(k)), to.as_ref().map(|k| Brief(k)));
                write!(f, "range {from:?} to {to:?}, reverse {reverse}, limit {limit}")
            }
            Op::First => f.write_str("first"),
            Op::Last => f.write_str("last"),
            Op::Count => f.write_str("count"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Value(Some(value)) => write!(f, "{}", Brief(value)),
            Answer::Entries(entries) => {
                write!(f, "{} entries", entries.len())?;
                for (key, value) in entries.iter().take(20) {
                    write!(f, " {}={}", Brief(key), Brief(value))?;
                }
                Ok(())
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// Bytes for people: the first few, and how many there are.
struct Brief<'a>(&'a [u8]);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_BYTES: usize = 24;
        let shown = self.0.get(..SHOWN_BYTES).unwrap_or(self.0);
        write!(f, "\"{}\"", shown.escape_ascii())?;
        if shown.len() < self.0.len() {
            write!(f, "..{} bytes", self.0.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
