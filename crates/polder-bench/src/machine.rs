//! Where figures were taken.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::size::{parse_bytes, show_bytes};
use crate::usage;

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    /// Of the largest cache that a core uses; `None` where the system does not say.
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) kernel: String,
    /// Of the kernel's transparent huge pages, as it shows it.
    pub(crate) huge_pages: String,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let processor = processors.lines().find_map(|line| line.strip_prefix("model name\t:"));
        let memory_kib = usage::number(&read("/proc/meminfo"), "MemTotal:");
        Machine {
            processor: processor.unwrap_or_default().trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get()),
            memory_bytes: memory_kib.unwrap_or(0) * 1024,
            cache_bytes: largest_cache(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled").trim().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = match self.cache_bytes {
            Some(bytes) => format!("a cache of {}", show_bytes(bytes)),
            None => "caches of unknown size".to_owned(),
        };
        let Machine { processor, cores, kernel, huge_pages, .. } = self;
        let memory = show_bytes(self.memory_bytes);
        write!(
            f,
            "{processor}, {cores} cores, {cache}, {memory} of memory, Linux {kernel}, transparent \
             huge pages: {huge_pages}"
        )
    }
}

/// Of the caches in a directory `cache` of the kernel's, one directory `index*` for each.
fn largest_cache(dir: &Path) -> Option<u64> {
    let sizes = fs::read_dir(dir).ok()?.filter_map(|entry| {
        let size = fs::read_to_string(entry.ok()?.path().join("size")).ok()?;
        parse_bytes(&format!("{}iB", size.trim())).ok()
    });
    sizes.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_counts() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(largest_cache(dir.path()), None);
        for (index, size) in ["48K\n", "491520K\n", "2M\n", "none\n"].into_iter().enumerate() {
            let cache = dir.path().join(format!("index{index}"));
            fs::create_dir(&cache).unwrap();
            fs::write(cache.join("size"), size).unwrap();
        }
        fs::write(dir.path().join("uevent"), "").unwrap();
        assert_eq!(largest_cache(dir.path()), Some(480 << 20));
        assert_eq!(largest_cache(&dir.path().join("elsewhere")), None);
    }
}
