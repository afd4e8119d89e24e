//! One page of a heap: rows from the front, slots from the back. Drawn in `docs/format.md`, "Heap
//! page".
//!
//! * `HEAP-1` Rows lie between `ROWS` and *end*, and *end* is not above the lowest slot.
//! * `HEAP-2` Slot `i` says where row `i` begins and how long it is, and never changes.
//!
//! What comes from the device was checked ([`HeapRef::verify_shape`]), but a page that is being
//! written may show anything for a moment: so each number is cut to the page where it is read.

use polder_format::{PAGE_HEADER_BYTES, PageKind, header_at};
use polder_pool::bytes::{PageMut, PageRef};

/// Layout version that this code writes, and the only one that it reads.
const LAYOUT_VERSION: u8 = 1;
/// Bytes of a slot: offset and length, 2 each.
const SLOT_BYTES: usize = 4;

/// Fields of a heap page.
mod at {
    use super::PAGE_HEADER_BYTES;

    /// *end*: where the next row begins, 4 bytes.
    pub(super) const END: usize = PAGE_HEADER_BYTES;
    /// Count of rows, 2 bytes.
    pub(super) const COUNT: usize = 36;
    /// The first row.
    pub(super) const ROWS: usize = 40;
}

/// The longest row in bytes: one that has a page for itself.
pub(crate) const fn max_row_len(page_bytes: usize) -> usize {
    page_bytes - at::ROWS - SLOT_BYTES
}

/// Where a row lies in its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) at: usize,
    pub(super) len: usize,
}

/// What appending a row changes in its page: no slot of another row (`HEAP-2`).
pub(super) struct Append<'r> {
    /// The row's number in the page.
    pub(super) slot: usize,
    header: [u8; at::ROWS - at::END],
    slot_at: usize,
    word: [u8; SLOT_BYTES],
    row_at: usize,
    row: &'r [u8],
}

impl Append<'_> {
    /// Offsets and the bytes that go there.
    pub(super) fn pieces(&self) -> [(usize, &[u8]); 3] {
        [(at::END, &self.header), (self.slot_at, &self.word), (self.row_at, self.row)]
    }

    #[inline]
    pub(super) fn write(&self, page: &mut PageMut<'_>) {
        self.pieces().into_iter().for_each(|(at, bytes)| page.write(at, bytes));
    }
}

/// A page of a heap, to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeapRef<'a>(PageRef<'a>);

impl<'a> HeapRef<'a> {
    pub(super) fn new(page: PageRef<'a>) -> HeapRef<'a> {
        HeapRef(page)
    }

    /// Whether this is a page of a heap at all.
    #[inline]
    pub(super) fn is_heap(self) -> bool {
        self.0.u8(header_at::KIND) == PageKind::HEAP.0
    }

    /// How many rows it has; never more than there is room for slots.
    #[inline]
    pub(super) fn count(self) -> usize {
        let most = (self.0.size() - at::ROWS) / SLOT_BYTES;
        usize::from(self.0.u16(at::COUNT)).min(most)
    }

    /// Where the next row begins.
    #[inline]
    fn end(self) -> usize {
        (self.0.u32(at::END) as usize).clamp(at::ROWS, self.0.size())
    }

    #[inline]
    fn slot_at(self, slot: usize) -> usize {
        self.0.size() - SLOT_BYTES * (slot + 1)
    }

    /// Where the slots begin.
    #[inline]
    fn slots(self) -> usize {
        self.0.size() - SLOT_BYTES * self.count()
    }

    /// Where a row lies, if the page has it; inside of the page.
    #[inline]
    pub(super) fn row(self, slot: usize) -> Option<Row> {
        if slot >= self.count() {
            return None;
        }
        let word = self.0.u32(self.slot_at(slot));
        let (at, len) = ((word & 0xFFFF) as usize, (word >> 16) as usize);
        (at + len <= self.0.size()).then_some(Row { at, len })
    }

    /// What lies between rows and slots, which nothing refers to.
    pub(super) fn hole(self) -> std::ops::Range<usize> {
        self.end()..self.slots()
    }

    /// What it takes to append `row`, if there is room.
    #[inline]
    pub(super) fn to_append(self, row: &[u8]) -> Option<Append<'_>> {
        let (slot, row_at) = (self.count(), self.end());
        let end = row_at + row.len();
        if end + SLOT_BYTES > self.slots() {
            return None;
        }
        let mut header = [0; at::ROWS - at::END];
        header[..4].copy_from_slice(&(end as u32).to_le_bytes());
        header[4..6].copy_from_slice(&(slot as u16 + 1).to_le_bytes());
        let word = (row_at as u32 | (row.len() as u32) << 16).to_le_bytes();
        Some(Append { slot, header, slot_at: self.slot_at(slot), word, row_at, row })
    }

    /// Checks a page that came from the device: `HEAP-1`, and that rows lie one behind the other.
    pub(super) fn verify_shape(self) -> Result<(), &'static str> {
        if self.0.u8(header_at::LAYOUT) != LAYOUT_VERSION {
            return Err("the heap page has an unknown layout version");
        }
        let (end, count) = (self.0.u32(at::END) as usize, usize::from(self.0.u16(at::COUNT)));
        if end < at::ROWS || end + count * SLOT_BYTES > self.0.size() {
            return Err("the rows of a heap page reach into its slots");
        }
        let mut next = at::ROWS;
        for slot in 0..count {
            match self.row(slot) {
                Some(row) if row.at == next => next += row.len,
                _ => {
                    return Err("a row of a heap page does not begin where the one before it ends");
                }
            }
        }
        if next == end { Ok(()) } else { Err("the rows of a heap page do not end where it says") }
    }
}

/// Makes a page without rows of one that is all zeros behind its header.
pub(super) fn init(page: &mut PageMut<'_>) {
    page.set_u8(header_at::KIND, PageKind::HEAP.0);
    page.set_u8(header_at::LAYOUT, LAYOUT_VERSION);
    page.set_u32(at::END, at::ROWS as u32);
    page.set_u32(at::COUNT, 0);
}

/// Appends a row. False if there is no room; there is always some for one in an empty page, unless
/// it is longer than [`max_row_len`].
#[inline]
pub(super) fn append(page: &mut PageMut<'_>, row: &[u8]) -> bool {
    let append = HeapRef::new(page.as_ref()).to_append(row);
    append.map(|append| append.write(page)).is_some()
}

/// Takes the rows of another page into one that is all zeros behind its header. What lies between
/// rows and slots is left out.
pub(super) fn copy_rows(page: &mut PageMut<'_>, from: PageRef<'_>) {
    init(page);
    let hole = HeapRef::new(from).hole();
    page.copy_from(from, at::END, at::END, hole.start - at::END);
    page.copy_from(from, hole.end, hole.end, from.size() - hole.end);
}
