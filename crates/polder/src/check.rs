//! Checking a whole store.

use std::fmt;
use std::sync::Arc;

use polder_pool::Translation;
use polder_tree::{Report, Tree};

use crate::any::dispatch;
use crate::engine::Engine;
use crate::error::{CATALOGUE, StoreError};
use crate::handle::Store;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Pages that were looked at.
    pub pages: u64,
    /// Entries that were seen, in all tables.
    pub entries: u64,
    /// What is wrong; empty if the store is sound.
    pub faults: Vec<CheckFault>,
    /// Whether the check was stopped before it was done.
    pub stopped: bool,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckFault {
    /// The table, if it concerns one.
    pub table: Option<String>,
    /// The page, if it concerns one.
    pub page: Option<String>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for CheckFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(table) = &self.table {
            write!(f, "table `{table}`, ")?;
        }
        if let Some(page) = &self.page {
            write!(f, "{page}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl Store {
    /// Looks at every page that is in use and reports each broken invariant. Writers wait
    /// meanwhile.
    ///
    /// `progress` is told how many pages are done and how many there are, and stops the check by
    /// returning false.
    ///
    /// # Errors
    /// Those of the catalogue and the maps, without which there is nothing to check. A damaged page
    /// of a table is in the report.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<CheckReport, StoreError> {
        dispatch!(&self.engine, engine => check(engine, progress))
    }
}

fn check<T: Translation>(
    engine: &Arc<Engine<T>>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<CheckReport, StoreError> {
    let _pause = engine.quiesce.pause()?;
    let mut report = CheckReport::default();
    let mut fault = |table: Option<&str>, what: String| {
        let table = table.map(str::to_string);
        report.faults.push(CheckFault { table, page: None, what });
    };
    let of_pool = |error| StoreError::of_pool(CATALOGUE, error);
    for what in engine.pool.check_maps().map_err(of_pool)? {
        fault(None, what);
    }
    let mut trees: Vec<(String, Tree<T>, Option<u64>)> =
        vec![(CATALOGUE.to_string(), engine.catalogue.clone(), None)];
    for (name, record) in engine.records()? {
        match engine.table(&name) {
            Ok(table) => trees.push((name, table.tree.clone(), Some(table.len()))),
            Err(error) => fault(Some(&name), format!("{error} ({})", record.space)),
        }
    }
    let known: Vec<_> = trees.iter().map(|(_, tree, _)| tree.space().id()).collect();
    for space in engine.pool.spaces().map_err(of_pool)? {
        if !known.contains(&space) {
            fault(None, format!("{space} has pages, but belongs to no table"));
        }
    }
    let all = trees.iter().map(|(_, tree, _)| tree.space().pages_in_use().unwrap_or(0)).sum();
    for (name, tree, entries) in trees {
        let done = report.pages;
        let checked = tree
            .check(&mut |pages| progress(done + pages, all))
            .map_err(|error| StoreError::of(&name, error))?;
        add(&mut report, &name, checked, entries);
        if report.stopped {
            break;
        }
    }
    Ok(report)
}

fn add(report: &mut CheckReport, table: &str, checked: Report, entries: Option<u64>) {
    report.pages += checked.pages;
    report.stopped |= checked.stopped;
    let sound = checked.faults.is_empty() && !checked.stopped;
    report.faults.extend(checked.faults.into_iter().map(|fault| CheckFault {
        table: Some(table.to_string()),
        page: Some(fault.page.to_string()),
        what: fault.what,
    }));
    let Some(expected) = entries else { return };
    report.entries += checked.entries;
    if sound && expected != checked.entries {
        report.faults.push(CheckFault {
            table: Some(table.to_string()),
            page: None,
            what: format!("{} entries are there, but {expected} were counted", checked.entries),
        });
    }
}
