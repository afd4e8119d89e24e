//! What the log tells of maps that may not be in place yet.
//!
//! After a crash the maps in the data file may be older than the log's end. Reading them together
//! with these changes gives them as a recovery would.

use std::collections::HashMap;

use polder_format::log::Operation;
use polder_format::{
    ALLOC_MAP_BITS_AT, Lsn, PageHeader, PageId, PageKind, PageSize, PhysicalPageNo, SpaceId,
    pages_per_alloc_map,
};

use crate::page_file::PageFault;

/// A page as it was read: its header and all of its bytes.
type Read = Result<(PageHeader, Vec<u8>), PageFault>;

/// One change of a page of the maps.
#[derive(Debug)]
enum MapChange {
    Image(Vec<u8>),
    Patch(usize, Vec<u8>),
    Mark { used: bool, runs: Vec<(u32, u32)> },
}

/// The changes of all maps, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct MapChanges {
    directory: Option<(Lsn, PhysicalPageNo)>,
    of_page: HashMap<PageId, Vec<(Lsn, MapChange)>>,
    /// Whole copies of pages, from the double-write buffer: for those that are torn in place.
    copies: HashMap<PageId, (PageHeader, Vec<u8>)>,
}

impl MapChanges {
    /// What a group that ends at `end` did to a page, if that is one of the maps.
    pub(crate) fn note(
        &mut self,
        size: PageSize,
        end: Lsn,
        page: PageId,
        operation: &Operation<'_>,
    ) {
        if let Operation::Directory { physical } = operation {
            self.directory = Some((end, *physical));
            return;
        }
        let is_array = page.space() == SpaceId::FILE && !page.is_null();
        let is_alloc_map = page.space() != SpaceId::FILE
            && page.page().get().is_multiple_of(pages_per_alloc_map(size));
        if !is_array && !is_alloc_map {
            return;
        }
        let change = match operation {
            Operation::Freed => {
                self.of_page.remove(&page);
                return;
            }
            Operation::FullPageImage { size: found, low, high } => {
                match full_page_image_bytes(size, (*found, low, high)) {
                    Some(bytes) => MapChange::Image(bytes),
                    None => return,
                }
            }
            Operation::Patch { offset, bytes, .. } => {
                MapChange::Patch(*offset as usize, bytes.to_vec())
            }
            Operation::Mark { used, runs } => MapChange::Mark { used: *used, runs: runs.clone() },
            _ => return,
        };
        self.of_page.entry(page).or_default().push((end, change));
    }

    /// A whole copy of a page that a recovery would put in place of a torn one.
    pub(crate) fn note_copy(&mut self, header: PageHeader, bytes: Vec<u8>) {
        let is_map = header.kind == PageKind::ARRAY || header.kind == PageKind::ALLOC_MAP;
        let known = self.copies.get(&header.page_id);
        if is_map && known.is_none_or(|(known, _)| known.lsn < header.lsn) {
            self.copies.insert(header.page_id, (header, bytes));
        }
    }

    /// Forgets what groups did that end behind `limit`.
    pub(crate) fn cut(&mut self, limit: Lsn) {
        self.directory = self.directory.filter(|(lsn, _)| *lsn <= limit);
        for changes in self.of_page.values_mut() {
            changes.retain(|(lsn, _)| *lsn <= limit);
        }
    }

    /// Where the space directory begins, if the log tells.
    pub(crate) fn directory(&self) -> Option<PhysicalPageNo> {
        self.directory.map(|(_, physical)| physical)
    }

    /// The page with what it lacks.
    pub(crate) fn complete(&self, page: PageId, read: Read) -> Read {
        let copy = || self.copies.get(&page).cloned();
        let mut read = read.or_else(|fault| copy().ok_or(fault));
        for (lsn, change) in self.of_page.get(&page).into_iter().flatten() {
            if read.as_ref().is_ok_and(|(header, _)| header.lsn >= *lsn) {
                continue;
            }
            if let MapChange::Image(image) = change {
                let header = PageHeader::decode(image).map_err(PageFault::Format);
                let header = header.map(|header| PageHeader { page_id: page, lsn: *lsn, ..header });
                read = header.map(|header| (header, image.clone()));
            } else if let Ok((header, bytes)) = &mut read {
                header.lsn = *lsn;
                change.apply(bytes);
            }
        }
        read
    }
}

impl MapChange {
    fn apply(&self, page: &mut [u8]) {
        match self {
            MapChange::Image(_) => {}
            MapChange::Patch(offset, bytes) => {
                let end = offset.saturating_add(bytes.len());
                if let Some(there) = page.get_mut(*offset..end) {
                    there.copy_from_slice(bytes);
                }
            }
            MapChange::Mark { used, runs } => {
                for bit in runs.iter().flat_map(|(first, count)| {
                    (*first as usize)..(*first as usize).saturating_add(*count as usize)
                }) {
                    let Some(byte) = page.get_mut(ALLOC_MAP_BITS_AT + bit / 8) else { break };
                    let mask = 1 << (bit % 8);
                    *byte = if *used { *byte | mask } else { *byte & !mask };
                }
            }
        }
    }
}

/// The bytes of a page whose full-page image is in the log, or nothing if the image has another
/// size.
pub(crate) fn full_page_image_bytes(size: PageSize, image: (u32, &[u8], &[u8])) -> Option<Vec<u8>> {
    let (image_size, low, high) = image;
    if image_size as usize != size.bytes() || low.len() + high.len() > size.bytes() {
        return None;
    }
    let mut bytes = vec![0; size.bytes()];
    bytes[..low.len()].copy_from_slice(low);
    bytes[size.bytes() - high.len()..].copy_from_slice(high);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_format::PageNo;

    const SIZE: PageSize = PageSize::MIN;

    fn map() -> PageId {
        PageId::new(SpaceId::new(7).unwrap(), PageNo::new(0).unwrap())
    }

    fn mark(used: bool, first: u32, count: u32) -> Operation<'static> {
        Operation::Mark { used, runs: vec![(first, count)] }
    }

    fn blank(lsn: u64) -> Read {
        let kind = PageKind::ALLOC_MAP;
        let header = PageHeader { kind, layout: 1, page_id: map(), lsn: Lsn(lsn) };
        Ok((header, vec![0; SIZE.bytes()]))
    }

    fn bits(changes: &MapChanges, lsn: u64) -> u8 {
        changes.complete(map(), blank(lsn)).unwrap().1[ALLOC_MAP_BITS_AT]
    }

    #[test]
    fn only_what_a_page_lacks_is_done() {
        let mut changes = MapChanges::default();
        changes.note(SIZE, Lsn(10), map(), &mark(true, 0, 4));
        changes.note(SIZE, Lsn(20), map(), &mark(false, 1, 1));
        assert_eq!(bits(&changes, 0), 0b1101);
        assert_eq!(bits(&changes, 10), 0);
        changes.cut(Lsn(10));
        assert_eq!(bits(&changes, 0), 0b1111);
    }

    #[test]
    fn bits_outside_of_the_page_are_left_out() {
        let mut changes = MapChanges::default();
        changes.note(SIZE, Lsn(10), map(), &mark(true, u32::MAX, u32::MAX));
        assert_eq!(bits(&changes, 0), 0);
    }
}
