//! `polder import`: rows into tables.
//!
//! A table that is not there is filled under another name, which it loses when all of it has been
//! read and found to be what was written: so it is there as a whole or not at all. Rows in ascending
//! order of their keys go in by a bulk load, as far as they are in that order; the others, and those
//! of a table that has entries, one by one in the order of the input. All rows before the one that
//! stops an import into a table that was there are in, so that it can be mended and run again: a row
//! that is there already is written once more.
//!
//! Nobody waits for the device between rows, unless that is asked for; all rows are durable when the
//! command ends.

use std::time::Instant;

use polder::Store;

use super::Context;
use crate::args::ImportArgs;
use crate::exchange::{ImportFormat, Item, Reader, Tally};
use crate::failure::Failure;
use crate::opening::with_store_to_write;
use crate::units::plural;

mod rows;
mod summary;
mod target;

use rows::Rows;
use summary::Summary;
use target::Target;

pub fn run(context: &Context, args: &ImportArgs) -> Result<(), Failure> {
    check(args)?;
    let mut summary = Summary::default();
    let outcome = with_store_to_write(&args.store, args.durability, &args.write, |store| {
        let column = args.key.map_or(0, |column| column.get() - 1);
        let (format, stop) = (args.format, &context.stop);
        let reader = Reader::open(&args.file, format, column, args.escaped, stop)?;
        let begun = Instant::now();
        let mut rows = Rows::new(reader, store, args.skip_bad, stop.clone(), &mut summary);
        let outcome = import(store, args, &mut rows);
        drop(rows);
        let flushed = store.flush();
        summary.time = begun.elapsed();
        flushed?;
        outcome
    });
    match outcome {
        Ok(()) | Err(Failure::Interrupted) => {
            summary.print(context.json, outcome.is_err())?;
            outcome
        }
        // What there is of it is known only if there was an import.
        Err(source) if summary.lines > 0 => {
            Err(Failure::Partial { kept: summary.kept(), source: Box::new(source) })
        }
        outcome => outcome,
    }
}

/// Whether the options belong together.
fn check(args: &ImportArgs) -> Result<(), Failure> {
    let is_foreign = matches!(args.format, ImportFormat::Lines | ImportFormat::Rows);
    let wrong = if args.key.is_some() && args.format != ImportFormat::Rows {
        "--key is for --format rows: elsewhere it is clear what the key is"
    } else if args.escaped && !is_foreign {
        "--escaped is for lines and rows: what an export or a scan has written is understood so"
    } else if is_foreign && args.tables.len() != 1 {
        "lines and rows go into one table: name it with --table"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(wrong.into()))
}

fn import(store: &Store, args: &ImportArgs, rows: &mut Rows<'_>) -> Result<(), Failure> {
    for table in target::left_over(store)? {
        rows.note(&format!(
            "table `{table}` may be what an import has left that was killed: remove it with `polder \
             drop` if nobody needs it"
        ));
    }
    if rows.begins_export()? {
        return import_tables(store, args, rows);
    }
    let [table] = &args.tables[..] else {
        return Err(Failure::Usage(format!(
            "{} is no export, which begins with its head: name the one table that its rows go to \
             with --table",
            rows.name()
        )));
    };
    if rows.peek()?.is_none() {
        // Nothing that could go into a table; a program may have failed to give it.
        return Ok(());
    }
    let target = Target::begin(store, table)?;
    let filled = rows.fill(&target, None).and_then(|_| match rows.next_if(|_| true)? {
        None => Ok(()),
        Some(item) => Err(rows.bad(misplaced(&item))),
    });
    rows.end(target, filled)
}

/// The tables of an export, one behind the other.
fn import_tables(store: &Store, args: &ImportArgs, rows: &mut Rows<'_>) -> Result<(), Failure> {
    let mut found = Vec::new();
    loop {
        let table = match rows.peek()? {
            Some(Item::Entry(entry)) => entry.table.clone(),
            Some(Item::TableEnd { table, .. }) => Some(table.clone()),
            _ => None,
        };
        let Some(table) = table else { break };
        if args.tables.is_empty() || args.tables.contains(&table) {
            let target = Target::begin(store, &table).map_err(|failure| rows.of_row(failure))?;
            let filled = rows.fill(&target, Some(&table));
            let filled = filled.and_then(|tally| rows.expect_end(&table, tally));
            rows.end(target, filled)?;
        } else {
            let tally = rows.pass(&table)?;
            rows.expect_end(&table, tally)?;
        }
        found.push(table);
    }
    rows.expect_tables(found.len() as u64)?;
    match args.tables.iter().find(|table| !found.contains(table)) {
        None => Ok(()),
        Some(table) => {
            let name = rows.name();
            Err(Failure::NotFound(format!("there is no table `{table}` in {name}")))
        }
    }
}

/// What is wrong about an item that comes where it does not belong.
fn misplaced(item: &Item) -> String {
    match item {
        Item::Head => "an export begins in the middle".into(),
        Item::Entry(entry) => match &entry.table {
            Some(table) => format!("an entry of table `{table}` stands here, of an export"),
            None => "an entry without a table stands here, in the midst of an export".into(),
        },
        Item::TableEnd { table, .. } => format!("the end of table `{table}` stands here"),
        Item::End { .. } => "the end of an export stands here".into(),
    }
}

/// What is said of a table whose entries are others than those that were exported.
fn changed(table: &str, found: Tally, written: Tally) -> String {
    let entries = |tally: Tally| plural(tally.entries, "entry", "entries");
    if found.entries == written.entries {
        format!("the entries of table `{table}` are not those that were exported")
    } else {
        let (found, written) = (entries(found), entries(written));
        format!("of table `{table}` there are {found}, and {written} were exported")
    }
}
