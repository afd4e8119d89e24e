//! The maps of a data file, read from the device past the pool: which spaces there are, where their
//! extents lie, and which of their pages are in use.
//!
//! What cannot be read is remembered as unknown. What can be read may be older than a page: the
//! log may tell of changes of the map that are not in place. Both have an LSN, so that a map is
//! believed about a page only if it is not older than the page ([`Maps::standing`]).

use std::collections::{HashMap, HashSet};

use polder_format::{
    ALLOC_MAP_BITS_AT, ARRAY_HEIGHT_AT, ARRAY_WORDS_AT, ExtentSchedule, FormatError, Lsn,
    PageHeader, PageId, PageKind, PageNo, PhysicalPageNo, SpaceId, array_fanout,
    pages_per_alloc_map,
};

use crate::page_file::{PageFault, PageFile};

mod changes;

pub(crate) use changes::MapChanges;
#[cfg(feature = "tools")]
pub(crate) use changes::full_page_image_bytes;

/// Levels that a paged array has at most.
const MAX_HEIGHT: u8 = 6;

/// A page of the maps that cannot be used.
#[derive(Debug)]
pub(crate) struct MapFault {
    pub(crate) physical: PhysicalPageNo,
    pub(crate) page: PageId,
    pub(crate) what: String,
}

/// What is known of an element of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    /// A page that should tell cannot be read.
    Unknown,
    /// Its value (zero: nothing), as of an LSN.
    Known(u64, Lsn),
}

/// A paged array as it lies in the file.
#[derive(Debug, Default)]
struct ArrayFound {
    /// Those that are not zero, in order: the index and what it is.
    elements: Vec<(u64, u64)>,
    /// First and last element of each part, and the LSN of the page that tells of it; none: it
    /// cannot be read. In order, and apart from each other.
    parts: Vec<(u64, u64, Option<Lsn>)>,
}

/// What the maps say of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    InUse,
    /// Freed, or a copy at a physical page number at which the page does not lie.
    Gone,
    Unknown,
}

/// An extent of a space and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Laid {
    pub(crate) space: SpaceId,
    pub(crate) first: PageNo,
    pub(crate) pages: u64,
    pub(crate) physical: PhysicalPageNo,
}

/// All maps of a file.
#[derive(Debug)]
pub(crate) struct Maps {
    file: PageFile,
    /// What the log tells of them.
    changes: MapChanges,
    schedule: ExtentSchedule,
    /// None: where it begins is not known.
    directory: Option<ArrayFound>,
    /// In order.
    spaces: Vec<(SpaceId, ArrayFound)>,
    alloc_maps: HashMap<PageId, Option<(Lsn, Vec<u8>)>>,
    /// Physical page numbers of pages of arrays that were met.
    seen: HashSet<u64>,
    /// Pages of arrays that were read.
    pub(crate) pages: Vec<(PhysicalPageNo, PageHeader)>,
    pub(crate) faults: Vec<MapFault>,
}

impl Maps {
    /// Reads the arrays. `directory`: the root of the space directory, if it is known.
    pub(crate) fn read(file: PageFile, directory: Option<PhysicalPageNo>) -> Maps {
        Maps::read_with(file, directory, MapChanges::default())
    }

    /// As `read`, with changes that the log tells of.
    pub(crate) fn read_with(
        file: PageFile,
        directory: Option<PhysicalPageNo>,
        changes: MapChanges,
    ) -> Maps {
        let directory = changes.directory().or(directory);
        let mut maps = Maps {
            schedule: ExtentSchedule::new(file.size),
            file,
            changes,
            directory: None,
            spaces: Vec::new(),
            alloc_maps: HashMap::new(),
            seen: HashSet::new(),
            pages: Vec::new(),
            faults: Vec::new(),
        };
        let Some(root) = directory.filter(|root| *root != PhysicalPageNo::NONE) else {
            return maps;
        };
        let found = maps.array(root.get());
        for (id, root) in &found.elements {
            if let Some(space) = SpaceId::new(*id) {
                let map = maps.array(*root);
                maps.spaces.push((space, map));
            }
        }
        maps.directory = Some(found);
        maps
    }

    fn fault(&mut self, place: u64, page: PageId, what: impl ToString) {
        self.faults.push(MapFault {
            physical: PhysicalPageNo::new(place),
            page,
            what: what.to_string(),
        });
    }

    /// A page of an array: its page number is its physical page number.
    fn map_page(&self, place: u64) -> Result<(PageHeader, Vec<u8>), PageFault> {
        let no = PageNo::new(place).ok_or(FormatError::Broken("there is no such place"))?;
        let page = PageId::new(SpaceId::FILE, no);
        self.changes.complete(page, self.file.page(PhysicalPageNo::new(place), page))
    }

    /// Whether every array could be read, so that a page in no extent belongs to no table.
    pub(crate) fn knows_all_places(&self) -> bool {
        let is_whole = |array: &ArrayFound| array.parts.iter().all(|(_, _, lsn)| lsn.is_some());
        self.directory.as_ref().is_some_and(is_whole)
            && self.spaces.iter().all(|(_, map)| is_whole(map))
    }

    fn array(&mut self, root: u64) -> ArrayFound {
        let mut found = ArrayFound::default();
        self.array_page(root, 0, None, &mut found);
        // Pages are met in the order of the elements that they tell of.
        debug_assert!(found.parts.is_sorted_by_key(|(first, _, _)| *first));
        debug_assert!(found.elements.is_sorted_by_key(|(index, _)| *index));
        found
    }

    /// The page at `place`, whose first element is `first`. `height`: what it must be; the root may
    /// have any.
    fn array_page(&mut self, place: u64, first: u64, height: Option<u8>, found: &mut ArrayFound) {
        let fanout = array_fanout(self.file.size);
        let span = |height: u8| fanout.saturating_pow(u32::from(height));
        let (is_root, is_new) = (height.is_none(), self.seen.insert(place));
        let page = self.map_page(place).and_then(|(header, bytes)| {
            let found = bytes[ARRAY_HEIGHT_AT];
            let sound = header.kind == PageKind::ARRAY
                && found <= MAX_HEIGHT
                && height.is_none_or(|height| height == found)
                && is_new;
            let what = "this is not the page of an array, or not of this one alone";
            if sound { Ok((header, bytes)) } else { Err(FormatError::Broken(what).into()) }
        });
        let (header, bytes) = match page {
            Ok(page) => page,
            Err(fault) => {
                let no = PageNo::new(place).unwrap_or(PageNo::MAX);
                self.fault(place, PageId::new(SpaceId::FILE, no), fault);
                let elements = height.map_or(u64::MAX, |height| span(height + 1));
                found.parts.push((first, first.saturating_add(elements - 1), None));
                return;
            }
        };
        self.pages.push((PhysicalPageNo::new(place), header));
        let height = bytes[ARRAY_HEIGHT_AT];
        let each = span(height);
        let words = bytes[ARRAY_WORDS_AT..].chunks_exact(8).zip(0u64..);
        for (word, i) in words {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            let begin = first.saturating_add(i.saturating_mul(each));
            match (word, height) {
                (0, 0) => {}
                (0, _) => {
                    let last = begin.saturating_add(each - 1);
                    found.parts.push((begin, last, Some(header.lsn)));
                }
                (word, 0) => {
                    found.elements.push((begin, word));
                }
                (word, height) => self.array_page(word, begin, Some(height - 1), found),
            }
        }
        if height == 0 {
            found.parts.push((first, first.saturating_add(fanout - 1), Some(header.lsn)));
        }
        if is_root {
            // An array that is too short for an element does not have it.
            found.parts.push((span(height + 1), u64::MAX, Some(header.lsn)));
        }
    }

    /// Every extent that the maps name, in the order of spaces and pages.
    pub(crate) fn extents(&self) -> Vec<Laid> {
        let of_space = |(space, map): &(SpaceId, ArrayFound)| {
            let space = *space;
            let laid = map.elements.iter().filter_map(move |(index, place)| {
                let extent = self.schedule.extent(*index)?;
                let (first, pages) = (extent.first, extent.pages);
                Some(Laid { space, first, pages, physical: PhysicalPageNo::new(*place) })
            });
            laid.collect::<Vec<_>>()
        };
        self.spaces.iter().flat_map(of_space).collect()
    }

    /// Where the maps say that a page lies: nowhere if they do not.
    fn element_of(&self, page: PageId) -> Element {
        let Some(directory) = &self.directory else { return Element::Unknown };
        match directory.get(u64::from(page.space().get())) {
            Element::Known(root, _) if root != 0 => {}
            element => return element,
        }
        let found = self.spaces.binary_search_by_key(&page.space(), |(space, _)| *space);
        let Ok(map) = found.map(|at| &self.spaces[at].1) else { return Element::Unknown };
        let extent = self.schedule.of_page(page.page());
        match map.get(extent.index) {
            Element::Known(place, lsn) if place != 0 => {
                Element::Known(place + (page.page().get() - extent.first.get()), lsn)
            }
            element => element,
        }
    }

    /// Whether the allocation map has a page in use, and as of when; `None` if it cannot be read.
    pub(crate) fn in_use(&mut self, page: PageId) -> Option<(bool, Lsn)> {
        let covered = pages_per_alloc_map(self.file.size);
        let no = page.page().get();
        let map_page = PageId::new(page.space(), PageNo::new(no / covered * covered)?);
        if !self.alloc_maps.contains_key(&map_page) {
            let map = self.read_alloc_map(map_page);
            self.alloc_maps.insert(map_page, map);
        }
        let (lsn, bits) = self.alloc_maps.get(&map_page)?.as_ref()?;
        let bit = (no % covered) as usize;
        Some((bits.get(bit / 8)? >> (bit % 8) & 1 == 1, *lsn))
    }

    fn read_alloc_map(&mut self, page: PageId) -> Option<(Lsn, Vec<u8>)> {
        let Element::Known(place, _) = self.element_of(page) else { return None };
        let read = if place == 0 {
            Err(PageFault::Format(FormatError::Broken("no map says where this page lies")))
        } else {
            self.file.page(PhysicalPageNo::new(place), page)
        };
        match self.changes.complete(page, read) {
            Ok((header, bytes)) if header.kind == PageKind::ALLOC_MAP => {
                Some((header.lsn, bytes[ALLOC_MAP_BITS_AT..].to_vec()))
            }
            Ok(_) => {
                self.fault(place, page, "this is not an allocation map");
                None
            }
            Err(fault) => {
                self.fault(place, page, fault);
                None
            }
        }
    }

    /// What the maps say of the state that a page had at `lsn`, in a copy at `physical` (none: not
    /// in the data file).
    ///
    /// A map that is older than the page is not asked: when the page was changed it was in use.
    pub(crate) fn standing(
        &mut self,
        page: PageId,
        lsn: Lsn,
        physical: Option<PhysicalPageNo>,
    ) -> Standing {
        match self.element_of(page) {
            Element::Unknown => return Standing::Unknown,
            Element::Known(0, as_of) if lsn > as_of => return Standing::Unknown,
            Element::Known(0, _) => return Standing::Gone,
            Element::Known(expected, as_of) => {
                if physical.is_some_and(|physical| physical.get() != expected) {
                    return if lsn > as_of { Standing::Unknown } else { Standing::Gone };
                }
            }
        }
        match self.in_use(page) {
            None => Standing::Unknown,
            Some((true, _)) => Standing::InUse,
            Some((false, as_of)) if lsn > as_of => Standing::InUse,
            Some((false, _)) => Standing::Gone,
        }
    }

    /// Whether the space was there at `lsn` as far as the maps know; an element that is older does
    /// not.
    pub(crate) fn has_space(&self, space: SpaceId, lsn: Lsn) -> Standing {
        let Some(directory) = &self.directory else { return Standing::Unknown };
        match directory.get(u64::from(space.get())) {
            Element::Unknown => Standing::Unknown,
            Element::Known(0, as_of) if lsn > as_of => Standing::Unknown,
            Element::Known(0, _) => Standing::Gone,
            Element::Known(..) => Standing::InUse,
        }
    }
}

impl ArrayFound {
    fn get(&self, index: u64) -> Element {
        let found = self.elements.binary_search_by_key(&index, |(index, _)| *index);
        let value = found.map_or(0, |at| self.elements[at].1);
        let behind = self.parts.partition_point(|(first, _, _)| *first <= index);
        match behind.checked_sub(1).map(|at| self.parts[at]) {
            Some((_, last, Some(lsn))) if index <= last => Element::Known(value, lsn),
            _ => Element::Unknown,
        }
    }
}
