//! What the storage below a file writes as a whole: how many bytes a loss of power leaves old or
//! new, and never a part of each.
//!
//! Linux says it of each block device: its *logical block*, the unit in which it is addressed, of which
//! no part is written alone, however long the request. (The physical block may be larger, and is written
//! as a whole. But NVMe drives promise that of a request that is no longer, and the kernel joins
//! requests of neighbours.) A page is in one such block if what lies between is laid out in such blocks
//! as well: the file system, the partition, and the device below one that is made of another. Where
//! anything is not known, nothing is promised: for a file in another file, several disks that stand for
//! one, other file systems than those that are known to begin blocks where the device does.

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

/// File systems that lay out files in blocks that begin where blocks of the device do.
const ALIGNED: [libc::c_long; 2] = [libc::EXT4_SUPER_MAGIC as _, libc::XFS_SUPER_MAGIC as _];

/// In what units a file system lays out files, if it is one of those that are known to align them.
fn file_system_block_bytes(file: &File) -> u64 {
    // SAFETY: plain numbers, for which zeros are a value.
    let mut told: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: asks about a file that is open, and fills in the struct that it is given.
    let failed = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut told) } != 0;
    let is_known = !failed && ALIGNED.contains(&(told.f_type as libc::c_long));
    if is_known { told.f_bsize as u64 } else { 0 }
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
    let mut below =
        below.map(|entry| entry.map_or(0, |it| of_block_device(&it.path(), levels - 1)));
    match (below.next(), below.next()) {
        (None, _) => own,
        (Some(below), None) => own.min(below),
        // Mirrors and parities of several disks can differ after a loss of power.
        (Some(_), Some(_)) => 0,
    }
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
    fn one_that_is_made_of_another_writes_what_the_lesser_does() {
        let root = tempfile::tempdir().unwrap();
        let (large, small) = (disk(root.path(), "sda", "4096"), disk(root.path(), "sdb", "512"));
        let of = |name: &str, below: &[&Path]| {
            let dm = disk(root.path(), name, "4096");
            for (number, below) in below.iter().enumerate() {
                std::os::unix::fs::symlink(below, dm.join(format!("slaves/{number}"))).unwrap();
            }
            (of_block_device(&dm, LEVELS), dm)
        };
        assert_eq!(of("dm-0", &[&large]).0, 4096);
        assert_eq!(of("dm-1", &[&small]).0, 512);
        assert_eq!(of("dm-2", &[&large, &large]).0, 0, "it may be a mirror");
        // One that stands for itself ends somewhere.
        let (_, dm) = of("dm-3", &[]);
        std::os::unix::fs::symlink(&dm, dm.join("slaves/0")).unwrap();
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
