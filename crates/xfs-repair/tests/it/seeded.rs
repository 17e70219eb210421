//! Seeded damage to any metadata block of the golden image. Each repair must end with a clean
//! volume.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use xfs_device::BlockDevice;
use xfs_evidence::{Evidence, FoundBlock, Sighting, Trust, find_superblock, sweep};
use xfs_format::inode::{FileType, InodeCore};
use xfs_format::{BlockKind, DiskAddr, InodeNumber, Lsn};
use xfs_testkit::Prng;

use crate::volume::{SECTOR_BYTES, TestVolume, report};

/// The number of seeds that a normal run of the tests tries.
const QUICK_SEEDS: u64 = 12;

/// The number of seeds that a long run of the tests tries.
const LONG_SEEDS: u64 = 2_000;

/// The sound metadata of the golden image: every structure that a sweep over all blocks recognizes
/// by its header, without free inodes.
static SIGHTINGS: LazyLock<Vec<Sighting>> = LazyLock::new(|| {
    let volume = TestVolume::golden();
    let superblock = find_superblock(&*volume.device).expect("a known version");
    let superblock = superblock.expect("a sound superblock").superblock;
    let evidence = Evidence::new(&*volume.device, &superblock);
    let mut sightings = Vec::new();
    sweep(&evidence, 0..volume.geometry.ag_count, &(), &mut |sighting, _| {
        if sighting.trust == Trust::Sound && sighting.what != (FoundBlock::Inode { is_free: true })
        {
            sightings.push(*sighting);
        }
    });
    sightings
});

/// A name: the directory, the name as text, and the inode.
type Name = (InodeNumber, String, InodeNumber);

/// The names of the golden image.
static NAMES: LazyLock<BTreeSet<Name>> = LazyLock::new(|| names(&*TestVolume::golden().device));

/// Returns all names of a volume, by a walk from its root.
fn names(device: &dyn BlockDevice) -> BTreeSet<Name> {
    let superblock = find_superblock(device).expect("a known version");
    let superblock = superblock.expect("a sound superblock").superblock;
    let evidence = Evidence::new(device, &superblock);
    let mut names = BTreeSet::new();
    let mut next = vec![superblock.root_inode];
    while let Some(directory) = next.pop() {
        for name in evidence.entries(&evidence.inode(directory)).names {
            let child = evidence.inode(name.child);
            let file_type = child.core().and_then(InodeCore::file_type);
            let text = name.name.escape_ascii().to_string();
            if names.insert((directory, text, name.child)) && file_type == Some(FileType::Directory)
            {
                next.push(name.child);
            }
        }
    }
    names
}

/// The structure that is damaged, as a seed has chosen it.
struct Target {
    at: DiskAddr,
    length: usize,
    /// The kind of the block, which says how its checksum is computed; `None` for an inode.
    kind: Option<BlockKind>,
}

fn target(volume: &TestVolume, prng: &mut Prng) -> Target {
    let block = volume.geometry.block_size as usize;
    if prng.within(0..4) == 0 {
        let headers = [BlockKind::Superblock, BlockKind::Agf, BlockKind::Agi, BlockKind::Agfl];
        let index = prng.within(0..headers.len());
        let group = prng.within(0..volume.geometry.ag_count as usize);
        let group = xfs_format::AgNumber(u32::try_from(group).expect("a few groups"));
        let at = volume.geometry.header_disk_addr(group, u32::try_from(index).expect("below 4"));
        return Target { at, length: SECTOR_BYTES, kind: Some(headers[index]) };
    }
    let sighting = SIGHTINGS[prng.within(0..SIGHTINGS.len())];
    let kind = match sighting.what {
        FoundBlock::Inode { .. } => None,
        FoundBlock::Btree { kind, .. } => Some(BlockKind::Btree(kind)),
        FoundBlock::DirectoryData => Some(BlockKind::DirectoryData),
        FoundBlock::DirectoryLeaf => Some(BlockKind::DirectoryIndex),
        FoundBlock::DirectoryFree => Some(BlockKind::DirectoryFree),
        FoundBlock::Node | FoundBlock::AttributeLeaf => Some(BlockKind::Attr),
        FoundBlock::AttributeValue => Some(BlockKind::AttrRemote),
        FoundBlock::Symlink => Some(BlockKind::Symlink),
    };
    let length = kind.map_or(volume.geometry.inode_size as usize, |_| block);
    Target { at: sighting.at, length, kind }
}

/// Damages a structure: zeros, noise, one bit, one byte with a good checksum, zeros over many
/// sectors, or the bytes of another structure. Returns the damage in words.
fn damage(volume: &TestVolume, prng: &mut Prng) -> String {
    let target = target(volume, prng);
    let mut bytes = volume.bytes(target.at, target.length);
    let verb = ["zeros", "noise", "bit", "byte", "burst", "other"][prng.within(0..6)];
    let most = [128, 1024][prng.within(0..2)];
    let offset = prng.within(0..target.length.min(most));
    match verb {
        "zeros" => bytes.fill(0),
        "noise" => bytes.iter_mut().for_each(|byte| *byte = prng.number() as u8),
        "burst" => {
            let end = volume.geometry.data_bytes() / 512;
            let sectors = [32, 256, 1024][prng.within(0..3)].min(end - target.at.0);
            let length = usize::try_from(sectors * 512).expect("a short burst");
            bytes = vec![0; length.max(target.length)];
        }
        "other" => {
            let other = SIGHTINGS[prng.within(0..SIGHTINGS.len())];
            bytes = volume.bytes(other.at, target.length);
        }
        "bit" => bytes[offset] ^= 1 << prng.within(0..8),
        _ => {
            bytes[offset] =
                [0, 0xff, bytes[offset].wrapping_add(1), bytes[offset] ^ 0x80][prng.within(0..4)];
            let lsn = xfs_format::kind::find_lsn(&bytes, &volume.geometry).unwrap_or(Lsn(0));
            match target.kind {
                None => xfs_format::inode::seal(&mut bytes, Lsn(0)),
                Some(BlockKind::Superblock) => xfs_format::superblock::seal(&mut bytes),
                Some(kind) => kind.seal(&mut bytes, lsn),
            }
        }
    }
    volume.put(target.at, &bytes);
    let kind = target.kind.map_or("inode".to_owned(), |kind| format!("{kind:?}"));
    format!("{verb} in {kind} at {}, offset {offset}", target.at)
}

/// Damages the golden image as the seed says, and repairs it with losses allowed. The error lists
/// the findings that the repaired volume still has.
fn check_seed(seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let volume = TestVolume::golden();
    let what = damage(&volume, &mut prng);
    let repaired = volume.repair(true);
    let report = report(&*repaired.device);
    // An inode without bytes takes its name along, unless it is a file that the reverse map knows.
    let takes_inode = what.contains("in inode")
        && ["zeros", "noise", "other"].iter().any(|verb| what.starts_with(verb));
    let may_lose = takes_inode || what.starts_with("burst");
    let lost: Vec<Name> = if may_lose {
        Vec::new()
    } else {
        {
            let after = names(&*repaired.device);
            NAMES.difference(&after).take(3).cloned().collect()
        }
    };
    if report.is_clean() && lost.is_empty() {
        return Ok(());
    }
    let left: Vec<String> = report.findings.iter().take(4).map(ToString::to_string).collect();
    Err(format!("seed {seed}: {what}: {:?}: {left:#?}, lost {lost:?}", repaired.rules()))
}

#[test]
fn damage_by_seed_is_repaired() {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    // A run can start with another seed than 0.
    let first = std::env::var("FERROXFS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let seeds = if is_long { LONG_SEEDS } else { QUICK_SEEDS };
    let failures: Vec<String> =
        (first..first + seeds).filter_map(|seed| check_seed(seed).err()).collect();
    assert!(failures.is_empty(), "{} of {seeds}: {failures:#?}", failures.len());
}
