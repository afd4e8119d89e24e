//! What the storage below a file writes as a whole: how many bytes a loss of power leaves old or
//! new, and never a part of each.
//!
//! Linux says it of each block device: its *logical block*, the unit in which it is addressed, of which
//! no part is written alone, however long the request. (The physical block may be larger, and is written
//! as a whole. But NVMe drives promise that of a request that is no longer, and the kernel joins
//! requests of neighbours.) A page is in one such block if what lies between is laid out in such blocks
//! as well: the file system, the partition, and all devices below one that is made of others. Where
//! anything is not known, nothing is promised: for a file in another file, an array of disks (`md`), a
//! file system without a block device of its own.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Where the kernel tells of block devices, by their numbers.
const BLOCK_DEVICES: &str = "/sys/dev/block";
/// Devices that are made of others, one below the other, at most.
const LEVELS: u32 = 8;

/// How many bytes, aligned to their number; 0 if it is not known.
pub(super) fn atomic_write_bytes(file: &File) -> u64 {
    let Ok(meta) = file.metadata() else { return 0 };
    let is_device = meta.file_type().is_block_device();
    let device = if is_device { meta.rdev() } else { meta.dev() };
    let (major, minor) = (libc::major(device), libc::minor(device));
    let path = Path::new(BLOCK_DEVICES).join(format!("{major}:{minor}"));
    let of_device = of_block_device(&path, LEVELS);
    if is_device { of_device } else { of_device.min(file_system_block_bytes(file)) }
}

/// In what units a file system lays out files.
fn file_system_block_bytes(file: &File) -> u64 {
    // SAFETY: plain numbers, for which zeros are a value.
    let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: asks about a file that is open, and fills in the struct that it is given.
    let failed = unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut told) } != 0;
    if failed { 0 } else { told.f_frsize }
}

fn of_block_device(device: &Path, levels: u32) -> u64 {
    let Ok(device) = fs::canonicalize(device) else { return 0 };
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let is_aligned = |of: &Path| number(&of.join("alignment_offset")) == Some(0);
    // A partition lies in the folder of its disk.
    let is_partition = device.join("partition").exists();
    let disk = if is_partition { device.parent().unwrap_or(&device) } else { &*device };
    let is_told_by_kernel = !disk.join("loop").exists() && !disk.join("md").exists();
    if levels == 0 || !is_aligned(&device) || !is_aligned(disk) || !is_told_by_kernel {
        return 0;
    }
    let own = number(&disk.join("queue/logical_block_size")).unwrap_or(0);
    let own = if own.is_power_of_two() { own } else { 0 };
    let Ok(below) = fs::read_dir(disk.join("slaves")) else { return own };
    below
        .map(|entry| entry.map_or(0, |entry| of_block_device(&entry.path(), levels - 1)))
        .fold(own, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk in a made-up `/sys`: its folder.
    fn disk(root: &Path, name: &str, logical: &str) -> std::path::PathBuf {
        let disk = root.join(name);
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("slaves")).unwrap();
        fs::write(disk.join("queue/logical_block_size"), format!("{logical}\n")).unwrap();
        fs::write(disk.join("queue/physical_block_size"), "16384\n").unwrap();
        fs::write(disk.join("alignment_offset"), "0\n").unwrap();
        disk
    }

    #[test]
    fn a_disk_and_its_partitions_write_logical_blocks() {
        let root = tempfile::tempdir().unwrap();
        let vda = disk(root.path(), "vda", "4096");
        assert_eq!(of_block_device(&vda, LEVELS), 4096);
        let (good, odd) = (vda.join("vda1"), vda.join("vda2"));
        for (partition, offset) in [(&good, "0"), (&odd, "512")] {
            fs::create_dir(partition).unwrap();
            fs::write(partition.join("partition"), "1\n").unwrap();
            fs::write(partition.join("alignment_offset"), offset).unwrap();
        }
        assert_eq!(of_block_device(&good, LEVELS), 4096);
        assert_eq!(of_block_device(&odd, LEVELS), 0, "it does not begin where a block does");
    }

    #[test]
    fn one_that_is_made_of_others_writes_what_the_least_of_them_does() {
        let root = tempfile::tempdir().unwrap();
        let [large, small] =
            [("sda", "4096"), ("sdb", "512")].map(|(name, size)| disk(root.path(), name, size));
        let dm = disk(root.path(), "dm-0", "4096");
        std::os::unix::fs::symlink(&large, dm.join("slaves/sda")).unwrap();
        assert_eq!(of_block_device(&dm, LEVELS), 4096);
        std::os::unix::fs::symlink(&small, dm.join("slaves/sdb")).unwrap();
        assert_eq!(of_block_device(&dm, LEVELS), 512);
        // One that stands for itself ends somewhere.
        std::os::unix::fs::symlink(&dm, dm.join("slaves/dm-0")).unwrap();
        assert_eq!(of_block_device(&dm, LEVELS), 0);
    }

    #[test]
    fn where_something_is_not_known_nothing_is_promised() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(of_block_device(&root.path().join("none"), LEVELS), 0);
        for kind in ["loop", "md"] {
            let device = disk(root.path(), &format!("{kind}0"), "4096");
            fs::create_dir(device.join(kind)).unwrap();
            assert_eq!(of_block_device(&device, LEVELS), 0, "{kind}");
        }
        let odd = disk(root.path(), "sdc", "many");
        assert_eq!(of_block_device(&odd, LEVELS), 0);
    }
}
