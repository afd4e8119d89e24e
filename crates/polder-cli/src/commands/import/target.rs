//! The table that rows go to.

use polder::{MAX_TABLE_NAME_BYTES, Store, StoreError, Table};

use crate::failure::Failure;

/// What a table is called until it is whole.
const UNFINISHED: &str = "(import)";

/// A table that is being filled: one that was there, or a new one, which is under another name.
/// Either [`Target::keep`] or [`Target::give_up`] ends it.
pub struct Target<'s> {
    store: &'s Store,
    name: String,
    table: Table,
    is_new: bool,
}

impl<'s> Target<'s> {
    pub fn begin(store: &'s Store, name: &str) -> Result<Target<'s>, Failure> {
        if !(1..=MAX_TABLE_NAME_BYTES).contains(&name.len()) {
            return Err(StoreError::TableName { len: name.len() }.into());
        }
        let (table, is_new) = match store.table(name) {
            Err(StoreError::NoSuchTable { .. }) => (create(store)?, true),
            table => (table?, false),
        };
        Ok(Target { store, name: name.to_owned(), table, is_new })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Whether the table was not there.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The table is what it should be.
    pub fn keep(self) -> Result<(), Failure> {
        if self.is_new && self.name != UNFINISHED {
            self.store.rename_table(UNFINISHED, &self.name)?;
        }
        Ok(())
    }

    /// The table will not be what it should be: a new one goes.
    pub fn give_up(self) -> Result<(), Failure> {
        if self.is_new {
            self.store.drop_table(UNFINISHED)?;
        }
        Ok(())
    }
}

/// A new table for the time being. An empty one that is there an import has left that died before it
/// had all rows; what has entries goes only if the user says so.
fn create(store: &Store) -> Result<Table, Failure> {
    match store.create_table(UNFINISHED) {
        Err(StoreError::TableExists { .. }) => {}
        table => return Ok(table?),
    }
    let left = store.table(UNFINISHED)?;
    if left.is_empty() { Ok(left) } else { Err(Failure::Unfinished { table: UNFINISHED.into() }) }
}
