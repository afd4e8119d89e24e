//! The memory that the process really takes, as the kernel counts it.

use std::fs;

/// Resident memory at a moment.
pub struct Memory {
    before: Option<u64>,
}

impl Memory {
    /// Remembers what is resident now.
    pub fn now() -> Memory {
        Memory { before: field("VmRSS:") }
    }

    /// Bytes by which the peak of the process lies above that; `None` where the kernel does not
    /// say.
    pub fn grown_at_most_by(&self) -> Option<u64> {
        Some(field("VmHWM:")?.saturating_sub(self.before?))
    }
}

/// A field of the process's status, in bytes.
fn field(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
