//! Leaves and records of the log, one after the other in the order of their LSNs.

use std::collections::HashMap;

use polder_format::log::{GroupHeader, LoggedValue, Operation, Record, Records};
use polder_format::{Lsn, PageHeader, PageId, PageKind, PageNo, PageSize, SpaceId};
use polder_tree::node::{NodeRef, Value};

use super::copies::{Copies, Leaf, Where};
use super::source::{Source, page_buf};
use crate::error::StoreError;
use crate::maps::full_page_image_bytes;

/// Long values: length and link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LongValue {
    pub(crate) len: u64,
    pub(crate) link: u64,
}

/// A value as it stands in a leaf or in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    Inline(Vec<u8>),
    Long(LongValue),
}

/// What a leaf says: all that there was in a range of keys.
#[derive(Debug)]
pub(crate) struct LeafFound {
    pub(crate) page: PageId,
    pub(crate) lsn: Lsn,
    /// No map tells whether the leaf is in use.
    pub(crate) doubtful: bool,
    /// Nothing that came behind it can be missing, as far as is known.
    pub(crate) current: bool,
    /// None: from the first key on.
    pub(crate) lower: Option<Vec<u8>>,
    /// None: to the last key.
    pub(crate) upper: Option<Vec<u8>>,
    /// In the order of the keys.
    pub(crate) entries: Vec<(Vec<u8>, Stored)>,
}

/// The receiver of all that is found.
pub(crate) trait Heir {
    /// Whether anything of this space is wanted.
    fn wants(&self, space: SpaceId) -> bool;

    /// The leaf replaces what there was between its fences.
    fn leaf(&mut self, leaf: &LeafFound) -> Result<(), StoreError>;

    /// A key has a value.
    fn insert(
        &mut self,
        space: SpaceId,
        lsn: Lsn,
        key: &[u8],
        value: &Stored,
    ) -> Result<(), StoreError>;

    /// A key is gone.
    fn remove(&mut self, space: SpaceId, lsn: Lsn, key: &[u8]) -> Result<(), StoreError>;

    /// The group of the log that begins at `group` and ends at `lsn` holds the full-page image of
    /// this overflow page.
    fn overflow(&mut self, page: PageId, lsn: Lsn, group: Lsn);
}

/// Leaves whose full-page images came alone in their groups, and where these begin and end: a bulk
/// load makes its leaves so, and links all of them in the end. Until then they belong to no tree.
type Loading = HashMap<PageId, (Lsn, Lsn)>;

/// What is to be told.
pub(super) struct Replay<'s> {
    pub(super) source: &'s Source,
    pub(super) copies: &'s Copies,
}

impl Replay<'_> {
    /// Tells everything. False: it was stopped by `progress`, which counts leaves in bytes and
    /// bytes of the log.
    ///
    /// # Errors
    /// Those of the heir.
    pub(super) fn run(
        &self,
        heir: &mut dyn Heir,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<bool, StoreError> {
        let (begin, end) = self.source.log_range;
        let (leaves, shift) = (&self.copies.leaves, self.source.size.shift());
        let all = ((leaves.len() as u64) << shift) + (end.0 - begin.0);
        let mut tell =
            |told: usize, lsn: Lsn| progress(((told as u64) << shift) + (lsn.0 - begin.0), all);
        let (mut next, mut outcome) = (0, Ok(true));
        let mut loading = Loading::new();
        self.source.visit_log(&mut |header, group| {
            outcome = self.tell_group(heir, (&mut next, &mut loading), header, group, &mut tell);
            matches!(outcome, Ok(true))
        });
        if !outcome? {
            return Ok(false);
        }
        // The group that linked them may be what is missing.
        if !self.source.log_is_whole() {
            let all = in_order(loading.keys().copied());
            self.tell_loaded(heir, taken(&mut loading, all), true)?;
        }
        for (leaf, told) in leaves[next..].iter().zip(next + 1..) {
            self.tell_leaf(heir, *leaf)?;
            if !tell(told, end) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tells the leaves from `next` on that are older than a group, then the group. False: stopped
    /// by `tell`, which is given the number of leaves and the position in the log.
    fn tell_group(
        &self,
        heir: &mut dyn Heir,
        (next, loading): (&mut usize, &mut Loading),
        header: &GroupHeader,
        group: &[u8],
        tell: &mut dyn FnMut(usize, Lsn) -> bool,
    ) -> Result<bool, StoreError> {
        // A leaf with the LSN of a group shows it; it may come behind it.
        while let Some(leaf) = self.copies.leaves.get(*next)
            && leaf.copy.lsn < header.end()
        {
            self.tell_leaf(heir, *leaf)?;
            *next += 1;
            if !tell(*next, header.lsn) {
                return Ok(false);
            }
        }
        // Groups have checksums: what cannot be decoded a newer version wrote.
        let records: Vec<_> = Records::of_group(group).map_while(Result::ok).collect();
        let at = (header.lsn, header.end());
        for record in &records {
            if !heir.wants(record.page.space()) {
                continue;
            }
            match &record.operation {
                Operation::FullPageImage { .. } if records.len() == 1 && is_leaf(self, record) => {
                    loading.insert(record.page, at);
                }
                Operation::Mark { used: true, runs } => {
                    let marked = marked(loading, record.page, runs);
                    self.tell_loaded(heir, taken(loading, marked), false)?;
                }
                operation => self.tell_record(heir, at, record.page, operation)?,
            }
        }
        Ok(tell(*next, header.end()))
    }

    /// Tells the leaves of a bulk load.
    fn tell_loaded(
        &self,
        heir: &mut dyn Heir,
        loaded: Vec<(PageId, (Lsn, Lsn))>,
        doubtful: bool,
    ) -> Result<(), StoreError> {
        for (page, (begin, end)) in loaded {
            let image = self.source.image(page, begin);
            let leaf = image.and_then(|i| decode_leaf(self.source.size, page, end, doubtful, &i));
            if let Some(leaf) = leaf {
                let current = !doubtful && self.source.evidence.has_all_since(begin);
                heir.leaf(&LeafFound { current, ..leaf })?;
            }
        }
        Ok(())
    }

    fn tell_leaf(&self, heir: &mut dyn Heir, leaf: Leaf) -> Result<(), StoreError> {
        if !heir.wants(leaf.copy.page.space()) {
            return Ok(());
        }
        // What was read before can only fail now if the device gets worse; it is lost then.
        let Some(bytes) = read_copy(self.source, leaf.copy.lies) else { return Ok(()) };
        let (size, lsn) = (self.source.size, leaf.copy.lsn);
        match decode_leaf(size, leaf.copy.page, lsn, leaf.doubtful, &bytes) {
            Some(found) => {
                let in_place = matches!(leaf.copy.lies, Where::Data(_));
                let current = in_place || self.source.evidence.has_all_since(lsn);
                heir.leaf(&LeafFound { current, ..found })
            }
            None => Ok(()),
        }
    }

    /// A record of the group that begins and ends at `at`.
    fn tell_record(
        &self,
        heir: &mut dyn Heir,
        (begin, end): (Lsn, Lsn),
        page: PageId,
        operation: &Operation<'_>,
    ) -> Result<(), StoreError> {
        let (space, size) = (page.space(), self.source.size);
        match *operation {
            Operation::Insert { key, value, .. } => {
                let value = match value {
                    LoggedValue::Inline(bytes) => Stored::Inline(bytes.to_vec()),
                    LoggedValue::Long { len, link, .. } => Stored::Long(LongValue { len, link }),
                };
                heir.insert(space, end, key, &value)
            }
            Operation::Remove { key } => heir.remove(space, end, key),
            Operation::FullPageImage { size: image_size, low, high } => {
                let Some(bytes) = full_page_image_bytes(size, (image_size, low, high)) else {
                    return Ok(());
                };
                match PageHeader::decode(&bytes).map(|header| header.kind) {
                    Ok(PageKind::TREE_LEAF) => match decode_leaf(size, page, end, false, &bytes) {
                        Some(leaf) => {
                            let current = self.source.evidence.has_all_since(begin);
                            heir.leaf(&LeafFound { current, ..leaf })
                        }
                        None => Ok(()),
                    },
                    Ok(PageKind::OVERFLOW) => {
                        heir.overflow(page, end, begin);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

fn is_leaf(replay: &Replay<'_>, record: &Record<'_>) -> bool {
    let Operation::FullPageImage { size, low, high } = record.operation else { return false };
    let bytes = full_page_image_bytes(replay.source.size, (size, low, high));
    let header = bytes.and_then(|bytes| PageHeader::decode(&bytes).ok());
    header.is_some_and(|header| header.kind == PageKind::TREE_LEAF)
}

fn in_order(pages: impl Iterator<Item = PageId>) -> Vec<PageId> {
    let mut pages: Vec<_> = pages.collect();
    pages.sort_unstable();
    pages
}

/// Those that lie in these runs of an allocation map's pages, in order.
fn marked(loading: &Loading, map: PageId, runs: &[(u32, u32)]) -> Vec<PageId> {
    let at = |page| Some(PageId::new(map.space(), PageNo::new(page)?));
    let mut marked = Vec::new();
    for (first, count) in runs {
        let first = map.page().get() + u64::from(*first);
        let run = first..first + u64::from(*count);
        // Whatever is less to look at.
        if *count as usize <= loading.len() {
            marked.extend(run.filter_map(at).filter(|page| loading.contains_key(page)));
        } else {
            let lies_there =
                |page: &PageId| page.space() == map.space() && run.contains(&page.page().get());
            marked.extend(in_order(loading.keys().copied().filter(lies_there)));
        }
    }
    marked
}

fn taken(loading: &mut Loading, pages: Vec<PageId>) -> Vec<(PageId, (Lsn, Lsn))> {
    pages.into_iter().filter_map(|page| loading.remove_entry(&page)).collect()
}

/// The bytes of a copy.
pub(super) fn read_copy(source: &Source, lies: Where) -> Option<Vec<u8>> {
    match lies {
        Where::Data(place) => source.file.as_ref()?.bytes(place).ok(),
        Where::Rebuilt(number) => Some(source.rebuilt.get(number)?.bytes.clone()),
        Where::Slot(offset) => source.log_pages.as_ref()?.bytes_at(offset).ok(),
    }
}

/// What a leaf says, if it is one and holds together.
pub(crate) fn decode_leaf(
    size: PageSize,
    page: PageId,
    lsn: Lsn,
    doubtful: bool,
    bytes: &[u8],
) -> Option<LeafFound> {
    let buf = page_buf(bytes, size);
    let node = NodeRef::new(buf.page());
    if !node.is_node() || !node.is_leaf() || node.verify_whole().is_err() {
        return None;
    }
    let entry = |slot: usize| {
        let mut key = Vec::new();
        node.append_key(slot, &mut key);
        let value = match node.value(slot) {
            Value::Inline { at, len } => Stored::Inline(bytes.get(at..at + len)?.to_vec()),
            Value::Overflow { len, link, .. } => Stored::Long(LongValue { len, link }),
        };
        Some((key, value))
    };
    let entries = (0..node.count()).map(entry).collect::<Option<Vec<_>>>()?;
    let (lower, upper) = (node.lower_fence(), node.upper_fence());
    if let (Some(lower), Some(upper)) = (&lower, &upper)
        && lower >= upper
    {
        return None;
    }
    Some(LeafFound { page, lsn, doubtful, current: true, lower, upper, entries })
}
