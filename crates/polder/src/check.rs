//! Checking a whole store.

use std::fmt;
use std::sync::Arc;

use polder_format::SpaceId;
use polder_pool::Space;
use polder_structure::Report;

use crate::any::{Variant, dispatch};
use crate::catalogue::{Lodger, SpaceRecord};
#[cfg(feature = "vector")]
use crate::collection::Collection;
use crate::engine::Engine;
#[cfg(feature = "vector")]
use crate::error::with_causes;
use crate::error::{CATALOGUE, StoreError};
use crate::handle::Store;
use crate::registry::{Registered, Spaces};

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
    /// Names of what was not looked at: structures that were not registered
    /// ([`Options::structure`](crate::Options::structure)). That their pages can be read, and are
    /// those that were written, a deep check looks at all the same.
    pub unregistered: Vec<String>,
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
    /// Looks at every page that is in use and reports each broken invariant; and, of collections, whether
    /// keys, rows and vectors agree. Writers wait meanwhile.
    ///
    /// `progress` is told how many pages are done and how many there are, and stops the check by
    /// returning false.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// store.create_table("words")?.put("dike", "dijk")?;
    /// let report = store.check(&mut |_pages, _of| true)?;
    /// assert!(report.faults.is_empty());
    /// assert_eq!(report.entries, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the catalogue and the maps, without which there is nothing to check. A damaged page
    /// of a table is in the report.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<CheckReport, StoreError> {
        // Opened before writers wait: whoever makes one may be among them.
        #[cfg(feature = "vector")]
        let collections = self.collections()?;
        #[cfg(feature = "vector")]
        let collections: Vec<_> = collections
            .into_iter()
            .map(|name| (self.collection(&name), name))
            // One of them may have gone since it was named.
            .filter(|(opened, _)| !matches!(opened, Err(StoreError::NoSuchTable { .. })))
            .collect();
        let agree = &mut |_report: &mut CheckReport, _progress: &mut dyn FnMut() -> bool| {
            #[cfg(feature = "vector")]
            {
                // Some may have been dropped before writers began to wait.
                let there = self.collections();
                let is_there = |name| there.as_ref().map_or(true, |there| there.contains(name));
                for (collection, name) in collections.iter().filter(|(_, name)| is_there(name)) {
                    check_collection(name, collection, _report, _progress);
                }
            }
        };
        dispatch!(&self.engine, engine => check(engine, progress, agree))
    }
}

/// Whether keys, rows and vectors of a collection agree.
#[cfg(feature = "vector")]
fn check_collection(
    name: &str,
    collection: &Result<Collection, StoreError>,
    report: &mut CheckReport,
    progress: &mut dyn FnMut() -> bool,
) {
    if report.stopped {
        return;
    }
    let checked = match collection {
        Ok(collection) => match collection.check(&mut |_| progress()) {
            // It was dropped, too, and made again since.
            Err(StoreError::Dropped { .. }) => return,
            checked => checked.map_err(|error| with_causes(&error)),
        },
        Err(error) => Err(with_causes(error)),
    };
    let faults = match checked {
        Ok(checked) => {
            report.stopped |= checked.stopped;
            checked.faults
        }
        Err(why) => vec![format!("keys and vectors cannot be compared: {why}")],
    };
    let table = Some(name.to_string());
    let fault = |what| CheckFault { table: table.clone(), page: None, what };
    report.faults.extend(faults.into_iter().map(fault));
}

/// Looks behind what is checked by pages at more, while writers wait.
type More<'m> = dyn FnMut(&mut CheckReport, &mut dyn FnMut() -> bool) + 'm;

fn check<T: Variant>(
    engine: &Arc<Engine<T>>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
    more: &mut More<'_>,
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
    let tables = engine.registry.tables();
    let mut known = vec![SpaceId::CATALOGUE];
    let mut lodgings: Vec<Lodging<T>> =
        vec![(CATALOGUE.to_string(), tables, engine.catalogue.space().clone(), None)];
    let mut unregistered = Vec::new();
    for (name, record) in engine.records()? {
        known.push(record.space);
        let Some(structure) = engine.registry.find(record.lodger.name()) else {
            unregistered.push(name);
            continue;
        };
        match counted_space(engine, &name, &record, structure) {
            Ok((space, entries)) => lodgings.push((name, structure, space, entries)),
            Err(error) => fault(Some(&name), format!("{error} ({})", record.space)),
        }
    }
    // What a crash has left of a table that was being made, or dropped, belongs to none. An opening
    // that writes frees it; this one has only read.
    let may_be_left = engine.quiesce.is_read_only() && engine.recovery.log_bytes > 0;
    for space in engine.pool.spaces().map_err(of_pool)? {
        if !known.contains(&space) && !may_be_left {
            fault(None, format!("{space} has pages, but belongs to no table"));
        }
    }
    report.unregistered = unregistered;
    let all = lodgings.iter().map(|(_, _, space, _)| space.pages_in_use().unwrap_or(0)).sum();
    for (name, structure, space, entries) in lodgings {
        let done = report.pages;
        let checked = structure
            .check(&T::wrap::<Spaces>(space), &mut |pages| progress(done + pages, all))
            .map_err(|error| StoreError::of_pool(&name, error))?;
        add(&mut report, &name, checked, entries);
        if report.stopped {
            break;
        }
    }
    let done = report.pages;
    more(&mut report, &mut || progress(done, all));
    Ok(report)
}

/// What is to be checked: its name, what it is, its space, and its entries if they are counted.
type Lodging<T> = (String, &'static dyn Registered, Space<T>, Option<u64>);

/// The space of a name, and how many entries were counted in it.
fn counted_space<T: Variant>(
    engine: &Arc<Engine<T>>,
    name: &str,
    record: &SpaceRecord,
    structure: &dyn Registered,
) -> Result<(Space<T>, Option<u64>), StoreError> {
    if record.lodger == Lodger::Own {
        let table = engine.table(name)?;
        return Ok((table.tree.space().clone(), Some(table.len())));
    }
    let space = engine.pool.open_space(record.space);
    let space = space.map_err(|error| StoreError::of_pool(name, error))?;
    if !structure.counts_entries() {
        return Ok((space, None));
    }
    // The log counts as it becomes durable, and nobody writes.
    engine.flush()?;
    Ok((space, Some(engine.log().entries(record.space))))
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
