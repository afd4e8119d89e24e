//! The table that rows go to.

use polder::{MAX_TABLE_NAME_BYTES, Store, StoreError, Table};

use crate::failure::Failure;

/// What a new table is called until it is whole: the first of these names that is free.
fn unfinished(n: u64) -> String {
    if n == 1 { "(import)".to_owned() } else { format!("(import {n})") }
}

/// Tables that have such a name. A process that was killed may have left them, or they are somebody's:
/// they stay as they are.
pub fn left_over(store: &Store) -> Result<Vec<String>, Failure> {
    let number = |table: &str| table.strip_prefix("(import ")?.strip_suffix(')')?.parse().ok();
    let mut tables = store.tables()?;
    tables.retain(|table| unfinished(number(table).unwrap_or(1)) == *table);
    Ok(tables)
}

/// A table that is being filled: one that was there, or a new one, which is under another name.
/// Either [`Target::keep`] or [`Target::give_up`] ends it.
pub struct Target<'s> {
    store: &'s Store,
    name: String,
    table: Table,
    /// What it is called until it is whole, if it is a new one.
    unfinished: Option<String>,
}

impl<'s> Target<'s> {
    pub fn begin(store: &'s Store, name: &str) -> Result<Target<'s>, Failure> {
        if !(1..=MAX_TABLE_NAME_BYTES).contains(&name.len()) {
            return Err(StoreError::TableName { len: name.len() }.into());
        }
        let (table, unfinished) = match store.table(name) {
            Err(StoreError::NoSuchTable { .. }) => create(store, name)?,
            table => (table?, None),
        };
        Ok(Target { store, name: name.to_owned(), table, unfinished })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Whether the table was not there.
    pub fn is_new(&self) -> bool {
        self.unfinished.is_some()
    }

    /// The table is what it should be.
    pub fn keep(self) -> Result<(), Failure> {
        if let Some(unfinished) = self.unfinished {
            self.store.rename_table(&unfinished, &self.name)?;
        }
        Ok(())
    }

    /// The table will not be what it should be: a new one goes.
    pub fn give_up(self) -> Result<(), Failure> {
        if let Some(unfinished) = self.unfinished {
            self.store.drop_table(&unfinished)?;
        }
        Ok(())
    }
}

/// A new table that will be called `name`, and what it is called for the time being, which nothing in
/// the store is. There are more such names than tables.
fn create(store: &Store, name: &str) -> Result<(Table, Option<String>), Failure> {
    let mut n = 0;
    loop {
        n += 1;
        let unfinished = unfinished(n);
        if unfinished == name {
            continue;
        }
        match store.create_table(&unfinished) {
            Err(StoreError::TableExists { .. } | StoreError::OtherStructure { .. }) => {}
            table => return Ok((table?, Some(unfinished))),
        }
    }
}
