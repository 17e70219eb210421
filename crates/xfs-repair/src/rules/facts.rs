//! All evidence of a volume for its names: directory entries, parent pointers, and the inodes that
//! these connect.
//!
//! Owns: collecting this evidence, in one pass over all inodes. Does **not** own: the decision if
//! two entries or pointers contradict each other (`resolve`).

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Area, Code};
use xfs_evidence::{Evidence, Trust};
use xfs_format::directory::EntryType;
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode::{FileType, InodeCore, InodeFlags2};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{AgInode, AgNumber, IncompatFeatures, InodeNumber, Lsn, Superblock};

use crate::damage::Damage;
use crate::metadata::MetadirFile;
use crate::model::{InodeState, Model};

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The directory that has the entry.
    pub(crate) directory: InodeNumber,
    /// The name.
    pub(crate) name: Box<[u8]>,
    /// The inode that the entry names.
    pub(crate) child: InodeNumber,
    /// The file type in the entry.
    pub(crate) entry_type: EntryType,
    /// The index of the entry in its directory.
    pub(crate) position: usize,
    /// Whether the entry's block is sound and the index of the directory agrees with the entries.
    pub(crate) is_sound: bool,
    /// The LSN of the block or the inode that holds the entry.
    pub(crate) lsn: Option<Lsn>,
}

/// A parent pointer of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The inode that has the pointer.
    pub(crate) child: InodeNumber,
    /// The directory to which the pointer leads.
    pub(crate) directory: InodeNumber,
    /// The generation of the parent directory, according to the pointer.
    pub(crate) generation: u32,
    /// The name of the inode in that directory, according to the pointer.
    pub(crate) name: Box<[u8]>,
    /// Whether the block with the pointer is sound.
    pub(crate) is_sound: bool,
}

/// An inode in use that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The file type from the inode's own mode, in the encoding of directory entries.
    pub(crate) entry_type: EntryType,
    /// The generation of the inode.
    pub(crate) generation: u32,
    /// The link count of the inode.
    pub(crate) links: u32,
    /// Whether all entries of a directory could be read and its hash index agrees with them. `true`
    /// for other files.
    pub(crate) has_all_names: bool,
    /// Whether all entries of a directory could be read, whatever its hash index says. `true` for
    /// other files.
    pub(crate) has_all_entries: bool,
    /// Whether all parent pointers could be read.
    pub(crate) has_all_pointers: bool,
    /// The inode to which the `..` of a directory leads. `None` if it cannot be read.
    pub(crate) dotdot: Option<InodeNumber>,
    /// Whether the checker has found that the contents do not fit the inode's type.
    pub(crate) has_other_contents: bool,
    /// The LSN of the last change of the inode that reached the disk. `None` if it was never
    /// logged.
    pub(crate) lsn: Option<Lsn>,
    /// Whether the inode has the flag of the metadata directory.
    pub(crate) is_metadata: bool,
    /// The path below the root of the metadata directory that follows from the fields of the inode:
    /// a directory there, and the name in it.
    pub(crate) metadata_path: Option<(&'static str, String)>,
    /// The LSN of the only data block of a directory, or of the inode that holds its short form.
    /// `None` if a directory has several data blocks or no entry, and for other files.
    pub(crate) names_lsn: Option<Lsn>,
}

impl Member {
    /// Returns whether the inode is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.entry_type == EntryType::Directory
    }
}

/// The state of an inode number that names or pointers mention, but that is not an inode in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A chunk holds the inode, but the inode cannot be read.
    Gone,
    /// A chunk holds the inode, and the inode is free.
    Free,
    /// No known chunk holds the inode, or the chunks of its group are not known for certain.
    Unknown,
    /// No inode can have this number: it lies outside the volume, or all chunks of its group are
    /// known and none of them holds it.
    Impossible,
}

/// All evidence of a volume for its names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The root directory.
    pub(crate) root: InodeNumber,
    /// The root of the metadata directory.
    pub(crate) metadata_root: Option<InodeNumber>,
    /// Whether the volume has parent pointers.
    pub(crate) has_parents: bool,
    /// Inodes that the superblock names and that are in no directory: the realtime and quota
    /// inodes.
    pub(crate) reserved: BTreeSet<InodeNumber>,
    /// Whether every inode in use can be read, and no chunk of inodes can be missing.
    pub(crate) has_all_inodes: bool,
    /// The inodes in use that can be read.
    pub(crate) members: BTreeMap<InodeNumber, Member>,
    /// The state of each inode that names or pointers mention and that is not in `members`.
    pub(crate) slots: BTreeMap<InodeNumber, Slot>,
    /// A free inode that a new directory `lost+found` can use, with the generation that it then
    /// gets. `None` if there is no such inode.
    pub(crate) spare: Option<(InodeNumber, u32)>,
    /// Whether names of inodes that are not in use may be given up.
    pub(crate) allows_loss: bool,
    /// The entries of all directories.
    pub(crate) names: Vec<Name>,
    /// The parent pointers of all inodes.
    pub(crate) pointers: Vec<Pointer>,
}

impl Facts {
    /// Returns the state of an inode that is not in use.
    pub(crate) fn slot(&self, inode: InodeNumber) -> Slot {
        self.slots.get(&inode).copied().unwrap_or(Slot::Impossible)
    }

    /// Returns whether an inode is the root directory or the root of the metadata directory.
    pub(crate) fn is_root(&self, inode: InodeNumber) -> bool {
        inode == self.root || self.metadata_root == Some(inode)
    }

    /// Returns whether a directory is one of the metadata directory. A directory whose inode is
    /// lost is one if a metadata directory names it.
    pub(crate) fn is_metadata_directory(&self, directory: InodeNumber) -> bool {
        let is_flagged = |inode: InodeNumber| match self.members.get(&inode) {
            Some(member) => member.is_metadata,
            None => self.metadata_root == Some(inode),
        };
        if self.metadata_root == Some(directory) || self.members.contains_key(&directory) {
            return is_flagged(directory);
        }
        let names = self.names.iter().filter(|name| name.child == directory);
        names.into_iter().any(|name| is_flagged(name.directory))
            || self
                .pointers
                .iter()
                .any(|pointer| pointer.directory == directory && is_flagged(pointer.child))
    }

    /// Returns whether an inode is the free one that a new directory `lost+found` gets.
    pub(crate) fn is_spare(&self, inode: InodeNumber) -> bool {
        self.spare.is_some_and(|(spare, _)| spare == inode)
    }

    /// Returns whether all parent pointers of the volume could be read, so that they have every
    /// name and no name depends on a directory entry alone.
    pub(crate) fn has_all_pointers(&self) -> bool {
        self.has_parents
            && self.has_all_inodes
            && self.members.values().all(|member| member.has_all_pointers)
    }

    /// Returns whether a directory has lost entries that cannot all be restored from parent
    /// pointers.
    pub(crate) fn loses_names(&self, directory: &Member) -> bool {
        !directory.has_all_entries && !self.has_all_pointers()
    }

    /// Collects the evidence of a volume for its names. `allows_loss` says whether names of inodes
    /// that are not in use may be given up.
    pub(crate) fn collect(
        evidence: &Evidence<'_>,
        model: &Model,
        damage: &Damage,
        allows_loss: bool,
    ) -> Self {
        let superblock = evidence.superblock();
        let mut facts = Self {
            root: superblock.root_inode,
            metadata_root: superblock.metadata_directory_inode,
            has_parents: superblock.has_incompat(IncompatFeatures::PARENT),
            reserved: reserved(superblock),
            allows_loss,
            has_all_inodes: has_all_inodes(model, damage),
            ..Self::default()
        };
        for (number, inode) in &model.inodes {
            if let (Some(core), true) = (&inode.core, inode.state != InodeState::Gone) {
                facts.inode(evidence, *number, core, damage);
            }
        }
        facts.find_slots(evidence, model, damage);
        facts.spare = facts.find_spare(evidence, model);
        facts
    }

    fn inode(
        &mut self,
        evidence: &Evidence<'_>,
        number: InodeNumber,
        core: &InodeCore,
        damage: &Damage,
    ) {
        let Some(file_type) = core.file_type() else { return };
        let inode = evidence.inode(number);
        let mut member = Member {
            entry_type: EntryType::of(file_type),
            generation: core.generation,
            links: core.nlink,
            has_all_names: true,
            has_all_entries: true,
            has_all_pointers: true,
            dotdot: None,
            has_other_contents: false,
            is_metadata: core.flags2.contains(InodeFlags2::METADATA),
            metadata_path: MetadirFile::of_fields(core)
                .filter(|_| core.flags2.contains(InodeFlags2::METADATA))
                .and_then(MetadirFile::path),
            lsn: Some(core.lsn).filter(|lsn| lsn.0 != 0 && !lsn.is_null()),
            names_lsn: None,
        };
        let codes = damage.codes_of(number);
        let is_about_contents =
            |code: &Code| matches!(code.area(), Area::Directory | Area::Symlink);
        member.has_other_contents = codes.iter().any(is_about_contents);
        if file_type == FileType::Directory {
            let found = evidence.entries(&inode);
            let agrees = !codes.iter().any(|code| contradicts_entries(*code));
            member.dotdot = found.parent;
            member.has_other_contents &= found.names.is_empty();
            member.has_all_entries = found.has_all_names();
            member.has_all_names = found.is_whole() && agrees;
            let first = found.names.first().and_then(|name| name.lsn);
            let block_bytes = u64::from(evidence.geometry().directory_block_size());
            // The short form and one data block are written as a whole.
            member.names_lsn = first.filter(|_| core.size <= block_bytes);
            self.names.extend(found.names.into_iter().enumerate().map(|(position, name)| Name {
                directory: number,
                is_sound: name.trust == Trust::Sound && agrees,
                name: name.name,
                child: name.child,
                entry_type: name.entry_type,
                position,
                lsn: name.lsn,
            }));
        }
        let found = evidence.attributes(&inode);
        member.has_all_pointers = found.is_whole();
        self.pointers.extend(found.parents.into_iter().map(|parent| Pointer {
            child: number,
            directory: parent.parent,
            generation: parent.generation,
            name: parent.name,
            is_sound: parent.trust == Trust::Sound,
        }));
        self.members.insert(number, member);
    }

    /// Finds the state of each inode number that names or parent pointers mention and that is not
    /// an inode in use.
    fn find_slots(&mut self, evidence: &Evidence<'_>, model: &Model, damage: &Damage) {
        let of_names = self.names.iter().map(|name| name.child);
        let of_pointers = self.pointers.iter().map(|pointer| pointer.directory);
        let mentioned: BTreeSet<InodeNumber> = of_names
            .chain(of_pointers)
            .chain([self.root])
            .chain(self.metadata_root)
            .chain(self.reserved.clone())
            .collect();
        let others = mentioned.into_iter().filter(|inode| !self.members.contains_key(inode));
        self.slots = others.map(|inode| (inode, slot(evidence, model, damage, inode))).collect();
    }

    /// Returns the first free inode of the volume that no name or pointer mentions, and the
    /// generation that it gets when it is used. `None` if there is no such inode.
    fn find_spare(&self, evidence: &Evidence<'_>, model: &Model) -> Option<(InodeNumber, u32)> {
        let all = model.chunks.iter().flat_map(|(group, chunks)| {
            chunks.iter().flat_map(move |chunk| {
                let is_free = |index: &u32| (chunk.free & chunk.present()) >> index & 1 == 1;
                let free = (0..INODES_PER_CHUNK).filter(is_free);
                free.map(move |index| (*group, AgInode(chunk.start.0 + index)))
            })
        });
        let numbers = all.map(|(group, inode)| evidence.geometry().join_inode(group, inode));
        let is_mentioned = |number: &InodeNumber| {
            self.slots.contains_key(number) || self.members.contains_key(number)
        };
        numbers.filter(|number| !is_mentioned(number)).find_map(|number| {
            match evidence.inode(number).state {
                xfs_evidence::InodeState::Free(core) => {
                    Some((number, core.generation.wrapping_add(1)))
                }
                _ => None,
            }
        })
    }
}

/// Returns whether a finding with this code means that the entries of a directory are doubtful,
/// because its hash index has other names.
fn contradicts_entries(code: Code) -> bool {
    code == Code::DirIndex || code == Code::DirNameTwice
}

fn reserved(superblock: &Superblock) -> BTreeSet<InodeNumber> {
    let realtime = [superblock.realtime_bitmap_inode, superblock.realtime_summary_inode];
    let quota = superblock.quota_inodes.into_iter().flatten();
    realtime.into_iter().chain(quota).filter(|inode| inode.0 != 0 && !inode.is_null()).collect()
}

fn slot(evidence: &Evidence<'_>, model: &Model, damage: &Damage, inode: InodeNumber) -> Slot {
    let Some((group, in_group)) = evidence.geometry().split_inode(inode) else {
        return Slot::Impossible;
    };
    if let Some(known) = model.inodes.get(&inode) {
        // An inode of an impossible type is still to be repaired.
        return if known.state == InodeState::Gone { Slot::Gone } else { Slot::Unknown };
    }
    let position = |chunk: &InodeChunk| chunk.position(in_group);
    let holding = model.chunk_of(group, in_group).filter(|chunk| {
        position(chunk).is_some_and(|position| chunk.present() >> position & 1 == 1)
    });
    let is_certain = !damage.codes_of_group(group).iter().any(|code| is_about_chunks(*code));
    match holding {
        Some(_) => Slot::Free,
        None if is_certain => Slot::Impossible,
        None => Slot::Unknown,
    }
}

/// Returns whether every inode in use can be read, and the inode chunks of all groups are known for
/// certain.
fn has_all_inodes(model: &Model, damage: &Damage) -> bool {
    let is_certain =
        |group: &AgNumber| !damage.codes_of_group(*group).into_iter().any(is_about_chunks);
    model.inodes.values().all(|inode| inode.state != InodeState::Gone)
        && damage.groups.keys().all(is_certain)
}

/// Returns whether a finding with this code means that some inode chunks of a group may be unknown.
fn is_about_chunks(code: Code) -> bool {
    matches!(code.area(), Area::Agi | Area::InodeBtree | Area::Btree)
}
