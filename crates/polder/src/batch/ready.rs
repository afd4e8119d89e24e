//! One part of a batch as it is done.

use std::cmp::Ordering;

use polder_format::SpaceId;
use polder_pool::Translation;
use polder_tree::{Change, Expected, Tree};

use super::ChangeFn;
use crate::catalogue::TAG_KEY;
use crate::engine::{Engine, TableCore};
use crate::error::StoreError;

/// What an update answered.
pub(super) struct Answer {
    pub(super) change: Change,
    /// What was there when it was asked; none if parts before it say what it saw.
    pub(super) seen: Option<Expected>,
}

/// What the parts so far make of a key.
#[derive(Clone, Copy)]
pub(super) enum Value<'b> {
    /// None of them writes it: it is as it was before the batch.
    Unchanged,
    Is(&'b [u8]),
    /// As this part, an update, has answered.
    Answered(usize),
    Gone,
}

/// One part of a batch, ready to be done. Parts are sorted by it: by tree and key, and those of one
/// key as they came.
pub(super) struct Ready<'b, T: Translation> {
    pub(super) space: SpaceId,
    /// The first eight bytes of the key, as a number in the same order: most comparisons end there.
    pub(super) head: u64,
    pub(super) key: &'b [u8],
    /// Which part it was.
    pub(super) index: usize,
    /// None: the catalogue, for the tag.
    pub(super) table: Option<&'b TableCore<T>>,
    pub(super) expect: Option<Expected>,
    /// The expectation is the batch's own: an update that looked at another value is tried again.
    pub(super) may_try_again: bool,
    pub(super) action: ReadyAction<'b>,
}

#[derive(Clone, Copy)]
pub(super) enum ReadyAction<'b> {
    Look,
    Insert(&'b [u8]),
    Remove,
}

impl<'b, T: Translation> Ready<'b, T> {
    pub(super) fn new(tree: &Tree<T>, key: &'b [u8], action: ReadyAction<'b>) -> Ready<'b, T> {
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

    pub(super) fn of_tag(catalogue: &Tree<T>, tag: &'b [u8]) -> Ready<'b, T> {
        Ready::new(catalogue, TAG_KEY, ReadyAction::Insert(tag))
    }

    /// Asks an update, which sees this value.
    pub(super) fn ask(
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
    pub(super) fn take(&mut self, answer: &'b Answer) {
        self.action = match &answer.change {
            Change::Keep => ReadyAction::Look,
            Change::Insert(value) => ReadyAction::Insert(value),
            Change::Remove => ReadyAction::Remove,
        };
        (self.expect, self.may_try_again) = (answer.seen, answer.seen.is_some());
    }

    pub(super) fn is_about_key_of(&self, other: &Ready<'_, T>) -> bool {
        (self.space, self.head, self.key) == (other.space, other.head, other.key)
    }

    pub(super) fn order(&self, other: &Ready<'_, T>) -> Ordering {
        let all = |part: &Ready<'_, T>| (part.space, part.head);
        let by_rest = || self.key.cmp(other.key).then(self.index.cmp(&other.index));
        all(self).cmp(&all(other)).then_with(by_rest)
    }

    pub(super) fn tree(&self, engine: &'b Engine<T>) -> &'b Tree<T> {
        self.table.map_or(&engine.catalogue, |table| &table.tree)
    }
}
