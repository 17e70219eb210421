//! The threads' operations on shared names.
//!
//! There are few names, so that threads often use the same name. Most operations fail sometimes
//! because another thread was faster, which does not matter.

use rustix::io::Errno;
use xfs_oracle::model::{
    AllocationMode, Durable, Features, FileRanges, FileTarget, Operation, RenameMode, SetMode,
};
use xfs_testkit::Prng;

use super::{NARROW, WIDE};

/// Number of names that are used in each directory with many names. It is small, so that threads
/// often use the same name.
const NAMES: usize = 16;
/// Number of names that are used in each directory with few names. The entries usually fit in the
/// directory's inode, so that one log item contains all of them.
const NARROW_NAMES: usize = 6;
/// Length of long names in bytes. Directories with such names need blocks outside of their inodes.
const LONG_NAME_BYTES: usize = 180;
const ATTRIBUTES: usize = 6;
const MOST_BLOCKS: usize = 20;
const WRITTEN_BYTES: usize = 30_000;
const MOST_OWNERS: usize = 1000;

/// Returns one operation on an arbitrary path.
pub(super) fn operation(prng: &mut Prng, features: Features) -> Operation {
    match prng.within(0..12) {
        0..8 => on_names(prng),
        8 | 9 => on_contents(prng, features),
        _ => on_settings(prng),
    }
}

/// Returns whether an error must never occur in a history.
pub(super) fn is_fatal(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::UCLEAN | Errno::ROFS)
}

fn on_names(prng: &mut Prng) -> Operation {
    let (path, other) = (path(prng), path(prng));
    let mode = 0o640;
    match prng.within(0..16) {
        0 | 1 => Operation::Create { path, mode },
        2 | 3 => Operation::MakeDirectory { path, mode: 0o750 },
        4 => Operation::Symlink { target: vec![b't'; prng.within(1..900)], path },
        5 => Operation::Unlink { path },
        6 | 7 => Operation::RemoveDirectory { path },
        8 => Operation::MakeTemporary { slot: 0, folder: folder(prng).to_owned(), mode },
        9 => Operation::LinkSlot { slot: 0, path },
        10 | 11 => Operation::Link { from: path, to: other },
        chosen => {
            let mode = match chosen {
                12 => RenameMode::Replace,
                13 => RenameMode::Exchange,
                14 => RenameMode::NoReplace,
                _ => RenameMode::Whiteout,
            };
            Operation::Rename { from: path, to: other, mode }
        }
    }
}

fn on_contents(prng: &mut Prng, features: Features) -> Operation {
    let block = features.block_bytes;
    let blocks = |prng: &mut Prng| prng.within(0..MOST_BLOCKS) as u64 * block;
    let file = FileTarget::Path(path(prng));
    let (offset, length) = (blocks(prng), blocks(prng) + block);
    let between = |prng: &mut Prng| FileRanges {
        from: FileTarget::Path(path(prng)),
        from_offset: 0,
        to: FileTarget::Path(path(prng)),
        to_offset: 0,
        length,
    };
    match prng.within(0..12) {
        0..4 => {
            let (offset, length) = (prng.within(0..WRITTEN_BYTES), prng.within(1..WRITTEN_BYTES));
            let (offset, length) = (offset as u64, length as u64);
            Operation::Write { file, offset, length, number: prng.number() }
        }
        4 | 5 => Operation::Truncate { file, size: prng.within(0..2 * WRITTEN_BYTES) as u64 },
        6 | 7 => {
            let modes = [
                AllocationMode::Allocate,
                AllocationMode::PunchHole,
                AllocationMode::ZeroKeepSize,
                AllocationMode::Collapse,
                AllocationMode::Insert,
            ];
            let mode = prng.choose(&modes).copied().unwrap_or(AllocationMode::Allocate);
            Operation::Allocate { file, mode, offset, length }
        }
        8 => Operation::Clone(between(prng)),
        9 => Operation::Deduplicate(between(prng)),
        10 => Operation::Exchange(between(prng)),
        _ => Operation::Read { file, offset, length },
    }
}

fn on_settings(prng: &mut Prng) -> Operation {
    let path = path(prng);
    let name = format!("trusted.{}", prng.within(0..ATTRIBUTES));
    match prng.within(0..9) {
        0..4 => {
            let most = prng.choose(&[20, 200, 3000, 9000]).copied().unwrap_or(20);
            let (length, number) = (prng.within(0..most), prng.number());
            Operation::SetAttribute { path, name, length, number, mode: SetMode::Either }
        }
        4 | 5 => Operation::RemoveAttribute { path, name },
        6 => Operation::ChangeMode { path, mode: prng.within(0..0o1000) as u32 },
        7 => {
            let (uid, gid) = (prng.within(0..MOST_OWNERS), prng.within(0..MOST_OWNERS));
            Operation::ChangeOwner { path, uid: uid as u32, gid: gid as u32 }
        }
        _ if prng.within(0..8) > 0 => Operation::List { path: folder(prng).to_owned() },
        _ => Operation::Sync(Durable::File(FileTarget::Path(path))),
    }
}

/// Returns a shared directory. In half of the cases it is one with few names.
pub(super) fn folder(prng: &mut Prng) -> &'static str {
    if prng.within(0..2) == 0 {
        wide_folder(prng)
    } else {
        prng.choose(&NARROW).copied().unwrap_or("")
    }
}

/// Returns a shared directory with many names, which may be the root.
pub(super) fn wide_folder(prng: &mut Prng) -> &'static str {
    WIDE.get(prng.within(0..WIDE.len() + 1)).copied().unwrap_or("")
}

/// Returns whether the directory is one in which the threads use few names.
pub(super) fn is_narrow(folder: &str) -> bool {
    NARROW.contains(&folder)
}

/// Returns a path in a shared directory, or in a subdirectory that a thread may have created.
fn path(prng: &mut Prng) -> String {
    let folder = folder(prng);
    let mut name = || {
        if is_narrow(folder) {
            return format!("n{}", prng.within(0..NARROW_NAMES));
        }
        let number = prng.within(0..NAMES);
        let tail = if number.is_multiple_of(3) { LONG_NAME_BYTES } else { 0 };
        format!("n{number}{}", "L".repeat(tail))
    };
    let (above, name) = (name(), name());
    let is_deeper = prng.within(0..8) == 0;
    within(folder, &if is_deeper { format!("{above}/{name}") } else { name })
}

/// Returns the path of a name in a folder.
pub(super) fn within(folder: &str, name: &str) -> String {
    let slash = if folder.is_empty() { "" } else { "/" };
    format!("{folder}{slash}{name}")
}
