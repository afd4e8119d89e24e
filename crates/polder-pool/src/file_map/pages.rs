//! The free runs of the file.

use polder_format::{PageSize, SUPERBLOCK_AREA_BYTES, SpaceId};

use super::runs::Runs;

/// The free runs of the file.
#[derive(Debug)]
pub(crate) struct FilePages {
    /// The free physical page numbers below `end`.
    free: Runs,
    /// Length of the file in pages.
    end: u64,
    /// Whether `free` has been found out.
    known: bool,
    /// The first physical page number that a page may have.
    first: u64,
}

impl FilePages {
    pub(crate) fn new(file_pages: u64, size: PageSize) -> FilePages {
        let first = SUPERBLOCK_AREA_BYTES >> size.shift();
        let end = file_pages.max(first);
        FilePages { free: Runs::default(), end, known: end == first, first }
    }

    /// Length of the file in pages.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the free physical page numbers have been found out.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// The file is this long, recovery found.
    pub(crate) fn set_end(&mut self, pages: u64) {
        self.end = pages.max(self.first);
        self.known = false;
    }

    /// Everything but these runs, which must not overlap, is free.
    pub(crate) fn learn(&mut self, mut used: Vec<(u64, u64)>) -> Result<(), &'static str> {
        used.sort_unstable();
        let mut next = self.first;
        for (start, len) in used {
            if start < next {
                return Err("two maps name the same place of the file");
            }
            if start > next {
                self.free.insert(next, start - next);
            }
            next = start
                .checked_add(len)
                .filter(|end| *end <= self.end)
                .ok_or("a map names a place behind the end of the file")?;
        }
        if next < self.end {
            self.free.insert(next, self.end - next);
        }
        self.known = true;
        Ok(())
    }

    /// The lowest free run of this many pages, below `limit`.
    pub(crate) fn take_below(&mut self, pages: u64, limit: u64) -> Option<u64> {
        let start = self.free.first_of(pages, limit).filter(|start| start + pages <= limit)?;
        self.free.remove(start, pages);
        Some(start)
    }

    /// Takes this run, if all of it is free.
    pub(crate) fn take_this(&mut self, start: u64, pages: u64) -> bool {
        let is_free = self.free.end_of_run(start).is_some_and(|end| end >= start + pages);
        if is_free {
            self.free.remove(start, pages);
        }
        is_free
    }

    /// All free runs.
    pub(crate) fn free_runs(&self) -> Vec<(u64, u64)> {
        self.free.iter().collect()
    }

    /// A run of this many pages: the lowest free one, or new ones at the end of the file.
    pub(crate) fn take(&mut self, pages: u64) -> u64 {
        self.take_below(pages, self.end).unwrap_or_else(|| {
            // A free run at the very end is made longer.
            let start = self.cut_free_end().unwrap_or(self.end);
            self.end = start + pages;
            start
        })
    }

    /// Gives a run back.
    pub(crate) fn put(&mut self, start: u64, pages: u64) {
        self.free.insert(start, pages);
    }

    /// Cuts a free run off the end of the file; gives the new length if there was one.
    pub(crate) fn trim(&mut self) -> Option<u64> {
        let start = self.cut_free_end()?;
        self.end = start;
        Some(start)
    }

    fn cut_free_end(&mut self) -> Option<u64> {
        let (start, len) = self.free.last().filter(|(start, len)| start + len == self.end)?;
        self.free.remove(start, len);
        Some(start)
    }
}

/// A run of physical page numbers in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) pages: u64,
    /// The space and the number of the extent; none for a page of a map.
    pub(crate) owner: Option<(SpaceId, u64)>,
}

impl Run {
    /// The physical page number behind it. A map that is broken may name any number.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.pages)
    }

    /// Runs in the order of the file.
    pub(crate) fn in_order(mut runs: Vec<Run>) -> Vec<Run> {
        runs.sort_unstable_by_key(|run| run.start);
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_and_the_lowest_goes_first() {
        let mut places = FilePages::new(0, PageSize::MIN);
        assert_eq!((places.take(16), places.take(4), places.take(8)), (16, 32, 36));
        places.put(16, 16);
        places.put(36, 8);
        assert_eq!(places.take(2), 16);
        assert_eq!(places.trim(), Some(36));
        places.put(32, 4);
        assert_eq!(places.take(30), 18, "the free end is made longer");
        assert_eq!(places.end(), 48);
        assert_eq!(places.take_below(4, 48), None);
    }

    #[test]
    fn what_maps_name_is_not_free() {
        let mut places = FilePages::new(100, PageSize::MIN);
        places.learn(vec![(20, 10), (16, 1), (90, 5)]).unwrap();
        let mut free = Runs::default();
        [(17, 3), (30, 60), (95, 5)].into_iter().for_each(|(start, len)| free.insert(start, len));
        assert_eq!(places.free, free);
        assert!(FilePages::new(100, PageSize::MIN).learn(vec![(20, 10), (25, 1)]).is_err());
        for behind in [(99, 2), (u64::MAX - 7, 16)] {
            assert!(FilePages::new(100, PageSize::MIN).learn(vec![behind]).is_err());
        }
    }
}
