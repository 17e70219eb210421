//! A finding: what is wrong, where, and what it means.

use std::fmt;

use xfs_format::{
    AgBlock, AgNumber, Corruption, DiskAddr, FileBlock, FsBlock, Geometry, InodeNumber,
    StructureAddress,
};

use crate::code::Code;

/// How bad a finding is. The order is from harmless to fatal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// The finding is worth knowing, but nothing is wrong.
    Note,
    /// The structure is legal, but could be tidier.
    Preen,
    /// A count is wrong.
    Counter,
    /// Redundant data disagree: writing to the volume would increase the damage.
    Unsafe,
    /// Names, contents or attributes are wrong or cannot be reached.
    Loss,
    /// The volume, or one of its groups, cannot be used at all.
    Fatal,
}

impl Severity {
    /// All severities, the worst first.
    pub const ALL: [Self; 6] =
        [Self::Fatal, Self::Loss, Self::Unsafe, Self::Counter, Self::Preen, Self::Note];

    /// Returns the word for this severity in messages and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Preen => "preen",
            Self::Counter => "counter",
            Self::Unsafe => "unsafe",
            Self::Loss => "loss",
            Self::Fatal => "fatal",
        }
    }

    /// Returns what a finding of this severity means, as a clause.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Note => "worth knowing; nothing is wrong",
            Self::Preen => "legal, could be tidier",
            Self::Counter => "a count is wrong",
            Self::Unsafe => "redundant data disagree: writing would increase the damage",
            Self::Loss => "names, contents or attributes are wrong or cannot be reached",
            Self::Fatal => "the volume, or one of its groups, cannot be used at all",
        }
    }

    /// Returns whether a volume with such a finding is not clean.
    #[must_use]
    pub fn is_damage(self) -> bool {
        self > Self::Preen
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The place of a finding. Every part that is known is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Place {
    /// The allocation group.
    pub group: Option<AgNumber>,
    /// The block inside the group.
    pub block: Option<AgBlock>,
    /// The inode.
    pub inode: Option<InodeNumber>,
    /// Whether `file_block` is a block of the attribute fork.
    pub is_attribute_fork: bool,
    /// The block inside a fork of the inode.
    pub file_block: Option<FileBlock>,
    /// The disk address of the structure, in units of 512 bytes.
    pub disk_addr: Option<DiskAddr>,
    /// The realtime group; `None` in a section without groups.
    pub realtime_group: Option<u32>,
    /// The block of the realtime section, as the maps of files number it.
    pub realtime_block: Option<FsBlock>,
}

impl Place {
    /// Returns the place of a group as a whole.
    #[must_use]
    pub fn of_group(group: AgNumber) -> Self {
        Self { group: Some(group), ..Self::default() }
    }

    /// Returns the place of an inode as a whole.
    #[must_use]
    pub fn of_inode(inode: InodeNumber, geometry: &Geometry) -> Self {
        let location = geometry.inode_location(inode);
        let disk_addr = location
            .map(|location| DiskAddr(location.cluster.0 + u64::from(location.offset_bytes / 512)));
        let group = geometry.split_inode(inode).map(|(group, _)| group);
        Self { group, inode: Some(inode), disk_addr, ..Self::default() }
    }

    /// Returns the place of a block of a group.
    #[must_use]
    pub fn of_block(group: AgNumber, block: AgBlock, geometry: &Geometry) -> Self {
        let disk_addr = Some(geometry.ag_block_disk_addr(group, block));
        Self { group: Some(group), block: Some(block), disk_addr, ..Self::default() }
    }

    /// Returns the place of a block of the realtime section. The place has a disk address if the
    /// section lies on the data device.
    #[must_use]
    pub fn of_realtime(block: FsBlock, geometry: &Geometry) -> Self {
        let realtime = &geometry.realtime;
        let split = realtime.split_block(block).filter(|_| realtime.group_count != 0);
        let device_block = realtime.device_block(block).filter(|_| realtime.is_internal());
        let bytes = device_block.and_then(|block| geometry.blocks_to_bytes(block));
        Self {
            realtime_group: split.map(|split| split.group),
            realtime_block: Some(block),
            disk_addr: bytes.map(|bytes| DiskAddr(bytes / 512)),
            ..Self::default()
        }
    }

    /// Returns the place of a realtime group as a whole.
    #[must_use]
    pub fn of_realtime_group(group: u32) -> Self {
        Self { realtime_group: Some(group), ..Self::default() }
    }

    /// Returns the place of a structure at a disk address.
    #[doc(hidden)]
    #[must_use]
    pub fn of_address(at: DiskAddr, geometry: &Geometry) -> Self {
        let split = geometry.split_disk_addr(at);
        Self {
            group: split.map(|(group, _)| group),
            block: split.map(|(_, block)| block),
            disk_addr: Some(at),
            ..Self::default()
        }
    }

    /// Adds a block of a fork to the place.
    #[must_use]
    pub fn at_file_block(mut self, file_block: FileBlock, is_attribute_fork: bool) -> Self {
        (self.file_block, self.is_attribute_fork) = (Some(file_block), is_attribute_fork);
        self
    }

    /// Adds to the place the inode that the structure belongs to.
    #[must_use]
    pub fn with_inode(mut self, inode: InodeNumber) -> Self {
        self.inode = Some(inode);
        self
    }

    /// Converts the address in a [`Corruption`] to a place.
    #[must_use]
    pub fn of_structure(address: StructureAddress, geometry: &Geometry) -> Self {
        match address {
            StructureAddress::Disk(at) => Self::of_address(at, geometry),
            StructureAddress::Group(group) => Self::of_group(group),
            StructureAddress::Inode(inode) => Self::of_inode(inode, geometry),
            StructureAddress::Data(inode, block) => {
                Self::of_inode(inode, geometry).at_file_block(block, false)
            }
            StructureAddress::Attr(inode, block) => {
                Self::of_inode(inode, geometry).at_file_block(block, true)
            }
            // A block of the log has no address on the data device.
            _ => Self::default(),
        }
    }

    /// Returns the byte offset on the data device, if the disk address is known.
    #[must_use]
    pub fn byte_offset(&self) -> Option<u64> {
        self.disk_addr.and_then(DiskAddr::byte_offset)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut part = |f: &mut fmt::Formatter<'_>, part: &dyn fmt::Display| {
            write!(f, "{separator}{part}")?;
            separator = ", ";
            Ok(())
        };
        match (self.inode, self.group) {
            (Some(inode), _) => part(f, &inode)?,
            (None, Some(group)) => part(f, &group)?,
            (None, None) => {}
        }
        if let Some(block) = self.block.filter(|_| self.inode.is_none()) {
            part(f, &format_args!("block {}", block.0))?;
        }
        if let Some(block) = self.file_block {
            let fork = if self.is_attribute_fork { "attribute" } else { "data" };
            part(f, &format_args!("{fork} block {}", block.0))?;
        }
        if let Some(group) = self.realtime_group {
            part(f, &format_args!("realtime group {group}"))?;
        }
        if let Some(block) = self.realtime_block {
            part(f, &format_args!("realtime block {:#x}", block.0))?;
        }
        match self.byte_offset() {
            Some(offset) => part(f, &format_args!("byte {offset}")),
            None => Ok(()),
        }
    }
}

/// The statement of one structure about a value on which two structures disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Witness {
    /// The statement of the structure, in words.
    pub says: String,
    /// The structure that makes the statement, in words.
    pub by: String,
}

/// One result of a check: damage, or something harmless that the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The stable code, which says what is wrong.
    pub code: Code,
    /// The place of the damage on the volume.
    pub place: Place,
    /// The value that was found, in words.
    pub found: String,
    /// The value that was expected, in words; empty if `found` alone states what is wrong.
    pub expected: String,
    /// The path of the inode, if one is known. Set at the end of a run.
    pub path: Option<Vec<u8>>,
    /// The statements of the structures that disagree; empty if only one structure is involved.
    pub evidence: Vec<Witness>,
    /// The number of differences that follow from this damage. They are not among the findings of
    /// the report, but among its consequences.
    pub consequences: u64,
    /// The index of the cause in the findings of the report, if this is a consequence.
    pub cause: Option<usize>,
}

impl Finding {
    /// Creates a finding.
    #[must_use]
    pub fn new(code: Code, place: Place, found: impl Into<String>) -> Self {
        Self {
            code,
            place,
            found: found.into(),
            expected: String::new(),
            path: None,
            evidence: Vec::new(),
            consequences: 0,
            cause: None,
        }
    }

    /// Adds the value that was expected, in words.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }

    /// Adds the statement of one structure: `by` names the structure, and `says` is its statement.
    #[must_use]
    pub fn witness(mut self, by: impl Into<String>, says: impl Into<String>) -> Self {
        self.evidence.push(Witness { says: says.into(), by: by.into() });
        self
    }

    /// Creates the finding of a failed check of one structure.
    #[must_use]
    pub fn of(corruption: &Corruption, geometry: &Geometry) -> Self {
        let place = Place::of_structure(corruption.address(), geometry);
        Self::new(Code::of(corruption), place, corruption.check().to_string())
    }

    /// Returns the severity.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.code, self.place, self.found)?;
        if !self.expected.is_empty() {
            write!(f, ", expected {}", self.expected)?;
        }
        Ok(())
    }
}
