//! Block devices in sysfs: numbers, nodes, partitions, slaves.
//!
//! Does **not** own: the meaning of these facts for locking.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::Span;

/// The unit of sizes in sysfs in bytes, whatever the sector size of the device is.
const SECTOR_BYTES: u64 = 512;

/// Returns a device number in the text form of procfs and sysfs: `major:minor`.
pub(crate) fn device_name(number: u64) -> String {
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

/// Parses a device number in the text form `major:minor`. Returns `None` for other text.
pub(super) fn parse_device_name(name: &str) -> Option<u64> {
    let (major, minor) = name.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the first line of a file, without its newline. `None` if the file cannot be read.
pub(crate) fn read_line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

pub(super) fn read_number(path: &Path) -> Option<u64> {
    read_line(path)?.parse().ok()
}

/// Returns the directory of a block device in sysfs.
pub(super) fn directory_of(number: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(device_name(number))
}

/// Returns the device number of the block device whose directory in sysfs is `directory`, or `None`
/// if the directory states none.
pub(super) fn number_in(directory: &Path) -> Option<u64> {
    parse_device_name(&read_line(&directory.join("dev"))?)
}

/// Returns the path of the device's node in /dev. Returns `None` if the node of that name belongs
/// to another device.
pub(super) fn node_of(number: u64) -> Option<PathBuf> {
    let facts = fs::read_to_string(directory_of(number).join("uevent")).ok()?;
    let name = facts.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    let node = Path::new("/dev").join(name);
    let found = fs::metadata(&node).ok()?;
    (found.file_type().is_block_device() && found.rdev() == number).then_some(node)
}

/// Returns the disk that contains a partition, and the byte range of the partition on that disk.
/// Returns `None` if the device is not a partition.
pub(super) fn disk_of_partition(number: u64) -> Option<(u64, Span)> {
    let directory = directory_of(number);
    if !directory.join("partition").exists() {
        return None;
    }
    let start = read_number(&directory.join("start"))?.checked_mul(SECTOR_BYTES)?;
    let length = read_number(&directory.join("size"))?.checked_mul(SECTOR_BYTES)?;
    let disk = fs::canonicalize(directory).ok()?;
    Some((number_in(disk.parent()?)?, Span::new(start, Some(length))))
}

/// Returns the device numbers of a block device's partitions.
pub(crate) fn partitions_of(number: u64) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(directory_of(number)) else { return Vec::new() };
    let below = entries.filter_map(Result::ok).map(|entry| entry.path());
    below
        .filter(|path| path.join("partition").exists())
        .filter_map(|path| number_in(&path))
        .collect()
}

/// Returns the devices of which a mapped or RAID device is made: for each the device number, and
/// whether other devices also use it.
pub(super) fn slaves_of(number: u64) -> Vec<(u64, bool)> {
    let Ok(entries) = fs::read_dir(directory_of(number).join("slaves")) else { return Vec::new() };
    let slaves = entries.filter_map(Result::ok).map(|entry| entry.path());
    let is_shared =
        |slave: &Path| fs::read_dir(slave.join("holders")).is_ok_and(|holders| holders.count() > 1);
    slaves.filter_map(|slave| Some((number_in(&slave)?, is_shared(&slave)))).collect()
}
