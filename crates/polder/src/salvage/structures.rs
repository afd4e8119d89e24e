//! Structures that are no tables: page by page, each as a recovery would have it.
//!
//! Which pages lead where is not asked: any of them may be lost. Of each page of a structure the newest
//! copy is taken, and what the log tells of it is done to the copy, as in a recovery (R7): images and
//! patches are bytes, other records are done by the page's kind. What the maps know to be freed is left
//! out. A new structure is made with the options that the pages tell. The structure tells the entries of
//! each page, and puts them into the new one. What it will not take is a loss; where the new store fails
//! the salvage ends, as it does for tables.
//!
//! Takes memory for each record of the log that is about such a page, and the first key of each page.

use std::any::Any as Value;
use std::collections::{HashMap, HashSet};

use polder_format::log::{Operation, Records};
use polder_format::{Lsn, PageId, PageKind, SpaceId, header_at, pages_per_alloc_map};
use polder_pool::PoolError;
use polder_pool::bytes::PageBuf;

use super::catalogue::Names;
use super::copies::{Copies, Where};
use super::replay::read_copy;
use super::source::{Source, page_buf};
use super::{Loss, SalvageReport, SalvagedTable};
use crate::any::dispatch;
use crate::error::{StoreError, with_causes};
use crate::handle::Store;
use crate::maps::{Standing, full_page_image_bytes};
use crate::registry::{Guest, Handle, Registered, Registry};

/// What is there of structures.
pub(super) struct Guests<'s> {
    source: &'s Source,
    copies: &'s Copies,
    registry: &'s Registry,
    /// Where the groups of the log begin that are about each page.
    groups: HashMap<PageId, Vec<Lsn>>,
}

/// A page as it was at the end.
struct Completed {
    /// `None`: the log does not fit it.
    page: Option<PageBuf>,
    /// No map tells whether it is in use.
    doubtful: bool,
}

impl<'s> Guests<'s> {
    /// Finds out which spaces are structures, and what the log has of them.
    pub(super) fn find(
        source: &'s Source,
        copies: &'s Copies,
        registry: &'s Registry,
        names: &mut Names,
    ) -> Guests<'s> {
        let mut guests = Guests { source, copies, registry, groups: HashMap::new() };
        let is_unknown = |names: &Names, page: PageId| {
            let space = page.space();
            space > SpaceId::CATALOGUE && names.get(space).or(names.structure(space)).is_none()
        };
        for copy in &copies.of_guests {
            if is_unknown(names, copy.page) {
                guests.note_page(copy.page, read_copy(source, copy.lies), names);
            }
        }
        for (page, group) in source.evidence.images() {
            if is_unknown(names, page) {
                guests.note_page(page, source.image(page, group), names);
            }
        }
        let spaces: HashSet<SpaceId> = names.structures().into_iter().collect();
        if !spaces.is_empty() {
            // The allocation maps of a space are the pool's.
            let per_map = pages_per_alloc_map(source.size);
            source.visit_log(&mut |header, group| {
                for record in Records::of_group(group).map_while(Result::ok) {
                    let is_map = record.page.page().get().is_multiple_of(per_map);
                    if spaces.contains(&record.page.space()) && !is_map {
                        let of_page = guests.groups.entry(record.page).or_default();
                        if of_page.last() != Some(&header.lsn) {
                            of_page.push(header.lsn);
                        }
                    }
                }
                true
            });
        }
        guests
    }

    /// A space whose name was lost is known by its pages.
    fn note_page(&self, page: PageId, bytes: Option<Vec<u8>>, names: &mut Names) {
        let kind = bytes.and_then(|bytes| bytes.get(header_at::KIND).copied());
        if let Some(structure) = kind.and_then(|kind| self.registry.guest_of(PageKind(kind))) {
            names.note_guest(page.space(), structure.name());
        }
    }

    /// Makes the structures in the new store, and puts into them what their pages tell.
    pub(super) fn save(
        &self,
        store: &Store,
        names: &Names,
        report: &mut SalvageReport,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(), StoreError> {
        let mut pages: Vec<PageId> = self
            .copies
            .of_guests
            .iter()
            .map(|copy| copy.page)
            .chain(self.groups.keys().copied())
            .collect();
        pages.sort_unstable();
        pages.dedup();
        let (mut done, all) = (0, 2 * pages.len() as u64);
        let mut goes_on = || {
            done += 1;
            progress(done, all)
        };
        for space in names.structures() {
            let named = names.get(space).map(str::to_string);
            let is_named = named.is_some();
            let name = named.unwrap_or_else(|| names.make(space));
            let structure = names.structure(space).unwrap_or_default();
            let Some(registered) = self.registry.find(structure) else {
                let what = format!(
                    "all of it: it is a structure `{structure}`, which is not registered (`Options::structure`)"
                );
                report.losses.push(Loss { table: Some(name), what });
                continue;
            };
            let of_space = pages.iter().copied().filter(|page| page.space() == space);
            let of_space: Vec<PageId> = of_space.collect();
            let saving = Saving { guests: self, store, name: &name, registered };
            let Some(read) = saving.read(&of_space, &mut goes_on) else {
                report.stopped = true;
                break;
            };
            let Some(handle) = saving.make(read.options.as_deref(), report)? else { continue };
            let (table, finished) = saving.save(&handle, read, report, &mut goes_on)?;
            let counted =
                registered.counts_entries().then_some(self.source.tally.as_ref()).flatten();
            report.tables.push(SalvagedTable {
                name,
                named: is_named,
                counted: counted.map(|tally| tally.entries(space)),
                structure: Some(structure.to_string()),
                ..table
            });
            if !finished {
                report.stopped = true;
                break;
            }
        }
        store.flush()
    }

    /// A page at the end of the log, if it is in use and can be had.
    fn complete(&self, id: PageId) -> Option<Completed> {
        let (size, evidence) = (self.source.size, &self.source.evidence);
        let of_guests = &self.copies.of_guests;
        let behind = of_guests.partition_point(|copy| copy.page <= id);
        let newest = of_guests[..behind].last().filter(|copy| copy.page == id);
        let copy = newest.and_then(|copy| Some((copy, read_copy(self.source, copy.lies)?)));
        let (mut page, mut lsn) = match &copy {
            Some((copy, bytes)) => (Some(page_buf(bytes, size)), copy.lsn),
            None => (None, Lsn(0)),
        };
        let mut misfit = false;
        // Behind a gap in the log a page would get some of its changes only.
        let mut has_all = page.is_some() && evidence.has_all_since(lsn);
        for begin in self.groups.get(&id).into_iter().flatten() {
            let mut groups = self.source.log.as_ref()?.groups(*begin);
            let Ok(Some((header, group))) = groups.next() else { continue };
            let (end, records) = (header.end(), Records::of_group(group).map_while(Result::ok));
            for record in records.filter(|record| record.page == id && end > lsn) {
                match (&record.operation, &mut page) {
                    (Operation::FullPageImage { size: found, low, high }, _) => {
                        let image = full_page_image_bytes(size, (*found, *low, *high));
                        (misfit, page) =
                            (image.is_none(), image.map(|image| page_buf(&image, size)));
                        has_all = evidence.has_all_since(*begin);
                    }
                    (operation, Some(known)) if has_all => {
                        let done = self.redo(known, operation);
                        misfit |= done.is_none();
                        page = page.filter(|_| done.is_some());
                    }
                    _ => {}
                }
            }
            lsn = lsn.max(end);
        }
        let place = copy.and_then(|(copy, _)| match copy.lies {
            Where::Data(place) if copy.lsn == lsn => Some(place),
            _ => None,
        });
        let standing = self
            .source
            .maps
            .as_ref()
            .map_or(Standing::Unknown, |maps| maps.borrow_mut().standing(id, lsn, place));
        let is_there = standing != Standing::Gone && (page.is_some() || misfit);
        is_there.then_some(Completed { page, doubtful: standing == Standing::Unknown })
    }

    /// Does a record to a page again. `None`: it cannot be about it.
    fn redo(&self, page: &mut PageBuf, operation: &Operation<'_>) -> Option<()> {
        match operation {
            Operation::Patch { offset, bytes, .. } => {
                let at = *offset as usize;
                page.bytes_mut().get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
                Some(())
            }
            Operation::Loaded { .. } => Some(()),
            _ => {
                let kind = PageKind(page.page().u8(header_at::KIND));
                let kinds = self.registry.of_kind(kind)?.kinds();
                let redo = kinds.iter().find(|known| known.kind == kind)?.redo?;
                redo(operation, page.page_mut()).ok()
            }
        }
    }
}

/// One structure that is being saved.
struct Saving<'a, 's> {
    guests: &'a Guests<'s>,
    store: &'a Store,
    name: &'a str,
    registered: &'static dyn Registered,
}

/// What the pages of a structure tell that are left.
#[derive(Default)]
struct ReadPages {
    options: Option<Box<dyn Value>>,
    /// The pages in the order of the first key of each.
    in_order: Vec<(Vec<u8>, PageId)>,
    /// Pages that do not hold together.
    broken: u64,
}

impl Saving<'_, '_> {
    /// Looks at each of these pages. `None` if it was stopped.
    fn read(&self, pages: &[PageId], goes_on: &mut dyn FnMut() -> bool) -> Option<ReadPages> {
        let Some(guest) = self.registered.hosted() else { return Some(ReadPages::default()) };
        let (mut in_order, mut broken, mut is_stopped) = (Vec::new(), 0, false);
        let look = |id: &PageId| {
            let found = self.guests.complete(*id);
            let sound = found.map(|found| found.page.filter(|page| self.is_sound(page)));
            broken += u64::from(matches!(sound, Some(None)));
            let sound =
                sound.flatten().inspect(|page| in_order.push((first_key(guest, page), *id)));
            is_stopped = !goes_on();
            (!is_stopped).then_some(sound)
        };
        let mut sound = pages.iter().map_while(look).flatten();
        let options = guest.options(&mut sound);
        sound.for_each(drop);
        in_order.sort_unstable();
        (!is_stopped).then_some(ReadPages { options, in_order, broken })
    }

    /// A new one in the new store with the options that were told, unless none were or the structure
    /// refuses.
    fn make(
        &self,
        options: Option<&dyn Value>,
        report: &mut SalvageReport,
    ) -> Result<Option<Handle>, StoreError> {
        let Some(options) = options else {
            let what = "all of it: no page tells the options that it was made with";
            report.losses.push(self.loss(what.to_string()));
            return Ok(None);
        };
        let made = dispatch!(&self.store.engine, engine => {
            engine.create_structure(self.name, self.registered, options)
        });
        match made {
            Err(StoreError::Structure { source, .. }) => {
                let what = format!("all of it: it cannot be made: {}", with_causes(&source));
                report.losses.push(self.loss(what));
                Ok(None)
            }
            made => made.map(Some),
        }
    }

    fn loss(&self, what: String) -> Loss {
        Loss { table: Some(self.name.to_string()), what }
    }

    /// What was saved from these pages, and whether it was not stopped.
    fn save(
        &self,
        handle: &Handle,
        read: ReadPages,
        report: &mut SalvageReport,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(SalvagedTable, bool), StoreError> {
        let mut table = SalvagedTable::default();
        let Some(guest) = self.registered.hosted() else { return Ok((table, true)) };
        let (ReadPages { in_order, broken, .. }, mut finished) = (read, true);
        let mut refused = Refused::default();
        for (_, id) in in_order {
            let Some(Completed { page: Some(page), doubtful }) = self.guests.complete(id) else {
                continue;
            };
            let mut outcome = Ok(());
            guest.entries(page.page(), &mut |key, value| {
                if outcome.is_err() {
                    return;
                }
                match guest.restore(handle, key, value) {
                    Ok(()) => {
                        table.entries += 1;
                        table.doubtful += u64::from(doubtful);
                    }
                    Err(error) => outcome = refused.note(error),
                }
            });
            outcome.map_err(|error| StoreError::of_pool(self.name, error))?;
            if !goes_on() {
                finished = false;
                break;
            }
        }
        if let Some(first) = refused.first {
            let (entries, why) = (refused.entries, with_causes(&first));
            let what = format!("{entries} of its entries, which it refused, the first so: {why}");
            report.losses.push(self.loss(what));
        }
        if broken > 0 {
            let what = format!("what was in {broken} of its pages, which do not hold together");
            report.losses.push(self.loss(what));
        }
        Ok((table, finished))
    }

    /// Whether a page is one of the structure's, and holds together.
    fn is_sound(&self, page: &PageBuf) -> bool {
        let kind = page.page().u8(header_at::KIND);
        let known = self.registered.kinds().iter().find(|known| known.kind.0 == kind);
        known.is_some_and(|known| (known.check)(page.page()).is_ok())
    }
}

/// Entries that a structure would not take back.
#[derive(Default)]
struct Refused {
    entries: u64,
    /// Why the first of them was refused.
    first: Option<PoolError>,
}

impl Refused {
    /// Notes an entry that could not be restored. Where that is not the entry's fault, the error goes on.
    fn note(&mut self, error: PoolError) -> Result<(), PoolError> {
        match error {
            PoolError::Structure { .. } | PoolError::Broken { .. } | PoolError::Limit { .. } => {
                self.entries += 1;
                self.first.get_or_insert(error);
                Ok(())
            }
            error => Err(error),
        }
    }
}

fn first_key(guest: &dyn Guest, page: &PageBuf) -> Vec<u8> {
    let mut first = None;
    guest.entries(page.page(), &mut |key, _| {
        first.get_or_insert_with(|| key.to_vec());
    });
    first.unwrap_or_default()
}
