//! What exists once for each translation: an open store, and a table of one.

use std::sync::Arc;

use polder_pool::Translation;

use crate::any::{Any, Family, dispatch, map_any};
use crate::engine::{Engine, TableCore};

/// An open store.
pub(crate) struct Engines;

impl Family for Engines {
    type Of<T: Translation> = Arc<Engine<T>>;
}

/// A table of one.
pub(crate) struct Tables;

impl Family for Tables {
    type Of<T: Translation> = Arc<TableCore<T>>;
}

impl Any<Tables> {
    /// Whether both are handles of one open table.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let address = |table: &Self| dispatch!(table, table => Arc::as_ptr(table).cast::<()>());
        address(self) == address(other)
    }
}

impl Clone for Any<Engines> {
    fn clone(&self) -> Self {
        map_any!(self, it => Arc::clone(it))
    }
}

impl Clone for Any<Tables> {
    fn clone(&self) -> Self {
        map_any!(self, it => Arc::clone(it))
    }
}
