//! The 32 bytes at the beginning of every page, and its checksum.

use crate::{FormatError, Lsn, PageId, StoreId};

/// Length of the page header in bytes.
pub const PAGE_HEADER_BYTES: usize = 32;

/// Where the fields of the header begin.
pub mod header_at {
    /// crc32c, 4 bytes.
    pub const CHECKSUM: usize = 0;
    /// Kind of page, 1 byte.
    pub const KIND: usize = 4;
    /// Layout version of the kind, 1 byte.
    pub const LAYOUT: usize = 5;
    /// Page id, 8 bytes.
    pub const PAGE_ID: usize = 8;
    /// LSN, 8 bytes.
    pub const LSN: usize = 16;
    /// In memory, 8 bytes: the lines in which the page differs from what lies on the device. Zero
    /// there.
    pub const CHANGED_LINES: usize = 24;
}

/// What a page is. The number is what lies on disk; kinds are added, never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageKind(pub u8);

impl PageKind {
    /// The kinds below this one are Polder's, all from here on belong to the structures of others. Two
    /// of them that choose the same number cannot be in one store, which says so when the second is
    /// registered; a store never tells one's pages from the other's by guessing.
    pub const FIRST_OF_OTHERS: PageKind = PageKind(128);
    /// A piece of a paged array.
    pub const ARRAY: PageKind = PageKind(1);
    /// An allocation map.
    pub const ALLOC_MAP: PageKind = PageKind(2);
    /// A B+tree inner node.
    pub const TREE_INNER: PageKind = PageKind(16);
    /// A B+tree leaf.
    pub const TREE_LEAF: PageKind = PageKind(17);
    /// A piece of a long value.
    pub const OVERFLOW: PageKind = PageKind(18);
    /// A page of a heap.
    pub const HEAP: PageKind = PageKind(24);
    /// A directory node of a hash index.
    pub const HASH_NODE: PageKind = PageKind(32);
    /// A bucket of a hash index.
    pub const HASH_BUCKET: PageKind = PageKind(33);
    /// What a proximity graph is, and where searches of it begin.
    pub const HNSW_META: PageKind = PageKind(40);
    /// Nodes of a proximity graph.
    pub const HNSW_NODES: PageKind = PageKind(41);
    /// What an index of posting lists is, and where its centroids are.
    pub const IVF_META: PageKind = PageKind(42);
    /// The directory of a posting list, or a part of it: the numbers of its pages.
    pub const IVF_DIRECTORY: PageKind = PageKind(43);
    /// Entries of a posting list.
    pub const IVF_ENTRIES: PageKind = PageKind(44);
    /// What a proximity graph with codes is, and where searches of it begin.
    pub const VAMANA_META: PageKind = PageKind(45);
    /// Codes of vectors, and where their nodes are.
    pub const VAMANA_CODES: PageKind = PageKind(46);
    /// Nodes of a proximity graph with codes.
    pub const VAMANA_NODES: PageKind = PageKind(47);
    /// Entries of a posting list that are centroids of the others.
    pub const IVF_CENTROIDS: PageKind = PageKind(48);
}

/// The decoded header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    /// What the page is.
    pub kind: PageKind,
    /// Layout version of that kind.
    pub layout: u8,
    /// The page's own id.
    pub page_id: PageId,
    /// The last change of the page.
    pub lsn: Lsn,
}

impl PageHeader {
    /// Reads the header at the beginning of `page`, without checking the checksum.
    pub fn decode(page: &[u8]) -> Result<PageHeader, FormatError> {
        if page.len() < PAGE_HEADER_BYTES {
            return Err(FormatError::Short {
                what: "page header",
                found: page.len(),
                expected: PAGE_HEADER_BYTES,
            });
        }
        Ok(PageHeader {
            kind: PageKind(page[header_at::KIND]),
            layout: page[header_at::LAYOUT],
            page_id: PageId::from_link(u64_at(page, header_at::PAGE_ID)),
            lsn: Lsn(u64_at(page, header_at::LSN)),
        })
    }
}

/// The seed of all checksums of one store, so that a page of another store is not taken for ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumSeed(u32);

impl ChecksumSeed {
    /// The seed of the store with this id.
    pub fn new(id: StoreId) -> ChecksumSeed {
        ChecksumSeed(crc32c::crc32c(&id.0))
    }

    /// The checksum of `page`: over all of it but the first four bytes.
    pub fn checksum(self, page: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, page.get(4..).unwrap_or(&[]))
    }

    /// Writes the checksum into the page.
    pub fn seal(self, page: &mut [u8]) {
        let sum = self.checksum(page);
        page[header_at::CHECKSUM..header_at::CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Checks that `page` carries its checksum and is the page `expected`.
    pub fn verify(self, page: &[u8], expected: PageId) -> Result<PageHeader, FormatError> {
        let header = PageHeader::decode(page)?;
        let stored = u32::from_le_bytes([page[0], page[1], page[2], page[3]]);
        let found = self.checksum(page);
        if found != stored {
            return Err(FormatError::Checksum { found, expected: stored });
        }
        if header.page_id != expected {
            return Err(FormatError::WrongPage { found: header.page_id, expected });
        }
        Ok(header)
    }
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}
