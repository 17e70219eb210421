//! Loop devices: the files that they are made of.
//!
//! sysfs shows the current path of the backing file in this mount namespace. If the file has no
//! name any more, sysfs appends "(deleted)" to the path. In another mount namespace the same path
//! may lead to another file. The kernel reports the inode of the backing file to a process that may
//! open the loop device.

#![allow(unsafe_code, reason = "LOOP_GET_STATUS64, which no library wraps")]

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{FileIdentity, Span, open_to_look, sysfs};

/// `struct loop_info64` of `linux/loop.h`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    device_of_node: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names_and_key: [u8; 160],
    initial: [u64; 2],
}

const _: () = assert!(size_of::<LoopInfo>() == 232);

const LOOP_GET_STATUS64: rustix::ioctl::Opcode = 0x4c05;

/// A loop device that is attached to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopDevice {
    /// The device number.
    pub(crate) number: u64,
    /// The path of the backing file, as sysfs shows it in this mount namespace.
    pub(crate) backing: PathBuf,
    /// The device and inode number of the backing file (or of its node, if it is a block device).
    /// `None` if this process may not ask the kernel.
    pub(crate) inode: Option<(u64, u64)>,
    /// The bytes of the backing file that the loop device shows.
    pub(crate) window: Span,
}

impl LoopDevice {
    /// Returns the loop device with this device number. Returns `None` if it is not an attached
    /// loop device.
    pub(super) fn of(number: u64) -> Option<Self> {
        Self::read(&sysfs::directory_of(number))
    }

    /// Returns all attached loop devices.
    pub(crate) fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
        entries.filter_map(Result::ok).filter_map(|entry| Self::read(&entry.path())).collect()
    }

    fn read(directory: &Path) -> Option<Self> {
        let facts = directory.join("loop");
        let backing = PathBuf::from(sysfs::read_line(&facts.join("backing_file"))?);
        let number = sysfs::number_in(directory)?;
        let offset = sysfs::read_number(&facts.join("offset")).unwrap_or(0);
        let limit = sysfs::read_number(&facts.join("sizelimit")).filter(|limit| *limit != 0);
        let inode = sysfs::node_of(number).and_then(|node| inode_below(&node));
        Some(Self { number, backing, inode, window: Span::new(offset, limit) })
    }

    /// Returns the identity of the backing file or block device, or `None` if it is unknown.
    pub(crate) fn identity(&self) -> Option<FileIdentity> {
        let found = fs::metadata(&self.backing).ok();
        match (found, self.inode) {
            (Some(found), None) => Some(FileIdentity::of(&found)),
            (Some(found), Some(inode)) if inode == (found.dev(), found.ino()) => {
                Some(FileIdentity::of(&found))
            }
            (_, Some((device, inode))) => Some(FileIdentity::File { device, inode }),
            (None, None) => None,
        }
    }

    /// Returns the path of the device node in /dev, for messages.
    pub(crate) fn shown(&self) -> PathBuf {
        let name = || PathBuf::from(sysfs::device_name(self.number));
        sysfs::node_of(self.number).unwrap_or_else(name)
    }
}

fn inode_below(node: &Path) -> Option<(u64, u64)> {
    let status = status_of(&open_to_look(node).ok()?)?;
    Some((status.device, status.inode))
}

fn status_of(device: &File) -> Option<LoopInfo> {
    // SAFETY: this request fills one `loop_info64`, which `LoopInfo` lays out, and reads nothing.
    // Other drivers do not know its number and fail.
    unsafe {
        rustix::ioctl::ioctl(device, rustix::ioctl::Getter::<LOOP_GET_STATUS64, LoopInfo>::new())
    }
    .ok()
}
