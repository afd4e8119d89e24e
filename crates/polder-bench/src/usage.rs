//! What this process has used, as the kernel counts it.
//!
//! Bytes written are `write_bytes` of `/proc/self/io`: what all threads of the process, those of
//! the engine too, have sent towards the block layer. A direct write counts when it is submitted,
//! for what it is. What is written by way of the page cache, or through a map, counts when it makes
//! memory dirty, once until that is written back, however often it changes in between. Where the
//! file system keeps a file in large folios (ext4 does from Linux 6.16 on), a folio counts in full,
//! whatever little of it became dirty and is written back later. So this is right for engines with
//! direct I/O, and an upper bound for others: for small writes in random places, many times what
//! reaches the device. The journal of the file system is the kernel's own and is not in it, nor is
//! what the device does inside.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

use crate::engine::DeviceStats;

/// The kernel counts bytes; a request is taken to be one page.
const DEVICE_PAGE_BYTES: u64 = 4096;

/// Use since the process began, or since an earlier moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Processor time of all threads, in user and in kernel mode, in seconds.
    pub(crate) cpu_s: f64,
    pub(crate) device: DeviceStats,
    /// Bytes that will be or were written to a device; `None` where the kernel does not say.
    pub(crate) written_bytes: Option<u64>,
}

impl Usage {
    /// Up to now. Requests to the device are those that an engine has counted, or else pages of 4 KiB.
    pub(crate) fn now(counted: Option<DeviceStats>) -> Usage {
        // Some containers hide the file; then nothing is counted.
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let written_bytes = number(&io, "write_bytes:");
        let pages = |bytes: Option<u64>| bytes.unwrap_or(0) / DEVICE_PAGE_BYTES;
        let (reads, writes) = (pages(number(&io, "read_bytes:")), pages(written_bytes));
        let device = counted.unwrap_or(DeviceStats { reads, writes });
        Usage { cpu_s: cpu_seconds(), device, written_bytes }
    }

    /// What was used since then.
    pub(crate) fn since(self, then: Usage) -> Usage {
        let device = DeviceStats {
            reads: self.device.reads.saturating_sub(then.device.reads),
            writes: self.device.writes.saturating_sub(then.device.writes),
        };
        let written = self.written_bytes.zip(then.written_bytes);
        let written_bytes = written.map(|(now, then)| now.saturating_sub(then));
        Usage { cpu_s: self.cpu_s - then.cpu_s, device, written_bytes }
    }
}

/// The largest resident set that the process ever had, in bytes.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(number(&status, "VmHWM:")? * 1024)
}

/// Gives memory that was freed back to the kernel, where the allocator would keep it: an engine
/// that lives in the heap must not begin a round with memory that is already backed, while others
/// map theirs anew.
pub(crate) fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only touches memory that the allocator owns.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The numbers behind a label that begins a line.
fn numbers(text: &str, label: &str) -> Option<impl Iterator<Item = u64>> {
    let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
    Some(rest.split_whitespace().map_while(|word| word.parse().ok()))
}

/// The first of them.
pub(crate) fn number(text: &str, label: &str) -> Option<u64> {
    numbers(text, label)?.next()
}

/// TLB shootdowns of all processors since the system began.
pub(crate) fn shootdowns() -> Option<u64> {
    Some(numbers(&fs::read_to_string("/proc/interrupts").ok()?, "TLB:")?.sum())
}

/// Processor time of all threads so far.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_this_process() {
        let before = Usage::now(None);
        let mut x = 1u64;
        while Usage::now(None).since(before).cpu_s < 0.02 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(peak_rss_bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn numbers_are_found_by_their_label() {
        let text =
            "rchar: 5\nread_bytes: 8192\nVmHWM:\t  12 kB\n TLB:   10   32   TLB shootdowns\n";
        assert_eq!(number(text, "read_bytes:"), Some(8192));
        assert_eq!(number(text, "VmHWM:"), Some(12));
        assert_eq!(number(text, "bytes:"), None);
        assert_eq!(numbers(text, "TLB:").unwrap().sum::<u64>(), 42);
    }
}
