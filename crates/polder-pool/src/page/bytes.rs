//! The one module that touches page bytes.
//!
//! A page may change while an optimistic reader looks at it; the reader finds out afterwards and
//! throws its result away. So that a torn read is a wrong answer and never undefined behaviour:
//!
//! * `BYTES-1` Both sides, readers and the exclusive writer, go through this module: relaxed
//!   atomics where a field is always accessed with one width at its natural alignment, inline
//!   assembly where widths mix, bytes are unaligned or many are moved at once. There is no `&T` to
//!   bytes that another thread may write, and no `&mut T` to bytes that another may read.
//! * `BYTES-2` A read never leaves mapped memory: its offset is cut to the page, and
//!   [`OVERRUN_BYTES`] after every page are mapped (the next frame, or the padding behind the last).
//! * `BYTES-3` A write never leaves its page: one that would is dropped (and fails a debug
//!   assertion). It can only happen if a page was let in unchecked.
//! * `BYTES-4` A thread that holds a page shared writes nothing in it but links, each as a whole,
//!   and to what means the same (`PageRef::set_link`).
//! * `BYTES-5` Each write notes the lines that it touches (64ths of the page) in a word of the page's
//!   header, which is zero on the device. So that word tells in which lines the page may differ from
//!   what the device has. A thread that holds the page shared, and alone may write it to the device,
//!   takes the word and leaves zero (`PageRef::take_changed_lines`); and all lines where links are
//!   unswizzled in what it writes (`PageRef::note_all`): the page differs there from the device, and
//!   goes on to when they are links no more.
//!
//! All integers in pages are little-endian. Offsets and lengths are in bytes.
//!
//! ```
//! use polder_format::PageSize;
//! use polder_pool::bytes::PageBuf;
//!
//! let mut buf = PageBuf::new(PageSize::MIN);
//! let mut page = buf.page_mut();
//! page.set_u32(32, 7);
//! page.write(36, b"key");
//! page.write_u16(39, 500); // at any offset
//! page.copy_within(36, 100, 5);
//!
//! let page = buf.page();
//! assert_eq!((page.size(), page.u32(32), page.unaligned_u16(103)), (4096, 7, 500));
//! assert_eq!(&page.array::<3>(100), b"key");
//! assert!(page.compare(100, 3, b"kez").is_lt());
//! // Numbers that are in the order of the bytes.
//! assert_eq!(page.big_endian(100, 3), u64::from_be_bytes(*b"key\0\0\0\0\0"));
//! // What lies behind the page's end is not copied.
//! assert_eq!(page.copy_to(4090, &mut [0; 10]), 6);
//! // An offset behind it is one in the page, and the answer means nothing.
//! assert_eq!(page.u32(4096 + 32), 7);
//! ```

#[cfg_attr(target_arch = "x86_64", path = "bytes/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "bytes/aarch64.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "bytes/portable.rs")]
mod raw;

mod copies;
mod run;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use polder_format::log::Lines;
use polder_format::{PageSize, header_at};

pub use run::Run;

/// Bytes behind every page that a read may touch (`BYTES-2`).
pub const OVERRUN_BYTES: usize = 64;

/// A page that may change while it is read.
///
/// Results mean something only once the guard that gave the page has been validated. Offsets are
/// cut to the page, by the remainder by its size: a wrong one, which a torn read may give, is a
/// wrong answer and never a panic.
#[derive(Clone, Copy)]
pub struct PageRef<'a> {
    base: NonNull<u8>,
    mask: usize,
    life: PhantomData<&'a ()>,
}

// SAFETY: a PageRef only reads (and writes links, BYTES-4), by the means of BYTES-1, which any thread
// may.
unsafe impl Send for PageRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for PageRef<'_> {}

impl<'a> PageRef<'a> {
    /// The page of `size` bytes at `base`, to read.
    ///
    /// # Safety
    /// For `'a`, `size` bytes and [`OVERRUN_BYTES`] more are mapped at `base`, which is a multiple
    /// of 8, and every other writer of the page goes through this module or is the device.
    #[inline(always)]
    pub unsafe fn new(base: NonNull<u8>, size: PageSize) -> PageRef<'a> {
        PageRef { base, mask: size.bytes() - 1, life: PhantomData }
    }

    /// The page, to write.
    ///
    /// # Safety
    /// The caller holds the page exclusively, or in flight, for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn to_write(self) -> PageMut<'a> {
        PageMut { page: self }
    }

    /// Gives a link another value that means the same.
    ///
    /// # Safety
    /// The caller holds the page, shared at least, so that the link stays where it is, and nobody
    /// else writes this link.
    pub(crate) unsafe fn set_link(self, offset: usize, bits: u64) {
        debug_assert!(offset.is_multiple_of(8) && offset <= self.size() - 8);
        // SAFETY: BYTES-2; a multiple of 8 within a page that is aligned to 8.
        unsafe { AtomicU64::from_ptr(self.at(offset & !7).cast()) }.store(bits.to_le(), Relaxed);
    }

    /// The lines that were written to since this was last called, or since the page was loaded or
    /// made (`BYTES-5`).
    ///
    /// # Safety
    /// The caller holds the page shared, at least, and no other thread calls this for the page.
    pub(crate) unsafe fn take_changed_lines(self) -> Lines {
        let at = self.at(header_at::CHANGED_LINES);
        // SAFETY: a multiple of 8 within a page that is aligned to 8.
        Lines(unsafe { AtomicU64::from_ptr(at.cast()) }.swap(0, Relaxed))
    }

    /// Every line counts as changed: a copy of the page is written that differs from it (`BYTES-5`).
    ///
    /// # Safety
    /// As [`PageRef::take_changed_lines`].
    pub(crate) unsafe fn note_all(self) {
        let at = self.at(header_at::CHANGED_LINES);
        // SAFETY: a multiple of 8 within a page that is aligned to 8.
        unsafe { AtomicU64::from_ptr(at.cast()) }.store(Lines::ALL.0, Relaxed);
    }

    /// Where the page begins.
    #[inline(always)]
    pub(crate) fn base(self) -> NonNull<u8> {
        self.base
    }

    /// Page size in bytes.
    #[inline(always)]
    pub fn size(self) -> usize {
        self.mask + 1
    }

    /// The size as one that pages can have.
    pub fn page_size(self) -> PageSize {
        PageSize::new(self.size() as u32).expect("a page was made with a PageSize")
    }

    #[inline(always)]
    fn at(self, offset: usize) -> *mut u8 {
        // SAFETY: the masked offset lies in the page (BYTES-2).
        unsafe { self.base.as_ptr().add(offset & self.mask) }
    }

    /// The byte at `offset`.
    #[inline(always)]
    pub fn u8(self, offset: usize) -> u8 {
        // SAFETY: BYTES-2; a byte is always aligned.
        unsafe { AtomicU8::from_ptr(self.at(offset)) }.load(Relaxed)
    }

    /// The number of 2 bytes at `offset`, which is rounded down to a multiple of 2.
    #[inline(always)]
    pub fn u16(self, offset: usize) -> u16 {
        // SAFETY: BYTES-2; even within a page that is aligned to 8.
        u16::from_le(unsafe { AtomicU16::from_ptr(self.at(offset & !1).cast()) }.load(Relaxed))
    }

    /// The number of 4 bytes at `offset`, which is rounded down to a multiple of 4.
    #[inline(always)]
    pub fn u32(self, offset: usize) -> u32 {
        // SAFETY: BYTES-2; a multiple of 4 within a page that is aligned to 8.
        u32::from_le(unsafe { AtomicU32::from_ptr(self.at(offset & !3).cast()) }.load(Relaxed))
    }

    /// The number of 8 bytes at `offset`, which is rounded down to a multiple of 8.
    #[inline(always)]
    pub fn u64(self, offset: usize) -> u64 {
        // SAFETY: BYTES-2; a multiple of 8 within a page that is aligned to 8.
        u64::from_le(unsafe { AtomicU64::from_ptr(self.at(offset & !7).cast()) }.load(Relaxed))
    }

    /// The 8 bytes at any `offset`, as a number. Bytes behind the end of the page are arbitrary.
    #[inline(always)]
    pub fn unaligned_u64(self, offset: usize) -> u64 {
        // SAFETY: BYTES-2.
        u64::from_le(unsafe { raw::load_u64(self.at(offset)) })
    }

    /// The 2 bytes at any `offset`, as a number. Bytes behind the end of the page are arbitrary.
    #[inline(always)]
    pub fn unaligned_u16(self, offset: usize) -> u16 {
        // SAFETY: BYTES-2.
        u16::from_le(unsafe { raw::load_u16(self.at(offset)) })
    }

    /// The first `len` bytes at any `offset`, at most 8, as the high bytes of a big-endian number
    /// whose other bytes are zeros: such numbers compare as the bytes do.
    #[inline(always)]
    pub fn big_endian(self, offset: usize, len: usize) -> u64 {
        let word = u64::from_be(self.unaligned_u64(offset).to_le());
        if len >= 8 { word } else { word & !(u64::MAX >> (8 * len as u32)) }
    }

    /// Copies the bytes from `offset` on into `out`; what would lie behind the page's end is left
    /// as it is. Returns how many were copied.
    #[inline]
    pub fn copy_to(self, offset: usize, out: &mut [u8]) -> usize {
        let offset = offset & self.mask;
        let len = out.len().min(self.size() - offset);
        // SAFETY: `len` bytes from `offset` on lie in the page, and `out` has room for them.
        unsafe { copies::copy_out(self.at(offset), out.as_mut_ptr(), len) };
        len
    }

    /// Copies up to `len` bytes from `offset` on into the beginning of `out`, fewer if the page or
    /// `out` ends; gives the copy.
    #[inline]
    pub fn copy_to_uninit(
        self,
        offset: usize,
        len: usize,
        out: &mut [MaybeUninit<u8>],
    ) -> &mut [u8] {
        let offset = offset & self.mask;
        let len = len.min(self.size() - offset).min(out.len());
        // SAFETY: `len` bytes from `offset` on lie in the page, and `out` has room for them;
        // copy_out fills as many, so that they are initialised in the result.
        unsafe {
            copies::copy_out(self.at(offset), out.as_mut_ptr().cast(), len);
            std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), len)
        }
    }

    /// The `N` bytes from `offset` on, at most [`OVERRUN_BYTES`]: more do not compile. Bytes behind
    /// the end of the page are arbitrary.
    #[inline(always)]
    pub fn array<const N: usize>(self, offset: usize) -> [u8; N] {
        const { assert!(N <= OVERRUN_BYTES) };
        let mut out = [0; N];
        // SAFETY: BYTES-2; `out` has room for `N` bytes.
        unsafe { copies::copy_out(self.at(offset), out.as_mut_ptr(), N) };
        out
    }

    /// Appends `len` bytes from `offset` on to `out`, fewer if the page ends.
    #[inline]
    pub fn append_to(self, offset: usize, len: usize, out: &mut Vec<u8>) {
        let offset = offset & self.mask;
        let len = len.min(self.size() - offset);
        out.reserve(len);
        // SAFETY: `len` bytes from `offset` on lie in the page; reserve made room for as many, and
        // copy_out fills them all.
        unsafe {
            copies::copy_out(self.at(offset), out.as_mut_ptr().add(out.len()), len);
            out.set_len(out.len() + len);
        }
    }

    /// Compares the `len` bytes at `offset` with `other`, byte by byte as unsigned numbers; of two
    /// of which one begins with the other the shorter is less.
    #[inline]
    pub fn compare(self, offset: usize, len: usize, other: &[u8]) -> Ordering {
        let len = len.min(self.size());
        let common = len.min(other.len());
        let mut done = 0;
        while done + 8 <= common {
            let mut word = [0; 8];
            word.copy_from_slice(&other[done..done + 8]);
            let order = self.big_endian(offset + done, 8).cmp(&u64::from_be_bytes(word));
            if order != Ordering::Equal {
                return order;
            }
            done += 8;
        }
        if done < common {
            let mut word = [0; 8];
            word[..common - done].copy_from_slice(&other[done..common]);
            let order = self.big_endian(offset + done, common - done);
            let order = order.cmp(&u64::from_be_bytes(word));
            if order != Ordering::Equal {
                return order;
            }
        }
        len.cmp(&other.len())
    }

    /// Asks the processor to fetch the cache line in which `offset` lies. Waits for nothing.
    #[inline(always)]
    pub fn prefetch(self, offset: usize) {
        raw::prefetch(self.at(offset));
    }

    /// Asks the processor to fetch so many cache lines, from that on in which `offset` lies, to its second-level
    /// cache alone: so more can be on its way than the first level has buffers for what it misses, and what is
    /// looked at first is not displaced there. Waits for nothing.
    #[inline(always)]
    pub fn prefetch_l2(self, offset: usize, lines: usize) {
        let first = self.at(offset);
        for line in 0..lines {
            // What lies behind the page may be asked for as well: nothing is read.
            raw::prefetch_l2(first.wrapping_add(64 * line));
        }
    }

    /// The address of the first byte, to compare or to show. What is there is read by this module
    /// alone.
    pub fn as_ptr(self) -> *const u8 {
        self.base.as_ptr()
    }
}

impl fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRef({:p}, {} bytes)", self.base, self.size())
    }
}

/// Asks the processor to fetch the cache line of a value that is not part of a page: a word, an entry.
#[inline(always)]
pub(crate) fn prefetch_line<V>(value: &V) {
    raw::prefetch(std::ptr::from_ref(value).cast());
}

/// Copies from private memory to a page that others may be looking at.
///
/// # Safety
/// There are `len` bytes on both sides, which do not overlap; only this thread may write those of the page.
#[cfg(not(loom))]
pub(crate) unsafe fn copy_to_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let done = raw::move_blocks(from, to, len);
        copies::copy_in(from.add(done), to.add(done), len - done);
    }
}

/// A page that only this thread may write, while others may read it and will fail to validate. It
/// derefs to a [`PageRef`], for reading.
///
/// A write that would leave the page is dropped; in debug builds it panics, as does a number that
/// is set at an offset which is no multiple of its length.
pub struct PageMut<'a> {
    page: PageRef<'a>,
}

impl<'a> Deref for PageMut<'a> {
    type Target = PageRef<'a>;
    #[inline(always)]
    fn deref(&self) -> &PageRef<'a> {
        &self.page
    }
}

impl<'a> PageMut<'a> {
    /// The page of `size` bytes at `base`, for writing.
    ///
    /// # Safety
    /// As [`PageRef::new`], and for `'a` nobody else writes the page.
    #[inline(always)]
    pub unsafe fn new(base: NonNull<u8>, size: PageSize) -> PageMut<'a> {
        // SAFETY: the caller's promise includes that of PageRef::new.
        PageMut { page: unsafe { PageRef::new(base, size) } }
    }

    /// The same page for reading.
    #[inline(always)]
    pub fn as_ref(&self) -> PageRef<'_> {
        self.page
    }

    #[inline(always)]
    fn inside(&self, offset: usize, len: usize) -> bool {
        let inside = offset <= self.size() && len <= self.size() - offset;
        debug_assert!(inside, "BYTES-3: {len} bytes at {offset}");
        inside
    }

    /// `BYTES-5`: `len` bytes at `offset`, at least one, which lie in the page, were written.
    #[inline(always)]
    fn note(&mut self, offset: usize, len: usize) {
        // A 64th of the page is a line.
        let shift = self.page.mask.trailing_ones() - 6;
        let (first, last) = (offset >> shift, (offset + len - 1) >> shift);
        let lines = (u64::MAX >> ((63 - (last - first)) & 63)) << (first & 63);
        // SAFETY: a multiple of 8 within a page that is aligned to 8.
        let word = unsafe { AtomicU64::from_ptr(self.page.at(header_at::CHANGED_LINES).cast()) };
        word.store(word.load(Relaxed) | lines, Relaxed);
    }

    /// Writes a byte at `offset`.
    #[inline(always)]
    pub fn set_u8(&mut self, offset: usize, value: u8) {
        if self.inside(offset, 1) {
            // SAFETY: inside the page.
            unsafe { AtomicU8::from_ptr(self.page.at(offset)) }.store(value, Relaxed);
            self.note(offset, 1);
        }
    }

    /// Writes a number of 2 bytes at an `offset` that is a multiple of 2.
    #[inline(always)]
    pub fn set_u16(&mut self, offset: usize, value: u16) {
        debug_assert!(offset.is_multiple_of(2));
        if self.inside(offset, 2) {
            // SAFETY: inside the page, and aligned by the mask.
            unsafe { AtomicU16::from_ptr(self.page.at(offset & !1).cast()) }
                .store(value.to_le(), Relaxed);
            self.note(offset, 2);
        }
    }

    /// Writes a number of 4 bytes at an `offset` that is a multiple of 4.
    #[inline(always)]
    pub fn set_u32(&mut self, offset: usize, value: u32) {
        debug_assert!(offset.is_multiple_of(4));
        if self.inside(offset, 4) {
            // SAFETY: inside the page, and aligned by the mask.
            unsafe { AtomicU32::from_ptr(self.page.at(offset & !3).cast()) }
                .store(value.to_le(), Relaxed);
            self.note(offset, 4);
        }
    }

    /// Writes a number of 8 bytes at an `offset` that is a multiple of 8.
    #[inline(always)]
    pub fn set_u64(&mut self, offset: usize, value: u64) {
        debug_assert!(offset.is_multiple_of(8));
        if self.inside(offset, 8) {
            // SAFETY: inside the page, and aligned by the mask.
            unsafe { AtomicU64::from_ptr(self.page.at(offset & !7).cast()) }
                .store(value.to_le(), Relaxed);
            self.note(offset, 8);
        }
    }

    /// Writes bytes from `offset` on. They are the caller's alone, and lie in no page.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        if self.inside(offset, bytes.len()) && !bytes.is_empty() {
            // SAFETY: inside the page; `bytes` is readable for its length.
            unsafe { copies::copy_in(bytes.as_ptr(), self.page.at(offset), bytes.len()) };
            self.note(offset, bytes.len());
        }
    }

    /// Writes a number of 8 bytes at any offset.
    #[inline]
    pub fn write_u64(&mut self, offset: usize, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }

    /// Writes a number of 2 bytes at any offset.
    #[inline]
    pub fn write_u16(&mut self, offset: usize, value: u16) {
        self.write(offset, &value.to_le_bytes());
    }

    /// Copies `len` bytes from `from` to `to` within the page. The two may overlap.
    #[inline]
    pub fn copy_within(&mut self, from: usize, to: usize, len: usize) {
        if self.inside(from, len) && self.inside(to, len) && len > 0 {
            // SAFETY: both runs lie in the page.
            unsafe { copies::move_bytes(self.page.at(from), self.page.at(to), len) };
            self.note(to, len);
        }
    }

    /// Copies `len` bytes of another page, from its `from_offset` to `to` in this one. The pages
    /// must not be the same. Nothing is copied where the run does not lie in both.
    #[inline]
    pub fn copy_from(&mut self, from: PageRef<'_>, from_offset: usize, to: usize, len: usize) {
        let there = from_offset <= from.size() && len <= from.size() - from_offset;
        if self.inside(to, len) && there && len > 0 {
            // SAFETY: both runs lie in their pages, which do not overlap.
            unsafe { copies::move_bytes(from.at(from_offset), self.page.at(to), len) };
            self.note(to, len);
        }
    }

    /// Becomes a copy of another page of the same size, the lines that were changed there included
    /// (`BYTES-5`): the page has moved here.
    #[inline]
    pub(crate) fn move_from(&mut self, from: PageRef<'_>) {
        debug_assert_eq!(from.size(), self.size());
        // SAFETY: both pages have so many bytes, and do not overlap.
        unsafe { copies::move_bytes(from.at(0), self.page.at(0), self.size().min(from.size())) };
    }

    /// Sets `len` bytes from `offset` on to zero.
    #[inline]
    pub fn zero(&mut self, offset: usize, len: usize) {
        if self.inside(offset, len) && len > 0 {
            // SAFETY: the run lies in the page.
            unsafe { copies::zero(self.page.at(offset), len) };
            self.note(offset, len);
        }
    }
}

/// A page of memory that belongs to one thread alone and lies in no frame: for copies, and for
/// tests.
pub struct PageBuf {
    words: Box<[u64]>,
    size: PageSize,
}

impl PageBuf {
    /// A page of zeros, of this size.
    pub fn new(size: PageSize) -> PageBuf {
        let words = (size.bytes() + OVERRUN_BYTES) / 8;
        PageBuf { words: vec![0; words].into_boxed_slice(), size }
    }

    /// The page, to read.
    #[inline]
    pub fn page(&self) -> PageRef<'_> {
        // SAFETY: the box has the page's bytes and the overrun, and lives as long as the borrow;
        // PageRef only reads while `self` is borrowed shared.
        unsafe { PageRef::new(NonNull::from(&*self.words).cast(), self.size) }
    }

    /// The page, to write.
    #[inline]
    pub fn page_mut(&mut self) -> PageMut<'_> {
        // SAFETY: as in `page`, and the borrow is exclusive.
        unsafe { PageMut::new(NonNull::from(&mut *self.words).cast(), self.size) }
    }

    /// Copies a whole page of the same size into this one.
    #[inline]
    pub fn copy_from(&mut self, page: PageRef<'_>) {
        let size = self.size.bytes();
        self.page_mut().copy_from(page, 0, 0, size);
    }

    /// All bytes of the page.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the box has at least `size` bytes, all of them initialised; any u64 is eight u8.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.size.bytes()) }
    }

    /// All bytes of the page, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.size.bytes()) }
    }
}
