//! The one place that touches page bytes.
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
//!
//! All integers in pages are little-endian.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use polder_format::PageSize;

/// Bytes behind every page that a read may touch (`BYTES-2`).
pub const OVERRUN_BYTES: usize = 64;

/// A page that may change while it is read.
///
/// Results mean something only once the guard that gave the page has been validated.
#[derive(Clone, Copy)]
pub struct PageRef<'a> {
    base: NonNull<u8>,
    mask: usize,
    life: PhantomData<&'a ()>,
}

// SAFETY: a PageRef only reads, and only by the means of BYTES-1, which any thread may.
unsafe impl Send for PageRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for PageRef<'_> {}

impl<'a> PageRef<'a> {
    /// The page of `size` bytes at `base`.
    ///
    /// # Safety
    /// For `'a`, `size` bytes and [`OVERRUN_BYTES`] more are mapped at `base`, which is a multiple
    /// of 8, and all others who write the page do so by this module or are the device.
    #[inline(always)]
    pub unsafe fn new(base: NonNull<u8>, size: PageSize) -> PageRef<'a> {
        PageRef { base, mask: size.bytes() - 1, life: PhantomData }
    }

    /// Page size in bytes.
    #[inline(always)]
    pub fn size(self) -> usize {
        self.mask + 1
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

    /// The number at `offset`, which is rounded down to a multiple of 2.
    #[inline(always)]
    pub fn u16(self, offset: usize) -> u16 {
        // SAFETY: BYTES-2; even within a page that is aligned to 8.
        u16::from_le(unsafe { AtomicU16::from_ptr(self.at(offset & !1).cast()) }.load(Relaxed))
    }

    /// The number at `offset`, which is rounded down to a multiple of 4.
    #[inline(always)]
    pub fn u32(self, offset: usize) -> u32 {
        // SAFETY: BYTES-2; a multiple of 4 within a page that is aligned to 8.
        u32::from_le(unsafe { AtomicU32::from_ptr(self.at(offset & !3).cast()) }.load(Relaxed))
    }

    /// The number at `offset`, which is rounded down to a multiple of 8.
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

    /// The 2 bytes at any `offset`, as a number.
    #[inline(always)]
    pub fn unaligned_u16(self, offset: usize) -> u16 {
        // SAFETY: BYTES-2.
        u16::from_le(unsafe { raw::load_u16(self.at(offset)) })
    }

    /// Up to 8 bytes at `offset` as a big-endian number, filled up with zeros: numbers of the same
    /// length compare as the bytes do.
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
        unsafe { raw::copy_out(self.at(offset), out.as_mut_ptr(), len) };
        len
    }

    /// Copies up to `len` bytes from `offset` on into `out`, fewer if the page or `out` ends; gives
    /// the copy.
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
            raw::copy_out(self.at(offset), out.as_mut_ptr().cast(), len);
            std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), len)
        }
    }

    /// The `N` bytes from `offset` on. Bytes behind the end of the page are arbitrary.
    #[inline(always)]
    pub fn array<const N: usize>(self, offset: usize) -> [u8; N] {
        const { assert!(N <= OVERRUN_BYTES) };
        let mut out = [0; N];
        // SAFETY: BYTES-2; `out` has room for `N` bytes.
        unsafe { raw::copy_out(self.at(offset), out.as_mut_ptr(), N) };
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
            raw::copy_out(self.at(offset), out.as_mut_ptr().add(out.len()), len);
            out.set_len(out.len() + len);
        }
    }

    /// Compares the `len` bytes at `offset` with `other`, in the order of `memcmp`, shorter first.
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

    /// Asks the processor to fetch the cache line at `offset`.
    #[inline(always)]
    pub fn prefetch(self, offset: usize) {
        raw::prefetch(self.at(offset));
    }

    /// The address of the first byte.
    pub fn as_ptr(self) -> *const u8 {
        self.base.as_ptr()
    }
}

impl fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRef({:p}, {} bytes)", self.base, self.size())
    }
}

/// A page that only this thread may write, while others may read it and will fail to validate.
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

    /// Writes a byte.
    #[inline(always)]
    pub fn set_u8(&mut self, offset: usize, value: u8) {
        if self.inside(offset, 1) {
            // SAFETY: inside the page.
            unsafe { AtomicU8::from_ptr(self.page.at(offset)) }.store(value, Relaxed);
        }
    }

    /// Writes a number at an `offset` that is a multiple of 2.
    #[inline(always)]
    pub fn set_u16(&mut self, offset: usize, value: u16) {
        debug_assert!(offset.is_multiple_of(2));
        if self.inside(offset, 2) {
            // SAFETY: inside the page, and aligned by the mask.
            unsafe { AtomicU16::from_ptr(self.page.at(offset & !1).cast()) }
                .store(value.to_le(), Relaxed);
        }
    }

    /// Writes a number at an `offset` that is a multiple of 4.
    #[inline(always)]
    pub fn set_u32(&mut self, offset: usize, value: u32) {
        debug_assert!(offset.is_multiple_of(4));
        if self.inside(offset, 4) {
            // SAFETY: inside the page, and aligned by the mask.
            unsafe { AtomicU32::from_ptr(self.page.at(offset & !3).cast()) }
                .store(value.to_le(), Relaxed);
        }
    }

    /// Writes a number at an `offset` that is a multiple of 8.
    #[inline(always)]
    pub fn set_u64(&mut self, offset: usize, value: u64) {
        debug_assert!(offset.is_multiple_of(8));
        if self.inside(offset, 8) {
            // SAFETY: inside the page, and aligned by the mask.
            unsafe { AtomicU64::from_ptr(self.page.at(offset & !7).cast()) }
                .store(value.to_le(), Relaxed);
        }
    }

    /// Writes bytes that are the caller's alone.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        if self.inside(offset, bytes.len()) {
            // SAFETY: inside the page; `bytes` is readable for its length.
            unsafe { raw::copy_in(bytes.as_ptr(), self.page.at(offset), bytes.len()) };
        }
    }

    /// Writes 8 bytes at any offset.
    #[inline]
    pub fn write_u64(&mut self, offset: usize, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }

    /// Writes 2 bytes at any offset.
    #[inline]
    pub fn write_u16(&mut self, offset: usize, value: u16) {
        self.write(offset, &value.to_le_bytes());
    }

    /// Copies `len` bytes from `from` to `to` within the page. The two may overlap.
    #[inline]
    pub fn copy_within(&mut self, from: usize, to: usize, len: usize) {
        if self.inside(from, len) && self.inside(to, len) && len > 0 {
            // SAFETY: both runs lie in the page.
            unsafe { raw::move_bytes(self.page.at(from), self.page.at(to), len) };
        }
    }

    /// Copies `len` bytes of another page. The pages must not be the same.
    #[inline]
    pub fn copy_from(&mut self, from: PageRef<'_>, from_offset: usize, to: usize, len: usize) {
        let there = from_offset <= from.size() && len <= from.size() - from_offset;
        if self.inside(to, len) && there && len > 0 {
            // SAFETY: both runs lie in their pages, which do not overlap.
            unsafe { raw::move_bytes(from.at(from_offset), self.page.at(to), len) };
        }
    }

    /// Sets `len` bytes from `offset` on to zero.
    #[inline]
    pub fn zero(&mut self, offset: usize, len: usize) {
        if self.inside(offset, len) {
            // SAFETY: the run lies in the page.
            unsafe { raw::zero(self.page.at(offset), len) };
        }
    }
}

/// A page of memory that belongs to one thread alone: for snapshots, and for tests.
pub struct PageBuf {
    words: Box<[u64]>,
    size: PageSize,
}

impl PageBuf {
    /// A page of zeros.
    pub fn new(size: PageSize) -> PageBuf {
        let words = (size.bytes() + OVERRUN_BYTES) / 8;
        PageBuf { words: vec![0; words].into_boxed_slice(), size }
    }

    /// For reading.
    #[inline]
    pub fn page(&self) -> PageRef<'_> {
        // SAFETY: the box has the page's bytes and the overrun, and lives as long as the borrow;
        // PageRef only reads while `self` is borrowed shared.
        unsafe { PageRef::new(NonNull::from(&*self.words).cast(), self.size) }
    }

    /// For writing.
    #[inline]
    pub fn page_mut(&mut self) -> PageMut<'_> {
        // SAFETY: as in `page`, and the borrow is exclusive.
        unsafe { PageMut::new(NonNull::from(&mut *self.words).cast(), self.size) }
    }

    /// Copies a whole page into this one.
    #[inline]
    pub fn copy_from(&mut self, page: PageRef<'_>) {
        let size = self.size.bytes();
        self.page_mut().copy_from(page, 0, 0, size);
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the box has at least `size` bytes, all of them initialised; any u64 is eight u8.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.size.bytes()) }
    }

    /// The bytes, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.size.bytes()) }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod raw {
    //! Loads and stores that the compiler can neither split, join nor assume things about.

    use std::arch::asm;
    use std::arch::x86_64::{__m128i, _MM_HINT_T0, _mm_prefetch, _mm_setzero_si128};
    use std::arch::x86_64::{_mm_loadu_si128, _mm_storeu_si128};

    #[inline(always)]
    pub(super) unsafe fn load_u64(at: *const u8) -> u64 {
        let word;
        // SAFETY: the caller promises 8 mapped bytes.
        unsafe {
            asm!("mov {}, qword ptr [{}]", out(reg) word, in(reg) at,
                options(nostack, preserves_flags, readonly));
        }
        word
    }

    #[inline(always)]
    pub(super) unsafe fn load_u16(at: *const u8) -> u16 {
        let word: u32;
        // SAFETY: the caller promises 2 mapped bytes.
        unsafe {
            asm!("movzx {:e}, word ptr [{}]", out(reg) word, in(reg) at,
                options(nostack, preserves_flags, readonly));
        }
        word as u16
    }

    #[inline(always)]
    unsafe fn load_u8(at: *const u8) -> u8 {
        let word: u32;
        // SAFETY: the caller promises a mapped byte.
        unsafe {
            asm!("movzx {:e}, byte ptr [{}]", out(reg) word, in(reg) at,
                options(nostack, preserves_flags, readonly));
        }
        word as u8
    }

    #[inline(always)]
    unsafe fn load_128(at: *const u8) -> __m128i {
        let word;
        // SAFETY: the caller promises 16 mapped bytes.
        unsafe {
            asm!("movups {}, xmmword ptr [{}]", out(xmm_reg) word, in(reg) at,
                options(nostack, preserves_flags, readonly));
        }
        word
    }

    #[inline(always)]
    unsafe fn store_128(at: *mut u8, word: __m128i) {
        // SAFETY: the caller promises 16 bytes that it may write.
        unsafe {
            asm!("movups xmmword ptr [{}], {}", in(reg) at, in(xmm_reg) word,
                options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    unsafe fn store_u64(at: *mut u8, word: u64) {
        // SAFETY: the caller promises 8 bytes that it may write.
        unsafe {
            asm!("mov qword ptr [{}], {}", in(reg) at, in(reg) word,
                options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    unsafe fn store_u8(at: *mut u8, byte: u8) {
        // SAFETY: the caller promises a byte that it may write.
        unsafe {
            asm!("mov byte ptr [{}], {}", in(reg) at, in(reg_byte) byte,
                options(nostack, preserves_flags));
        }
    }

    /// From a page to private memory.
    #[inline(always)]
    pub(super) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller promises `len` bytes on both sides; every access below stays within.
        unsafe {
            if len >= 16 {
                let mut done = 0;
                while done + 16 <= len {
                    _mm_storeu_si128(to.add(done).cast(), load_128(from.add(done)));
                    done += 16;
                }
                if done < len {
                    let last = len - 16;
                    _mm_storeu_si128(to.add(last).cast(), load_128(from.add(last)));
                }
            } else if len >= 8 {
                let last = len - 8;
                let (first, second) = (load_u64(from), load_u64(from.add(last)));
                to.cast::<u64>().write_unaligned(first);
                to.add(last).cast::<u64>().write_unaligned(second);
            } else {
                for i in 0..len {
                    to.add(i).write(load_u8(from.add(i)));
                }
            }
        }
    }

    /// From private memory to a page.
    #[inline(always)]
    pub(super) unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller promises `len` bytes on both sides; every access below stays within.
        unsafe {
            if len >= 16 {
                let mut done = 0;
                while done + 16 <= len {
                    store_128(to.add(done), _mm_loadu_si128(from.add(done).cast()));
                    done += 16;
                }
                if done < len {
                    let last = len - 16;
                    store_128(to.add(last), _mm_loadu_si128(from.add(last).cast()));
                }
            } else if len >= 8 {
                let last = len - 8;
                let second = from.add(last).cast::<u64>().read_unaligned();
                store_u64(to, from.cast::<u64>().read_unaligned());
                store_u64(to.add(last), second);
            } else {
                for i in 0..len {
                    store_u8(to.add(i), from.add(i).read());
                }
            }
        }
    }

    /// Within pages; the two runs may overlap.
    #[inline(always)]
    pub(super) unsafe fn move_bytes(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller promises `len` bytes on both sides. The order of the steps is such
        // that no byte is overwritten before it was read.
        unsafe {
            if (to as usize) <= (from as usize) {
                let mut done = 0;
                while done + 16 <= len {
                    store_128(to.add(done), load_128(from.add(done)));
                    done += 16;
                }
                while done + 8 <= len {
                    store_u64(to.add(done), load_u64(from.add(done)));
                    done += 8;
                }
                while done < len {
                    store_u8(to.add(done), load_u8(from.add(done)));
                    done += 1;
                }
            } else {
                let mut left = len;
                while left >= 16 {
                    left -= 16;
                    store_128(to.add(left), load_128(from.add(left)));
                }
                while left >= 8 {
                    left -= 8;
                    store_u64(to.add(left), load_u64(from.add(left)));
                }
                while left > 0 {
                    left -= 1;
                    store_u8(to.add(left), load_u8(from.add(left)));
                }
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn zero(at: *mut u8, len: usize) {
        // SAFETY: the caller promises `len` bytes that it may write.
        unsafe {
            let mut done = 0;
            while done + 16 <= len {
                store_128(at.add(done), _mm_setzero_si128());
                done += 16;
            }
            while done < len {
                store_u8(at.add(done), 0);
                done += 1;
            }
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(at: *const u8) {
        // SAFETY: a prefetch of any address does nothing but warm a cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod raw {
    //! Portable: byte by byte with relaxed atomics, so that widths never mix. On aarch64, where
    //! fields are read with their own width elsewhere in the module, single-copy atomicity of
    //! plain loads and stores gives the same meaning.

    use std::sync::atomic::AtomicU8;
    use std::sync::atomic::Ordering::Relaxed;

    #[inline(always)]
    unsafe fn byte<'a>(at: *const u8) -> &'a AtomicU8 {
        // SAFETY: the caller promises a mapped byte that outlives the use.
        unsafe { AtomicU8::from_ptr(at.cast_mut()) }
    }

    #[inline(always)]
    pub(super) unsafe fn load_u64(at: *const u8) -> u64 {
        let mut word = [0; 8];
        // SAFETY: the caller promises 8 mapped bytes.
        unsafe { copy_out(at, word.as_mut_ptr(), 8) };
        u64::from_ne_bytes(word)
    }

    #[inline(always)]
    pub(super) unsafe fn load_u16(at: *const u8) -> u16 {
        let mut word = [0; 2];
        // SAFETY: the caller promises 2 mapped bytes.
        unsafe { copy_out(at, word.as_mut_ptr(), 2) };
        u16::from_ne_bytes(word)
    }

    #[inline(always)]
    pub(super) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
        for i in 0..len {
            // SAFETY: the caller promises `len` bytes on both sides.
            unsafe { to.add(i).write(byte(from.add(i)).load(Relaxed)) };
        }
    }

    #[inline(always)]
    pub(super) unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
        for i in 0..len {
            // SAFETY: the caller promises `len` bytes on both sides.
            unsafe { byte(to.add(i)).store(from.add(i).read(), Relaxed) };
        }
    }

    #[inline(always)]
    pub(super) unsafe fn move_bytes(from: *const u8, to: *mut u8, len: usize) {
        let one = |i: usize| {
            // SAFETY: the caller promises `len` bytes on both sides.
            unsafe { byte(to.add(i)).store(byte(from.add(i)).load(Relaxed), Relaxed) }
        };
        if (to as usize) <= (from as usize) {
            (0..len).for_each(one);
        } else {
            (0..len).rev().for_each(one);
        }
    }

    #[inline(always)]
    pub(super) unsafe fn zero(at: *mut u8, len: usize) {
        for i in 0..len {
            // SAFETY: the caller promises `len` bytes that it may write.
            unsafe { byte(at.add(i)).store(0, Relaxed) };
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(_at: *const u8) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> PageBuf {
        let mut buf = PageBuf::new(PageSize::MIN);
        for (i, byte) in buf.bytes_mut().iter_mut().enumerate() {
            *byte = (i * 7 + i / 256) as u8;
        }
        buf
    }

    #[test]
    fn moves_agree_with_slices() {
        for len in (0..70).chain([500]) {
            for (from, to) in [(100, 200), (100, 103), (103, 100), (100, 116), (116, 100), (9, 9)] {
                let (mut ours, mut model) = (filled(), filled().bytes().to_vec());
                ours.page_mut().copy_within(from, to, len);
                model.copy_within(from..from + len, to);
                assert_eq!(ours.bytes(), model, "{len} bytes from {from} to {to}");

                let mut out = vec![0; len];
                assert_eq!(ours.page().copy_to(from, &mut out), len);
                assert_eq!(out, model[from..from + len]);
                let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
                ours.page_mut().write(to, &bytes);
                model[to..to + len].copy_from_slice(&bytes);
                ours.page_mut().zero(from, len / 2);
                model[from..from + len / 2].fill(0);
                assert_eq!(ours.bytes(), model);
            }
        }
    }

    #[test]
    fn comparison_agrees_with_slices() {
        let buf = filled();
        for len in 0..30 {
            for other in [0usize, 1, 7, 8, 9, 15, 16, 17, 29] {
                for change in [None, Some(0), Some(3), Some(8), Some(12)] {
                    let mut bytes = buf.bytes()[50..50 + other].to_vec();
                    if let Some(byte) = change.and_then(|at| bytes.get_mut(at)) {
                        *byte = byte.wrapping_add(100);
                    }
                    let expected = buf.bytes()[50..50 + len].cmp(&bytes);
                    assert_eq!(buf.page().compare(50, len, &bytes), expected);
                }
            }
        }
    }

    #[test]
    fn reads_stay_in_the_page_and_numbers_are_little_endian() {
        let mut buf = filled();
        let page = buf.page();
        assert_eq!(page.u64(usize::MAX), page.u64(4088));
        assert_eq!(page.u16(5), page.u16(4));
        assert_eq!(page.copy_to(4090, &mut [0; 20]), 6);
        let mut out = Vec::new();
        page.append_to(4000, 1000, &mut out);
        assert_eq!(out, buf.bytes()[4000..]);
        buf.page_mut().write_u64(13, 0x0102_0304_0506_0708);
        assert_eq!(buf.bytes()[13], 8);
        assert_eq!(buf.page().unaligned_u64(13), 0x0102_0304_0506_0708);
        assert_eq!(buf.page().big_endian(13, 2), 0x0807 << 48);
        assert_eq!(buf.page().big_endian(13, 0), 0);
    }
}
