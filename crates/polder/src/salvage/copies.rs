//! All whole leaves and overflow pages in the files of a damaged store, and pages of structures.
//!
//! Takes 40 bytes of memory for each of them: a hundredth of the file at pages of 4 KiB. What
//! should lie where is looked up in the maps meanwhile, so that a page that is missing is noticed.

use std::cell::RefCell;

use polder_format::{Lsn, PageHeader, PageId, PageKind, PhysicalPageNo};

use super::source::{Source, first_place, identify};
use super::{LISTED, Loss, SalvageReport, UnreadablePage};
use crate::maps::{Laid, Standing};
use crate::registry::Registry;

/// In which file a copy lies, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Where {
    /// In the double-write buffer, at this byte of the log file.
    Slot(u64),
    /// In both files, a part in each: which of [`Source::rebuilt`].
    Rebuilt(usize),
    /// In the data file.
    Data(PhysicalPageNo),
}

/// A copy of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Copy {
    pub(super) page: PageId,
    pub(super) lsn: Lsn,
    pub(super) lies: Where,
}

/// A leaf that is not known to be freed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    pub(super) copy: Copy,
    /// No map tells whether it is in use.
    pub(super) doubtful: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// One copy of each leaf, the newest, in the order of their LSNs.
    pub(super) leaves: Vec<Leaf>,
    /// All copies of overflow pages, in the order of page and LSN.
    pub(super) overflow: Vec<Copy>,
    /// All copies of pages of structures that are registered, in the order of page and LSN.
    pub(super) of_guests: Vec<Copy>,
}

impl Copies {
    /// Reads everything.
    pub(super) fn find(
        source: &mut Source,
        registry: &Registry,
        report: &mut SalvageReport,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Copies {
        let (mut leaves, mut overflow, mut of_guests) = (Vec::new(), Vec::new(), Vec::new());
        let mut note = |header: &PageHeader, lies| {
            let copy = Copy { page: header.page_id, lsn: header.lsn, lies };
            match header.kind {
                PageKind::TREE_LEAF => leaves.push(copy),
                PageKind::OVERFLOW => overflow.push(copy),
                kind if registry.guest_of(kind).is_some() => of_guests.push(copy),
                _ => {}
            }
        };
        if let Some(log) = &source.log {
            for image in log.slot_images(source.size).0 {
                note(&image.header, Where::Slot(image.offset));
            }
        }
        for (number, page) in source.rebuilt.iter().enumerate() {
            note(&page.header, Where::Rebuilt(number));
        }
        scan(source, report, &mut note, progress);
        report.leaves = leaves.len() as u64;
        overflow.sort_unstable();
        of_guests.sort_unstable();
        Copies { leaves: in_use(source, leaves), overflow, of_guests }
    }
}

/// Looks at every page of the data file, and whether those that are in use are there.
fn scan(
    source: &Source,
    report: &mut SalvageReport,
    note: &mut dyn FnMut(&PageHeader, Where),
    progress: &mut dyn FnMut(u64, u64) -> bool,
) {
    let Some(file) = &source.file else {
        report.losses.push(Loss::of_store("all pages: there is no data file".to_string()));
        return;
    };
    let first = first_place(source.size).get();
    let all = file.pages().unwrap_or(0);
    let pages = all.saturating_sub(first);
    let expected = ExpectedPages::new(source);
    let mut newest = Lsn(0);
    let finished = file.run(first, pages, &mut |place, bytes| {
        let found = match &bytes {
            Ok(bytes) => identify(file, bytes).map(|found| found.map_err(|e| e.to_string())),
            Err(error) => Some(Err(error.to_string())),
        };
        let page = expected.at(place);
        if let Some(Ok(header)) = &found {
            note(header, Where::Data(PhysicalPageNo::new(place)));
            newest = newest.max(header.lsn);
        }
        if let Some(Err(what)) = &found {
            report.pages_unreadable += 1;
            let page = expected.named(place);
            add(&mut report.unreadable, source, place, page, what.clone());
        }
        if let Some(what) = expected.amiss(place, page, found) {
            report.pages_missing += 1;
            add(&mut report.missing, source, place, expected.named(place), what);
        }
        report.pages += 1;
        progress(report.pages, pages)
    });
    report.stopped |= !finished;
    if let Some(end) = source.log_end().filter(|end| newest > *end) {
        let (newest, end) = (newest.0, end.0);
        let what =
            format!("the end of the log: it ends at LSN {end}, and a page shows LSN {newest}");
        report.losses.push(Loss::of_store(what));
    }
    expected.behind(all, &mut |place, page| {
        report.pages_missing += 1;
        let what = "the file ends before it".to_string();
        add(&mut report.missing, source, place, Some(page), what);
    });
}

fn add(
    list: &mut Vec<UnreadablePage>,
    source: &Source,
    place: u64,
    page: Option<PageId>,
    what: String,
) {
    if list.len() < LISTED {
        let (offset, page) = (place << source.size.shift(), page.map(|page| page.to_string()));
        list.push(UnreadablePage { offset, page, what });
    }
}

/// What the maps say of a physical page number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// A page that is in use.
    Page(PageId),
    Nothing,
    Unknown,
}

/// What should lie where.
struct ExpectedPages<'s> {
    source: &'s Source,
    /// In the order in which they lie in the file.
    extents: Vec<Laid>,
    /// What is in no extent belongs to no table.
    knows_all: bool,
}

impl ExpectedPages<'_> {
    fn new(source: &Source) -> ExpectedPages<'_> {
        let maps = source.maps.as_ref().map(RefCell::borrow);
        let mut extents = maps.as_ref().map_or(Vec::new(), |maps| maps.extents());
        extents.sort_unstable_by_key(|extent| extent.physical);
        let knows_all = maps.is_some_and(|maps| maps.knows_all_places());
        ExpectedPages { source, extents, knows_all }
    }

    /// Which page has this physical page number, in use or not.
    fn named(&self, place: u64) -> Option<PageId> {
        page_at(&self.extents, place)
    }

    fn at(&self, place: u64) -> Expected {
        let Some(page) = self.named(place) else {
            return if self.knows_all { Expected::Nothing } else { Expected::Unknown };
        };
        let maps = self.source.maps.as_ref();
        match maps.and_then(|maps| maps.borrow_mut().in_use(page)) {
            Some((true, _)) => Expected::Page(page),
            Some((false, _)) => Expected::Nothing,
            None => Expected::Unknown,
        }
    }

    /// What is wrong at a physical page number where `found` lies (none: zeros), if that may be a
    /// loss.
    fn amiss(
        &self,
        place: u64,
        expected: Expected,
        found: Option<Result<PageHeader, String>>,
    ) -> Option<String> {
        let evidence = &self.source.evidence;
        let what = match (expected, found) {
            (Expected::Nothing, _) | (Expected::Unknown, None | Some(Ok(_))) => return None,
            // The arrays of the maps have no extents.
            (Expected::Unknown, Some(Err(_))) if self.is_map(place) => return None,
            (Expected::Unknown, Some(Err(what))) => return Some(what),
            (Expected::Page(page), Some(Ok(header))) if header.page_id == page => {
                let newest = evidence.lacks(page, header.lsn)?;
                let (has, newest) = (header.lsn.0, newest.0);
                format!("an older copy of itself: it shows the log up to {has}, not up to {newest}")
            }
            (Expected::Page(_), Some(Ok(header))) => format!("{} lies there", header.page_id),
            (Expected::Page(_), Some(Err(what))) => what,
            (Expected::Page(_), None) => "nothing is there".to_string(),
        };
        matches!(expected, Expected::Page(page) if !evidence.can_make(page)).then_some(what)
    }

    fn is_map(&self, place: u64) -> bool {
        let maps = self.source.maps.as_ref();
        maps.is_some_and(|maps| maps.borrow().faults.iter().any(|f| f.physical.get() == place))
    }

    /// Calls `missing` with each page in use that lies at `end` or behind it.
    fn behind(&self, end: u64, missing: &mut dyn FnMut(u64, PageId)) {
        for extent in &self.extents {
            let begin = extent.physical.get();
            for place in begin.max(end)..begin + extent.pages {
                if let Expected::Page(page) = self.at(place)
                    && !self.source.evidence.can_make(page)
                {
                    missing(place, page);
                }
            }
        }
    }
}

/// Which page lies at a physical page number by the maps. `extents` are in the order of the file.
fn page_at(extents: &[Laid], place: u64) -> Option<PageId> {
    let behind = extents.partition_point(|extent| extent.physical.get() <= place);
    let extent = extents.get(behind.checked_sub(1)?)?;
    let within = place - extent.physical.get();
    let no = polder_format::PageNo::new(extent.first.get() + within)?;
    (within < extent.pages).then(|| PageId::new(extent.space, no))
}

/// The newest copy of each leaf that the maps do not know to be freed.
fn in_use(source: &Source, mut copies: Vec<Copy>) -> Vec<Leaf> {
    copies.sort_unstable();
    let mut leaves: Vec<Leaf> = Vec::new();
    for copy in copies {
        let physical = match copy.lies {
            Where::Data(physical) => Some(physical),
            Where::Slot(_) | Where::Rebuilt(_) => None,
        };
        let standing = source.maps.as_ref().map_or(Standing::Unknown, |maps| {
            maps.borrow_mut().standing(copy.page, copy.lsn, physical)
        });
        let leaf = Leaf { copy, doubtful: standing == Standing::Unknown };
        match (standing, leaves.last_mut()) {
            (Standing::Gone, _) => {}
            (_, Some(last)) if last.copy.page == copy.page => *last = leaf,
            _ => leaves.push(leaf),
        }
    }
    leaves.sort_unstable_by_key(|leaf| leaf.copy.lsn);
    leaves
}
