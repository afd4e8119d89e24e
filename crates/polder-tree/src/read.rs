//! Looking up keys: their values, their version words, whether they are there.

use std::mem::MaybeUninit;

use polder_format::Lsn;
use polder_pool::{AccessHint, Optimistic, PoolError, Translation};
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
enum Found<'b, 'p, V> {
    Nothing,
    /// These bytes, in the buffer, and what else was read.
    Copied(&'b [u8], V),
    /// A value that does not fit the buffer.
    Large,
    /// One in overflow pages, and the leaf that says so.
    Long(SeenChain, Optimistic<'p>),
}

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
            Found::Long(seen, leaf) => {
                Ok(self.long_value(key, seen, leaf)?.map(|(_, value)| read(&value)))
            }
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
            Found::Long(seen, leaf) => {
                let value = self.long_value(key, seen, leaf)?;
                Ok(value.map(|(version, value)| read(version, &value)))
            }
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
    ) -> Result<Found<'b, '_, V>, TreeError> {
        let (mut copied, mut long) = (None, None);
        // Written out, and not by `at_leaf`: this is the way of every lookup, down to the instruction.
        let found = self.space.run(AccessHint::Normal, |attempt| {
            let leaf = leaf(&self.space, attempt, Target::Key(key))?;
            let node = NodeRef::new(leaf.page());
            copied = None;
            let found = match node.search_covered(key) {
                Err(_) => false,
                Ok(slot) => {
                    match node.value(slot) {
                        Value::Inline { at, len } if len <= STACK_VALUE_BYTES => {
                            let len = leaf.page().copy_to_uninit(at, len, buffer).len();
                            copied = Some((len, of_record(node, slot)));
                        }
                        Value::Inline { .. } => {}
                        Value::Overflow { .. } => long = self.see_long(leaf, slot),
                    }
                    true
                }
            };
            leaf.validate()?;
            Ok(found)
        })?;
        Ok(match (found, copied) {
            (false, _) => Found::Nothing,
            (true, None) => long.map_or(Found::Large, |(seen, leaf)| Found::Long(seen, leaf)),
            (true, Some((len, more))) => {
                // SAFETY: copy_to_uninit has filled the first `len` bytes in the last attempt.
                Found::Copied(unsafe { buffer[..len].assume_init_ref() }, more)
            }
        })
    }

    /// The long value in a slot of the leaf, if it is one. The caller validates the leaf.
    #[cold]
    #[inline(never)]
    fn see_long<'p>(
        &self,
        leaf: Optimistic<'p>,
        slot: usize,
    ) -> Option<(SeenChain, Optimistic<'p>)> {
        let node = NodeRef::new(leaf.page());
        let Value::Overflow { len, run, link } = node.value(slot) else { return None };
        let seen = SeenChain::new(&self.space, node.version(slot), Long { len, run, link });
        Some((seen, leaf.without_hold()))
    }

    /// The value to which a leaf led, with its version word, or, if that has changed since, what the
    /// key has now.
    #[inline(never)]
    fn long_value(
        &self,
        key: &[u8],
        seen: SeenChain,
        leaf: Optimistic<'_>,
    ) -> Result<Option<(u64, Vec<u8>)>, TreeError> {
        let mut bytes = Vec::new();
        let read = read_chain(&self.space, AccessHint::Normal, seen.long, Some(&mut bytes));
        // A leaf that is as it was still leads there, and did all the time. Others are asked anew.
        if leaf.validate().is_ok() {
            read?;
            return Ok(Some((seen.version, bytes)));
        }
        match self.if_still(key, seen, read)? {
            Some(_) => Ok(Some((seen.version, bytes))),
            None => self.versioned(key),
        }
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
            let found = self.space.run(AccessHint::Normal, |attempt| {
                let leaf = leaf(&self.space, attempt, Target::Key(key))?;
                let node = NodeRef::new(leaf.page());
                let found = match node.search_covered(key) {
                    Err(_) => None,
                    Ok(slot) => Some(match node.value(slot) {
                        Value::Inline { at, len } => Ok(ValueRef::copy(leaf.page(), at, len)),
                        Value::Overflow { .. } => Err(self.see_long(leaf, slot)),
                    }),
                };
                leaf.validate()?;
                Ok(found)
            })?;
            let (seen, leaf) = match found {
                None => return Ok(None),
                Some(Ok(copied)) => return Ok(Some(copied)),
                Some(Err(Some(long))) => long,
                Some(Err(None)) => continue,
            };
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
            let mut bytes = Vec::new();
            let found = self.space.run(AccessHint::Normal, |attempt| {
                let leaf = leaf(&self.space, attempt, Target::Key(key))?;
                let node = NodeRef::new(leaf.page());
                bytes.clear();
                let found = match node.search_covered(key) {
                    Err(_) => None,
                    Ok(slot) => Some(match node.value(slot) {
                        Value::Inline { at, len } => {
                            node.page().append_to(at, len, &mut bytes);
                            Ok(node.version(slot))
                        }
                        Value::Overflow { .. } => Err(self.see_long(leaf, slot)),
                    }),
                };
                leaf.validate()?;
                Ok(found)
            })?;
            match found {
                None => return Ok(None),
                Some(Ok(version)) => return Ok(Some((version, bytes))),
                Some(Err(Some((seen, leaf)))) => return self.long_value(key, seen, leaf),
                Some(Err(None)) => {}
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
