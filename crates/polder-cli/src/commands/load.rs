//! `polder load`: rows into a table.
//!
//! Rows go in one by one in the order of the input, so that all before the one that stops a load
//! are in, and it can be mended and run again: a row that is there already is written once more.
//! Nobody waits for the device between rows, unless that is asked for; all rows are durable when
//! the command ends.

use std::time::{Duration, Instant};

use polder::{StoreError, Table};
use serde_json::json;

use super::Context;
use crate::args::{Format, LoadArgs};
use crate::failure::Failure;
use crate::input::{Input, Line};
use crate::opening::with_store_to_write;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::text;
use crate::units::{count, duration, per_second, plural};

/// The bar is moved once in so many rows.
const ROWS_A_STEP: u64 = 256;

pub fn run(context: &Context, args: &LoadArgs) -> Result<(), Failure> {
    let rows = Rows::new(args)?;
    let mut summary = Summary::default();
    let outcome = with_store_to_write(&args.store, args.durability, &args.write, |store| {
        let mut input = Input::open(&args.file)?;
        let table = store.open_table(&args.table)?;
        let begun = Instant::now();
        let outcome = load(context, args, &rows, &mut input, &table, &mut summary);
        let flushed = store.flush();
        summary.time = begun.elapsed();
        flushed?;
        outcome
    });
    if matches!(outcome, Ok(()) | Err(Failure::Interrupted)) {
        summary.print(context.json, &args.table, outcome.is_err())?;
    }
    outcome
}

fn load(
    context: &Context,
    args: &LoadArgs,
    rows: &Rows,
    input: &mut Input,
    table: &Table,
    summary: &mut Summary,
) -> Result<(), Failure> {
    let progress = match input.bytes() {
        Some(bytes) => Progress::new("loading", Unit::Bytes, Some(bytes)),
        None => Progress::new("loading", Unit::Things("rows"), None),
    };
    let mut line = Vec::new();
    loop {
        context.stop.check()?;
        let row = match input.next_line(&mut line, &context.stop)? {
            Line::End => return Ok(()),
            Line::TooLong => Err("the row is longer than a value may be (64 MiB)".to_owned()),
            Line::Whole => rows.entry(&line),
        };
        summary.lines += 1;
        let why = match row {
            Err(why) => why,
            Ok((key, value)) => match table.put(&key, &value) {
                Ok(new) => {
                    summary.loaded += 1;
                    summary.new += u64::from(new);
                    if summary.lines.is_multiple_of(ROWS_A_STEP) {
                        let read = input.bytes().map_or(summary.lines, |_| input.bytes_taken());
                        progress.at(read);
                    }
                    continue;
                }
                Err(error) if is_of_the_row(&error) => error.to_string(),
                Err(source) => {
                    let (input, line) = (input.name().to_owned(), summary.lines);
                    return Err(Failure::Row {
                        input,
                        line,
                        kept: summary.kept(),
                        source: Box::new(source),
                    });
                }
            },
        };
        if !args.skip_bad {
            let (input, line) = (input.name().to_owned(), summary.lines);
            return Err(Failure::BadRow { input, line, why, kept: summary.kept() });
        }
        summary.skip(&progress, input.name(), &why);
    }
}

/// Whether another row could go in all the same.
fn is_of_the_row(error: &StoreError) -> bool {
    matches!(error, StoreError::KeyTooLong { .. } | StoreError::ValueTooLong { .. })
}

/// How a line becomes a key and a value.
struct Rows {
    /// The column that is the key, from zero; a line that is a key has none.
    column: Option<usize>,
    escaped: bool,
}

impl Rows {
    fn new(args: &LoadArgs) -> Result<Rows, Failure> {
        let column = match (args.format, args.key) {
            (Format::Lines, None) => None,
            (Format::Lines, Some(_)) => {
                return Err(Failure::Usage(
                    "--key is for --format tsv: a line is its own key".into(),
                ));
            }
            (Format::Tsv, column) => Some(column.map_or(0, |column| column.get() - 1)),
        };
        Ok(Rows { column, escaped: args.text.escaped })
    }

    fn entry(&self, line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (key, value) = match self.column {
            None => (line, &[][..]),
            Some(column) => {
                let mut columns = line.split(|&byte| byte == b'\t');
                let key = columns.nth(column).ok_or_else(|| {
                    let there = line.split(|&byte| byte == b'\t').count() as u64;
                    let there = plural(there, "column", "columns");
                    format!("the row has {there}, and the key is column {}", column + 1)
                })?;
                (key, line)
            }
        };
        if key.is_empty() {
            return Err("the key is empty".into());
        }
        Ok((self.bytes(key)?, self.bytes(value)?))
    }

    fn bytes(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        if self.escaped {
            text::unescape(text)
                .ok_or_else(|| "a backslash is followed by neither xNN nor a backslash".into())
        } else {
            Ok(text.to_vec())
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
struct Summary {
    lines: u64,
    loaded: u64,
    new: u64,
    skipped: u64,
    time: Duration,
}

impl Summary {
    /// How many skipped rows are named one by one.
    const NAMED: u64 = 10;

    fn skip(&mut self, progress: &Progress, input: &str, why: &str) {
        self.skipped += 1;
        if self.skipped <= Self::NAMED {
            progress.note(&format!("skipped: {input}, line {}: {why}", self.lines));
        } else if self.skipped == Self::NAMED + 1 {
            progress.note("skipped: more such rows, which are only counted");
        }
    }

    fn kept(&self) -> String {
        match self.loaded {
            0 => "No row before it was loaded".into(),
            1 => "The row before it is in the table".into(),
            n => format!("The {} rows before it are in the table", count(n)),
        }
    }

    fn print(&self, json: bool, table: &str, stopped: bool) -> Result<(), Failure> {
        let rate = per_second(self.loaded, self.time);
        if json {
            return output::print_json(&json!({
                "table": table,
                "loaded": self.loaded,
                "new": self.new,
                "replaced": self.loaded - self.new,
                "skipped": self.skipped,
                "seconds": self.time.as_secs_f64(),
                "rows_per_s": rate,
                "interrupted": stopped,
            }));
        }
        let mut text = format!("{} into {table}", plural(self.loaded, "row", "rows"));
        text += &format!(": {} new, {} replaced", count(self.new), count(self.loaded - self.new));
        if self.skipped > 0 {
            text += &format!(", {} skipped", count(self.skipped));
        }
        text += &format!("; {}, {} rows/s", duration(self.time), count(rate as u64));
        output::print(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_entries() {
        let lines = Rows { column: None, escaped: false };
        assert_eq!(lines.entry(b"a\tb"), Ok((b"a\tb".to_vec(), vec![])));
        assert!(lines.entry(b"").is_err());
        let second = Rows { column: Some(1), escaped: true };
        assert_eq!(second.entry(b"a\tb\\x00"), Ok((b"b\0".to_vec(), b"a\tb\0".to_vec())));
        assert!(second.entry(b"a").unwrap_err().contains("has 1 column, and the key is column 2"));
        assert!(second.entry(b"a\t").is_err());
        assert!(second.entry(b"a\tb\\").is_err());
    }
}
