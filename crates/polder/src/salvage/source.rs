//! The damaged store: whose pages they are, how large, and which part of the log is to be read.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use polder_format::log::{Operation, Records};
use polder_format::{
    ChecksumSeed, FormatError, Lsn, PageHeader, PageId, PageSize, PhysicalPageNo,
    SUPERBLOCK_AREA_BYTES, StoreId, Superblock,
};
use polder_log::{Gap, LogFile, RebuiltPage, Tally};
use polder_pool::device::{Device, read_block};

use super::evidence::Evidence;
use super::{LogGap, Loss, SalvageError, SalvageReport};
use crate::closed::{ClosedStore, SuperblockFault};
use crate::error::{OpenError, with_causes};
use crate::maps::{MapChanges, Maps, full_page_image_bytes};
use crate::page_file::PageFile;

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
    /// Pages that are torn where they lie, and are whole by the double-write buffer.
    pub(super) rebuilt: Vec<RebuiltPage>,
    /// What is read of the log.
    pub(super) log_range: (Lsn, Lsn),
    pub(super) maps: Option<RefCell<Maps>>,
    /// What the log tells about pages.
    pub(super) evidence: Evidence,
    /// How many entries each table had at the end of the log; none: nobody knows.
    pub(super) tally: Option<Tally>,
    /// Where a recovery would begin; gaps before it are of no interest.
    redo_start: Option<Lsn>,
    /// The store was closed: all that was in the log is in place.
    closed: bool,
    gaps: RefCell<Vec<Gap>>,
    damage: Vec<String>,
    /// What of the damage may mean that something is lost.
    losses: Vec<String>,
    _closed: ClosedStore,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Source, SalvageError> {
        let closed = ClosedStore::open(path).map_err(SalvageError::Source)?;
        let mut damage = Vec::new();
        let superblock = closed.superblock();
        let (id, superblock) = match (superblock, closed.store_of_log()) {
            (Ok(superblock), _) => (superblock.store_id, Some(superblock)),
            (Err(SuperblockFault::Format(error @ FormatError::Newer { .. })), _) => {
                let path = path.to_path_buf();
                return Err(SalvageError::Source(OpenError::Newer { path, source: error.into() }));
            }
            (Err(SuperblockFault::Format(source @ FormatError::Older { .. })), _) => {
                let path = path.to_path_buf();
                return Err(SalvageError::Source(OpenError::Older { path, source: source.into() }));
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
        let log_pages = closed.log.as_ref().map(pages);
        let mut losses = Vec::new();
        if superblock.is_none() {
            let what = "the last changes, as no superblock tells how far the log went";
            losses.push(what.to_string());
        }
        let log = open_log(&closed, id, size, superblock.as_ref(), (&mut damage, &mut losses));
        let known = log.as_ref().map(|log| Known::of(log, superblock.as_ref()));
        let Known { range, redo_start, tally, what } = known.unwrap_or_default();
        losses.extend(what.iter().map(|what| format!("changes that are in the log alone: {what}")));
        damage.extend(what);
        let redo_start = superblock.as_ref().map(|superblock| superblock.redo_start).or(redo_start);
        let rebuilt = match (&log, &closed.data) {
            (Some(log), Some(data)) => log.rebuilt_pages(&**data, size),
            _ => Vec::new(),
        };
        let (evidence, changes) = match (&log, &log_pages) {
            (Some(log), Some(pages)) => Evidence::read(log, (pages, &rebuilt), range, redo_start),
            _ => (Evidence::none(), MapChanges::default()),
        };
        let directory = superblock.as_ref().map(|superblock| superblock.space_directory);
        let read = |file| RefCell::new(Maps::read_with(file, directory, changes));
        Ok(Source {
            size,
            maps: file.clone().map(read),
            file,
            log_pages,
            log,
            rebuilt,
            log_range: range,
            evidence,
            tally,
            redo_start,
            closed: superblock.is_some_and(|superblock| superblock.clean),
            gaps: RefCell::default(),
            damage,
            losses,
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

    /// The full-page image of a page in the group of the log that begins here.
    pub(super) fn image(&self, page: PageId, group: Lsn) -> Option<Vec<u8>> {
        let mut groups = self.log.as_ref()?.groups(group);
        let (_, bytes) = groups.next().ok()??;
        let mut records = Records::of_group(bytes).filter_map(Result::ok);
        records.find_map(|record| match record.operation {
            Operation::FullPageImage { size, low, high } if record.page == page => {
                full_page_image_bytes(self.size, (size, low, high))
            }
            _ => None,
        })
    }

    /// Whether a gap lies in what a recovery would read. What lies before the last checkpoint is
    /// in the pages, and is overwritten piece by piece. If nobody knows where that is, what is
    /// left of it may begin within a group.
    fn is_of_interest(&self, gap: &Gap) -> bool {
        let run = self.log.as_ref().map_or(Lsn(0), LogFile::last_run);
        self.redo_start.map_or(gap.from > run, |start| gap.to > start)
    }

    /// Whether nothing of what a recovery would read is missing; known once the log was visited.
    pub(super) fn log_is_whole(&self) -> bool {
        self.damage.is_empty() && !self.gaps.borrow().iter().any(|gap| self.is_of_interest(gap))
    }

    /// Where the log ends, if its end was found.
    pub(super) fn log_end(&self) -> Option<Lsn> {
        self.tally.as_ref().map(|_| self.log_range.1)
    }

    /// Adds what is damaged beside pages.
    pub(super) fn describe(mut self, report: &mut SalvageReport) {
        // What a closed store had in its log is in its pages.
        if !self.closed {
            report.losses.extend(self.losses.drain(..).map(Loss::of_store));
        }
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
    (damage, losses): (&mut Vec<String>, &mut Vec<String>),
) -> Option<LogFile> {
    let Some(device) = closed.log.clone() else {
        damage.push("there is no log file".to_string());
        losses.push("what was only in the log, as there is no log file".to_string());
        return None;
    };
    if closed.store_of_log() != Some(id) {
        damage.push("the header of the log is not whole, or of another store".to_string());
    }
    let limit = superblock.map(|superblock| superblock.log_limit).filter(|limit| *limit != 0);
    let log = LogFile::open_damaged(device, id, size, limit);
    if !matches!(log, Ok(Some(_))) {
        damage.push("no segment of the log can be read".to_string());
        losses.push("what was only in the log, of which no segment can be read".to_string());
    }
    log.ok().flatten()
}

/// What the log and the superblocks together tell of the log.
#[derive(Default)]
struct Known {
    /// From where to where the log is to be read: all that its segments hold, which reaches further
    /// back than a recovery needs; a sound log up to its end, behind which there may be what nobody
    /// was promised.
    range: (Lsn, Lsn),
    redo_start: Option<Lsn>,
    /// Entries of all tables, if the log was found to be sound.
    tally: Option<Tally>,
    /// What is wrong.
    what: Option<String>,
}

impl Known {
    fn of(log: &LogFile, superblock: Option<&Superblock>) -> Known {
        let (first, end) = log.extent();
        let found = match superblock {
            Some(superblock) => log.find_end(superblock, &mut |_| {}).map(Some),
            None => log.find_end_alone(),
        };
        let unknown = Known { range: (first, end), ..Known::default() };
        match found {
            Ok(Some(found)) => Known {
                range: (first, found.end),
                redo_start: Some(found.start),
                tally: Some(found.tally),
                what: None,
            },
            Ok(None) => unknown,
            Err(error) => Known { what: Some(with_causes(&error)), ..unknown },
        }
    }
}

/// A page as the pool's code reads it.
pub(super) fn page_buf(bytes: &[u8], size: PageSize) -> polder_pool::bytes::PageBuf {
    let mut page = polder_pool::bytes::PageBuf::new(size);
    page.bytes_mut().copy_from_slice(bytes);
    page
}

/// Where the first page can lie.
pub(super) fn first_place(size: PageSize) -> PhysicalPageNo {
    PhysicalPageNo::new(SUPERBLOCK_AREA_BYTES >> size.shift())
}

/// What a page of the data file is, or why it is none; `None` if there is nothing.
pub(super) fn identify(file: &PageFile, bytes: &[u8]) -> Option<Result<PageHeader, FormatError>> {
    if bytes.iter().all(|byte| *byte == 0) { None } else { Some(file.identify(bytes)) }
}
