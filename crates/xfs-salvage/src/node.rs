//! The tree that is salvaged: files, directories, and the made-up directories for orphans and
//! deleted files.
//!
//! Owns: walking names lazily, directories that only the parent pointers of their children still
//! show, orphans, and the report on each file. Does **not** own: the destination of the copies.
//!
//! A node reports when it is dropped: by then the caller has read its contents, so the report has
//! the ranges that the device could not read. A node is reported as not copied, unless the caller
//! has said by [`set_copied`](Node::set_copied) that the copy is finished.
//!
//! The walk must be depth first. The orphans come after all other entries of the root, because only
//! the end of the walk shows to which inodes no name has led.

mod entries;
mod unlisted;

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use xfs_evidence::{ForkEvidence, FoundValue, InodeEvidence};
use xfs_format::InodeNumber;
use xfs_format::attr::Namespace;
use xfs_format::inode::{DeviceNumber, FileType, InodeFlags2};
use xfs_format::timestamp::Timestamp;

use crate::contents::{Contents, ContentsSource, NO_DEVICE};
use crate::inventory::Mark;
use crate::report::{FileReport, InodeSource, Origin, Remarks, Status};
use crate::survey::{Salvage, doubt};

pub use entries::NodeEntries;

/// The most levels of directories. Deeper directories are salvaged as orphans.
pub(crate) const MOST_LEVELS: u32 = 2048;
/// The permissions of salvaged files whose mode is not known.
const UNKNOWN_MODE: u16 = 0o600;
/// The mode of salvaged regular files whose inode cannot be read.
const GONE_MODE: u16 = FileType::Regular.mode_bits() | UNKNOWN_MODE;
/// The mode of salvaged symbolic links whose inode cannot be read.
const GONE_LINK_MODE: u16 = FileType::Symlink.mode_bits() | 0o777;
/// The set-user-ID and set-group-ID bits of a mode.
const SET_ID: u16 = 0o6000;
/// The permissions of salvaged directories without a readable inode, such as the made-up ones.
const MADE_MODE: u16 = 0o755;

/// The position of a node in the tree that is salvaged.
pub(crate) struct Position {
    parent: Option<Rc<Self>>,
    name: Vec<u8>,
    level: u32,
    /// Whether the node is, or lies below, an orphan whose inode may have been freed.
    is_unsure: bool,
}

impl Position {
    pub(crate) fn top() -> Rc<Self> {
        Rc::new(Self { parent: None, name: Vec::new(), level: 0, is_unsure: false })
    }

    pub(crate) fn below(parent: &Rc<Self>, name: Vec<u8>) -> Rc<Self> {
        Self::orphan(parent, name, parent.is_unsure)
    }

    fn orphan(parent: &Rc<Self>, name: Vec<u8>, is_unsure: bool) -> Rc<Self> {
        Rc::new(Self { level: parent.level + 1, parent: Some(Rc::clone(parent)), name, is_unsure })
    }

    /// Returns the path of the node, relative to the destination of the copy.
    fn path(&self) -> Vec<u8> {
        let mut names = vec![self.name.as_slice()];
        let mut at = self.parent.as_ref();
        while let Some(position) = at {
            names.push(&position.name);
            at = position.parent.as_ref();
        }
        names.reverse();
        names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(&b'/')
    }
}

/// The kind of object on the volume, or of made-up directory, for which a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// The top of the tree, which stands for the folder to which the caller copies.
    Top,
    /// An inode that can be read.
    Inode,
    /// A directory whose inode is gone. Its names come from parent pointers.
    GoneDirectory,
    /// A regular file whose inode is gone. Its contents come from the reverse map.
    GoneFile,
    /// A symbolic link whose inode is gone. Its target comes from the reverse map.
    GoneLink,
    /// A pipe or socket whose inode is gone. The type is in the mode of the node.
    GoneSpecial,
    /// The made-up directory of the inodes to which no name has led.
    Orphans,
    /// The made-up directory of the deleted files.
    DeletedFiles,
}

/// A file or directory that is salvaged.
pub struct Node<'a> {
    salvage: &'a Salvage<'a>,
    kind: NodeKind,
    inode: InodeEvidence,
    origin: Origin,
    position: Rc<Position>,
    /// The mode to use if that of the inode cannot be believed; 0 if the mode of the inode is used.
    mode: u16,
    contents: OnceCell<Contents>,
    remarks: RefCell<Remarks>,
    /// Whether the caller has finished the copy of this file.
    is_copied: Cell<bool>,
    /// Whether another node has already reported the file. If so, this node reports nothing when it
    /// is dropped.
    is_reported: bool,
    last_name: Option<(InodeNumber, Vec<u8>)>,
    inode_source: Option<InodeSource>,
}

/// The facts about a file, as stat shows them.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The inode number.
    pub inode: u64,
    /// Type and permissions.
    pub mode: u16,
    /// Number of names.
    pub links: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Project ID.
    pub project: u32,
    /// Length of the contents in bytes.
    pub size: u64,
    /// Number of filesystem blocks, as the inode counts them.
    pub blocks: u64,
    /// The device number of a device file.
    pub device: Option<DeviceNumber>,
    /// The times of last access, modification, change, and of creation.
    pub times: [Timestamp; 4],
    /// Inode flags, as in FS_IOC_FSGETXATTR.
    pub xflags: u32,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The namespace.
    pub namespace: Namespace,
    /// The name without a prefix.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

impl<'a> Salvage<'a> {
    /// Returns the device that holds the contents of a file. `None` if they are on a realtime
    /// device that was not named.
    pub(crate) fn source(&self, is_realtime: bool) -> Option<ContentsSource> {
        match (is_realtime, self.evidence.geometry().realtime.is_internal()) {
            (false, _) => Some(ContentsSource::Data),
            (true, true) => Some(ContentsSource::InternalSection),
            (true, false) => self.realtime.clone().map(ContentsSource::Section),
        }
    }

    /// Returns the top of the tree. Its entries are the entries of the root directory, and after
    /// them the made-up directories for orphans and for deleted files, if there are any.
    #[must_use]
    pub fn top(&'a self) -> Node<'a> {
        let number = self.root.unwrap_or(InodeNumber(0));
        let inode = self.inode(number);
        if self.root.is_some() {
            self.inventory.borrow_mut().mark(number, Mark::Visited);
        }
        self.node(NodeKind::Top, inode, Origin::Entry, Position::top())
    }

    fn node(
        &'a self,
        kind: NodeKind,
        inode: InodeEvidence,
        origin: Origin,
        position: Rc<Position>,
    ) -> Node<'a> {
        let mut remarks = Remarks::default();
        if let Some(text) = doubt(&inode) {
            remarks.doubt(text);
        }
        let is_of_inode = matches!(kind, NodeKind::Inode | NodeKind::Top) && inode.core().is_some();
        let is_logged = is_of_inode && self.logged.has(inode.number);
        if is_logged {
            remarks.doubt("the inode is damaged: its newest state comes from the log");
        }
        if is_logged && self.logged.lacks_attributes(inode.number) {
            remarks.lack("neither the inode nor the log has the attributes");
        }
        if is_of_inode && self.evidence.has_block_from_log(inode.number) {
            remarks
                .doubt("a block of its metadata is damaged: the newest state comes from the log");
        }
        match kind {
            NodeKind::GoneLink => remarks.doubt(
                "the inode is gone: the target comes from the reverse map; owner and times are \
                 not known",
            ),
            NodeKind::GoneSpecial => {
                remarks.doubt("the inode is gone: owner, mode and times are not known");
            }
            _ => {}
        }
        if position.is_unsure {
            remarks.doubt("found by reading the group: the file may have been deleted");
        }
        Node {
            salvage: self,
            kind,
            inode,
            origin,
            position,
            mode: 0,
            contents: OnceCell::new(),
            remarks: RefCell::new(remarks),
            is_copied: Cell::new(false),
            is_reported: false,
            last_name: None,
            inode_source: is_of_inode.then_some(match is_logged {
                true => InodeSource::Log,
                false => InodeSource::Disk,
            }),
        }
    }
}

impl<'a> Node<'a> {
    /// Returns a node for a file that another node has reported before. This node reports nothing.
    pub(crate) fn again(
        salvage: &'a Salvage<'a>,
        kind: NodeKind,
        number: InodeNumber,
        position: Rc<Position>,
    ) -> Self {
        let inode = salvage.inode(number);
        let mut node = salvage.node(kind, inode, Origin::Entry, position);
        node.is_reported = true;
        node
    }
}

impl Node<'_> {
    /// Sets the mode that replaces that of the inode; 0 keeps the mode of the inode.
    pub(crate) const fn with_mode(mut self, mode: u16) -> Self {
        self.mode = mode;
        self
    }

    /// Returns the mode that replaces that of the inode, or 0 if the mode of the inode is used.
    pub(crate) const fn chosen_mode(&self) -> u16 {
        self.mode
    }

    pub(crate) const fn kind(&self) -> NodeKind {
        self.kind
    }

    /// Returns the number of the inode that the node stands for.
    pub(crate) const fn number(&self) -> InodeNumber {
        self.inode.number
    }

    pub(crate) const fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the inode as it was read. `None` for a directory or file whose inode is gone.
    #[must_use]
    pub fn inode(&self) -> Option<&InodeEvidence> {
        matches!(self.kind, NodeKind::Inode | NodeKind::Top).then_some(&self.inode)
    }

    /// Returns the path of the file, relative to the destination of the copy.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        self.position.path()
    }

    /// Returns the facts about the file, such as mode, owner and size. If the inode fails a check,
    /// the flags and the set-ID bits are left out, and the link count is at least 2.
    #[must_use]
    pub fn facts(&self) -> NodeFacts {
        let zero = Timestamp::default();
        let core = match self.kind {
            NodeKind::Inode => self.inode.any_core(),
            NodeKind::Top => self.inode.core(),
            _ => None,
        };
        let Some(core) = core else {
            let mode = match self.kind {
                NodeKind::GoneFile => GONE_MODE,
                NodeKind::GoneLink => GONE_LINK_MODE,
                NodeKind::GoneSpecial => self.mode,
                _ => FileType::Directory.mode_bits() | MADE_MODE,
            };
            return NodeFacts {
                inode: self.made_number(),
                mode,
                links: 2,
                uid: 0,
                gid: 0,
                project: 0,
                size: self.contents().map_or(0, Contents::size),
                blocks: 0,
                device: None,
                times: [zero; 4],
                xflags: 0,
            };
        };
        let links = match self.origin {
            // A deleted file has one name here. With more links, a copy would make it a hard link
            // of the file that has the same inode number now.
            Origin::Deleted => 1,
            _ if self.inode.is_sound() => core.nlink,
            // A doubtful count of links must not make two files of one.
            _ => core.nlink.max(2),
        };
        // Damaged bits must not grant rights, or forbid that a copy is removed.
        let rights = if self.inode.is_sound() { 0 } else { SET_ID };
        let xflags = if self.inode.is_sound() { core.xflags().bits() } else { 0 };
        NodeFacts {
            inode: core.number.0,
            mode: if self.mode == 0 { core.mode & !rights } else { self.mode },
            links,
            uid: core.uid,
            gid: core.gid,
            project: core.project_id,
            size: self.contents().map_or(core.size, Contents::size),
            blocks: core.blocks,
            device: core.rdev,
            times: [core.access_time, core.modify_time, core.change_time, core.birth_time],
            xflags,
        }
    }

    /// Returns the inode number to show. The made-up directories `orphans` and `deleted` get
    /// numbers that no inode has.
    fn made_number(&self) -> u64 {
        match self.kind {
            NodeKind::Orphans => u64::MAX - 1,
            NodeKind::DeletedFiles => u64::MAX - 2,
            _ => self.inode.number.0,
        }
    }

    /// Returns the contents of a regular file. `None` for a node of another type.
    #[must_use]
    pub fn contents(&self) -> Option<&Contents> {
        if self.kind == NodeKind::GoneFile {
            return Some(self.contents.get_or_init(|| self.open_gone()));
        }
        let core = self.inode.any_core()?;
        let mode = if self.mode == 0 { core.mode } else { self.mode };
        let is_file = FileType::from_mode(mode) == Some(FileType::Regular);
        if self.kind != NodeKind::Inode || !is_file {
            return None;
        }
        Some(self.contents.get_or_init(|| self.open()))
    }

    /// Opens the contents of a file whose inode is gone.
    fn open_gone(&self) -> Contents {
        let block_log = self.salvage.evidence.geometry().block_log;
        let remarks = &mut *self.remarks.borrow_mut();
        let map = self.salvage.map_of_gone(self.inode.number);
        remarks.doubt(match map {
            Some(_) => {
                "the inode is gone: the contents come from the reverse map and end with a whole \
                 block; owner, mode and times are not known"
            }
            None => "the inode is gone: owner, mode and times are not known",
        });
        let has_realtime = self.salvage.evidence.superblock().realtime_blocks > 0;
        let knows_realtime = !has_realtime || self.salvage.knows_realtime_extents;
        match (&map, self.salvage.knows_all_extents) {
            (None, _) if !knows_realtime => {
                remarks.lack("the contents may be in the realtime section, and are not known");
            }
            (None, true) => remarks.note("the reverse map has no contents of the file"),
            (_, false) => remarks.lack("contents may be missing: a reverse map is damaged"),
            (Some(_), true) => {}
        }
        let is_realtime = self.salvage.realtime_forks.contains(&self.inode.number);
        let source = self.salvage.source(is_realtime);
        if source.is_none() {
            remarks.lack(NO_DEVICE);
        }
        let map = if source.is_some() { map.unwrap_or_default() } else { ForkEvidence::default() };
        let end = map.extents.last().map_or(0, |last| last.end().0);
        let size = end.checked_shl(block_log.into()).unwrap_or(u64::MAX);
        Contents::new(map, size, block_log).from(source.unwrap_or(ContentsSource::Data))
    }

    fn open(&self) -> Contents {
        let geometry = self.salvage.evidence.geometry();
        let remarks = &mut *self.remarks.borrow_mut();
        let core = self.inode.any_core().expect("the caller has looked at the core");
        if self.origin == Origin::Deleted {
            return self.salvage.deleted_contents(&self.inode, remarks);
        }
        let is_realtime = self.salvage.evidence.is_realtime(core);
        let Some(source) = self.salvage.source(is_realtime) else {
            remarks.lack(NO_DEVICE);
            return Contents::new(ForkEvidence::default(), core.size, geometry.block_log);
        };
        let map = self.salvage.map(&self.inode, remarks);
        if is_realtime {
            return Contents::new(map, core.size, geometry.block_log).from(source);
        }
        let claims = &self.salvage.claims;
        let is_shared = core.flags2.contains(InodeFlags2::REFLINK);
        let is_doubled = |extent| !is_shared && claims.is_doubled(extent, geometry);
        if map.extents.iter().any(is_doubled) {
            remarks.doubt("another file claims some of the same blocks");
        }
        Contents::new(map, core.size, geometry.block_log)
    }

    /// Returns the next range at or after `offset` that holds data and can be read.
    #[must_use]
    pub fn data_after(&self, offset: u64) -> Option<Range<u64>> {
        self.contents()?.data_after(&self.salvage.evidence, offset)
    }

    /// Fills `buffer` with contents from `offset` on, and returns the number of bytes. Holes and
    /// missing ranges are read as zeros.
    #[must_use]
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let contents = self.contents();
        contents.map_or(0, |contents| contents.read_at(&self.salvage.evidence, offset, buffer))
    }

    /// Returns the target of a symbolic link, as far as it can be read.
    #[must_use]
    pub fn target(&self) -> Vec<u8> {
        let evidence = &self.salvage.evidence;
        let found = match self.kind {
            NodeKind::GoneLink => {
                let map = self.salvage.map_of_gone(self.inode.number).unwrap_or_default();
                evidence.target_of_gone(self.inode.number, &map.extents)
            }
            _ => {
                let map = self.salvage.map(&self.inode, &mut self.remarks.borrow_mut());
                evidence.link_target_by_map(&self.inode, &map)
            }
        };
        if !found.is_whole {
            let damage = found.damages.first().map_or_else(String::new, ToString::to_string);
            let remarks = &mut *self.remarks.borrow_mut();
            match found.is_complete {
                true => remarks.doubt(format!("the target may be wrong: {damage}")),
                false => remarks.lack(format!("the target is not whole: {damage}")),
            }
        }
        found.target
    }

    /// Returns the extended attributes that can be read.
    #[must_use]
    pub fn attributes(&self) -> Vec<Attribute> {
        if !matches!(self.kind, NodeKind::Inode | NodeKind::Top) {
            return Vec::new();
        }
        let found = self.salvage.evidence.attributes(&self.inode);
        if let Some(damage) = found.damages.first() {
            self.remarks.borrow_mut().lack(format!("attributes are damaged: {damage}"));
        } else if found.unreadable > 0 {
            let count = found.unreadable;
            self.remarks.borrow_mut().lack(format!("{count} attributes cannot be read"));
        }
        let whole = found.attributes.into_iter().filter_map(|found| match found.value {
            FoundValue::Whole(value) => Some((found.namespace, found.name.into_vec(), value)),
            FoundValue::Lost { .. } => None,
        });
        whole.map(|(namespace, name, value)| Attribute { namespace, name, value }).collect()
    }

    /// Records that the copy is finished: the destination has all parts of the file that could be
    /// read.
    pub fn set_copied(&self) {
        self.is_copied.set(true);
    }

    /// Records that a part of the file could be read but not copied. `reason` says why.
    pub fn add_lack(&self, reason: impl Into<String>) {
        self.remarks.borrow_mut().lack(reason);
    }

    /// Returns the report on the file. It is complete after the contents have been read.
    fn report(&self) -> FileReport {
        // This opens contents that were not read yet, which adds remarks.
        let facts = self.facts();
        let remarks = self.remarks.borrow();
        let missing = self.contents.get().map(Contents::missing).unwrap_or_default();
        let is_partial = !missing.is_empty() || remarks.is_partial;
        let mut reasons = remarks.texts.clone();
        let status = match (self.is_copied.get(), is_partial, remarks.is_doubtful) {
            (false, ..) => Status::NotCopied,
            (true, true, _) => Status::Partial,
            (true, false, true) => Status::Doubtful,
            (true, false, false) => Status::Complete,
        };
        if status == Status::NotCopied {
            reasons.push("the copy was not finished".to_owned());
        }
        FileReport {
            path: self.path(),
            inode: self.inode.number,
            mode: facts.mode,
            size: facts.size,
            status,
            origin: self.origin,
            inode_source: self.inode_source,
            last_name: self.last_name.clone(),
            missing,
            reasons,
        }
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        if !self.is_reported && !matches!(self.kind, NodeKind::Orphans | NodeKind::DeletedFiles) {
            self.salvage.report(&self.report());
        }
    }
}
