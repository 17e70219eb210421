//! Metadata of an inode: the fields of `stat`, and fields that only XFS has.

use xfs_format::inode::{DeviceNumber, ExtendedFlags, FileType, InodeCore};
use xfs_format::timestamp::Timestamp;
use xfs_format::{Geometry, InodeNumber};
use xfs_inode::Inode;

/// Metadata of one inode. All fields are from the same moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// Inode number.
    pub number: InodeNumber,
    /// Generation of the inode. It changes each time the inode number is reused.
    pub generation: u32,
    /// Type of the file.
    pub file_type: FileType,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u16,
    /// Number of hard links; 0 for a file that was deleted while open.
    pub nlink: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Project ID.
    pub project_id: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space in units of 512 bytes, metadata of the file included, as in `st_blocks`.
    pub blocks: u64,
    /// Time of the last read.
    pub accessed: Timestamp,
    /// Time of the last change of the contents.
    pub modified: Timestamp,
    /// Time of the last change of the inode.
    pub changed: Timestamp,
    /// Time at which the inode was made.
    pub created: Timestamp,
    /// Device number of a device file. `None` for any other file.
    pub device: Option<DeviceNumber>,
    /// `FS_XFLAG_*` bits, as FS_IOC_FSGETXATTR shows them.
    pub xflags: ExtendedFlags,
    /// Number of data extents.
    pub extents: u64,
    /// Number of attribute extents.
    pub attr_extents: u32,
    /// Extent size hint in bytes, 0 for none.
    pub extent_size_hint_bytes: u64,
    /// Copy-on-write extent size hint in bytes, 0 for none.
    pub cow_extent_size_hint_bytes: u64,
}

/// Returns the metadata of an in-core inode.
#[must_use]
pub fn metadata_of_inode(inode: &Inode, geometry: &Geometry) -> Metadata {
    Metadata::of_core(inode.core(), inode.file_type(), geometry)
}

impl Metadata {
    /// Returns the metadata that an inode core has.
    pub(crate) fn of_core(core: &InodeCore, file_type: FileType, geometry: &Geometry) -> Self {
        let to_bytes = |blocks: u32| u64::from(blocks) << geometry.block_log;
        let mut xflags = core.xflags();
        let hints = (core.extent_size_hint_blocks, core.cow_extent_size_hint_blocks);
        let (mut extent_size_hint, mut copy_size_hint) = hints;
        // Setting a hint as it was shown here would be refused.
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

    /// Returns whether this is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Returns whether this is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_type == FileType::Regular
    }

    /// Returns whether this is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.file_type == FileType::Symlink
    }
}
