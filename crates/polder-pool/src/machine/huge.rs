//! How much of a range of addresses huge pages back, as the kernel tells.
//!
//! Where the kernel can be asked about a range (`PAGEMAP_SCAN`, Linux 6.7) it looks at that alone.
//! `/proc/self/smaps`, which others have, goes through the page tables of the whole process.

#![cfg(not(loom))]

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region`: addresses of pages that are alike.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = 3 << 30 | (size_of::<Scan>() as u64) << 16 | (b'f' as u64) << 8 | 16;
/// `PAGE_IS_HUGE`: a huge page is mapped there as one.
const IS_HUGE: u64 = 1 << 6;

/// Bytes of the addresses that huge pages back.
pub(super) fn bytes_in(addresses: Range<usize>) -> u64 {
    scanned(&addresses).or_else(|_| listed(&addresses)).unwrap_or(0)
}

fn scanned(addresses: &Range<usize>) -> io::Result<u64> {
    let map = File::open("/proc/self/pagemap")?;
    let mut regions = [Region::default(); 64];
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        start: addresses.start as u64,
        end: addresses.end as u64,
        regions: regions.as_mut_ptr() as u64,
        regions_len: regions.len() as u64,
        mask: IS_HUGE,
        returned: IS_HUGE,
        ..Scan::default()
    };
    let mut bytes = 0;
    while scan.start < scan.end {
        // SAFETY: the kernel writes to `scan` and to as many regions as it says that there are.
        let found = unsafe { libc::ioctl(map.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
        let Ok(found) = usize::try_from(found) else { return Err(io::Error::last_os_error()) };
        bytes += regions[..found].iter().map(|region| region.end - region.start).sum::<u64>();
        if scan.walk_end <= scan.start {
            break;
        }
        scan.start = scan.walk_end;
    }
    Ok(bytes)
}

fn listed(addresses: &Range<usize>) -> io::Result<u64> {
    let (mut is_inside, mut kib) = (false, 0);
    for line in fs::read_to_string("/proc/self/smaps")?.lines() {
        if let Some((from, to)) = address_range(line) {
            is_inside = from < addresses.end && to > addresses.start;
        } else if let Some(rest) = line.strip_prefix("AnonHugePages:").filter(|_| is_inside) {
            kib += rest.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0);
        }
    }
    Ok(kib * 1024)
}

fn address_range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{HUGE_PAGE_BYTES, Mapping};

    /// Both ways tell the same, where the kernel has both. Of the midst of a mapping: what is listed is of
    /// all that the kernel keeps as one, which may begin or end with a neighbour's.
    #[test]
    fn what_is_scanned_is_what_is_listed() {
        const PART: usize = 4 * HUGE_PAGE_BYTES;
        let mapping = Mapping::new("a test", 3 * PART, HUGE_PAGE_BYTES).unwrap();
        mapping.prefer_huge_pages_in(PART, PART);
        mapping.populate(2 * PART).unwrap();
        let from = mapping.base().as_ptr() as usize + PART;
        let listed = listed(&(from..from + PART)).unwrap();
        assert!(listed <= PART as u64 && listed.is_multiple_of(HUGE_PAGE_BYTES as u64), "{listed}");
        if let Ok(scanned) = scanned(&(from..from + PART)) {
            assert_eq!(scanned, listed);
        }
    }
}
