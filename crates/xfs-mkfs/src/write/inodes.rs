//! Encodes the first inodes of a new volume into bytes.
//!
//! Owns: the fields and forks of the root directory, of the realtime inodes and of the metadata
//! directory. Does **not** own: the slots of inodes ([`crate::metadata`]), or the blocks of files
//! ([`super::files`]).

use xfs_format::attr::{AttrEntry, AttrValue, Namespace, short_form as attr_short_form};
use xfs_format::directory::{Cookie, Entry, EntryType, short_form as directory_short_form};
use xfs_format::extent::Extent;
use xfs_format::inode::{
    self, CORE_BYTES, FORK_OFFSET_BYTES, FileType, ForkFormat, InodeCore, InodeFlags, InodeFlags2,
    METADATA_FLAGS,
};
use xfs_format::parent::ParentDisk;
use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgBlock, AgInode, DiskAddr, FileBlock, Geometry, IncompatFeatures, InodeNumber};
use zerocopy::IntoBytes;

use super::bytes::LSN;
use crate::layout::{FirstInodes, GroupLayout, PlacedFile};
use crate::metadata::{
    DEFAULT_FORK_OFFSET, GROUPS_DIRECTORY, GroupsDirectory, RealtimeFile, RealtimeFileKind,
    entry_offsets,
};
use crate::plan::Plan;

/// The number in a metadata inode which says that the inode is a directory.
#[doc(alias = "xfs_metafile_type")]
const DIRECTORY_KIND: u16 = 1;
/// The index of the generation of the first file in the directory of realtime groups. The root
/// directory, the two realtime inodes or the two metadata directories come before it.
const FIRST_FILE_GENERATION: u64 = 3;

/// The first inodes of a group, and the group.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) plan: &'a Plan,
    pub(super) first: &'a FirstInodes,
    pub(super) group: &'a GroupLayout,
    /// The first block of the chunk.
    pub(super) start: AgBlock,
}

/// An inode with its forks.
struct NewInode {
    core: InodeCore,
    data: Vec<u8>,
    attributes: Vec<u8>,
}

impl<'a> Chunk<'a> {
    /// Returns the first inodes of the group that `first` names. `None` if the group has no room.
    pub(super) fn new(
        plan: &'a Plan,
        first: &'a FirstInodes,
        group: &'a GroupLayout,
    ) -> Option<Self> {
        Some(Self { plan, first, group, start: group.inodes? })
    }

    fn geometry(&self) -> &'a Geometry {
        &self.plan.superblock.geometry
    }

    /// Returns the number of the inode with this slot.
    pub(super) fn number(&self, slot: u32) -> InodeNumber {
        let first = self.start.0 << self.geometry().inodes_per_block_log;
        self.geometry().join_inode(self.first.group, AgInode(first + slot))
    }

    /// Encodes all inodes. Returns their address on the device and their bytes, or `None` if they
    /// cannot be encoded.
    pub(super) fn encode(&self) -> Option<(DiskAddr, Vec<u8>)> {
        let geometry = self.geometry();
        let size = geometry.inode_size as usize;
        let count = geometry.chunk_blocks() << geometry.inodes_per_block_log;
        let mut bytes = vec![0; count as usize * size];
        let mut used = self.used_inodes()?.into_iter();
        for (slot, bytes) in (0..).zip(bytes.chunks_exact_mut(size)) {
            let unused =
                || NewInode { core: free(self.plan), data: Vec::new(), attributes: Vec::new() };
            let mut inode = used.next().unwrap_or_else(unused);
            inode.core.number = self.number(slot);
            inode.encode(geometry, bytes)?;
        }
        Some((geometry.ag_block_disk_addr(self.first.group, self.start), bytes))
    }

    /// Returns the inodes in use, in the order of their slots. Returns `None` if an inode cannot be
    /// encoded.
    fn used_inodes(&self) -> Option<Vec<NewInode>> {
        let mut inodes = Vec::new();
        let directory = self.plan.groups_directory.as_ref();
        if self.first.group.0 == 0 {
            inodes.push(root(self.plan));
            match directory {
                None => {
                    inodes.push(self.realtime(1, InodeFlags::NEWRTBM)?);
                    inodes.push(self.realtime(2, InodeFlags::empty())?);
                }
                Some(directory) => inodes.push(metadata_root(self.plan, directory)?),
            }
        }
        let here = directory.filter(|directory| directory.group == self.first.group);
        if let Some(directory) = here {
            inodes.push(self.groups_directory(directory)?);
            for (slot, file) in (directory.slot + 1..).zip(&directory.files) {
                inodes.push(self.realtime_file(directory, slot, file)?);
            }
        }
        Some(inodes)
    }

    fn placed(&self, slot: u32) -> Option<&PlacedFile> {
        self.group.files.iter().find(|file| file.slot == slot)
    }

    /// Writes an extent record for the file's blocks over the first bytes of its data fork. This
    /// extent is the only one of the fork. Changes nothing if the file has no blocks. Returns
    /// `None` if the extent cannot be encoded.
    fn map_blocks(&self, slot: u32, inode: &mut NewInode) -> Option<()> {
        let Some(file) = self.placed(slot) else { return Some(()) };
        let geometry = self.geometry();
        let extent = Extent {
            file_block: FileBlock(0),
            start: geometry.join_block(self.first.group, file.start),
            length_blocks: file.blocks,
            unwritten: false,
        };
        let record = extent.encode()?;
        let former = inode.data.split_off(inode.data.len().min(record.as_bytes().len()));
        inode.data = [record.as_bytes(), &former].concat();
        inode.core.data_format = ForkFormat::Extents;
        inode.core.extents = 1;
        inode.core.blocks = file.blocks.into();
        inode.core.size = u64::from(file.blocks) << geometry.block_log;
        Some(())
    }

    /// Creates the bitmap or summary inode of a volume without a metadata directory: a file without
    /// a name, which is empty if there is no realtime section. Returns `None` if the inode cannot
    /// be encoded.
    fn realtime(&self, slot: u32, flags: InodeFlags) -> Option<NewInode> {
        // The access time of a new bitmap is a counter of the allocator, not a time.
        let is_bitmap = flags.contains(InodeFlags::NEWRTBM);
        let time = self.plan.identity.time;
        // mkfs.xfs changes the bitmap once more when it frees the extents.
        let changes = if is_bitmap { 2 } else { 1 };
        let is_empty = self.placed(slot).is_none();
        let core = InodeCore {
            access_time: if is_bitmap { Timestamp::default() } else { time },
            mode: FileType::Regular.mode_bits(),
            data_format: ForkFormat::Extents,
            flags,
            generation: self.plan.identity.generations.at(slot.into()),
            change_count: if is_empty { 2 } else { 2 + changes },
            ..used(self.plan)
        };
        let mut inode = NewInode { core, data: Vec::new(), attributes: Vec::new() };
        self.map_blocks(slot, &mut inode)?;
        Some(inode)
    }

    /// Creates the directory `rtgroups`. Returns `None` if the directory cannot be encoded.
    fn groups_directory(&self, directory: &GroupsDirectory) -> Option<NewInode> {
        let parent = metadata_root_number(self.plan);
        let entries = self.entries(directory);
        // If the entries leave the inode, mkfs.xfs keeps those of the last short form after the
        // extent. The same bytes here keep the comparison of the volumes exact.
        let in_inode = directory.short_form_limit.unwrap_or(entries.len());
        let data = directory_short_form::encode(parent, entries.iter().copied().take(in_inode));
        let core = InodeCore {
            size: data.len() as u64,
            change_count: 2 + directory.files.len() as u64,
            ..metadata_directory(self.plan, 2)
        };
        let mut inode = NewInode { core, data, attributes: Vec::new() };
        self.map_blocks(directory.slot, &mut inode)?;
        add_parent(self.plan, &mut inode, GROUPS_DIRECTORY, parent);
        Some(inode)
    }

    /// Returns the entries of the directory `rtgroups`, in the order of their cookies.
    pub(super) fn entries<'d>(&self, directory: &'d GroupsDirectory) -> Vec<Entry<'d>> {
        let offsets = entry_offsets(directory.files.iter().map(|file| file.name.as_str()));
        let mut entries = Vec::new();
        for ((slot, file), offset) in (directory.slot + 1..).zip(&directory.files).zip(offsets) {
            let cookie = Cookie::from_offset(offset as u64);
            entries.push(Entry {
                name: file.name.as_bytes(),
                inode: self.number(slot),
                entry_type: EntryType::Regular,
                cookie: cookie.expect("a directory of one block ends below 32 GiB"),
            });
        }
        entries
    }

    /// Creates a file of the directory `rtgroups`. Returns `None` if the file cannot be encoded.
    fn realtime_file(
        &self,
        directory: &GroupsDirectory,
        slot: u32,
        file: &RealtimeFile,
    ) -> Option<NewInode> {
        let index = u64::from(slot - directory.slot - 1);
        let records = self.records(file);
        let is_btree =
            matches!(file.kind, RealtimeFileKind::ReverseMap | RealtimeFileKind::Refcount);
        let is_changed = !is_btree || !records.is_empty();
        let core = InodeCore {
            mode: FileType::Regular.mode_bits(),
            data_format: if is_btree { ForkFormat::MetadataBtree } else { ForkFormat::Extents },
            metafile_type: file.kind.number(),
            nlink: 1,
            project_id: file.group,
            flags: METADATA_FLAGS,
            generation: self.plan.identity.generations.at(FIRST_FILE_GENERATION + index),
            change_count: if is_changed { 3 } else { 2 },
            ..metadata(self.plan)
        };
        let mut inode = NewInode { core, data: Vec::new(), attributes: Vec::new() };
        if is_btree {
            // The root of the btree: level 0, the number of records, and the records.
            let count = records.len() as u16;
            inode.data = [0_u16.to_be_bytes(), count.to_be_bytes()].concat();
            inode
                .data
                .extend(records.iter().flat_map(|record| record.encode().as_bytes().to_vec()));
        }
        self.map_blocks(slot, &mut inode)?;
        add_parent(self.plan, &mut inode, &file.name, self.number(directory.slot));
        Some(inode)
    }

    /// Returns the records of the btree in a file. Only the reverse map of the first realtime group
    /// has a record: that of the realtime superblock.
    fn records(&self, file: &RealtimeFile) -> Vec<Rmap> {
        let has_superblock = self.plan.superblock.has_realtime_superblock();
        if !has_superblock || file.group != 0 || file.kind != RealtimeFileKind::ReverseMap {
            return Vec::new();
        }
        vec![Rmap {
            start: AgBlock(0),
            count: self.plan.realtime.extent_blocks,
            owner: RmapOwner::Volume,
            offset: FileBlock(0),
            flags: RmapFlags::empty(),
        }]
    }
}

impl RealtimeFileKind {
    /// Returns the number by which an inode identifies this kind of file.
    const fn number(self) -> u16 {
        match self {
            Self::Bitmap => 5,
            Self::Summary => 6,
            Self::ReverseMap => 7,
            Self::Refcount => 8,
        }
    }
}

impl NewInode {
    fn encode(&self, geometry: &Geometry, bytes: &mut [u8]) -> Option<()> {
        let disk = self.core.encode(geometry)?;
        disk.write_to_prefix(bytes).ok()?;
        let attributes_at = CORE_BYTES + usize::from(self.core.fork_offset) * FORK_OFFSET_BYTES;
        for (at, fork) in [(CORE_BYTES, &self.data), (attributes_at, &self.attributes)] {
            bytes.get_mut(at..)?.get_mut(..fork.len())?.copy_from_slice(fork);
        }
        inode::seal(bytes, LSN);
        Some(())
    }
}

/// Returns the flags that the volume's features give to every inode in use.
fn feature_flags(plan: &Plan) -> InodeFlags2 {
    let mut flags = InodeFlags2::empty();
    flags.set(InodeFlags2::BIGTIME, plan.superblock.has_incompat(IncompatFeatures::BIGTIME));
    flags.set(InodeFlags2::NREXT64, plan.superblock.has_incompat(IncompatFeatures::NREXT64));
    flags
}

fn free(plan: &Plan) -> InodeCore {
    let epoch = Timestamp::default();
    InodeCore {
        number: InodeNumber::NULL,
        mode: 0,
        data_format: ForkFormat::Device,
        attr_format: ForkFormat::Device,
        fork_offset: 0,
        metafile_type: 0,
        uid: 0,
        gid: 0,
        nlink: 0,
        project_id: 0,
        access_time: epoch,
        modify_time: epoch,
        change_time: epoch,
        birth_time: epoch,
        size: 0,
        blocks: 0,
        extent_size_hint_blocks: 0,
        cow_extent_size_hint_blocks: 0,
        extents: 0,
        attr_extents: 0,
        flags: InodeFlags::empty(),
        flags2: InodeFlags2::empty(),
        generation: plan.identity.generations.at(0),
        next_unlinked: AgInode::NULL,
        change_count: 0,
        lsn: LSN,
        rdev: None,
    }
}

fn used(plan: &Plan) -> InodeCore {
    let time = plan.identity.time;
    InodeCore {
        attr_format: ForkFormat::Extents,
        nlink: 1,
        modify_time: time,
        change_time: time,
        birth_time: time,
        flags2: feature_flags(plan),
        // The inode was created and then filled.
        change_count: 2,
        ..free(plan)
    }
}

/// Returns the fields that all inodes of the metadata directory have.
fn metadata(plan: &Plan) -> InodeCore {
    let core = used(plan);
    InodeCore {
        access_time: plan.identity.time,
        flags2: core.flags2 | InodeFlags2::METADATA,
        ..core
    }
}

fn metadata_directory(plan: &Plan, generation_index: u64) -> InodeCore {
    InodeCore {
        mode: FileType::Directory.mode_bits(),
        data_format: ForkFormat::Local,
        metafile_type: DIRECTORY_KIND,
        nlink: 2,
        flags: METADATA_FLAGS | InodeFlags::NOSYMLINKS,
        generation: plan.identity.generations.at(generation_index),
        ..metadata(plan)
    }
}

/// Returns the number of the metadata root, which follows the root directory.
fn metadata_root_number(plan: &Plan) -> InodeNumber {
    InodeNumber(plan.superblock.root_inode.0 + 1)
}

/// Creates the root of the metadata directory, with its only entry. Returns `None` if the root
/// cannot be encoded.
fn metadata_root(plan: &Plan, directory: &GroupsDirectory) -> Option<NewInode> {
    let number = metadata_root_number(plan);
    let group = plan.group(directory.group)?;
    let first = plan.layout.inodes.iter().find(|first| first.group == directory.group)?;
    let entry = Entry {
        name: GROUPS_DIRECTORY.as_bytes(),
        inode: Chunk::new(plan, first, &group)?.number(directory.slot),
        entry_type: EntryType::Directory,
        cookie: Cookie::from_offset(directory_short_form::FIRST_OFFSET as u64)?,
    };
    let data = directory_short_form::encode(number, std::iter::once(entry));
    let core = InodeCore {
        nlink: 3,
        size: data.len() as u64,
        change_count: 3,
        ..metadata_directory(plan, 1)
    };
    Some(NewInode { core, data, attributes: Vec::new() })
}

/// Adds a parent pointer, if the volume has parent pointers.
fn add_parent(plan: &Plan, inode: &mut NewInode, name: &str, parent: InodeNumber) {
    if !plan.superblock.has_incompat(IncompatFeatures::PARENT) {
        return;
    }
    let is_metadata_root = parent == metadata_root_number(plan);
    let generation = plan.identity.generations.at(if is_metadata_root { 1 } else { 2 });
    let record = ParentDisk { inode: parent.0.into(), generation: generation.into() };
    let attributes = attr_short_form::encode(&[AttrEntry {
        namespace: Namespace::Parent,
        name: name.as_bytes(),
        value: AttrValue::Local(record.as_bytes()),
    }]);
    inode.attributes = attributes.expect("a parent pointer of a short name fits the short form");
    inode.core.attr_format = ForkFormat::Local;
    inode.core.fork_offset = DEFAULT_FORK_OFFSET;
}

/// Encodes the attribute fork of the root directory. Returns `None` if it has no attributes.
fn root_attributes(plan: &Plan) -> Option<Vec<u8>> {
    let value = plan.autofsck.value()?;
    attr_short_form::encode(&[AttrEntry {
        namespace: Namespace::Trusted,
        name: b"xfs:autofsck",
        value: AttrValue::Local(value.as_bytes()),
    }])
}

fn root(plan: &Plan) -> NewInode {
    let data = directory_short_form::encode_empty(plan.superblock.root_inode);
    let core = InodeCore {
        mode: FileType::Directory.mode_bits() | 0o755,
        data_format: ForkFormat::Local,
        nlink: 2,
        access_time: plan.identity.time,
        size: data.len() as u64,
        generation: 0,
        ..used(plan)
    };
    let core = with_inherited(plan, core);
    let Some(attributes) = root_attributes(plan) else {
        return NewInode { core, data, attributes: Vec::new() };
    };
    let core = InodeCore {
        attr_format: ForkFormat::Local,
        fork_offset: fork_offset(&plan.superblock.geometry, attributes.len()),
        change_count: 4,
        ..core
    };
    NewInode { core, data, attributes }
}

/// Adds to `core`, the core of the root directory, the settings that files below it inherit.
fn with_inherited(plan: &Plan, mut core: InodeCore) -> InodeCore {
    let inherited = &plan.inherited;
    core.project_id = inherited.project.unwrap_or(0);
    core.flags.set(InodeFlags::PROJINHERIT, inherited.project.is_some());
    core.flags.set(InodeFlags::RTINHERIT, inherited.realtime);
    core.flags.set(InodeFlags::EXTSZINHERIT, inherited.extent_size_blocks != 0);
    core.extent_size_hint_blocks = inherited.extent_size_blocks;
    core.flags2.set(InodeFlags2::COWEXTSIZE, inherited.cow_extent_size_blocks != 0);
    core.cow_extent_size_hint_blocks = inherited.cow_extent_size_blocks;
    core.flags2.set(InodeFlags2::DAX, inherited.dax);
    core
}

/// Returns the offset of the attribute fork in the inode's fork area, in units of 8 bytes. The fork
/// must have room for the given attributes, and for the smallest btree root, into which it may turn
/// later.
fn fork_offset(geometry: &Geometry, attribute_bytes: usize) -> u8 {
    let attribute_bytes = attribute_bytes.max(SMALLEST_ATTR_ROOT_BYTES);
    let data_bytes = geometry.inode_size as usize - CORE_BYTES - attribute_bytes;
    (data_bytes / FORK_OFFSET_BYTES) as u8
}

/// Size of the smallest btree root of an attribute fork in bytes: a header of 4 bytes, two keys and
/// two pointers.
const SMALLEST_ATTR_ROOT_BYTES: usize = 4 + 2 * 16;
