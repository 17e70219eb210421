//! Finds other users of a file or block device: a mount, or a loop device made of it.
//!
//! Owns: asking the kernel through procfs and sysfs. Does **not** own: whether a device in use may
//! be opened.
//!
//! The answer is a best effort, and not a lock. A mount in another mount namespace is not visible,
//! and another program may mount the device a moment later. For writing to a block device, `O_EXCL`
//! closes both gaps. For image files, both gaps stay.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::file::DeviceAccess;
use crate::stack::{FileIdentity, Level, LoopDevice, Twin, device_name, partitions_of, read_line};

/// A use of a device by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelUse {
    /// The device, one of its partitions, or a loop device made of it is mounted.
    Mounted {
        /// The mount point.
        mount_point: PathBuf,
    },
    /// A loop device is made of the file or device. The loop device is not mounted.
    Loop {
        /// Path of the loop device.
        device: PathBuf,
    },
}

impl KernelUse {
    /// Returns whether the use conflicts with this access. A loop device that is not mounted does
    /// not conflict with a reader. The loop device conflicts with a writer, because it would not
    /// see the writer's changes.
    #[must_use]
    pub fn conflicts(&self, access: DeviceAccess) -> bool {
        match self {
            Self::Mounted { .. } => true,
            Self::Loop { .. } => access == DeviceAccess::ReadWrite,
        }
    }
}

impl fmt::Display for KernelUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { mount_point } => write!(f, "is mounted at {}", mount_point.display()),
            Self::Loop { device } => write!(f, "is attached to {}", device.display()),
        }
    }
}

/// A device number in the text form of procfs and sysfs: `major:minor`.
type DeviceName = String;

/// Finds a use of the file or block device with this metadata. Returns `None` if there is none.
pub(crate) fn find(metadata: &Metadata) -> Option<KernelUse> {
    let mounts = Mounts::read();
    if metadata.file_type().is_block_device()
        && let Some(mount_point) = mounts.find_with_partitions(metadata.rdev())
    {
        return Some(KernelUse::Mounted { mount_point });
    }
    let own = FileIdentity::of(metadata);
    let loops = LoopDevice::all().into_iter().filter(|device| device.identity() == Some(own));
    let loops: Vec<LoopDevice> = loops.collect();
    let mounted = loops.iter().find_map(|device| mounts.find_with_partitions(device.number));
    if let Some(mount_point) = mounted {
        return Some(KernelUse::Mounted { mount_point });
    }
    Some(KernelUse::Loop { device: loops.first()?.shown() })
}

/// Finds a mount of one of the devices or files below the device (`levels`), or of another device
/// that is made of the same file (`twins`). Returns `None` if there is none.
pub(crate) fn find_in_stack(levels: &[Level], twins: &[Twin]) -> Option<KernelUse> {
    if levels.is_empty() {
        return None;
    }
    let mounts = Mounts::read();
    let of_level = |level: &Level| match level.identity {
        // Another partition of the same disk may be mounted.
        FileIdentity::Block(number) => mounts.find(&device_name(number)),
        FileIdentity::File { .. } => None,
    };
    let below = levels.iter().find_map(of_level);
    let beside = || twins.iter().find_map(|twin| mounts.find_with_partitions(twin.number));
    Some(KernelUse::Mounted { mount_point: below.or_else(beside)? })
}

/// The mounts of this process's mount namespace.
struct Mounts(Vec<(DeviceName, PathBuf)>);

impl Mounts {
    fn read() -> Self {
        let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
        Self(text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect())
    }

    fn find(&self, wanted: &str) -> Option<PathBuf> {
        let (_, mount_point) = self.0.iter().find(|(name, _)| name == wanted)?;
        Some(mount_point.clone())
    }

    /// Returns the mount point of this device or of one of its partitions. Returns `None` if none
    /// of them is mounted.
    fn find_with_partitions(&self, number: u64) -> Option<PathBuf> {
        let of_partition = |number: &u64| self.find(&device_name(*number));
        self.find(&device_name(number))
            .or_else(|| partitions_of(number).iter().find_map(of_partition))
    }
}

/// Parses a line of mountinfo. Returns its third and its fifth word, which are the device and the
/// mount point. Returns `None` if the words are missing.
fn parse_mount(line: &[u8]) -> Option<(DeviceName, PathBuf)> {
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    let name = String::from_utf8(words.next()?.to_vec()).ok()?;
    let mount_point = OsString::from_vec(unescape(words.nth(1)?));
    Some((name, PathBuf::from(mount_point)))
}

/// Replaces the kernel's escape sequences for blanks and backslashes, such as `\040`, by their
/// characters.
pub(crate) fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| byte == b'\\');
        let code =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(code) => {
                plain.push(code);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

/// Returns whether a block device is write-protected.
pub(crate) fn is_write_protected(metadata: &Metadata) -> bool {
    let name = device_name(metadata.rdev());
    read_line(&Path::new("/sys/dev/block").join(name).join("ro")).is_some_and(|line| line == "1")
}

/// Returns whether a block device is host-managed: each of its zones must be written in order, at
/// the zone's write pointer.
pub(crate) fn is_host_managed(metadata: &Metadata) -> bool {
    let name = device_name(metadata.rdev());
    let queue = Path::new("/sys/dev/block").join(name).join("queue/zoned");
    read_line(&queue).is_some_and(|line| is_host_managed_model(&line))
}

/// Returns whether `line`, the contents of the sysfs file `queue/zoned`, names the host-managed
/// model.
fn is_host_managed_model(line: &str) -> bool {
    line == "host-managed"
}

#[cfg(test)]
mod tests;
