//! Telling what a range of a device holds, by magic numbers.
//!
//! Owns: recognising XFS, and enough else to say what was found in its place. A recognised magic
//! number is a hint for a message, never a promise that the rest is sound.

use std::fmt;
use std::io;

use crate::device::BlockDevice;

/// What a range of bytes seems to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Contents {
    /// An XFS volume.
    Xfs,
    /// A metadata dump of an XFS volume.
    XfsMetadump,
    /// ext2, ext3 or ext4.
    Ext,
    /// Btrfs.
    Btrfs,
    /// F2FS.
    F2fs,
    /// FAT of any width.
    Fat,
    /// exFAT.
    ExFat,
    /// NTFS.
    Ntfs,
    /// ISO 9660.
    Iso9660,
    /// SquashFS.
    SquashFs,
    /// EROFS.
    Erofs,
    /// Swap space.
    Swap,
    /// An encrypted LUKS volume.
    Luks,
    /// A physical volume of LVM.
    Lvm,
    /// A member of a Linux software RAID.
    Raid,
    /// A qcow2 disk image.
    Qcow2,
    /// A VMDK disk image.
    Vmdk,
    /// A VHDX disk image.
    Vhdx,
    /// A VHD disk image.
    Vhd,
    /// A VDI disk image.
    Vdi,
    /// A file compressed by gzip.
    Gzip,
    /// A file compressed by xz.
    Xz,
    /// A file compressed by zstd.
    Zstd,
    /// Nothing but zeros, as far as was looked.
    Zeros,
    /// Nothing that is known here.
    Unknown,
}

impl Contents {
    /// What it is, with its article.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xfs => "an XFS volume",
            Self::XfsMetadump => "an XFS metadata dump",
            Self::Ext => "an ext2/3/4 filesystem",
            Self::Btrfs => "a Btrfs filesystem",
            Self::F2fs => "an F2FS filesystem",
            Self::Fat => "a FAT filesystem",
            Self::ExFat => "an exFAT filesystem",
            Self::Ntfs => "an NTFS filesystem",
            Self::Iso9660 => "an ISO 9660 filesystem",
            Self::SquashFs => "a SquashFS filesystem",
            Self::Erofs => "an EROFS filesystem",
            Self::Swap => "swap space",
            Self::Luks => "a LUKS encrypted volume",
            Self::Lvm => "an LVM physical volume",
            Self::Raid => "a member of a software RAID",
            Self::Qcow2 => "a qcow2 disk image",
            Self::Vmdk => "a VMDK disk image",
            Self::Vhdx => "a VHDX disk image",
            Self::Vhd => "a VHD disk image",
            Self::Vdi => "a VDI disk image",
            Self::Gzip => "a gzip-compressed file",
            Self::Xz => "an xz-compressed file",
            Self::Zstd => "a zstd-compressed file",
            Self::Zeros => "zeros only, as far as was looked (66 KiB)",
            Self::Unknown => "nothing that is known",
        }
    }

    /// Whether this is a container of a virtual disk, not the disk itself.
    #[must_use]
    pub const fn is_disk_image(self) -> bool {
        matches!(self, Self::Qcow2 | Self::Vmdk | Self::Vhdx | Self::Vhd | Self::Vdi)
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Offset, bytes there, meaning; the first match counts, so the longer magic numbers that lie at
/// the very start come first.
const SIGNATURES: &[(usize, &[u8], Contents)] = &[
    (0, b"XFSB", Contents::Xfs),
    (0, b"XFSM", Contents::XfsMetadump),
    (0, b"XMD2", Contents::XfsMetadump),
    (0, b"QFI\xfb", Contents::Qcow2),
    (0, b"vhdxfile", Contents::Vhdx),
    (0, b"conectix", Contents::Vhd),
    (0, b"KDMV", Contents::Vmdk),
    (0, b"COWD", Contents::Vmdk),
    (0, b"# Disk DescriptorFile", Contents::Vmdk),
    (64, b"\x7f\x10\xda\xbe", Contents::Vdi),
    (0, b"LUKS\xba\xbe", Contents::Luks),
    (0, b"hsqs", Contents::SquashFs),
    (0, b"\x1f\x8b\x08", Contents::Gzip),
    (0, b"\xfd7zXZ\0", Contents::Xz),
    (0, b"\x28\xb5\x2f\xfd", Contents::Zstd),
    (3, b"NTFS    ", Contents::Ntfs),
    (3, b"EXFAT   ", Contents::ExFat),
    (54, b"FAT12   ", Contents::Fat),
    (54, b"FAT16   ", Contents::Fat),
    (82, b"FAT32   ", Contents::Fat),
    (512, b"LABELONE", Contents::Lvm),
    (1024, b"\x10\x20\xf5\xf2", Contents::F2fs),
    (1024, b"\xe2\xe1\xf5\xe0", Contents::Erofs),
    (1080, b"\x53\xef", Contents::Ext),
    (4086, b"SWAPSPACE2", Contents::Swap),
    (4096, b"\xfc\x4e\x2b\xa9", Contents::Raid),
    (32769, b"CD001", Contents::Iso9660),
    (65600, b"_BHRfS_M", Contents::Btrfs),
];

/// Bytes that hold all signatures.
const PROBE_BYTES: u64 = 66 << 10;

/// Finds out what lies on the device from byte `start` on.
///
/// # Errors
///
/// What the device says.
pub fn detect(device: &dyn BlockDevice, start: u64) -> io::Result<Contents> {
    let available = device.length_bytes().saturating_sub(start).min(PROBE_BYTES);
    let mut bytes = vec![0; usize::try_from(available).unwrap_or(0)];
    device.read_at(start.min(device.length_bytes()), &mut bytes)?;
    Ok(recognise(&bytes))
}

fn recognise(bytes: &[u8]) -> Contents {
    let found = SIGNATURES.iter().find(|(offset, magic, _)| {
        bytes.get(*offset..).is_some_and(|rest| rest.starts_with(magic))
    });
    match found {
        Some((_, _, contents)) => *contents,
        None if bytes.iter().all(|byte| *byte == 0) => Contents::Zeros,
        None => Contents::Unknown,
    }
}

#[cfg(test)]
mod tests;
