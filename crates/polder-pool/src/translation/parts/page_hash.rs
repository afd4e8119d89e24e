//! One hash of a page id, from which a table takes its bucket, its fingerprint and the page's
//! preferred frame.

#![cfg(not(loom))]

use polder_format::PageId;

/// 64 bits of which each depends on each bit of the page id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHash(u64);

impl PageHash {
    /// Two multiplications, the second of 64 by 64 bits and folded, as wyhash mixes its words. Page
    /// ids are small numbers that follow each other. One multiplication alone would lay them out too
    /// evenly, and in bad luck too unevenly, to be compared with what chance does.
    #[inline(always)]
    pub(crate) fn of(page: PageId) -> PageHash {
        const A: u64 = 0xA076_1D64_78BD_642F;
        const B: u64 = 0xE703_7ED1_A0B4_28DB;
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let page = page.to_bits();
        let product = u128::from(page ^ A) * u128::from(page.wrapping_mul(GOLDEN) ^ B);
        PageHash((product >> 64) as u64 ^ product as u64)
    }

    /// A number below `n`, from the upper bits: a multiplication instead of a division.
    #[inline(always)]
    pub(crate) fn below(self, n: u32) -> u32 {
        ((u64::from((self.0 >> 32) as u32) * u64::from(n)) >> 32) as u32
    }

    /// Another number below `n`, from other bits.
    #[inline(always)]
    pub(crate) fn also_below(self, n: u32) -> u32 {
        PageHash(self.0.rotate_left(32)).below(n)
    }

    /// A byte that is never 0.
    #[inline(always)]
    pub(crate) fn fingerprint(self) -> u8 {
        // The lowest byte has no part in `below` of any table smaller than 2^24.
        (self.0 as u8).max(1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use polder_format::{PageNo, SpaceId};

    /// Buckets of the pages of a space, and of two spaces that grow together, are as full as those
    /// of random numbers: the chance of a bucket with k entries is Poisson's.
    #[test]
    fn spreads_pages_as_chance_would() {
        const N: u32 = 1 << 16;
        let page = |space: u64, number: u64| {
            PageId::new(SpaceId::new(space).unwrap(), PageNo::new(number).unwrap())
        };
        let dense: Vec<_> = (0..u64::from(N)).map(|i| page(2, i)).collect();
        let two: Vec<_> = (0..u64::from(N)).map(|i| page(3 + i % 2, i / 2)).collect();
        let strided: Vec<_> = (0..u64::from(N)).map(|i| page(9, i * 512)).collect();
        for pages in [dense, two, strided] {
            for pick in [PageHash::below, PageHash::also_below] {
                let mut counts = vec![0usize; N as usize];
                pages.iter().for_each(|p| counts[pick(PageHash::of(*p), N) as usize] += 1);
                let empty = counts.iter().filter(|n| **n == 0).count() as f64 / f64::from(N);
                assert!((empty - (-1f64).exp()).abs() < 0.006, "{empty} of the buckets are empty");
                assert!(counts.iter().max() < Some(&14));
            }
            let mut bytes = [0usize; 256];
            pages.iter().for_each(|p| bytes[PageHash::of(*p).fingerprint() as usize] += 1);
            assert_eq!(bytes[0], 0);
            assert!(bytes[2..].iter().all(|n| (190..330).contains(n)), "{bytes:?}");
        }
    }
}
