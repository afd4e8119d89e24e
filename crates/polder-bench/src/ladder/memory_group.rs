//! A control group that limits the memory of one run, so that the kernel swaps what is more.
//!
//! The parent makes it before the run and removes it afterwards, also if the run was killed; the
//! run sets the limit and enters. Version 1 of control groups has it below the group of this
//! process, whose own limits go on to hold. Version 2 has processes in leaves alone, so there it is
//! beside it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, process, thread};

use crate::error::BenchError;
use crate::size::show_bytes;
use crate::usage::number;

/// Where the kernel shows its groups.
const ROOT: &str = "/sys/fs/cgroup";
/// Names of the file with the limit, in versions 2 and 1.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];
const PROCESSES: &str = "cgroup.procs";
/// A group is not empty at once when its process has ended.
const REMOVAL_TRIES: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// A group, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// An empty group. Else says why there can be none, and what to do.
    pub(crate) fn make() -> Result<MemoryGroup, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let made = parent(&groups, Path::new(ROOT)).and_then(|parent| MemoryGroup::in_(&parent));
        made.map_err(|why| {
            format!(
                "no control group with a limit of memory can be made ({why}): run it as root, or \
                 under systemd-run --user --scope"
            )
        })
    }

    fn in_(parent: &Path) -> Result<MemoryGroup, String> {
        let path = parent.join(format!("polder-bench-{}", process::id()));
        // Of a process that had this number before and was killed.
        let _ = fs::remove_dir(&path);
        let made = fs::create_dir(&path);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        let group = MemoryGroup(path);
        match limit_of(&group.0) {
            Some(_) => Ok(group),
            None => Err(format!("{} limits no memory", parent.display())),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVAL_TRIES {
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(REMOVAL_PAUSE);
                }
                _ => break,
            }
        }
    }
}

/// Limits the group to so many bytes and puts this process into it. What the process has of memory
/// by then counts where it was.
pub(crate) fn enter(group: &Path, bytes: u64) -> Result<(), BenchError> {
    let limit = limit_of(group).unwrap_or_else(|| group.join(LIMITS[0]));
    fs::write(&limit, bytes.to_string()).map_err(BenchError::file(&limit))?;
    let processes = group.join(PROCESSES);
    fs::write(&processes, process::id().to_string()).map_err(BenchError::file(&processes))
}

fn limit_of(group: &Path) -> Option<PathBuf> {
    LIMITS.iter().map(|name| group.join(name)).find(|path| path.exists())
}

/// In which group others can be made, by the lines of `/proc/self/cgroup`.
fn parent(groups: &str, root: &Path) -> Result<PathBuf, String> {
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|controller| controller == "memory") {
            let base = root.join("memory");
            // In a container the path may be one that only its host sees.
            let own = base.join(path);
            return Ok(if own.is_dir() { own } else { base });
        }
        let is_second = controllers.is_empty() && root.join("cgroup.controllers").exists();
        if is_second {
            let own = root.join(path);
            let beside = if path.is_empty() { root } else { own.parent().unwrap_or(root) };
            let hands_on = fs::read_to_string(beside.join("cgroup.subtree_control"));
            let hands_on = hands_on.unwrap_or_default();
            return match hands_on.split_whitespace().any(|controller| controller == "memory") {
                true => Ok(beside.to_owned()),
                false => Err(format!("{} limits no memory", beside.display())),
            };
        }
    }
    Err("the kernel shows none".to_owned())
}

/// Nothing if so much swap is free; else says so, and what to do.
pub(crate) fn check_swap(needed_bytes: u64) -> Result<(), String> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = free_swap_bytes(&text);
    if free >= needed_bytes {
        return Ok(());
    }
    Err(format!(
        "{} of swap are free, and it needs {}: mkswap and swapon give more",
        show_bytes(free),
        show_bytes(needed_bytes)
    ))
}

fn free_swap_bytes(meminfo: &str) -> u64 {
    number(meminfo, "SwapFree:").unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_swap_is_read() {
        assert_eq!(free_swap_bytes("SwapTotal: 9 kB\nSwapFree:        2 kB\n"), 2048);
        assert_eq!(free_swap_bytes("MemFree: 2 kB\n"), 0);
        let why = check_swap(u64::MAX).unwrap_err();
        assert!(why.contains("swapon"), "{why}");
    }

    #[test]
    fn groups_are_made_below_our_own_or_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert!(parent("", root).is_err());

        let first = "5:cpu:/a\n4:memory,other:/a/b\n0::/a/b\n";
        assert_eq!(parent(first, root).unwrap(), root.join("memory"));
        fs::create_dir_all(root.join("memory/a/b")).unwrap();
        assert_eq!(parent(first, root).unwrap(), root.join("memory/a/b"));

        let second = "0::/user/scope\n";
        assert!(parent(second, root).is_err(), "of version 1 without memory");
        fs::create_dir_all(root.join("user/scope")).unwrap();
        fs::write(root.join("cgroup.controllers"), "cpu memory\n").unwrap();
        let why = parent(second, root).unwrap_err();
        assert!(why.contains("user limits no memory"), "{why}");
        fs::write(root.join("user/cgroup.subtree_control"), "cpu memory\n").unwrap();
        assert_eq!(parent(second, root).unwrap(), root.join("user"));
        fs::write(root.join("cgroup.subtree_control"), "memory\n").unwrap();
        assert_eq!(parent("0::/\n", root).unwrap(), root);
    }

    #[test]
    fn a_directory_that_is_no_group_is_removed_and_refused() {
        let dir = tempfile::tempdir().unwrap();
        let why = MemoryGroup::in_(dir.path()).unwrap_err();
        assert!(why.contains("limits no memory"), "{why}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        let why = MemoryGroup::in_(&dir.path().join("nowhere")).unwrap_err();
        assert!(why.contains("nowhere"), "{why}");
    }

    #[test]
    fn a_limit_is_set_before_a_process_enters() {
        let dir = tempfile::tempdir().unwrap();
        for name in LIMITS.into_iter().rev() {
            fs::write(dir.path().join(name), "max").unwrap();
            enter(dir.path(), 4096).unwrap();
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), "4096");
            let entered = fs::read_to_string(dir.path().join(PROCESSES)).unwrap();
            assert_eq!(entered, process::id().to_string());
        }
    }
}
