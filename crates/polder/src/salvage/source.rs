//! The damaged store: whose pages they are, how large, and which part of the log is to be read.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use polder_format::log::{Operation, Records};
use polder_format::{
    ChecksumSeed, FormatError, Lsn, PageHeader, PageId, PageSize, Place, SUPERBLOCK_AREA_BYTES,
    StoreId, Superblock,
};
use polder_log::{Gap, LogFile};
use polder_pool::device::{Device, read_block};

use super::{LogGap, SalvageError, SalvageReport};
use crate::closed::{ClosedStore, SuperblockFault};
use crate::error::{OpenError, with_causes};
use crate::maps::Maps;
use crate::page_file::PageFile;

/// The log limit that a store is most likely to have had whose superblocks are gone.
const USUAL_LOG_LIMIT: u64 = 256 << 20;
/// All page sizes are multiples of this, and divide the area of the superblocks.
const LARGEST_PAGE: usize = 65536;

/// A damaged store, to read from.
pub(super) struct Source {
    pub(super) size: PageSize,
    /// The data file, if there is one.
    pub(super) file: Option<PageFile>,
    /// The log file, if there is one, to read single pages of.
    pub(super) log_pages: Option<PageFile>,
    /// The log, if its segments are there.
    pub(super) log: Option<LogFile>,
    /// What is read of the log.
    pub(super) log_range: (Lsn, Lsn),
    pub(super) maps: Option<RefCell<Maps>>,
    /// Where a recovery would begin; gaps before it are of no interest.
    redo_start: Option<Lsn>,
    gaps: RefCell<Vec<Gap>>,
    damage: Vec<String>,
    _closed: ClosedStore,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Source, SalvageError> {
        let closed = ClosedStore::open(path).map_err(SalvageError::Source)?;
        let mut damage = Vec::new();
        let superblock = closed.superblock();
        let (id, superblock) = match (superblock, closed.store_of_log()) {
            (Ok(superblock), _) => (superblock.store_id, Some(superblock)),
            (Err(SuperblockFault::Format(source @ FormatError::Newer { .. })), _) => {
                let path = path.to_path_buf();
                return Err(SalvageError::Source(OpenError::Newer { path, source }));
            }
            (Err(what), Some(id)) => {
                damage.push(format!("both superblocks: {what}"));
                (id, None)
            }
            (Err(fault), None) => {
                let (path, what) = (path.display().to_string(), fault.to_string());
                return Err(SalvageError::NoIdentity { path, what });
            }
        };
        let known = superblock.as_ref().map(|superblock| superblock.page_size);
        let guessed = || closed.data.as_ref().and_then(|data| find_page_size(&**data, id));
        let size = known.or_else(guessed).unwrap_or(PageSize::MIN);
        let pages = |device: &Arc<dyn Device>| PageFile::new(Arc::clone(device), size, id);
        let file = closed.data.as_ref().map(pages);
        let directory = superblock.as_ref().map(|superblock| superblock.space_directory);
        let maps = file.clone().map(|file| RefCell::new(Maps::read(file, directory)));
        let log = open_log(&closed, id, size, superblock.as_ref(), &mut damage);
        let log_range = log.as_ref().map(|log| range_of(log, superblock.as_ref(), &mut damage));
        Ok(Source {
            size,
            file,
            log_pages: closed.log.as_ref().map(pages),
            log,
            log_range: log_range.unwrap_or_default(),
            maps,
            redo_start: superblock.map(|superblock| superblock.redo_start),
            gaps: RefCell::default(),
            damage,
            _closed: closed,
        })
    }

    /// Calls `visit` with each group of the log that can be read; see [`LogFile::visit_readable`].
    pub(super) fn visit_log(
        &self,
        visit: &mut dyn FnMut(&polder_format::log::GroupHeader, &[u8]) -> bool,
    ) {
        let Some(log) = &self.log else { return };
        let (start, end) = self.log_range;
        let (gaps, _) = log.visit_readable(start, end, visit);
        *self.gaps.borrow_mut() = gaps;
    }

    /// The image of a page in the group of the log that begins here.
    pub(super) fn image(&self, page: PageId, group: Lsn) -> Option<Vec<u8>> {
        let mut groups = self.log.as_ref()?.groups(group);
        let (_, bytes) = groups.next().ok()??;
        let mut records = Records::of_group(bytes).filter_map(Result::ok);
        records.find_map(|record| match record.operation {
            Operation::Image { size, low, high } if record.page == page => {
                image_bytes(self.size, (size, low, high))
            }
            _ => None,
        })
    }

    /// Whether a gap lies in what a recovery would read. What lies before the last checkpoint is in
    /// the pages, and is overwritten piece by piece. If nobody knows where that is, what is left of it
    /// may begin within a group.
    fn is_of_interest(&self, gap: &Gap) -> bool {
        let run = self.log.as_ref().map_or(Lsn(0), LogFile::last_run);
        self.redo_start.map_or(gap.from > run, |start| gap.to > start)
    }

    /// Whether nothing of what a recovery would read is missing; known once the log was visited.
    pub(super) fn log_is_whole(&self) -> bool {
        self.damage.is_empty() && !self.gaps.borrow().iter().any(|gap| self.is_of_interest(gap))
    }

    /// Adds what is damaged beside pages.
    pub(super) fn describe(self, report: &mut SalvageReport) {
        let gaps = self.gaps.take();
        let gaps: Vec<_> = gaps.into_iter().filter(|gap| self.is_of_interest(gap)).collect();
        report.damage.extend(self.damage);
        let maps = self.maps.map(RefCell::into_inner);
        let faults = maps.into_iter().flat_map(|maps| maps.faults);
        report.damage.extend(faults.map(|fault| format!("{}: {}", fault.page, fault.what)));
        report.log_bytes = self.log_range.1.0 - self.log_range.0.0;
        report.log_gaps.extend(gaps.into_iter().map(|gap| LogGap {
            from: gap.from.0,
            to: gap.to.0,
            what: gap.why.unwrap_or_else(|| "nothing is there".to_string()),
        }));
    }
}

/// The page size by which a page in the file has the right checksum.
fn find_page_size(data: &dyn Device, id: StoreId) -> Option<PageSize> {
    let seed = ChecksumSeed::new(id);
    let sizes = || (12..=16).filter_map(|shift| PageSize::new(1 << shift).ok());
    let len = data.len().ok()?;
    for at in (SUPERBLOCK_AREA_BYTES..len).step_by(LARGEST_PAGE) {
        let there = (len - at).min(LARGEST_PAGE as u64) as usize;
        let Ok(bytes) = read_block(data, at, there / 4096 * 4096) else { continue };
        let is_whole = |page: &[u8]| {
            PageHeader::decode(page).is_ok_and(|header| seed.verify(page, header.page_id).is_ok())
        };
        let fits = |size: &PageSize| bytes.chunks_exact(size.bytes()).any(is_whole);
        if let Some(size) = sizes().find(fits) {
            return Some(size);
        }
    }
    None
}

fn open_log(
    closed: &ClosedStore,
    id: StoreId,
    size: PageSize,
    superblock: Option<&Superblock>,
    damage: &mut Vec<String>,
) -> Option<LogFile> {
    let Some(device) = closed.log.clone() else {
        damage.push("there is no log file".to_string());
        return None;
    };
    if closed.store_of_log() != Some(id) {
        damage.push("the header of the log is not whole, or of another store".to_string());
    }
    let limit = superblock.map_or(USUAL_LOG_LIMIT, |superblock| superblock.log_limit);
    let log = LogFile::open_damaged(device, id, size, limit);
    if !matches!(log, Ok(Some(_))) {
        damage.push("no segment of the log can be read".to_string());
    }
    log.ok().flatten()
}

/// From where to where the log is to be read: all that its segments hold, which reaches further
/// back than a recovery needs; a sound log up to its end, behind which there may be what nobody was
/// promised.
fn range_of(
    log: &LogFile,
    superblock: Option<&Superblock>,
    damage: &mut Vec<String>,
) -> (Lsn, Lsn) {
    let (first, end) = log.extent();
    let Some(superblock) = superblock else { return (first, end) };
    match log.find_end(superblock, &mut |_| {}) {
        Ok(found) => (first, found.end),
        Err(error) => {
            damage.push(with_causes(&error));
            (first, end)
        }
    }
}

/// A page as the pool's code reads it.
pub(super) fn page_buf(bytes: &[u8], size: PageSize) -> polder_pool::bytes::PageBuf {
    let mut page = polder_pool::bytes::PageBuf::new(size);
    page.bytes_mut().copy_from_slice(bytes);
    page
}

/// The bytes of a page whose image is in the log, or nothing if the image has another size.
pub(super) fn image_bytes(size: PageSize, image: (u32, &[u8], &[u8])) -> Option<Vec<u8>> {
    let (image_size, low, high) = image;
    if image_size as usize != size.bytes() {
        return None;
    }
    let mut bytes = vec![0; size.bytes()];
    bytes[..low.len()].copy_from_slice(low);
    let at = size.bytes().checked_sub(high.len())?;
    bytes[at..].copy_from_slice(high);
    Some(bytes)
}

/// Where the first page can lie.
pub(super) fn first_place(size: PageSize) -> Place {
    Place::new(SUPERBLOCK_AREA_BYTES >> size.shift())
}

/// What a page of the data file is, or why it is none; `None` if there is nothing.
pub(super) fn identify(file: &PageFile, bytes: &[u8]) -> Option<Result<PageHeader, FormatError>> {
    if bytes.iter().all(|byte| *byte == 0) { None } else { Some(file.identify(bytes)) }
}
