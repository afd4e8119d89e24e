//! Pages of a data file, read from the device past the pool, and checked.

use std::io;
use std::sync::Arc;

use polder_format::{
    ChecksumSeed, FormatError, PageHeader, PageId, PageSize, PhysicalPageNo, StoreId,
};
use polder_pool::device::{Device, read_block};

/// Bytes that are read at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// A data file, to read pages from.
#[derive(Debug, Clone)]
pub(crate) struct PageFile {
    device: Arc<dyn Device>,
    pub(crate) size: PageSize,
    pub(crate) seed: ChecksumSeed,
}

/// Why a page could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageFault {
    #[error("the device cannot read it: {0}")]
    Device(#[from] io::Error),
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl PageFile {
    pub(crate) fn new(device: Arc<dyn Device>, size: PageSize, store: StoreId) -> PageFile {
        PageFile { device, size, seed: ChecksumSeed::new(store) }
    }

    /// Length of the file in pages.
    pub(crate) fn pages(&self) -> io::Result<u64> {
        Ok(self.device.len()? >> self.size.shift())
    }

    /// The bytes at a physical page number, whatever they are.
    pub(crate) fn bytes(&self, physical: PhysicalPageNo) -> io::Result<Vec<u8>> {
        read_block(&*self.device, physical.offset(self.size), self.size.bytes())
    }

    /// The page at a byte of the file that need not be a multiple of the page size.
    pub(crate) fn bytes_at(&self, offset: u64) -> io::Result<Vec<u8>> {
        read_block(&*self.device, offset, self.size.bytes())
    }

    /// The page `id`, which should lie at `physical`.
    pub(crate) fn page(
        &self,
        physical: PhysicalPageNo,
        id: PageId,
    ) -> Result<(PageHeader, Vec<u8>), PageFault> {
        let bytes = self.bytes(physical)?;
        let header = self.seed.verify(&bytes, id)?;
        Ok((header, bytes))
    }

    /// What the page is that lies in these bytes, whichever it is, if it is whole.
    pub(crate) fn identify(&self, bytes: &[u8]) -> Result<PageHeader, FormatError> {
        let header = PageHeader::decode(bytes)?;
        self.seed.verify(bytes, header.page_id)
    }

    /// Calls `visit` with the bytes of each page of a run, in order, until it returns false; false
    /// then. What the device cannot read in one piece is read page by page.
    pub(crate) fn run(
        &self,
        first: u64,
        pages: u64,
        visit: &mut dyn FnMut(u64, io::Result<&[u8]>) -> bool,
    ) -> bool {
        let (size, step) = (self.size.bytes(), (CHUNK_BYTES >> self.size.shift()).max(1));
        let mut at = first;
        while at < first + pages {
            let count = step.min(first + pages - at);
            let offset = PhysicalPageNo::new(at).offset(self.size);
            let chunk = read_block(&*self.device, offset, count as usize * size);
            for i in 0..count {
                let place = at + i;
                let goes_on = match &chunk {
                    Ok(chunk) => visit(place, Ok(&chunk[i as usize * size..][..size])),
                    Err(_) => match self.bytes(PhysicalPageNo::new(place)) {
                        Ok(bytes) => visit(place, Ok(&bytes)),
                        Err(error) => visit(place, Err(error)),
                    },
                };
                if !goes_on {
                    return false;
                }
            }
            at += count;
        }
        true
    }
}
