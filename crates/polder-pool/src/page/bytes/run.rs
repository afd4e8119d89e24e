//! Runs of bytes that are read by whole registers: distances of vectors.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{OVERRUN_BYTES, PageRef, copies, raw};

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
        unsafe { copies::copy_out(self.at(at), out.as_mut_ptr(), N) };
        out
    }

    /// The 8 bytes from `at` on, as a number.
    #[inline(always)]
    pub fn u64(self, at: usize) -> u64 {
        // SAFETY: 8 bytes are mapped at `at`.
        u64::from_le(unsafe { raw::load_u64(self.at(at)) })
    }

    /// What is behind the first `bytes`, if there are so many.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
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
        unsafe { copies::copy_out(self.first.as_ptr(), words.as_mut_ptr().cast(), len) };
    }
}

/// Loads of one register, and of four that lie behind each other.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! registers {
    ($load:ident by $one:ident, $split:ident by $four:ident, $register:ty, $feature:literal, $bytes:literal) => {
        impl<'a> Run<'a> {
            #[doc = concat!("The ", $bytes, " bytes from `at` on.")]
            ///
            /// # Safety
            #[doc = concat!("The processor has `", $feature, "`.")]
            /// (Code that is compiled for it may call this as any function.)
            #[inline]
            #[target_feature(enable = $feature)]
            pub fn $load(self, at: usize) -> $register {
                // SAFETY: so many bytes are mapped at `at`; the caller runs where the feature is.
                unsafe { raw::$one(self.at(at)) }
            }

            #[doc = concat!("The first four times ", $bytes, " bytes, and what is behind them, if there are so many.")]
            ///
            /// # Safety
            #[doc = concat!("The processor has `", $feature, "`.")]
            /// (Code that is compiled for it may call this as any function.)
            #[inline]
            #[target_feature(enable = $feature)]
            pub fn $split(self) -> Option<([$register; 4], Run<'a>)> {
                let rest = self.behind(4 * $bytes)?;
                // SAFETY: there are so many bytes; the caller runs where the feature is.
                Some((unsafe { raw::$four(self.first.as_ptr()) }, rest))
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{__m128i, __m256i, __m512i};

    use super::{Run, raw};

    registers!(load_128 by load_128_by_avx, split_4x128 by load_4x128, __m128i, "avx", 16);
    registers!(load_256 by load_256, split_4x256 by load_4x256, __m256i, "avx", 32);
    registers!(load_512 by load_512, split_4x512 by load_4x512, __m512i, "avx512f", 64);
}

#[cfg(target_arch = "aarch64")]
registers!(load_128 by load_128, split_4x128 by load_4x128, std::arch::aarch64::uint8x16_t, "neon", 16);

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({:p}, {} bytes)", self.first, self.len)
    }
}
