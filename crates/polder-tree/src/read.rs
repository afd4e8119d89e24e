//! Looking up keys: their values, their version words, whether they are there.

use std::mem::MaybeUninit;

use polder_format::Lsn;
use polder_pool::{AccessHint, Optimistic, PoolError, Translation, waits};
use polder_structure::page::lsn_of;

use crate::descent::Target;
use crate::error::TreeError;
use crate::node::{NodeRef, Value};
use crate::overflow::{Chain, Long, SeenChain, read_chain};
use crate::tree::Tree;
use crate::value_ref::{Lent, ValueRef, lend_chain};
use crate::way::leaf;

/// Inline values up to this length are copied to the stack before a user sees them.
const STACK_VALUE_BYTES: usize = 1024;

/// How often a value is looked up that changes or goes from memory before it is lent; then it is copied.
const LENDING_TRIES: u32 = 8;

/// What a lookup found.
enum Found<'b, V> {
    Nothing,
    /// These bytes, in the buffer, and what else was read.
    Copied(&'b [u8], V),
    /// A value that does not fit the buffer, or lies in overflow pages.
    Large,
}

/// A value in overflow pages, and the leaf that says so.
type SeenLong<'p> = (SeenChain, Optimistic<'p>);

/// A value's record as it was found.
pub(crate) struct Record {
    pub(crate) version: u64,
    pub(crate) value: Held,
}

pub(crate) enum Held {
    Bytes(Vec<u8>),
    Long(SeenChain),
}

impl<T: Translation> Tree<T> {
    /// Calls `read` with the value of `key`. Gives what it gave, or `None` without the key.
    ///
    /// `read` sees a copy that no writer can touch. A lookup of a resident key takes no lock, stores
    /// nothing that other threads see and allocates nothing if the value has at most 1 KiB.
    ///
    /// # Errors
    /// Those of loading pages.
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TreeError> {
        let mut buffer = [const { MaybeUninit::uninit() }; STACK_VALUE_BYTES];
        match self.copy_value(key, &mut buffer, |_, _| ())? {
            Found::Nothing => Ok(None),
            Found::Copied(value, ()) => Ok(Some(read(value))),
            Found::Large => Ok(self.get(key)?.map(|value| read(&value))),
        }
    }

    /// Calls `read` with the version word and the value of `key`, as [`Tree::get_with`] does.
    ///
    /// # Errors
    /// Those of loading pages.
    #[inline]
    pub fn versioned_with<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(u64, &[u8]) -> R,
    ) -> Result<Option<R>, TreeError> {
        let mut buffer = [const { MaybeUninit::uninit() }; STACK_VALUE_BYTES];
        match self.copy_value(key, &mut buffer, |node, slot| node.version(slot))? {
            Found::Nothing => Ok(None),
            Found::Copied(value, version) => Ok(Some(read(version, value))),
            Found::Large => Ok(self.versioned(key)?.map(|(version, value)| read(version, &value))),
        }
    }

    /// Copies the value of `key`, if it fits, and what else is to be read of its record: a lookup
    /// of the value alone loads nothing else.
    #[inline(always)]
    fn copy_value<'b, V>(
        &self,
        key: &[u8],
        buffer: &'b mut [MaybeUninit<u8>; STACK_VALUE_BYTES],
        of_record: impl Fn(NodeRef<'_>, usize) -> V,
    ) -> Result<Found<'b, V>, TreeError> {
        let mut copied = None;
        // Written out, and not by `at_leaf`: this is the way of every lookup, down to the instruction.
        let found = self.space.run(AccessHint::Normal, |attempt| {
            let leaf = leaf(&self.space, attempt, Target::Key(key))?;
            let node = NodeRef::new(leaf.page());
            copied = None;
            let found = match node.search_covered(key) {
                Err(_) => false,
                Ok(slot) => {
                    if let Value::Inline { at, len } = node.value(slot)
                        && len <= STACK_VALUE_BYTES
                    {
                        let len = leaf.page().copy_to_uninit(at, len, buffer).len();
                        copied = Some((len, of_record(node, slot)));
                    }
                    true
                }
            };
            leaf.validate()?;
            Ok(found)
        })?;
        Ok(match (found, copied) {
            (false, _) => Found::Nothing,
            (true, None) => Found::Large,
            (true, Some((len, more))) => {
                // SAFETY: copy_to_uninit has filled the first `len` bytes in the last attempt.
                Found::Copied(unsafe { buffer[..len].assume_init_ref() }, more)
            }
        })
    }

    /// Notes the value in a slot of the leaf, if it lies in overflow pages. The caller validates the leaf.
    #[cold]
    #[inline(never)]
    fn see_long<'t>(&self, leaf: Optimistic<'t>, slot: usize, long: &mut Option<SeenLong<'t>>) {
        let node = NodeRef::new(leaf.page());
        *long = match node.value(slot) {
            Value::Inline { .. } => None,
            Value::Overflow { len, run, link } => {
                let value = Long { len, run, link };
                let seen = SeenChain::new(&self.space, node.version(slot), value);
                Some((seen, leaf.without_hold()))
            }
        };
    }

    /// The long value to which a leaf led, with its version word. `None` if that has changed since.
    fn long_value(
        &self,
        key: &[u8],
        (seen, leaf): SeenLong<'_>,
    ) -> Result<Option<(u64, Vec<u8>)>, TreeError> {
        let mut bytes = Vec::new();
        let read = read_chain(&self.space, AccessHint::Normal, seen.long, Some(&mut bytes));
        // A leaf that is as it was still leads there, and did all the time.
        let read = match leaf.validate() {
            Ok(()) => Some(read?),
            Err(_) => self.if_still(key, seen, read)?,
        };
        Ok(read.map(|_| (seen.version, bytes)))
    }

    /// What `read` sees in the leaf for `key`, as one state of it. The slot is that of the key, if it is
    /// there.
    #[inline(always)]
    fn at_leaf<R>(
        &self,
        key: &[u8],
        mut read: impl FnMut(NodeRef<'_>, Option<usize>) -> R,
    ) -> Result<R, PoolError> {
        self.space.run(AccessHint::Normal, |attempt| {
            let leaf = leaf(&self.space, attempt, Target::Key(key))?;
            let node = NodeRef::new(leaf.page());
            let read = read(node, node.search_covered(key).ok());
            leaf.validate()?;
            Ok(read)
        })
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        Ok(self.versioned(key)?.map(|(_, value)| value))
    }

    /// The value of `key` where it lies, if it has pages of its own; a copy of it otherwise.
    ///
    /// What is lent does not change and stays in memory, whatever becomes of the key: it keeps frames of
    /// the pool, and nobody waiting.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn get_ref(&self, key: &[u8]) -> Result<Option<ValueRef<'_>>, TreeError> {
        for _ in 0..LENDING_TRIES {
            let mut long = None;
            let copied = self.space.run(AccessHint::Normal, |attempt| {
                let leaf = leaf(&self.space, attempt, Target::Key(key))?;
                let node = NodeRef::new(leaf.page());
                long = None;
                let copied = match node.search_covered(key).map(|slot| (slot, node.value(slot))) {
                    Err(_) => None,
                    Ok((_, Value::Inline { at, len })) => {
                        Some(ValueRef::copy(leaf.page(), at, len))
                    }
                    Ok((slot, Value::Overflow { .. })) => {
                        self.see_long(leaf, slot, &mut long);
                        None
                    }
                };
                leaf.validate()?;
                Ok(copied)
            })?;
            let Some((seen, leaf)) = long else { return Ok(copied) };
            match lend_chain(&self.space, seen.long, &leaf)? {
                Lent::All(value) => return Ok(Some(value)),
                Lent::Changed => {}
                Lent::TooMuch => break,
            }
        }
        Ok(self.get(key)?.map(ValueRef::from))
    }

    /// The version word and the value of `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn versioned(&self, key: &[u8]) -> Result<Option<(u64, Vec<u8>)>, TreeError> {
        loop {
            let (mut bytes, mut long) = (Vec::new(), None);
            let version = self.space.run(AccessHint::Normal, |attempt| {
                let leaf = leaf(&self.space, attempt, Target::Key(key))?;
                let node = NodeRef::new(leaf.page());
                bytes.clear();
                long = None;
                let version = match node.search_covered(key) {
                    Err(_) => None,
                    Ok(slot) => {
                        match node.value(slot) {
                            Value::Inline { at, len } => node.page().append_to(at, len, &mut bytes),
                            Value::Overflow { .. } => self.see_long(leaf, slot, &mut long),
                        }
                        Some(node.version(slot))
                    }
                };
                leaf.validate()?;
                Ok(version)
            })?;
            let Some(long) = long else { return Ok(version.map(|version| (version, bytes))) };
            if let Some(found) = self.long_value(key, long)? {
                return Ok(Some(found));
            }
        }
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn contains_key(&self, key: &[u8]) -> Result<bool, TreeError> {
        Ok(self.version(key)?.is_some())
    }

    /// The version word of `key`'s record.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn version(&self, key: &[u8]) -> Result<Option<u64>, TreeError> {
        Ok(self.at_leaf(key, |node, slot| slot.map(|slot| node.version(slot)))?)
    }

    /// The record, and the LSN of the leaf that has it or would have it.
    pub(crate) fn record_and_lsn(&self, key: &[u8]) -> Result<(Option<Record>, Lsn), TreeError> {
        let mut bytes = Vec::new();
        let found = self.at_leaf(key, |node, slot| {
            bytes.clear();
            let found = slot.map(|slot| {
                let version = node.version(slot);
                let long = match node.value(slot) {
                    Value::Inline { at, len } => {
                        node.page().append_to(at, len, &mut bytes);
                        None
                    }
                    Value::Overflow { len, run, link } => {
                        Some(SeenChain::new(&self.space, version, Long { len, run, link }))
                    }
                };
                (version, long)
            });
            (found, lsn_of(node.page()))
        })?;
        let record = found.0.map(|(version, long)| Record {
            version,
            value: long.map_or_else(|| Held::Bytes(bytes), Held::Long),
        });
        Ok((record, found.1))
    }

    /// The bytes of a value to which the record was seen to lead. `None` if the record is another
    /// one by now.
    pub(crate) fn read_long(
        &self,
        key: &[u8],
        seen: SeenChain,
    ) -> Result<Option<Vec<u8>>, TreeError> {
        let mut bytes = Vec::new();
        let chain = self.chain_of(AccessHint::Normal, key, seen, Some(&mut bytes))?;
        Ok(chain.map(|_| bytes))
    }

    /// The chain to which the record was seen to lead, with its pages; the bytes of the value go to
    /// `out`. `None` if the record is another one by now, or leads elsewhere.
    pub(crate) fn chain_of(
        &self,
        hint: AccessHint,
        key: &[u8],
        seen: SeenChain,
        out: Option<&mut Vec<u8>>,
    ) -> Result<Option<Chain>, TreeError> {
        let pages = read_chain(&self.space, hint, seen.long, out);
        let pages = self.if_still(key, seen, pages)?;
        Ok(pages.map(|pages| Chain { seen, pages }))
    }

    /// The same of a value that is going to be replaced or removed.
    pub(crate) fn chain_that_goes(
        &self,
        key: &[u8],
        seen: SeenChain,
        out: Option<&mut Vec<u8>>,
    ) -> Result<Option<Chain>, TreeError> {
        // WAIT-1: its pages are read now, and freed when it has gone.
        if waits::refuses() {
            return Err(PoolError::WouldWait.into());
        }
        self.chain_of(AccessHint::Normal, key, seen, out)
    }

    /// What was found in a chain, or its error, if the record still leads to it (`CHAIN-1`). Pages
    /// of a chain that was freed meanwhile may hold anything, or not be readable.
    fn if_still<R>(
        &self,
        key: &[u8],
        seen: SeenChain,
        found: Result<R, PoolError>,
    ) -> Result<Option<R>, TreeError> {
        let leads_to =
            self.at_leaf(key, |node, slot| match (slot, slot.map(|slot| node.value(slot))) {
                (Some(slot), Some(Value::Overflow { link, .. })) => {
                    Some((node.version(slot), link))
                }
                _ => None,
            })?;
        let is_same =
            leads_to == Some((seen.version, seen.long.link)) && self.space.passes() == seen.pass;
        if is_same { Ok(Some(found?)) } else { Ok(None) }
    }
}
