//! What `stat` shows of an inode, and what only XFS knows of it.

use xfs_format::inode::{DeviceNumber, ExtendedFlags, FileType, InodeCore};
use xfs_format::timestamp::Timestamp;
use xfs_format::{Geometry, InodeNumber};
use xfs_inode::Inode;

/// Metadata of one inode, as it stood when the inode was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Inode number.
    pub number: InodeNumber,
    /// Changes each time the number is used anew.
    pub generation: u32,
    /// Type of the file.
    pub file_type: FileType,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u16,
    /// Hard links; 0 for a file that was deleted while open.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub project_id: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space in units of 512 bytes, metadata of the file included, as in `st_blocks`.
    pub blocks: u64,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of the contents.
    pub modified: Timestamp,
    /// Last change of the inode.
    pub changed: Timestamp,
    /// When the inode was made.
    pub created: Timestamp,
    /// Device number of a device file.
    pub device: Option<DeviceNumber>,
    /// `FS_XFLAG_*` bits, as FS_IOC_FSGETXATTR shows them.
    pub xflags: ExtendedFlags,
    /// Extents of the data.
    pub extents: u64,
    /// Extents of the attributes.
    pub attr_extents: u32,
    /// Extent size hint in bytes, 0 for none.
    pub extent_size_hint_bytes: u64,
    /// Copy-on-write extent size hint in bytes, 0 for none.
    pub cow_extent_size_hint_bytes: u64,
}

impl Metadata {
    pub(crate) fn new(inode: &Inode, geometry: &Geometry) -> Self {
        Self::of_core(inode.core(), inode.file_type(), geometry)
    }

    pub(crate) fn of_core(core: &InodeCore, file_type: FileType, geometry: &Geometry) -> Self {
        let to_bytes = |blocks: u32| u64::from(blocks) << geometry.block_log;
        let mut xflags = core.xflags();
        let hints = (core.extent_size_hint_blocks, core.cow_extent_size_hint_blocks);
        let (mut extent_size_hint, mut copy_size_hint) = hints;
        // Whoever sets what he has been shown would be refused.
        if core.has_misfit_hint(geometry) {
            xflags -= ExtendedFlags::EXTSZINHERIT;
            extent_size_hint = 0;
        }
        if core.has_misfit_copy_hint(geometry) {
            xflags -= ExtendedFlags::COWEXTSIZE;
            copy_size_hint = 0;
        }
        Self {
            number: core.number,
            generation: core.generation,
            file_type,
            mode: core.mode,
            nlink: core.nlink,
            uid: core.uid,
            gid: core.gid,
            project_id: core.project_id,
            size: core.size,
            blocks: core.blocks.saturating_mul(geometry.block_basic_blocks().into()),
            accessed: core.access_time,
            modified: core.modify_time,
            changed: core.change_time,
            created: core.birth_time,
            device: core.rdev,
            xflags,
            extents: core.extents,
            attr_extents: core.attr_extents,
            extent_size_hint_bytes: to_bytes(extent_size_hint),
            cow_extent_size_hint_bytes: to_bytes(copy_size_hint),
        }
    }

    /// Whether this is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Whether this is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_type == FileType::Regular
    }

    /// Whether this is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.file_type == FileType::Symlink
    }
}
