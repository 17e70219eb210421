//! Tests with seeded damage: they compare the losses that the plan lists with what is gone after
//! the repair.
//!
//! A repair must never lose more than its plan says. For each inode, names, attributes and contents
//! of the sound volume are compared with those of the repaired one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use xfs_device::BlockDevice;
use xfs_evidence::Evidence;
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkKind, InodeCore};
use xfs_format::{BlockKind, DiskAddr, FileBlock, FsBlock, InodeNumber, Lsn};
use xfs_testkit::Prng;

use crate::trial::{Shape, Trial, superblock_of};
use crate::volume::Repaired;

/// The number of damages of a quick run. The variable `FERROXFS_REPAIR_SEEDS` sets another number,
/// and `FERROXFS_SEED` sets the first seed.
const QUICK_SEEDS: u64 = 5;

/// The paths of the inodes of the golden image that the tests damage. The forks of each inode have
/// another form.
const PATHS: [&str; 16] = [
    "/attr-short",
    "/attr-leaf",
    "/attr-node",
    "/attr-remote",
    "/acl",
    "/short",
    "/block",
    "/leaf",
    "/node",
    "/deep/1/2",
    "/short/a",
    "/files/tree",
    "/files/shared",
    "/links-remote",
    "/links-inline",
    "/fifo",
];

/// A digest of size and contents of a regular file.
fn digest(device: &dyn BlockDevice, evidence: &Evidence<'_>, number: InodeNumber) -> Option<u64> {
    let found = evidence.inode(number);
    let core = found.core().filter(|core| core.file_type() == Some(FileType::Regular))?;
    let mut hasher = DefaultHasher::new();
    core.size.hash(&mut hasher);
    let geometry = evidence.geometry();
    let written = |extent: &&Extent| !extent.unwritten;
    for extent in evidence.extents(&found, ForkKind::Data).extents.iter().filter(written) {
        for index in 0..u64::from(extent.length_blocks) {
            let mut bytes = vec![0; geometry.block_size as usize];
            let at = geometry.block_disk_addr(FsBlock(extent.start.0 + index))?;
            device.read_at(&mut bytes, at.0 * 512).expect("the block lies in the volume");
            (extent.file_block.0 + index, bytes).hash(&mut hasher);
        }
    }
    Some(hasher.finish())
}

/// Everything that a user sees of a volume.
struct Seen {
    shape: Shape,
    contents: BTreeMap<u64, u64>,
}

impl Seen {
    fn of(device: &dyn BlockDevice) -> Self {
        let superblock = superblock_of(device);
        let evidence = Evidence::new(device, &superblock);
        let shape = Shape::of(device);
        let digest =
            |number: &u64| Some((*number, digest(device, &evidence, InodeNumber(*number))?));
        let contents = shape.inodes.keys().filter_map(digest).collect();
        Self { shape, contents }
    }

    /// Returns what is gone in the volume `after`, for each inode that no loss of the plan names.
    fn unreported(&self, after: &Self, reported: &BTreeSet<InodeNumber>) -> Vec<String> {
        let is_reported = |inode: u64| reported.contains(&InodeNumber(inode));
        let links = after.shape.links();
        let mut gone: Vec<String> = Vec::new();
        for link in self.shape.links().difference(&links) {
            if !is_reported(link.0) && !is_reported(link.2) {
                gone.push(format!("name {link:?}"));
            }
        }
        for inode in self.shape.inodes.keys().filter(|inode| !is_reported(**inode)) {
            let number = InodeNumber(*inode);
            let before = self.shape.count_attributes(number);
            let count = after.shape.count_attributes(number);
            if count < before {
                gone.push(format!("{} attributes of inode {inode}", before - count));
            }
            if self.contents.get(inode) != after.contents.get(inode) {
                gone.push(format!("contents of inode {inode}"));
            }
        }
        gone
    }
}

/// Returns the inodes that the plan names in a loss, or that it moves to `lost+found`.
fn reported(repaired: &Repaired) -> BTreeSet<InodeNumber> {
    let actions = &repaired.rehearsed.actions;
    let moved = actions.iter().filter(|action| action.rule == "lost-and-found");
    let moved = moved.filter_map(|action| action.place.inode);
    repaired.inodes_with_losses().into_iter().chain(moved).collect()
}

/// Damages an inode, or a block of one of its forks. Returns the damage in words.
fn damage(trial: &Trial, seed: u64) -> String {
    let mut random = Prng::new(seed);
    let path = *random.choose(&PATHS).expect("there are paths");
    let inode = trial.inode(path);
    let kind = if random.within(0..2) == 0 { ForkKind::Attr } else { ForkKind::Data };
    let extents = trial.extents(inode, kind);
    let is_metadata = kind == ForkKind::Attr || path.trim_start_matches('/').len() < 6;
    let blocks: Vec<u64> =
        extents.iter().flat_map(|extent| extent.file_block.0..extent.end().0).collect();
    let block = random.choose(&blocks).copied().filter(|_| is_metadata);
    let geometry = &trial.volume.geometry;
    let (at, length, what) = match block {
        Some(block) => {
            let at = trial.place(inode, kind, FileBlock(block));
            (at, geometry.block_size as usize, format!("block {block} of {kind:?}"))
        }
        None => (trial.inode_place(inode), geometry.inode_size as usize, "inode".to_owned()),
    };
    let mut bytes = trial.volume.bytes(at, length);
    // The first bytes hold the fields of structures and the first names.
    let most = [200, length][random.within(0..2)].min(length);
    let offset = random.within(0..most);
    let bit = random.within(0..8);
    bytes[offset] ^= 1 << bit;
    let is_sealed = random.within(0..3) > 0;
    if is_sealed {
        seal(trial, at, &mut bytes, block.is_none());
    }
    trial.volume.put(at, &bytes);
    let sealed = if is_sealed { "with" } else { "without" };
    format!("seed {seed}: {path} ({inode}): {what}: bit {bit} of byte {offset}, {sealed} checksum")
}

/// Recomputes the checksum of an inode or a block.
fn seal(trial: &Trial, at: DiskAddr, bytes: &mut [u8], is_inode: bool) {
    if is_inode {
        let number = trial
            .before
            .inodes
            .keys()
            .find(|number| trial.inode_place(InodeNumber(**number)) == at);
        let number = InodeNumber(*number.expect("the inode has a name"));
        let core = InodeCore::decode(bytes, number, &trial.volume.geometry);
        return xfs_format::inode::seal(bytes, core.map_or(Lsn(0), |core| core.lsn));
    }
    let lsn = xfs_format::kind::find_lsn(bytes, &trial.volume.geometry).unwrap_or(Lsn(0));
    let kinds = [
        BlockKind::DirectoryData,
        BlockKind::DirectoryIndex,
        BlockKind::DirectoryFree,
        BlockKind::Attr,
        BlockKind::Symlink,
    ];
    // The kind of the undamaged block is the one whose checks its bytes pass.
    let sound = trial.volume.bytes(at, bytes.len());
    let context = xfs_format::VerifyContext { geometry: &trial.volume.geometry, log_head: None };
    let kind = kinds.into_iter().find(|kind| kind.verify(&sound, at, &context).is_ok());
    if let Some(kind) = kind {
        kind.seal(bytes, lsn);
    }
}

/// Damages a copy of the golden image as the seed says, and repairs it. Checks that each thing that
/// is gone afterwards is a loss of the plan.
fn check_seed(before: &Seen, seed: u64) -> Result<(), String> {
    let trial = Trial::new();
    let what = damage(&trial, seed);
    // A damage that nothing contradicts cannot be noticed.
    if crate::volume::report(&*trial.volume.device).is_clean() {
        return Ok(());
    }
    let repaired = trial.volume.repair(true);
    let left = crate::volume::report(&*repaired.device);
    let after = Seen::of(&*repaired.device);
    let gone = before.unreported(&after, &reported(&repaired));
    if gone.is_empty() && left.is_clean() {
        return Ok(());
    }
    let gone: Vec<_> = gone.iter().take(4).collect();
    let left: Vec<String> = left.findings.iter().take(4).map(ToString::to_string).collect();
    Err(format!("{what}: {:?}: gone without a loss: {gone:?}, left: {left:?}", repaired.rules()))
}

/// Checks R4 and R5 of the crate: nothing is lost but the listed losses.
#[test]
fn damage_by_seed_loses_nothing_that_the_plan_does_not_list() {
    let number = |name: &str| std::env::var(name).ok().and_then(|words| words.parse::<u64>().ok());
    let first = number("FERROXFS_SEED").unwrap_or(0);
    let count = number("FERROXFS_REPAIR_SEEDS").unwrap_or(QUICK_SEEDS);
    let before = Seen::of(&*Trial::new().volume.device);
    let failures: Vec<String> =
        (first..first + count).filter_map(|seed| check_seed(&before, seed).err()).collect();
    assert!(failures.is_empty(), "{} of {count}: {failures:#?}", failures.len());
}
