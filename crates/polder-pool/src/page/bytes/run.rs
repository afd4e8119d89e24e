//! Runs of bytes that are read by whole registers: distances of vectors.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{OVERRUN_BYTES, PageRef, raw};

/// Bytes that lie together, in a page, which may change while they are read, or in memory of the
/// caller's. A read of more bytes than are left gives arbitrary ones for the rest.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    first: NonNull<u8>,
    /// So many bytes and `OVERRUN_BYTES` more are mapped from the first one on.
    len: usize,
    life: PhantomData<&'a [u64]>,
}

impl<'a> PageRef<'a> {
    /// The `len` bytes from `offset` on, fewer if the page ends.
    #[inline(always)]
    pub fn run(self, offset: usize, len: usize) -> Run<'a> {
        let offset = offset & self.mask;
        let len = len.min(self.size() - offset);
        // SAFETY: the offset lies in the page.
        let first = unsafe { self.base.add(offset) };
        Run { first, len, life: PhantomData }
    }
}

impl<'a> Run<'a> {
    /// Private memory: all of these words but the last [`OVERRUN_BYTES`], which are padding; of
    /// fewer words none.
    #[inline]
    pub fn of(words: &'a [u64]) -> Run<'a> {
        match (8 * words.len()).checked_sub(OVERRUN_BYTES) {
            Some(len) => Run { first: NonNull::from(words).cast(), len, life: PhantomData },
            None => Run::of(&[0; OVERRUN_BYTES / 8]),
        }
    }

    /// The `len` bytes of these from `from` on, fewer if there are not so many.
    #[inline(always)]
    pub fn part(self, from: usize, len: usize) -> Run<'a> {
        let from = from.min(self.len);
        // SAFETY: at most the end of the run, behind which as much is mapped as before.
        let first = unsafe { self.first.add(from) };
        Run { first, len: len.min(self.len - from), life: PhantomData }
    }

    /// How many bytes there are.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn at(self, at: usize) -> *const u8 {
        // SAFETY: within the run, or at its end, behind which OVERRUN_BYTES are mapped.
        unsafe { self.first.as_ptr().add(at.min(self.len)) }
    }

    /// The `N` bytes from `at` on, at most [`OVERRUN_BYTES`]: more do not compile.
    #[inline(always)]
    pub fn array<const N: usize>(self, at: usize) -> [u8; N] {
        const { assert!(N <= OVERRUN_BYTES) };
        let mut out = [0; N];
        // SAFETY: `N` bytes are mapped at `at`; `out` has room for them.
        unsafe { raw::copy_out(self.at(at), out.as_mut_ptr(), N) };
        out
    }

    /// The 8 bytes from `at` on, as a number.
    #[inline(always)]
    pub fn u64(self, at: usize) -> u64 {
        // SAFETY: 8 bytes are mapped at `at`.
        u64::from_le(unsafe { raw::load_u64(self.at(at)) })
    }

    /// The 16 bytes from `at` on.
    ///
    /// # Safety
    /// The processor has AVX. (Code that is compiled for it may call this as any function.)
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx")]
    pub fn load_128(self, at: usize) -> std::arch::x86_64::__m128i {
        // SAFETY: 16 bytes are mapped at `at`; the caller runs where there is AVX.
        unsafe { raw::load_128_by_avx(self.at(at)) }
    }

    /// The 32 bytes from `at` on.
    ///
    /// # Safety
    /// The processor has AVX. (Code that is compiled for it may call this as any function.)
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx")]
    pub fn load_256(self, at: usize) -> std::arch::x86_64::__m256i {
        // SAFETY: 32 bytes are mapped at `at`; the caller runs where there is AVX.
        unsafe { raw::load_256(self.at(at)) }
    }

    /// The 64 bytes from `at` on.
    ///
    /// # Safety
    /// The processor has AVX512. (Code that is compiled for it may call this as any function.)
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn load_512(self, at: usize) -> std::arch::x86_64::__m512i {
        // SAFETY: 64 bytes are mapped at `at`; the caller runs where there is AVX512.
        unsafe { raw::load_512(self.at(at)) }
    }

    /// The first 64 bytes in four registers, and what is behind them, if there are so many.
    ///
    /// # Safety
    /// The processor has AVX. (Code that is compiled for it may call this as any function.)
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx")]
    pub fn split_4x128(self) -> Option<([std::arch::x86_64::__m128i; 4], Run<'a>)> {
        let rest = self.behind(64)?;
        // SAFETY: there are 64 bytes; the caller runs where there is AVX.
        Some((unsafe { raw::load_4x128(self.first.as_ptr()) }, rest))
    }

    /// The first 128 bytes in four registers, and what is behind them, as [`Run::split_4x128`].
    ///
    /// # Safety
    /// The processor has AVX. (Code that is compiled for it may call this as any function.)
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx")]
    pub fn split_4x256(self) -> Option<([std::arch::x86_64::__m256i; 4], Run<'a>)> {
        let rest = self.behind(128)?;
        // SAFETY: there are 128 bytes; the caller runs where there is AVX.
        Some((unsafe { raw::load_4x256(self.first.as_ptr()) }, rest))
    }

    /// The first 256 bytes in four registers, and what is behind them, as [`Run::split_4x128`].
    ///
    /// # Safety
    /// The processor has AVX512. (Code that is compiled for it may call this as any function.)
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn split_4x512(self) -> Option<([std::arch::x86_64::__m512i; 4], Run<'a>)> {
        let rest = self.behind(256)?;
        // SAFETY: there are 256 bytes; the caller runs where there is AVX512.
        Some((unsafe { raw::load_4x512(self.first.as_ptr()) }, rest))
    }

    /// What is behind the first `bytes`, if there are so many.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    fn behind(self, bytes: usize) -> Option<Run<'a>> {
        if self.len < bytes {
            return None;
        }
        // SAFETY: at most the end of the run, behind which as much is mapped as before.
        let first = unsafe { self.first.add(bytes) };
        Some(Run { first, len: self.len - bytes, life: PhantomData })
    }

    /// Asks the processor for all of them.
    #[inline(always)]
    pub fn prefetch(self) {
        for line in 0..self.len.div_ceil(64) {
            // SAFETY: within the run, or at its end.
            raw::prefetch(unsafe { self.first.as_ptr().add(64 * line) });
        }
    }

    /// Copies them to the beginning of `words`, as far as these reach.
    pub fn copy_to(self, words: &mut [u64]) {
        let len = self.len.min(8 * words.len());
        // SAFETY: so many bytes are mapped, and lie in `words`; any bytes are a u64.
        unsafe { raw::copy_out(self.first.as_ptr(), words.as_mut_ptr().cast(), len) };
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({:p}, {} bytes)", self.first, self.len)
    }
}
