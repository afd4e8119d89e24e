//! `polder tables`: what tables there are.

use polder::{Store, TableStats};
use serde_json::{Value, json};

use super::Context;
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_read;
use crate::output::{self, Columns, Side};
use crate::text;
use crate::units::{bytes, count};

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let (tables, page_size) =
        with_store_to_read(args, |store| Ok((all(store)?, store.page_size())))?;
    if context.json {
        output::print_json(&json!({ "tables": as_json(&tables) }))
    } else if tables.is_empty() {
        output::print("there are no tables yet")
    } else {
        output::print(&lines(&tables, page_size).join("\n"))
    }
}

/// The statistics of every table, opened or not.
pub fn all(store: &Store) -> Result<Vec<TableStats>, Failure> {
    // Statistics speak of what is open.
    let open =
        store.tables()?.iter().map(|name| store.table(name)).collect::<Result<Vec<_>, _>>()?;
    let tables = store.stats().tables;
    Ok(tables.into_iter().filter(|about| open.iter().any(|t| t.name() == about.name)).collect())
}

/// For programs.
pub fn as_json(tables: &[TableStats]) -> Vec<Value> {
    let table = |about: &TableStats| {
        json!({
            "name": about.name,
            "entries": about.entries,
            "pages": about.pages,
            "resident_pages": about.resident_pages,
            "dirty_pages": about.dirty_pages,
        })
    };
    tables.iter().map(table).collect()
}

/// For people.
pub fn lines(tables: &[TableStats], page_size: u32) -> Vec<String> {
    let mut columns = Columns::new(&[Side::Left, Side::Right, Side::Right, Side::Right]);
    columns.row(["table", "entries", "pages", "size"].map(String::from));
    for about in tables {
        let size = bytes(about.pages * u64::from(page_size));
        columns.row([
            text::key(about.name.as_bytes()),
            count(about.entries),
            count(about.pages),
            size,
        ]);
    }
    columns.lines()
}
