//! What the log tells about pages: what the maps lack, and which pages it can bring back whole.
//!
//! Takes memory for each page that the log names, however often.

use std::collections::HashMap;

use polder_format::log::{GroupHeader, Operation, Records};
use polder_format::{Lsn, PageHeader, PageId, PageSize};
use polder_log::{Gap, LogFile, RebuiltPage};

use crate::maps::MapChanges;
use crate::page_file::PageFile;

/// What is known of pages from the log file.
#[derive(Debug)]
pub(super) struct Evidence {
    /// From here on nothing of the log is missing, as far as is known.
    whole_from: Lsn,
    /// Where the group begins that has the last full-page image of each page, or of the page of which it
    /// is the right half.
    images: HashMap<PageId, Lsn>,
    /// Where the last group ends that changed each page before the place where a recovery begins:
    /// what lies in place shows it.
    changed: HashMap<PageId, Lsn>,
    /// The newest copies in the double-write buffer.
    copies: HashMap<PageId, Lsn>,
    /// Where a recovery begins.
    redo_start: Option<Lsn>,
}

impl Evidence {
    /// That of a store without a log.
    pub(super) fn none() -> Evidence {
        Evidence {
            whole_from: Lsn(u64::MAX),
            images: HashMap::new(),
            changed: HashMap::new(),
            copies: HashMap::new(),
            redo_start: None,
        }
    }

    /// Reads the log within `range`, and the double-write buffer by way of `pages`; `rebuilt` are pages
    /// that it makes whole. Gives what the maps lack as well.
    pub(super) fn read(
        log: &LogFile,
        (pages, rebuilt): (&PageFile, &[RebuiltPage]),
        range: (Lsn, Lsn),
        redo_start: Option<Lsn>,
    ) -> (Evidence, MapChanges) {
        let mut found = Evidence { redo_start, ..Evidence::none() };
        let mut changes = MapChanges::default();
        let (gaps, _) = log.visit_readable(range.0, range.1, &mut |header, group| {
            found.note(pages.size, header, group, &mut changes);
            true
        });
        found.whole_from = gaps.iter().map(|gap| gap.to).max().unwrap_or(range.0);
        // Behind a gap a map would get some of its changes only.
        let is_behind = |gap: &&Gap| redo_start.is_none_or(|start| gap.to > start);
        if let Some(gap) = gaps.iter().find(is_behind) {
            changes.cut(gap.from);
        }
        for image in log.slot_images(pages.size).0 {
            found.note_copy(image.header, || pages.bytes_at(image.offset).ok(), &mut changes);
        }
        for page in rebuilt {
            found.note_copy(page.header, || Some(page.bytes.clone()), &mut changes);
        }
        (found, changes)
    }

    fn note_copy(
        &mut self,
        header: PageHeader,
        bytes: impl FnOnce() -> Option<Vec<u8>>,
        changes: &mut MapChanges,
    ) {
        let newest = self.copies.entry(header.page_id).or_insert(header.lsn);
        *newest = (*newest).max(header.lsn);
        if self.is_replayed(header.lsn)
            && let Some(bytes) = bytes()
        {
            changes.note_copy(header, bytes);
        }
    }

    fn note(
        &mut self,
        size: PageSize,
        header: &GroupHeader,
        group: &[u8],
        changes: &mut MapChanges,
    ) {
        let end = header.end();
        let in_place = self.redo_start.is_some_and(|start| end <= start);
        for record in Records::of_group(group).map_while(Result::ok) {
            if !in_place {
                changes.note(size, end, record.page, &record.operation);
            }
            let images = &mut self.images;
            match record.operation {
                Operation::FullPageImage { .. } => _ = images.insert(record.page, header.lsn),
                // It can be made again from there on, where the image of the left one is.
                Operation::RightHalf { left, .. } => {
                    match images.get(&PageId::from_link(left)).copied() {
                        Some(image) => _ = images.insert(record.page, image),
                        None => _ = images.remove(&record.page),
                    }
                }
                _ => {}
            }
            // A bulk load counts its entries at a page that it need not have changed.
            if in_place && !matches!(record.operation, Operation::Loaded { .. }) {
                self.changed.insert(record.page, end);
            }
        }
    }

    /// Whether all changes behind `lsn` are in the log.
    pub(super) fn has_all_since(&self, lsn: Lsn) -> bool {
        lsn >= self.whole_from
    }

    /// Whether a page of this LSN is brought up to date by a recovery.
    fn is_replayed(&self, lsn: Lsn) -> bool {
        self.redo_start.is_some_and(|start| lsn > start)
    }

    /// Pages that have a full-page image in the log, and where the group begins that has the last one.
    pub(super) fn images(&self) -> impl Iterator<Item = (PageId, Lsn)> {
        self.images.iter().map(|(page, group)| (*page, *group))
    }

    /// Whether the log file alone has all of a page.
    pub(super) fn can_make(&self, page: PageId) -> bool {
        self.images.get(&page).is_some_and(|group| self.has_all_since(*group))
            || self.copies.get(&page).is_some_and(|lsn| self.has_all_since(*lsn))
    }

    /// The last change that a page in place must show and does not, if it has this LSN.
    pub(super) fn lacks(&self, page: PageId, lsn: Lsn) -> Option<Lsn> {
        let copied = self.copies.get(&page).copied().filter(|lsn| !self.is_replayed(*lsn));
        let newest = self.changed.get(&page).copied().max(copied)?;
        (newest > lsn && self.redo_start.is_some() && !self.has_all_since(lsn)).then_some(newest)
    }
}
