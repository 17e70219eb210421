//! The operations that the test cases perform, and how they are drawn at random.

use ferroxfs::RenameMode;
use xfs_oracle::Random;

use super::actor::{GROUPS, USERS, pick};
use super::scene::list;

/// A version 2 value of `security.capability` that grants nothing.
pub(super) const CAPABLE: [u8; 20] = {
    let mut value = [0; 20];
    value[3] = 2;
    value
};

/// The kind of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Regular,
    Directory,
    Fifo,
    Symlink,
    /// A character device with this major and minor number.
    Device(u32, u32),
}

/// An operation on the files of a test case. It changes or reads file `d/f`, unless the comment of
/// the operation says something else.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Find(&'static str),
    List,
    OpenToRead,
    OpenToWrite,
    OpenToWriteOnly,
    OpenQuietly,
    Access(u16),
    ReadLink,
    ReadAttribute(&'static str),
    ListAttributes,
    SetAttribute(&'static str, Vec<u8>),
    RemoveAttribute(&'static str),
    ChangeMode(u16),
    ChangeOwner(Option<u32>, Option<u32>),
    Touch,
    SetTimes,
    Write,
    Truncate,
    Allocate,
    /// Inverts those flags of the file that the first field contains, and sets the project ID of
    /// the file to the second field.
    SetFlags(u32, u32),
    /// Makes file `d/n` of this kind and mode.
    Make(Made, u16),
    Unlink,
    RemoveDirectory,
    Rename(&'static str, RenameMode),
    Link,
    /// Makes an unnamed file in `d`, and links it as `e/h`.
    Temporary(u16),
    Share,
    Exchange,
    Watch,
}

const ATTRIBUTES: [&str; 6] = [
    "user.a",
    "trusted.a",
    "security.a",
    "security.capability",
    "system.posix_acl_access",
    "system.posix_acl_default",
];
const PATHS: [&str; 6] = ["d/f", "d/.", "d/..", "d/s/../f", "d/none", "d/f/."];
const NEW_PLACES: [&str; 4] = ["e/h", "e/g", "d/h", "d/s"];
const RENAMES: [RenameMode; 4] =
    [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange, RenameMode::Whiteout];
const MADE: [Made; 6] = [
    Made::Regular,
    Made::Directory,
    Made::Fifo,
    Made::Symlink,
    Made::Device(1, 3),
    Made::Device(0, 0),
];
/// Flags to invert: immutable, append-only, no dump, and none.
const FLAGS: [u32; 4] = [0x8, 0x10, 0x80, 0];

impl Operation {
    /// Returns an operation with random arguments. Its kind follows from `turn`: consecutive values
    /// of `turn` go through all kinds.
    pub(super) fn random(turn: u64, random: &mut Random) -> Self {
        let mode = random.below(0o10_000) as u16;
        match turn % 31 {
            0 => Self::Find(pick(random, &PATHS)),
            1 => Self::List,
            2 => Self::OpenToRead,
            3 if random.below(2) == 0 => Self::OpenToWrite,
            3 => Self::OpenToWriteOnly,
            4 => Self::OpenQuietly,
            5 => Self::Access(mode & 7),
            6 => Self::ReadLink,
            7 => Self::ReadAttribute(pick(random, &ATTRIBUTES)),
            8 => Self::ListAttributes,
            9 | 10 => set_attribute(random),
            11 => Self::RemoveAttribute(pick(random, &ATTRIBUTES)),
            12 => Self::ChangeMode(mode),
            13 | 14 => match (some(random, &USERS), some(random, &GROUPS)) {
                (None, None) => Self::ChangeOwner(Some(pick(random, &USERS)), None),
                (uid, gid) => Self::ChangeOwner(uid, gid),
            },
            15 => Self::Touch,
            16 => Self::SetTimes,
            17 => Self::Write,
            18 => Self::Truncate,
            19 => Self::Allocate,
            20 => Self::SetFlags(pick(random, &FLAGS), random.below(2) as u32),
            21 => Self::Make(pick(random, &MADE), mode),
            22 => Self::Unlink,
            23 => Self::RemoveDirectory,
            24 | 25 => Self::Rename(pick(random, &NEW_PLACES), pick(random, &RENAMES)),
            26 => Self::Link,
            27 => Self::Temporary(mode),
            28 => Self::Share,
            29 => Self::Exchange,
            _ => Self::Watch,
        }
    }
}

impl Operation {
    /// Removes set-ID bits from the mode of a new directory, because the library and the kernel
    /// differ: for root, the library makes a directory with set-ID bits at once, and mkdir(2) never
    /// does.
    #[allow(dead_code, reason = "tests of a mount call mkdir(2)")]
    pub(super) fn take_set_ids_of_new_directory(&mut self) {
        if let Self::Make(Made::Directory, mode) = self {
            *mode &= 0o1777;
        }
    }

    /// Returns whether the operation needs regular files that can be opened. The library cannot
    /// open special files, and cannot open a file for appending only.
    pub(super) fn needs_contents(&self) -> bool {
        use Operation::{
            Allocate, Exchange, OpenQuietly, OpenToRead, OpenToWrite, OpenToWriteOnly, SetFlags,
            Share, Truncate, Write,
        };
        matches!(
            self,
            Allocate
                | Exchange
                | OpenQuietly
                | OpenToRead
                | OpenToWrite
                | OpenToWriteOnly
                | SetFlags(..)
                | Share
                | Truncate
                | Write
        )
    }
}

fn some(random: &mut Random, from: &[u32]) -> Option<u32> {
    (random.below(3) > 0).then(|| pick(random, from))
}

fn set_attribute(random: &mut Random) -> Operation {
    let name = pick(random, &ATTRIBUTES);
    let value = match name {
        "security.capability" if random.below(4) == 0 => b"nothing of the kind".to_vec(),
        "security.capability" => CAPABLE.to_vec(),
        name if name.starts_with("system.") => list(random),
        _ => b"new".to_vec(),
    };
    Operation::SetAttribute(name, value)
}
