//! The file `resident` in a store's directory: which pages were in memory, so that they can be loaded
//! again (`warm.rs`).
//!
//! * `RESIDENT-1` The file is replaced as a whole: a new one is written beside it, synced, and takes its
//!   name. A crash leaves the old list or the new one, and perhaps the beginning of a new one, which the
//!   next save writes over.
//! * `RESIDENT-2` Nothing depends on what it says. A list that is damaged, of another store or of
//!   another version is not used, and one that is out of date names pages that are skipped.
//!
//! A reader takes the memory of one buffer, however long the list is: it reads the file twice, first
//! for the checksum, and knows from the header which pages to leave out.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use polder_format::{
    FormatError, PageId, PageSize, RESIDENT_HEADER_BYTES, RESIDENT_PAGE_BYTES, ResidentHeader,
    StoreId, Temperature,
};
use thiserror::Error;

use crate::directory::{RESIDENT, RESIDENT_NEW, sync_directory};

const BUFFER_BYTES: usize = 64 << 10;

/// Why a list is not used.
#[derive(Debug, Error)]
pub(crate) enum Unusable {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("it is another store's")]
    Foreign,
    #[error("it has {found} bytes where its header tells of {expected} pages")]
    Length { found: u64, expected: u64 },
}

/// Writes the list of a store's pages. Where that fails the old one stays.
pub(crate) fn save(
    directory: &Path,
    (store_id, page_size): (StoreId, PageSize),
    pages: &[(PageId, Temperature)],
) -> io::Result<()> {
    let new = directory.join(RESIDENT_NEW);
    let written = write(&new, (store_id, page_size), pages)
        .and_then(|()| fs::rename(&new, directory.join(RESIDENT)))
        .and_then(|()| sync_directory(directory));
    written.inspect_err(|_| {
        // A file that cannot be removed is written over the next time.
        let _ = fs::remove_file(&new);
    })
}

fn write(
    path: &Path,
    (store_id, page_size): (StoreId, PageSize),
    pages: &[(PageId, Temperature)],
) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    let (mut checksum, mut counts) = (0, [0; Temperature::ALL.len()]);
    file.write_all(&[0; RESIDENT_HEADER_BYTES])?;
    for (page, temperature) in pages {
        let word = temperature.encode(*page);
        checksum = crc32c::crc32c_append(checksum, &word);
        counts[*temperature as usize] += 1;
        file.write_all(&word)?;
    }
    file.rewind()?;
    file.write_all(&ResidentHeader { store_id, page_size, checksum, counts }.encode())?;
    file.into_inner()?.sync_all()
}

/// Removes the list, if there is one.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(RESIDENT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// A list that is whole.
#[derive(Debug)]
pub(crate) struct ResidentList {
    header: ResidentHeader,
    /// At its first page.
    file: BufReader<File>,
}

impl ResidentList {
    /// The list of this store; none if there is no file.
    pub(crate) fn open(
        directory: &Path,
        (store_id, page_size): (StoreId, PageSize),
    ) -> Result<Option<ResidentList>, Unusable> {
        let file = match File::open(directory.join(RESIDENT)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let found = file.metadata()?.len();
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut header = Vec::with_capacity(RESIDENT_HEADER_BYTES);
        file.by_ref().take(RESIDENT_HEADER_BYTES as u64).read_to_end(&mut header)?;
        let header = ResidentHeader::decode(&header)?;
        if (header.store_id, header.page_size) != (store_id, page_size) {
            return Err(Unusable::Foreign);
        }
        let expected = header.pages().unwrap_or(u64::MAX);
        let bytes = expected.saturating_mul(RESIDENT_PAGE_BYTES as u64);
        if found != bytes.saturating_add(RESIDENT_HEADER_BYTES as u64) {
            return Err(Unusable::Length { found, expected });
        }
        let mut checksum = 0;
        loop {
            let some = io::BufRead::fill_buf(&mut file)?;
            if some.is_empty() {
                break;
            }
            checksum = crc32c::crc32c_append(checksum, some);
            let taken = some.len();
            io::BufRead::consume(&mut file, taken);
        }
        if checksum != header.checksum {
            let (found, expected) = (checksum, header.checksum);
            return Err(FormatError::Checksum { found, expected }.into());
        }
        file.seek(SeekFrom::Start(RESIDENT_HEADER_BYTES as u64))?;
        Ok(Some(ResidentList { header, file }))
    }

    /// How many pages are in it.
    pub(crate) fn len(&self) -> u64 {
        self.header.pages().unwrap_or(0)
    }

    /// The hottest of its pages, at most so many, in the order of the file.
    pub(crate) fn hottest(mut self, most: u64) -> impl Iterator<Item = (PageId, Temperature)> {
        let (mut left, mut of_temperature) = (most, self.header.counts);
        for count in of_temperature.iter_mut().rev() {
            *count = left.min(*count);
            left -= *count;
        }
        let mut word = [0; RESIDENT_PAGE_BYTES];
        // If it cannot be read any more, that was all.
        let words = std::iter::from_fn(move || self.file.read_exact(&mut word).ok().map(|()| word));
        words.map(Temperature::decode).filter(move |(_, temperature)| {
            let of_temperature = &mut of_temperature[*temperature as usize];
            let is_wanted = *of_temperature > 0;
            *of_temperature -= u64::from(is_wanted);
            is_wanted
        })
    }
}

#[cfg(test)]
mod tests {
    use polder_format::{PageNo, SpaceId};

    use super::*;

    const STORE: (StoreId, PageSize) = (StoreId([3; 16]), PageSize::MIN);

    fn pages(count: u64) -> Vec<(PageId, Temperature)> {
        let page = |n| PageId::new(SpaceId::CATALOGUE, PageNo::new(n).unwrap());
        (0..count).map(|n| (page(n), Temperature::ALL[n as usize % 4])).collect()
    }

    fn read(directory: &Path) -> Result<Vec<(PageId, Temperature)>, Unusable> {
        let list = ResidentList::open(directory, STORE)?;
        Ok(list.map(|list| list.hottest(u64::MAX).collect()).unwrap_or_default())
    }

    #[test]
    fn what_was_saved_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
        for count in [0, 1, 5, 20_000, 300] {
            save(dir.path(), STORE, &pages(count)).unwrap();
            assert_eq!(read(dir.path()).unwrap(), pages(count));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something is left beside it");
        }
        remove(dir.path()).unwrap();
        remove(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
    }

    /// In the order of the file, and of each temperature the first ones.
    #[test]
    fn the_hottest_come_where_not_all_have_room() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), STORE, &pages(40)).unwrap();
        let all = pages(40);
        for most in 0..=41 {
            let list = ResidentList::open(dir.path(), STORE).unwrap().unwrap();
            assert_eq!(list.len(), 40);
            let found: Vec<_> = list.hottest(most).collect();
            assert_eq!(found.len() as u64, most.min(40));
            assert!(found.is_sorted_by_key(|(page, _)| *page));
            let coldest = found.iter().map(|(_, temperature)| *temperature).min();
            let is_hotter = |page: &&(PageId, Temperature)| Some(page.1) > coldest;
            let hotter = all.iter().filter(is_hotter).filter(|page| !found.contains(page));
            assert_eq!(hotter.count(), if most == 0 { 40 } else { 0 }, "{most} pages");
        }
    }

    /// What a crash may leave (`RESIDENT-1`), and what may become of a file: it is whole, or not used.
    #[test]
    fn what_is_damaged_cut_or_foreign_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), STORE, &pages(30)).unwrap();
        let path = dir.path().join(RESIDENT);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(&path, &bad).unwrap();
            assert!(read(dir.path()).is_err(), "byte {at} was changed");
            fs::write(&path, &good[..at]).unwrap();
            assert!(read(dir.path()).is_err(), "cut at {at}");
        }
        fs::write(&path, [&good[..], &[0; 8]].concat()).unwrap();
        assert!(read(dir.path()).is_err(), "something is behind it");
        // The beginning of a new one beside it is nobody's.
        fs::write(&path, &good).unwrap();
        for end in [0, 10, RESIDENT_HEADER_BYTES, good.len() - 1] {
            fs::write(dir.path().join(RESIDENT_NEW), &good[..end]).unwrap();
            assert_eq!(read(dir.path()).unwrap(), pages(30));
        }
        save(dir.path(), STORE, &pages(31)).unwrap();
        assert_eq!(read(dir.path()).unwrap(), pages(31));
        let other = (StoreId([4; 16]), PageSize::MIN);
        let found = ResidentList::open(dir.path(), other).map(drop);
        assert!(matches!(found, Err(Unusable::Foreign)), "{found:?}");
    }

    #[test]
    fn a_list_that_cannot_be_written_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), STORE, &pages(30)).unwrap();
        fs::create_dir(dir.path().join(RESIDENT_NEW)).unwrap();
        assert!(save(dir.path(), STORE, &pages(10)).is_err());
        assert_eq!(read(dir.path()).unwrap(), pages(30));
    }
}
