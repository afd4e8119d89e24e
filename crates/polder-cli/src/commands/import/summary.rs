//! What has come of an import.

use std::time::Duration;

use serde_json::json;

use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::units::{count, duration, per_second, plural};

/// How many skipped rows are named one by one.
const NAMED: u64 = 10;

/// Counts, while it goes on.
#[derive(Debug, Default)]
pub struct Summary {
    /// Lines that said something, or should have.
    pub lines: u64,
    /// Tables that are whole.
    tables: Vec<String>,
    /// Rows that are in a table.
    loaded: u64,
    /// Those of them whose key was not there.
    new: u64,
    skipped: u64,
    /// A table that did not come to its end, whether it was new, and its rows.
    partial: Option<(String, bool, u64)>,
    pub time: Duration,
}

impl Summary {
    /// A table has all its rows.
    pub fn whole(&mut self, table: &str, loaded: u64, new: u64) {
        self.tables.push(table.to_owned());
        self.loaded += loaded;
        self.new += new;
    }

    /// A table did not come to its end. A new one has gone.
    pub fn partial(&mut self, table: &str, is_new: bool, loaded: u64, new: u64) {
        self.partial = Some((table.to_owned(), is_new, loaded));
        if !is_new {
            self.loaded += loaded;
            self.new += new;
        }
    }

    /// A row was left out.
    pub fn skip(&mut self, progress: &Progress, input: &str, line: u64, why: &str) {
        self.skipped += 1;
        if self.skipped <= NAMED {
            progress.note(&format!("skipped: {input}, line {line}: {why}"));
        } else if self.skipped == NAMED + 1 {
            progress.note("skipped: more such rows, which are only counted");
        }
    }

    /// What there is of an import that ended early.
    pub fn kept(&self) -> String {
        let whole = match &self.tables[..] {
            [] => None,
            [table] => Some(format!("table {table} is whole")),
            tables => Some(format!("tables {} are whole", tables.join(", "))),
        };
        let partial = self.partial.as_ref().map(|partial| match partial {
            (table, true, _) => format!("nothing of table {table} was kept"),
            (table, false, 0) => format!("no row before it went into table {table}"),
            (table, false, 1) => format!("the row before it is in table {table}"),
            (table, false, n) => format!("the {} rows before it are in table {table}", count(*n)),
        });
        let all = [whole, partial].into_iter().flatten().collect::<Vec<_>>().join(", and ");
        let mut all = if all.is_empty() { "nothing was imported".to_owned() } else { all };
        all[..1].make_ascii_uppercase();
        all
    }

    pub fn print(&self, json: bool, stopped: bool) -> Result<(), Failure> {
        let rate = per_second(self.loaded, self.time);
        if json {
            return output::print_json(&json!({
                "tables": self.tables,
                "loaded": self.loaded,
                "new": self.new,
                "replaced": self.loaded - self.new,
                "skipped": self.skipped,
                "seconds": self.time.as_secs_f64(),
                "rows_per_s": rate,
                "interrupted": stopped,
            }));
        }
        let mut text = plural(self.loaded, "row", "rows");
        text += &match (&self.tables[..], &self.partial) {
            ([], Some((table, ..))) => format!(" into {table}"),
            ([table], None) => format!(" into {table}"),
            (tables, _) => format!(" into {}", plural(tables.len() as u64, "table", "tables")),
        };
        text += &format!(": {} new, {} replaced", count(self.new), count(self.loaded - self.new));
        if self.skipped > 0 {
            text += &format!(", {} skipped", count(self.skipped));
        }
        text += &format!("; {}, {} rows/s", duration(self.time), count(rate as u64));
        if stopped {
            text += &format!(". {}", self.kept());
        }
        output::print(&text)
    }
}
