//! The ioctl calls that the kernel passes to the server: flags of files, trimming, the label,
//! shutting the volume down.

use ferroxfs::admin::Label;
use ferroxfs::admin::Shutdown;
use ferroxfs::attr::ExtendedFlags;
use ferroxfs::{Capabilities, Metadata, SetAttributes};
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Server, errno};
use crate::transport::wire::{IoctlIn, IoctlOut};
use crate::transport::{Reply, Request, split_argument};

/// The number of the ioctl FS_IOC_GETFLAGS in `linux/fs.h`. The constants after it are the numbers
/// of the other ioctls that the server answers.
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_GETVERSION: u32 = 0x8008_7601;
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FITRIM: u32 = 0xc018_5879;
const FS_IOC_GETFSLABEL: u32 = 0x8100_9431;
const FS_IOC_SETFSLABEL: u32 = 0x4100_9432;
/// The number of the ioctl that shuts down XFS and some other filesystems. Its argument says what
/// is written before the shutdown. But its number says that the ioctl only returns data, so the
/// kernel does not pass the argument to the server.
#[doc(alias = "XFS_IOC_GOINGDOWN")]
const GOING_DOWN: u32 = 0x8004_587d;
/// Length in bytes of a label padded with zeros, in the ioctl for all filesystems.
const LABEL_BYTES: usize = 256;

/// The flags of `chattr`, each with the corresponding flag of ferroxfs.
const FLAGS: [(u32, ExtendedFlags); 7] = [
    (0x0000_0008, ExtendedFlags::SYNC),
    (0x0000_0010, ExtendedFlags::IMMUTABLE),
    (0x0000_0020, ExtendedFlags::APPEND),
    (0x0000_0040, ExtendedFlags::NODUMP),
    (0x0000_0080, ExtendedFlags::NOATIME),
    (0x0200_0000, ExtendedFlags::DAX),
    (0x2000_0000, ExtendedFlags::PROJINHERIT),
];

/// Flags, extent size hints and project of a file (`struct fsxattr`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct FileFlags {
    xflags: u32,
    extent_size_bytes: u32,
    extents: u32,
    project_id: u32,
    copy_extent_size_bytes: u32,
    padding: [u8; 8],
}

const _: () = assert!(size_of::<FileFlags>() == 28);

/// The range to trim (`fstrim_range`). In the answer, `length` is the number of trimmed bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TrimRange {
    start: u64,
    length: u64,
    minimum: u64,
}

impl Server {
    pub(super) fn ioctl(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, argument) = request.argument::<IoctlIn>()?;
        let metadata = self.node(request.node())?.metadata();
        match wanted.command {
            FS_IOC_GETFLAGS => {
                answer(flags(&metadata).as_bytes(), wanted.out_size, reply);
                Ok(())
            }
            FS_IOC_SETFLAGS => {
                let (wanted, _) = split_argument::<u32>(argument)?;
                let changes = SetAttributes::new().xflags(to_xflags(&metadata, wanted)?);
                self.change_flags(request, &changes, reply)
            }
            FS_IOC_GETVERSION => {
                answer(metadata.generation.as_bytes(), wanted.out_size, reply);
                Ok(())
            }
            FS_IOC_FSGETXATTR => {
                answer(file_flags(&metadata).as_bytes(), wanted.out_size, reply);
                Ok(())
            }
            FS_IOC_FSSETXATTR => {
                let (wanted, _) = split_argument::<FileFlags>(argument)?;
                self.change_flags(request, &to_changes(&metadata, &wanted)?, reply)
            }
            FITRIM => {
                let (range, _) = split_argument::<TrimRange>(argument)?;
                let length = self.trim(request, &range)?;
                answer(TrimRange { length, ..range }.as_bytes(), wanted.out_size, reply);
                Ok(())
            }
            FS_IOC_GETFSLABEL => {
                let mut label = self.volume.label().map_err(errno)?.padded().to_vec();
                label.resize(LABEL_BYTES, 0);
                answer(&label, wanted.out_size, reply);
                Ok(())
            }
            FS_IOC_SETFSLABEL => {
                let label = argument.split(|byte| *byte == 0).next().unwrap_or_default();
                let label = Label::new(label).ok_or(Errno::INVAL)?;
                self.check_root(request)?;
                if self.is_mounted_read_only() {
                    return Err(Errno::ROFS);
                }
                self.volume.set_label(&label).map_err(errno)?;
                answer(&[], 0, reply);
                Ok(())
            }
            GOING_DOWN => {
                self.check_root(request)?;
                // The caller accepts a loss, but keeping the data is allowed as well.
                self.volume.shut_down(Shutdown::Flush).map_err(errno)?;
                // A second shutdown is not an error.
                let _ = self.shut_down.set(());
                answer(&[], 0, reply);
                Ok(())
            }
            _ => Err(Errno::NOTTY),
        }
    }

    fn check_root(&self, request: &Request<'_>) -> Result<(), Errno> {
        let may = self.context(request).has(Capabilities::SYS_ADMIN);
        if may.unwrap_or(request.uid() == 0) { Ok(()) } else { Err(Errno::PERM) }
    }

    /// Trims free space. Returns the number of trimmed bytes.
    fn trim(&self, request: &Request<'_>, range: &TrimRange) -> Result<u64, Errno> {
        self.check_root(request)?;
        let geometry = self.volume.geometry();
        let block = u64::from(geometry.block_size);
        // The realtime section follows the data section.
        let blocks = geometry.data_blocks.saturating_add(geometry.realtime.blocks);
        let end = blocks.saturating_mul(block);
        let longest = u64::from(geometry.ag_blocks).max(geometry.realtime.group_length(0));
        let group = longest.saturating_mul(block);
        if range.start >= end || range.length < block || range.minimum > group {
            return Err(Errno::INVAL);
        }
        let range = (range.start..range.start.saturating_add(range.length), range.minimum);
        self.volume.trim(range.0, range.1).map_err(errno)
    }

    fn change_flags(
        &self,
        request: &Request<'_>,
        changes: &SetAttributes,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let node = self.context(request).node(request.node())?;
        node.set_attributes(changes).map_err(errno)?;
        // The kernel does not expect this call to change the change time.
        reply.invalidate_attributes(self.node_of(node.number()));
        self.sync_if_required(&node)?;
        answer(&[], 0, reply);
        Ok(())
    }
}

fn answer(bytes: &[u8], room: u32, reply: &mut Reply<'_>) {
    reply.add(&IoctlOut::default());
    reply.add_bytes(bytes.get(..room as usize).unwrap_or(bytes));
}

fn flags(metadata: &Metadata) -> u32 {
    let set = FLAGS.iter().filter(|(_, flag)| metadata.xflags.contains(*flag));
    set.fold(0, |flags, (bit, _)| flags | bit)
}

/// Returns the flags of a file with the flags of `chattr` replaced by `wanted`. All other flags
/// stay.
fn to_xflags(metadata: &Metadata, wanted: u32) -> Result<ExtendedFlags, Errno> {
    let known = FLAGS.iter().fold(0, |known, (bit, _)| known | bit);
    if wanted & !known != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let mut xflags = metadata.xflags;
    for (bit, flag) in FLAGS {
        xflags.set(flag, wanted & bit != 0);
    }
    Ok(xflags)
}

fn file_flags(metadata: &Metadata) -> FileFlags {
    FileFlags {
        xflags: metadata.xflags.bits(),
        extent_size_bytes: metadata.extent_size_hint_bytes as u32,
        extents: metadata.extents.try_into().unwrap_or(u32::MAX),
        project_id: metadata.project_id,
        copy_extent_size_bytes: metadata.cow_extent_size_hint_bytes as u32,
        padding: [0; 8],
    }
}

/// Returns the settings to change: the flags, and the fields that differ from `metadata`. So a
/// request is never refused because of a field that it does not change. Returns EINVAL for an
/// extent size hint whose flag is not set.
fn to_changes(metadata: &Metadata, wanted: &FileFlags) -> Result<SetAttributes, Errno> {
    let xflags = ExtendedFlags::from_bits_retain(wanted.xflags);
    let hint = |flags, bytes: u32| match xflags.intersects(flags) || bytes == 0 {
        true => Ok(u64::from(bytes)),
        false => Err(Errno::INVAL),
    };
    let extent =
        hint(ExtendedFlags::EXTSIZE | ExtendedFlags::EXTSZINHERIT, wanted.extent_size_bytes)?;
    let copy = hint(ExtendedFlags::COWEXTSIZE, wanted.copy_extent_size_bytes)?;
    let mut changes = SetAttributes::new().xflags(xflags);
    changes.project_id = (wanted.project_id != metadata.project_id).then_some(wanted.project_id);
    changes.extent_size_hint_bytes = (extent != metadata.extent_size_hint_bytes).then_some(extent);
    changes.cow_extent_size_hint_bytes =
        (copy != metadata.cow_extent_size_hint_bytes).then_some(copy);
    Ok(changes)
}

#[cfg(test)]
mod tests;
