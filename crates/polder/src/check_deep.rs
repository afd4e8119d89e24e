//! Checking everything that lies on the devices, past the pool.
//!
//! [`Store::check`] looks at pages as the pool has them: one that is in memory is not read. Here the
//! log is read while it is live, then all is written in place, and every page that is in use is
//! read from the device by the maps as they lie there. Memory: a chunk of pages at a time, an
//! entry for each extent, and one page for each allocation map.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use polder_format::log::{LOG_BLOCK_BYTES, Records};
use polder_format::{
    FormatError, Lsn, PageHeader, PageId, PageNo, PhysicalPageNo, SUPERBLOCK_BYTES, SpaceId,
    Superblock,
};
use polder_pool::device::{Device, read_block};
use polder_pool::journal::Journal;
use polder_pool::{Translation, lock};

use crate::any::dispatch;
use crate::check::{CheckFault, CheckReport};
use crate::engine::Engine;
use crate::error::{CATALOGUE, StoreError, with_causes};
use crate::handle::Store;
use crate::maps::{Laid, Maps};
use crate::page_file::PageFile;

/// Faults that are kept; a store with more is beyond reading them.
const MAX_FAULTS: usize = 1000;
/// Progress is told once in so many bytes of the log.
const LOG_STEP_BYTES: u64 = 1 << 16;

/// What a deep check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeepReport {
    /// What [`Store::check`] found.
    pub check: CheckReport,
    /// Pages that were read from the device.
    pub pages: u64,
    /// Bytes of the live log.
    pub log_bytes: u64,
    /// Records in them.
    pub log_records: u64,
    /// What is wrong on the devices.
    pub faults: Vec<DeepFault>,
    /// What is odd and does no harm: what a crash cut short.
    pub notes: Vec<String>,
    /// Whether the check was stopped before it was done.
    pub stopped: bool,
}

/// One thing that is wrong on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeepFault {
    /// `data` or `log`.
    pub file: &'static str,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The table, if it concerns one.
    pub table: Option<String>,
    /// The page, if it concerns one.
    pub page: Option<String>,
    /// What is wrong.
    pub what: String,
}

/// What a deep check is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeepPhase {
    /// What [`Store::check`] does; counted in pages.
    Tables,
    /// Reading the live log; counted in bytes.
    Log,
    /// Reading pages from the device; counted in pages.
    Pages,
}

impl DeepReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.check.faults.is_empty() && self.faults.is_empty()
    }
}

impl fmt::Display for DeepFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}, byte {}, ", self.file, self.offset)?;
        if let Some(table) = &self.table {
            write!(f, "table {table}, ")?;
        }
        if let Some(page) = &self.page {
            write!(f, "{page}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl Store {
    /// Does what [`Store::check`] does, and reads everything from the devices: superblocks, the
    /// live log, and each page that is in use, with its checksum. Writers wait meanwhile.
    ///
    /// `progress` is told how much is done and how much there is, and stops the check by returning
    /// false.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// store.create_table("words")?.put("dike", "dijk")?;
    /// let report = store.check_deep(&mut |_phase, _done, _of| true)?;
    /// assert!(report.is_sound());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of making everything durable. Damage is in the report.
    pub fn check_deep(
        &self,
        progress: &mut dyn FnMut(DeepPhase, u64, u64) -> bool,
    ) -> Result<DeepReport, StoreError> {
        let mut report = DeepReport::default();
        match self.check(&mut |done, all| progress(DeepPhase::Tables, done, all)) {
            Ok(check) => report.check = check,
            Err(error @ StoreError::Corrupt { .. }) => {
                let what = with_causes(&error);
                report.check.faults.push(CheckFault { table: None, page: None, what });
            }
            Err(error) => return Err(error),
        }
        report.stopped = report.check.stopped;
        if !report.stopped {
            dispatch!(&self.engine, engine => check_devices(engine, &mut report, progress))?;
        }
        Ok(report)
    }
}

impl DeepReport {
    fn fault(&mut self, file: &'static str, offset: u64, page: Option<PageId>, what: String) {
        if self.faults.len() < MAX_FAULTS {
            let page = page.map(|page| page.to_string());
            self.faults.push(DeepFault { file, offset, table: None, page, what });
        }
    }
}

fn check_devices<T: Translation>(
    engine: &Arc<Engine<T>>,
    report: &mut DeepReport,
    progress: &mut dyn FnMut(DeepPhase, u64, u64) -> bool,
) -> Result<(), StoreError> {
    let _pause = engine.quiesce.pause()?;
    engine.flush()?;
    check_log(engine, report, progress);
    if report.stopped {
        return Ok(());
    }
    engine.write_in_place()?;
    check_slots(engine, report);
    let device = engine.pool.device();
    let superblock = lock(&engine.checkpointer.superblock).clone();
    let size = superblock.page_size;
    let file = PageFile::new(engine.log().data_device(), size, superblock.store_id);
    let mut maps = Maps::read(file.clone(), Some(superblock.space_directory));
    let end = engine.log().end();
    for (physical, header) in std::mem::take(&mut maps.pages) {
        check_lsn(report, physical.offset(size), header.page_id, header.lsn, end);
    }
    let mut pages = Pages { maps, file, end, names: names_of(engine), report, progress };
    pages.check();
    let faults = pages.maps.faults;
    check_superblocks(device, report);
    for fault in faults {
        report.fault("data", fault.physical.offset(size), Some(fault.page), fault.what);
    }
    Ok(())
}

/// The live log: from where a recovery would begin to what is durable.
fn check_log<T: Translation>(
    engine: &Engine<T>,
    report: &mut DeepReport,
    progress: &mut dyn FnMut(DeepPhase, u64, u64) -> bool,
) {
    let (start, end) = (engine.log().start(), engine.log().durable());
    let all = end.0.saturating_sub(start.0);
    let log = match engine.log().file() {
        Ok(log) => log,
        Err(error) => return report.fault("log", 0, None, with_causes(&error)),
    };
    let (mut told, mut stopped) = (0, false);
    let (gaps, last) = log.visit_readable(start, end, &mut |header, group| {
        for record in Records::of_group(group) {
            match record {
                Ok(_) => report.log_records += 1,
                Err(error) => {
                    report.fault("log", log.offset(header.lsn), None, error.to_string());
                }
            }
        }
        let done = header.end().0 - start.0;
        if done >= told + LOG_STEP_BYTES {
            told = done;
            stopped = !progress(DeepPhase::Log, done, all);
        }
        !stopped
    });
    report.stopped = stopped;
    report.log_bytes = last.0.saturating_sub(start.0);
    // A checkpoint may have begun to use the segments anew meanwhile.
    let is_live = |lsn: Lsn| lsn >= engine.log().start();
    for gap in gaps.into_iter().filter(|gap| is_live(gap.from)) {
        let why = gap.why.unwrap_or_else(|| "nothing is there".to_string());
        let what = format!("the log cannot be read from LSN {} to {}: {why}", gap.from.0, gap.to.0);
        report.fault("log", log.offset(gap.from), None, what);
    }
    // One that only reads has put no group behind the end that it found: the log would go on with
    // the next block.
    let reached = match engine.quiesce.is_read_only() {
        true => Lsn(last.0.next_multiple_of(LOG_BLOCK_BYTES as u64)),
        false => last,
    };
    if !stopped && reached < end && is_live(last) {
        let what = format!("the log cannot be read from LSN {} to its end, {}", last.0, end.0);
        report.fault("log", log.offset(last), None, what);
    }
}

/// The parts of the log file that no part of the live log lies in.
fn check_slots<T: Translation>(engine: &Engine<T>, report: &mut DeepReport) {
    let Ok(log) = engine.log().file() else { return };
    let (_, broken) = log.slot_images(engine.pool.page_size());
    for slot in broken {
        // All pages are in place now, so that no slot is needed.
        let what = "is not whole: a write that was cut short; nothing needs it";
        report.notes.push(format!("slot {slot} of the double-write area {what}"));
    }
    match log.broken_segments() {
        Ok(broken) => report.notes.extend(broken.iter().map(|offset| {
            format!("the log segment at byte {offset} begins with no header; nothing needs it")
        })),
        Err(error) => report.fault("log", 0, None, error.to_string()),
    }
}

fn check_superblocks(device: &dyn Device, report: &mut DeepReport) {
    for offset in [0, SUPERBLOCK_BYTES as u64] {
        let what = match read_block(device, offset, SUPERBLOCK_BYTES) {
            Ok(block) => match Superblock::decode(&block) {
                Ok(superblock) if superblock.offset() == offset => continue,
                Ok(_) => "a superblock lies in the place of the other one".to_string(),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        report.fault("data", offset, None, format!("superblock: {what}"));
    }
}

fn names_of<T: Translation>(engine: &Engine<T>) -> HashMap<SpaceId, String> {
    // Without the catalogue faults name the page only; that it is damaged is reported.
    let records = engine.records().unwrap_or_default();
    let mut names = HashMap::new();
    names.extend(records.into_iter().map(|(name, record)| (record.space, name)));
    names.insert(SpaceId::CATALOGUE, CATALOGUE.to_string());
    names
}

fn check_lsn(report: &mut DeepReport, offset: u64, page: PageId, lsn: Lsn, end: Lsn) {
    if lsn > end {
        let what = FormatError::AheadOfLog { lsn, end }.to_string();
        report.fault("data", offset, Some(page), what);
    }
}

/// Reading every page that is in use.
struct Pages<'c> {
    maps: Maps,
    file: PageFile,
    end: Lsn,
    names: HashMap<SpaceId, String>,
    report: &'c mut DeepReport,
    progress: &'c mut dyn FnMut(DeepPhase, u64, u64) -> bool,
}

impl Pages<'_> {
    fn check(&mut self) {
        let extents = self.maps.extents();
        let all = extents.iter().map(|extent| extent.pages).sum();
        let mut done = 0;
        for extent in extents {
            if !self.extent(extent, done, all) {
                self.report.stopped = true;
                return;
            }
            done += extent.pages;
        }
    }

    /// False: stopped.
    fn extent(&mut self, extent: Laid, done: u64, all: u64) -> bool {
        let id =
            |at: u64| PageNo::new(extent.first.get() + at).map(|no| PageId::new(extent.space, no));
        let used: Vec<bool> = (0..extent.pages)
            .map(|at| id(at).and_then(|id| self.maps.in_use(id)).is_some_and(|(used, _)| used))
            .collect();
        let Some(first) = used.iter().position(|used| *used) else {
            return (self.progress)(DeepPhase::Pages, done + extent.pages, all);
        };
        let last = used.iter().rposition(|used| *used).unwrap_or(first);
        let file = self.file.clone();
        let begin = extent.physical.get();
        file.run(begin + first as u64, (last - first + 1) as u64, &mut |place, bytes| {
            let at = place - begin;
            if let Some(id) = id(at).filter(|_| used[at as usize]) {
                self.report.pages += 1;
                let found = bytes.map_err(|error| error.to_string()).and_then(|bytes| {
                    file.seed.verify(bytes, id).map_err(|error| error.to_string())
                });
                self.page(PhysicalPageNo::new(place), id, found);
            }
            (self.progress)(DeepPhase::Pages, done + at + 1, all)
        })
    }

    fn page(&mut self, physical: PhysicalPageNo, id: PageId, found: Result<PageHeader, String>) {
        let (offset, before) = (physical.offset(self.file.size), self.report.faults.len());
        match found {
            Ok(header) => check_lsn(self.report, offset, id, header.lsn, self.end),
            Err(what) => self.report.fault("data", offset, Some(id), what),
        }
        if let Some(fault) = self.report.faults.get_mut(before) {
            fault.table = self.names.get(&id.space()).cloned();
        }
    }
}
