//! The columns of a row and their selection (`--fields`).

use std::str::FromStr;

/// A column of an inode's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Field {
    /// UUID of the volume.
    VolumeUuid,
    /// Label of the volume.
    VolumeLabel,
    /// Inode number.
    Ino,
    /// Generation of the inode number.
    Generation,
    /// Number of the inode's allocation group.
    Ag,
    /// File type as a word, such as `file`.
    Type,
    /// `st_mode`: the permissions and the file type.
    Mode,
    /// Link count of the inode.
    Nlink,
    /// User ID of the owner.
    Uid,
    /// Group ID.
    Gid,
    /// Project ID.
    ProjectId,
    /// Size in bytes.
    Size,
    /// Allocated space in units of 512 bytes.
    Blocks,
    /// Allocated space in the realtime section, in units of 512 bytes. Left out unless it is
    /// requested by name.
    RealtimeBlocks,
    /// Access time, in nanoseconds since 1970.
    Atime,
    /// Modification time, in nanoseconds since 1970.
    Mtime,
    /// Change time, in nanoseconds since 1970.
    Ctime,
    /// Birth time, in nanoseconds since 1970.
    Btime,
    /// Number of extent records of the data fork.
    Extents,
    /// Number of extent records of the inode's attribute fork.
    AttrExtents,
    /// Flags in the form of `FS_IOC_FSGETXATTR`.
    Xflags,
    /// Device number in the form of `st_rdev`.
    Rdev,
    /// The inode's change counter (`di_changecount`), which rises when its contents or attributes
    /// change.
    ChangeCount,
    /// Log sequence number of the last logged change that the inode on disk includes.
    Lsn,
    /// The flag word `di_flags` of the inode on disk.
    Flags,
    /// The flag word `di_flags2` of the inode on disk.
    Flags2,
    /// Name of the owning user, from the table of user names that the caller gives. Left out unless
    /// there is a table.
    Owner,
    /// Name of the owning group, from the table of group names that the caller gives. Left out
    /// unless there is a table.
    Group,
    /// Hash of the contents of a regular file, with its kind: `head:` or `sha256:` and 64
    /// hexadecimal digits. Left out unless the caller gives a hasher.
    Hash,
    /// Target of a symbolic link. Left out unless it is requested by name.
    Symlink,
    /// Names of extended attributes, with their namespaces. Left out unless they are requested by
    /// name.
    Xattrs,
    /// Every path of the inode, from the root of the volume.
    Paths,
    /// For each path, the inode number of its directory. Left out unless it is requested by name.
    Parents,
    /// For each path, the generation of its directory. Left out unless it is requested by name.
    ParentGenerations,
}

impl Field {
    /// All columns, in the order of the output.
    pub const ALL: [Self; 34] = [
        Self::VolumeUuid,
        Self::VolumeLabel,
        Self::Ino,
        Self::Generation,
        Self::Ag,
        Self::Type,
        Self::Mode,
        Self::Nlink,
        Self::Uid,
        Self::Gid,
        Self::ProjectId,
        Self::Size,
        Self::Blocks,
        Self::RealtimeBlocks,
        Self::Atime,
        Self::Mtime,
        Self::Ctime,
        Self::Btime,
        Self::Extents,
        Self::AttrExtents,
        Self::Xflags,
        Self::Rdev,
        Self::ChangeCount,
        Self::Lsn,
        Self::Flags,
        Self::Flags2,
        Self::Owner,
        Self::Group,
        Self::Hash,
        Self::Symlink,
        Self::Xattrs,
        Self::Paths,
        Self::Parents,
        Self::ParentGenerations,
    ];

    /// Returns the name of the column in every output format and in `--fields`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VolumeUuid => "volume_uuid",
            Self::VolumeLabel => "volume_label",
            Self::Ino => "ino",
            Self::Generation => "generation",
            Self::Ag => "ag",
            Self::Type => "type",
            Self::Mode => "mode",
            Self::Nlink => "nlink",
            Self::Uid => "uid",
            Self::Gid => "gid",
            Self::ProjectId => "project_id",
            Self::Size => "size",
            Self::Blocks => "blocks",
            Self::RealtimeBlocks => "rt_blocks",
            Self::Atime => "atime",
            Self::Mtime => "mtime",
            Self::Ctime => "ctime",
            Self::Btime => "btime",
            Self::Extents => "extents",
            Self::AttrExtents => "attr_extents",
            Self::Xflags => "xflags",
            Self::Rdev => "rdev",
            Self::ChangeCount => "change_count",
            Self::Lsn => "lsn",
            Self::Flags => "flags",
            Self::Flags2 => "flags2",
            Self::Owner => "owner",
            Self::Group => "group",
            Self::Hash => "hash",
            Self::Symlink => "symlink",
            Self::Xattrs => "xattrs",
            Self::Paths => "paths",
            Self::Parents => "parents",
            Self::ParentGenerations => "parent_generations",
        }
    }
}

/// The error for a name that is not the name of a column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown field {name}; the fields are {}", all_names())]
pub struct UnknownField {
    /// The name that was given.
    pub name: String,
}

fn all_names() -> String {
    Field::ALL.map(Field::name).join(", ")
}

impl FromStr for Field {
    type Err = UnknownField;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|field| field.name() == name);
        found.ok_or_else(|| UnknownField { name: name.to_owned() })
    }
}

/// A set of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields(u64);

impl Fields {
    /// No columns.
    pub const EMPTY: Self = Self(0);

    /// Returns the default columns of the table format, which fit a terminal.
    #[must_use]
    pub fn for_table() -> Self {
        let shown = [
            Field::Ino,
            Field::Type,
            Field::Mode,
            Field::Nlink,
            Field::Uid,
            Field::Gid,
            Field::Size,
            Field::Mtime,
            Field::Paths,
        ];
        shown.into_iter().collect()
    }

    /// Returns the default columns of a Parquet file: those of the other formats, and the
    /// directories of all paths, which the comparison of two scans needs.
    #[must_use]
    pub fn for_comparing() -> Self {
        Self::default().with(Field::Parents).with(Field::ParentGenerations)
    }

    /// Returns whether a column of the set needs the paths of the inodes.
    #[must_use]
    pub const fn needs_paths(self) -> bool {
        self.contains(Field::Paths)
            || self.contains(Field::Parents)
            || self.contains(Field::ParentGenerations)
    }

    /// Returns the set with `field` added.
    #[must_use]
    pub const fn with(self, field: Field) -> Self {
        Self(self.0 | 1 << field as u32)
    }

    /// Returns the set without `field`.
    #[must_use]
    pub const fn without(self, field: Field) -> Self {
        Self(self.0 & !(1 << field as u32))
    }

    /// Returns whether `field` is in the set.
    #[must_use]
    pub const fn contains(self, field: Field) -> bool {
        self.0 & (1 << field as u32) != 0
    }

    /// Returns the columns, in the order of the output.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.into_iter().filter(move |&field| self.contains(field))
    }
}

/// The columns that must be requested by name.
const ON_REQUEST: [Field; 8] = [
    Field::Hash,
    Field::Symlink,
    Field::Xattrs,
    Field::RealtimeBlocks,
    Field::Owner,
    Field::Group,
    Field::Parents,
    Field::ParentGenerations,
];

/// Selects all columns except those that must be requested by name: symlink targets, attribute
/// names, the space in the realtime section, the names of owners, hashes, and the directories of
/// paths.
impl Default for Fields {
    fn default() -> Self {
        let all: Self = Field::ALL.into_iter().collect();
        ON_REQUEST.into_iter().fold(all, Self::without)
    }
}

impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        fields.into_iter().fold(Self::EMPTY, Self::with)
    }
}
