//! What a workload runs on.
//!
//! An [`Engine`] is an open store; a [`Session`] is what one thread has of it for one phase. The
//! phase is announced ([`Access`]), so that an engine may do it in its best way: one long read
//! transaction where nothing is written, large write transactions where much is. All engines copy
//! the value of a read into a buffer of the caller, so that all touch the same bytes; those that lend
//! values may be asked for that instead (`+ref`), and each byte is read then.

use std::path::Path;

use ::polder::{Durability, TranslationKind};

use crate::bench::Bench;
use crate::conditions::Conditions;
use crate::records::Key;
use crate::sorted::SortedRecords;

pub mod device;
mod named;
mod polder;

pub use crate::error::EngineError;
pub(crate) use named::Named;

/// Makes an empty store.
pub type Create = fn(&Setup<'_>) -> Result<Box<dyn Engine>, EngineError>;

/// One engine that the command line offers.
#[derive(Debug, Clone, Copy)]
pub struct EngineKind {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// It is no store: it knows [`Bench::Lookup`] and [`Bench::Commit`] alone, and has its data
    /// from the moment it is made.
    pub is_bare: bool,
    /// Whether it lends values where they lie ([`Session::lend`]).
    pub lends: bool,
    /// Whether it can do what the durability promises; if not, why not.
    pub durability: fn(Durability) -> Result<(), &'static str>,
    /// Makes an empty store.
    pub create: Create,
}

impl EngineKind {
    /// The translation, if this is an engine of Polder.
    pub(crate) fn translation(&self) -> Option<TranslationKind> {
        self.name.strip_prefix(named::POLDER)?.parse().ok()
    }

    /// Whether it has a way to run this workload at this durability; if not, why not.
    pub(crate) fn can_run(&self, bench: Bench, durability: Durability) -> Result<(), String> {
        let name = self.name;
        if bench == Bench::Tpcc && self.translation().is_none() {
            return Err(format!("{name} is not Polder: tpcc runs on Polder's tables and batches"));
        }
        if self.is_bare && !matches!(bench, Bench::Lookup | Bench::Commit) {
            return Err(format!("{name} knows lookup and commit only, not {}", bench.name()));
        }
        (self.durability)(durability)
            .map_err(|why| format!("{name} cannot do --durability {durability}: {why}"))
    }
}

/// With what a store is made.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The engine, and what was said of it.
    pub named: &'a Named,
    /// An empty directory of its own.
    pub dir: &'a Path,
    /// What it will be used for; a workload may insert more records than are loaded.
    pub bench: Bench,
    /// What will be asked of it. Its durability is one that [`EngineKind::durability`] permits.
    pub conditions: &'a Conditions,
}

/// What a session will be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads and scans; nobody writes meanwhile.
    Read,
    /// Anything; each write is complete at its durability, and seen by all threads, when its call
    /// returns.
    Mixed,
    /// Inserts only; they may be kept back until [`Session::finish`], and share commits.
    Load,
}

/// Requests to the device since the store was opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceStats {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// An open store.
pub trait Engine: Send + Sync {
    /// What one thread uses; made, used and dropped in that thread.
    fn session(&self, access: Access) -> Result<Box<dyn Session + '_>, EngineError>;

    /// Loads the empty store from sorted input, in the best way the engine has.
    fn bulk_load(&self, entries: &mut SortedRecords) -> Result<(), EngineError>;

    /// Brings what was written to the device, and ends what goes on about it in the background, so
    /// that none of it goes on while something else is measured.
    fn settle(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The store itself, where the engine is Polder: for workloads on tables of their own.
    fn polder(&self) -> Option<&::polder::Store> {
        None
    }

    /// Requests to the device, where the engine counts them.
    fn device_stats(&self) -> Option<DeviceStats> {
        None
    }
}

/// Sees entries of a scan, and says of each whether it wants more.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> bool + 'v;
/// Changes the value of a record; its length stays.
pub type ChangeValue<'c> = dyn FnMut(&mut [u8]) + 'c;
/// Sees the values of many keys, each with the index of its key, or none where it is not there.
pub type ReadMany<'r> = dyn FnMut(usize, Option<&[u8]>) + 'r;
/// Sees an entry of the scan of this number, and says whether it wants more of that.
pub type VisitMany<'v> = dyn FnMut(usize, &[u8], &[u8]) -> bool + 'v;

/// One thread's way to a store. An engine need not know everything, but what its workloads need.
pub trait Session {
    /// Replaces what is in `value` by the value of `key`; false where the key is not there.
    fn get(&mut self, _key: &Key, _value: &mut Vec<u8>) -> Result<bool, EngineError> {
        Err(unknown("lookups"))
    }

    /// Calls `read` with each piece of the value of `key`, in order, where it lies; false where the key
    /// is not there.
    fn lend(&mut self, _key: &Key, _read: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        Err(unknown("values that are lent"))
    }

    /// Calls `read` for each of the keys with its index and its value, or none where it is not there,
    /// in any order.
    fn get_many(&mut self, _keys: &[Key], _read: &mut ReadMany<'_>) -> Result<(), EngineError> {
        Err(unknown("lookups of many keys at once"))
    }

    /// Stores the value, also where the key is already there.
    fn put(&mut self, _key: &Key, _value: &[u8]) -> Result<(), EngineError> {
        Err(unknown("writes"))
    }

    /// Stores all of these, each by a write of its own. A key may come twice; the last one stays.
    fn put_many(&mut self, _entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        Err(unknown("writes of many keys at once"))
    }

    /// Visits entries in key order from each of these keys on, with the index of the key, until there are
    /// no more or `visit` returns false for that one.
    fn scan_many(
        &mut self,
        _starts: &[Key],
        _visit: &mut VisitMany<'_>,
    ) -> Result<(), EngineError> {
        Err(unknown("many scans at once"))
    }

    /// Stores all of these as one commit. A key may come twice; the last one stays.
    fn put_batch(&mut self, _entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        Err(unknown("batches"))
    }

    /// Reads the value, has it changed (its length stays), and stores it, as one atomic step;
    /// false where the key is not there. `change` may be called again with the value as it is
    /// by then.
    fn modify(&mut self, _: &Key, _change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        Err(unknown("changes of what is there"))
    }

    /// Visits entries in key order from the first one at or after `start`, until there are no more
    /// or `visit` returns false.
    fn scan(&mut self, _start: &Key, _visit: &mut Visit<'_>) -> Result<(), EngineError> {
        Err(unknown("scans"))
    }

    /// Completes what was kept back.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

fn unknown(what: &str) -> EngineError {
    format!("a session of this engine, for this phase, knows no {what}").into()
}

/// The engines of this crate.
pub fn built_in() -> Vec<EngineKind> {
    polder::kinds().chain([device::KIND]).collect()
}
