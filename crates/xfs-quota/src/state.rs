//! The state of quota that the superblock stores.
//!
//! Owns: the quota flags, and the inode numbers of the quota inodes. Does **not** own: the quota
//! inodes of a volume with a metadata directory, which are found by name.

use xfs_buffer::{BufferCache, Result};
use xfs_format::dquot::{QuotaFlags, QuotaKind};
use xfs_format::superblock::SuperblockDisk;
use xfs_format::{AgNumber, BlockKind, FormatVersion, InodeNumber};
use zerocopy::FromBytes;
use zerocopy::big_endian::U64;

/// The state of quota of a volume, as the superblock has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaState {
    flags: QuotaFlags,
    inodes: [Option<InodeNumber>; 3],
    version: FormatVersion,
}

impl QuotaState {
    /// Reads the state from the superblock. On a volume that is open for writing, this is the state
    /// of the last committed change.
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    pub fn read(cache: &BufferCache) -> Result<Self> {
        let geometry = cache.geometry();
        let at = geometry.header_disk_addr(AgNumber(0), 0);
        let buffer = cache.read(at, geometry.sector_size, BlockKind::Superblock)?;
        let bytes = buffer.bytes();
        // The superblock is not verified again: a buffer that was changed and not written in place
        // yet has no checksum.
        let (disk, _) = SuperblockDisk::ref_from_prefix(&bytes)
            .expect("a sector is longer than the superblock");
        let project = match geometry.version {
            FormatVersion::V4 => None,
            FormatVersion::V5 => present(disk.project_quota_inode),
        };
        Ok(Self {
            flags: QuotaFlags::from_bits_retain(disk.quota_flags.get()),
            inodes: [present(disk.user_quota_inode), present(disk.group_quota_inode), project],
            version: geometry.version,
        })
    }

    /// Returns the flags of the superblock.
    #[must_use]
    pub const fn flags(&self) -> QuotaFlags {
        self.flags
    }

    /// Returns whether the usage of this type was counted when the volume was last mounted with
    /// quota.
    #[must_use]
    pub const fn is_accounted(&self, kind: QuotaKind) -> bool {
        self.flags.contains(kind.accounted_flag())
    }

    /// Returns whether the limits of this type were enforced when the volume was last mounted with
    /// quota.
    #[must_use]
    pub const fn is_enforced(&self, kind: QuotaKind) -> bool {
        self.flags.contains(match (self.version, kind) {
            (FormatVersion::V4, QuotaKind::Group | QuotaKind::Project) => {
                QuotaFlags::V4_OTHER_ENFORCED
            }
            _ => kind.enforced_flag(),
        })
    }

    /// Returns whether the counts of this type are right: they were checked, and every change since
    /// was counted.
    #[must_use]
    pub const fn is_checked(&self, kind: QuotaKind) -> bool {
        self.flags.contains(kind.checked_flag(self.version))
    }

    /// Returns the quota inode of this type that the superblock names. A volume of version 4 has
    /// one inode for groups and projects, and counts only one of these two types.
    #[must_use]
    pub const fn inode(&self, kind: QuotaKind) -> Option<InodeNumber> {
        let [user, group, project] = self.inodes;
        let counts_projects = self.is_accounted(QuotaKind::Project);
        match (kind, self.version) {
            (QuotaKind::User, _) => user,
            (QuotaKind::Group, FormatVersion::V4) if counts_projects => None,
            (QuotaKind::Project, FormatVersion::V4) if counts_projects => group,
            (QuotaKind::Group, _) => group,
            (QuotaKind::Project, _) => project,
        }
    }
}

/// Returns the inode number in a field of the superblock, or `None` if the field is 0 or all ones,
/// which stand for no inode.
fn present(number: U64) -> Option<InodeNumber> {
    let number = number.get();
    (number != 0 && number != u64::MAX).then_some(InodeNumber(number))
}
