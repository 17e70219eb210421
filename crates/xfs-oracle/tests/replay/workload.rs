//! Operations of every kind on a volume, and the names that the volume has after each operation.

use std::collections::BTreeMap;

use ferroxfs::attr::SetMode;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{
    CreateOptions, Error, NewKind, Node, PosixError, RenameMode, SetAttributes, Timestamp, Volume,
};
use xfs_oracle::Tree;
use xfs_testkit::Prng;

/// Number of names per directory. It is small, so that operations often use the same name.
const NAMES: usize = 12;
const DIRECTORIES: usize = 4;
/// The longest write in bytes.
const MOST_BYTES: usize = 200_000;

/// The names of a volume, each with the attributes of its inode. After a crash, these must be as
/// they were after one operation. Contents, sizes and times are left out, because an operation may
/// change them in several transactions.
pub(crate) type NamesState = BTreeMap<Vec<u8>, NamedInode>;

/// The attributes of the inode at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedInode {
    mode: u32,
    links: u32,
    owner: u32,
    device: (u32, u32),
    target: Option<Vec<u8>>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Returns the names of a tree, with the attributes of their inodes.
pub(crate) fn names(tree: &Tree) -> NamesState {
    let mut names = NamesState::new();
    for node in tree.nodes.values() {
        for path in &node.paths {
            let named = NamedInode {
                mode: node.mode,
                links: node.links,
                owner: node.uid,
                device: node.device,
                target: node.target.clone(),
                attributes: node.attributes.clone(),
            };
            names.insert(path.clone(), named);
        }
    }
    names
}

/// The parent directory and the name on which an operation works.
struct EntryLocation {
    directory: Node,
    name: String,
}

/// Creates the directories in which `step` performs its operations. Each directory is created by
/// one operation, so that a power cut leaves the state before or after it.
pub(crate) fn prepare(volume: &Volume) -> Result<(), Error> {
    let creation = CreateOptions::new(0o755);
    for number in 1..=DIRECTORIES {
        volume.root()?.create(format!("d{number}"), &NewKind::Directory, &creation)?;
    }
    Ok(())
}

fn location(volume: &Volume, prng: &mut Prng) -> Result<EntryLocation, Error> {
    let number = prng.within(0..DIRECTORIES + 1);
    let directory = match number {
        0 => volume.root()?,
        _ => volume.lookup(format!("/d{number}"))?,
    };
    // Some names are long, so that directories leave the inode early.
    let number = prng.within(0..NAMES);
    let length = if number.is_multiple_of(3) { 200 } else { 2 };
    Ok(EntryLocation { directory, name: format!("{number:0length$}") })
}

/// Performs one random operation. The operation may be refused, for example because a name exists.
/// Returns an error only if the device fails or the volume is corrupt.
pub(crate) fn step(volume: &Volume, prng: &mut Prng, number: u32) -> Result<(), Error> {
    let outcome = match prng.within(0..16) {
        0..=3 => create(volume, prng, number),
        4 | 5 => remove(volume, prng),
        6 | 7 => rename(volume, prng),
        8 => link(volume, prng),
        9 | 10 => attribute(volume, prng),
        11 => change(volume, prng, number),
        _ => contents(volume, prng),
    };
    match outcome {
        // Refused, as by the kernel: nothing has changed.
        Err(Error::Posix(_)) => Ok(()),
        other => other,
    }
}

fn create(volume: &Volume, prng: &mut Prng, number: u32) -> Result<(), Error> {
    let location = location(volume, prng)?;
    let target = "t".repeat(prng.within(1..900));
    let kind = match prng.within(0..8) {
        0 => NewKind::Symlink(target.as_bytes()),
        1 => NewKind::Fifo,
        2 => NewKind::Directory,
        _ => NewKind::Regular,
    };
    let creation = CreateOptions::new(0o640).uid(number).gid(7);
    location.directory.create(location.name, &kind, &creation).map(drop)
}

fn remove(volume: &Volume, prng: &mut Prng) -> Result<(), Error> {
    let location = location(volume, prng)?;
    match location.directory.remove_file(&location.name) {
        Err(Error::Posix(PosixError::IsDirectory)) => location.directory.remove_dir(&location.name),
        other => other,
    }
}

fn rename(volume: &Volume, prng: &mut Prng) -> Result<(), Error> {
    let (from, to) = (location(volume, prng)?, location(volume, prng)?);
    let mode = match prng.within(0..4) {
        0 => RenameMode::NoReplace,
        1 => RenameMode::Exchange,
        _ => RenameMode::Replace,
    };
    from.directory.rename(&from.name, &to.directory, &to.name, mode)
}

fn link(volume: &Volume, prng: &mut Prng) -> Result<(), Error> {
    let (from, to) = (location(volume, prng)?, location(volume, prng)?);
    let file = from.directory.lookup(from.name.as_ref())?;
    to.directory.link(&file, &to.name)
}

fn attribute(volume: &Volume, prng: &mut Prng) -> Result<(), Error> {
    let location = location(volume, prng)?;
    let file = location.directory.lookup(location.name.as_ref())?;
    let name = format!("trusted.{}", prng.within(0..6));
    if prng.within(0..3) == 0 {
        return file.remove_attribute(name);
    }
    let bytes = [10, 60, 300, 2000, 9000].map(|most| prng.within(0..most));
    let length = *prng.choose(&bytes).unwrap_or(&1);
    file.set_attribute(name, &vec![b'v'; length], SetMode::Either)
}

fn change(volume: &Volume, prng: &mut Prng, number: u32) -> Result<(), Error> {
    let location = location(volume, prng)?;
    let file = location.directory.lookup(location.name.as_ref())?;
    let time = Timestamp::new(i64::from(number), 9);
    let mut changes = SetAttributes::new().uid(number);
    changes.modified = time;
    file.set_attributes(&changes)
}

fn contents(volume: &Volume, prng: &mut Prng) -> Result<(), Error> {
    let (location, other) = (location(volume, prng)?, location(volume, prng)?);
    let node = location.directory.lookup(location.name.as_ref())?;
    let file = node.open()?;
    let at = prng.within(0..1_000_000) as u64;
    let range = at..at + prng.within(1..300_000) as u64;
    match prng.within(0..8) {
        0 => file.set_len(at),
        1 => file.change_range(range, RangeMode::Punch),
        2 => file.change_range(range, RangeMode::Allocate(AllocateMode::Extend)),
        3 => file.change_range(range, RangeMode::Zero(AllocateMode::KeepSize)),
        4 => {
            let source = other.directory.lookup(other.name.as_ref())?.open()?;
            file.clone_range(0, &source, 0, 0)
        }
        _ => {
            let bytes = vec![at as u8 | 1; prng.within(1..MOST_BYTES)];
            file.write_at(&bytes, at).map(drop)
        }
    }
}

/// Performs operations that together log every kind of intent, each many times.
pub(crate) fn every_kind(volume: &Volume) -> Result<(), Error> {
    let root = volume.root()?;
    let creation = CreateOptions::new(0o640);
    for _ in 0..20 {
        let [here, there] = ["here", "there"].map(|name| {
            root.create(name, &NewKind::Regular, &creation).and_then(|node| node.open())
        });
        let (here, there) = (here?, there?);
        here.write_at(&[1; MOST_BYTES], 0)?;
        there.clone_range(0, &here, 0, 0)?;
        there.write_at(&[2; 4096], 8192)?;
        here.exchange_range(0, &there, 0, 0)?;
        drop((here, there));
        // The parent pointers of such names do not fit in the inode.
        let long = "n".repeat(250);
        let file = root.lookup("here".as_ref())?;
        file.set_attribute("user.a", &[b'v'; 150], SetMode::Either)?;
        root.rename("here", &root, &long, RenameMode::Replace)?;
        root.remove_file(&long)?;
        root.remove_file("there")?;
    }
    Ok(())
}
