//! Detects the contents of a range of a device by magic numbers.
//!
//! Owns: recognising XFS, and enough other formats to name them in messages. A magic number is only
//! a hint: the other bytes of the range may be invalid.

use std::fmt;
use std::io;

use crate::device::BlockDevice;

/// The kind of data that a range of bytes appears to hold.
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
    /// FAT with 12, 16 or 32 bits.
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
    /// A device of bcache, or a volume of bcachefs.
    Bcache,
    /// A BitLocker encrypted volume.
    BitLocker,
    /// ReiserFS.
    ReiserFs,
    /// JFS.
    Jfs,
    /// NILFS2.
    Nilfs,
    /// HFS+.
    HfsPlus,
    /// APFS.
    Apfs,
    /// cramfs.
    CramFs,
    /// A pool of Stratis.
    Stratis,
    /// A VDO volume.
    Vdo,
    /// A hash tree of dm-verity.
    Verity,
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
    /// A QED disk image.
    Qed,
    /// A Parallels disk image.
    Parallels,
    /// An EnCase disk image.
    Ewf,
    /// A dump that xfsdump has written.
    XfsDump,
    /// An Apache Parquet file, such as `ferroxfs scan` writes.
    Parquet,
    /// A file compressed by gzip.
    Gzip,
    /// A file compressed by xz.
    Xz,
    /// A file compressed by zstd.
    Zstd,
    /// A file compressed by bzip2.
    Bzip2,
    /// A file compressed by lz4.
    Lz4,
    /// A tar archive.
    Tar,
    /// A cpio archive.
    Cpio,
    /// A ZIP archive.
    Zip,
    /// The range is empty: its length is 0 bytes.
    Empty,
    /// All bytes that were checked are zero.
    Zeros,
    /// The data has no known format.
    Unknown,
}

impl Contents {
    /// Returns the name of the format with its article, for messages.
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
            Self::Bcache => "a bcache device or bcachefs volume",
            Self::BitLocker => "a BitLocker encrypted volume",
            Self::ReiserFs => "a ReiserFS filesystem",
            Self::Jfs => "a JFS filesystem",
            Self::Nilfs => "a NILFS2 filesystem",
            Self::HfsPlus => "an HFS+ filesystem",
            Self::Apfs => "an APFS container",
            Self::CramFs => "a cramfs filesystem",
            Self::Stratis => "a member of a Stratis pool",
            Self::Vdo => "a VDO volume",
            Self::Verity => "a dm-verity hash tree",
            Self::Qed => "a QED disk image",
            Self::Parallels => "a Parallels disk image",
            Self::Ewf => "an EnCase (EWF) disk image",
            Self::XfsDump => "an archive of xfsdump",
            Self::Bzip2 => "a bzip2-compressed file",
            Self::Lz4 => "an lz4-compressed file",
            Self::Tar => "a tar archive",
            Self::Cpio => "a cpio archive",
            Self::Zip => "a ZIP archive",
            Self::Empty => "nothing: it is empty",
            Self::Qcow2 => "a qcow2 disk image",
            Self::Vmdk => "a VMDK disk image",
            Self::Vhdx => "a VHDX disk image",
            Self::Vhd => "a VHD disk image",
            Self::Vdi => "a VDI disk image",
            Self::Parquet => "a Parquet file",
            Self::Gzip => "a gzip-compressed file",
            Self::Xz => "an xz-compressed file",
            Self::Zstd => "a zstd-compressed file",
            Self::Zeros => "only zeros in its first 66 KiB",
            Self::Unknown => "data of an unknown format",
        }
    }

    /// Returns whether this is a format of image files of virtual disks.
    #[must_use]
    pub const fn is_disk_image(self) -> bool {
        matches!(
            self,
            Self::Qcow2
                | Self::Vmdk
                | Self::Vhdx
                | Self::Vhd
                | Self::Vdi
                | Self::Qed
                | Self::Parallels
                | Self::Ewf
        )
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The known signatures: offset of the magic number in bytes, magic number, contents. The first
/// match counts, so the longer magic numbers at offset 0 come first.
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
    (0, b"BZh", Contents::Bzip2),
    (0, b"\x04\x22\x4d\x18", Contents::Lz4),
    (0, b"PK\x03\x04", Contents::Zip),
    (0, b"PAR1", Contents::Parquet),
    (0, b"070701", Contents::Cpio),
    (0, b"070702", Contents::Cpio),
    (0, b"QED\0", Contents::Qed),
    (0, b"WithoutFreeSpace", Contents::Parallels),
    (0, b"WithouFreSpacExt", Contents::Parallels),
    (0, b"EVF\x09\x0d\x0a\xff\x00", Contents::Ewf),
    (0, b"EVF2\x0d\x0a\x81\x00", Contents::Ewf),
    (0, b"xFSdump0", Contents::XfsDump),
    (0, b"\x45\x3d\xcd\x28", Contents::CramFs),
    (0, b"dmvdo001", Contents::Vdo),
    (0, b"verity\0\0", Contents::Verity),
    (3, b"-FVE-FS-", Contents::BitLocker),
    (32, b"NXSB", Contents::Apfs),
    (257, b"ustar", Contents::Tar),
    (3, b"NTFS    ", Contents::Ntfs),
    (3, b"EXFAT   ", Contents::ExFat),
    (54, b"FAT12   ", Contents::Fat),
    (54, b"FAT16   ", Contents::Fat),
    (82, b"FAT32   ", Contents::Fat),
    (512, b"LABELONE", Contents::Lvm),
    (0, b"LABELONE", Contents::Lvm),
    (1024, b"LABELONE", Contents::Lvm),
    (1536, b"LABELONE", Contents::Lvm),
    (516, b"!Stra0tis\x86\xff\x02^\x41rh", Contents::Stratis),
    (1024, b"H+\0\x04", Contents::HfsPlus),
    (1030, b"\x34\x34", Contents::Nilfs),
    (1024, b"\x10\x20\xf5\xf2", Contents::F2fs),
    (1024, b"\xe2\xe1\xf5\xe0", Contents::Erofs),
    (1080, b"\x53\xef", Contents::Ext),
    (4086, b"SWAPSPACE2", Contents::Swap),
    (4086, b"S1SUSPEND\0", Contents::Swap),
    (4096, b"\xfc\x4e\x2b\xa9", Contents::Raid),
    (0, b"\xfc\x4e\x2b\xa9", Contents::Raid),
    (4120, b"\xc6\x85\x73\xf6", Contents::Bcache),
    (32768, b"JFS1", Contents::Jfs),
    (32769, b"CD001", Contents::Iso9660),
    (65588, b"ReIsEr", Contents::ReiserFs),
    (65600, b"_BHRfS_M", Contents::Btrfs),
];

/// Number of bytes, from the start of the range, that are read to check all signatures.
const PROBE_BYTES: u64 = 66 << 10;

/// Detects the contents of the device from byte `start` on.
///
/// # Errors
///
/// The error of the device.
pub fn detect(device: &dyn BlockDevice, start: u64) -> io::Result<Contents> {
    let available = device.length_bytes().saturating_sub(start).min(PROBE_BYTES);
    let mut bytes = vec![0; usize::try_from(available).unwrap_or(0)];
    device.read_at(&mut bytes, start.min(device.length_bytes()))?;
    Ok(recognise(&bytes))
}

fn recognise(bytes: &[u8]) -> Contents {
    let found = SIGNATURES.iter().find(|(offset, magic, _)| {
        bytes.get(*offset..).is_some_and(|rest| rest.starts_with(magic))
    });
    match found {
        Some((_, _, contents)) => *contents,
        None if bytes.is_empty() => Contents::Empty,
        None if bytes.iter().all(|byte| *byte == 0) => Contents::Zeros,
        None => Contents::Unknown,
    }
}

#[cfg(test)]
mod tests;
