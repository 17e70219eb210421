//! The fuzz targets of the programs for damaged volumes: the checker, the readers that continue
//! past damage, planning of repairs, and salvage.
//!
//! Owns: changing an image, with and without recomputing the checksums. Does **not** own: the
//! choice of the changed field, which [`volume`](crate::volume) makes.

use std::hint::black_box;
use std::sync::Arc;

use ferroxfs::{OpenOptions, Timestamp};
use xfs_check::{CheckOptions, check as check_volume};
use xfs_device::SharedDevice;
use xfs_evidence::{Evidence, FoundBlock, find_superblock, sweep};
use xfs_format::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunks};
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::ReverseMap;
use xfs_format::{AgNumber, InodeNumber, Superblock};
use xfs_repair::{LogOutcome, LogReplay, PlanOptions, plan_repair};
use xfs_salvage::{Node, Salvage, SalvageOptions};
use xfs_testkit::{Image, golden};

use crate::volume::{MAX_CHANGES, MAX_GROUPS, apply};

/// The most files that are salvaged from one image.
const MAX_FILES: usize = 1000;
/// The lowest number of names of a file whose attributes are not read. Salvage visits a file once
/// for each of its names, and would read the attributes each time.
const MAX_LINKS: u32 = 50;
/// Limit on the changes that a planned repair keeps in memory, in bytes.
const OVERLAY_BYTES: u64 = 64 << 20;

/// The most inodes that are read from one image.
const MAX_INODES: usize = 4000;

/// Returns the golden image with some fields changed.
///
/// The changes have the form that [`volume`](crate::volume::volume) describes. If the highest bit
/// of a change is set, the checksum of the structure is left as it was, so it is wrong.
fn changed(input: &[u8]) -> Image {
    let mut image = golden();
    for change in input.as_chunks::<12>().0.iter().take(MAX_CHANGES) {
        let mut change = *change;
        let [first, ..] = &mut change;
        let is_resealed = *first & 0x80 == 0;
        *first &= 0x7f;
        apply(&mut image, &change, is_resealed);
    }
    image
}

/// Returns the superblock of an image, or another group's copy of it if the first one is damaged.
/// Returns `None` if no superblock can be read.
fn superblock(image: &Image) -> Option<Superblock> {
    find_superblock(image).ok().flatten().map(|found| found.superblock)
}

/// Fuzzes the checker with a whole image.
///
/// # Panics
///
/// Panics if the report contradicts itself.
pub fn check(input: &[u8]) {
    let image = changed(input);
    let Some(superblock) = superblock(&image) else { return };
    let options = CheckOptions::default().threads(1);
    let Ok(report) = check_volume(&image, &superblock, &options, &()) else { return };
    for consequence in &report.consequences {
        if let Some(cause) = consequence.cause {
            let cause = report.findings.get(cause).expect("a cause is a finding");
            assert!(cause.consequences > 0, "{cause} has the consequence {consequence}");
        }
    }
    black_box(report.findings.iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// Fuzzes the readers of damaged volumes with a whole image: the sweep (the search of all blocks
/// for metadata), the btree records of each group, and everything about each inode that the sweep
/// has found.
pub fn evidence(input: &[u8]) {
    let image = changed(input);
    let Some(superblock) = superblock(&image) else { return };
    let evidence = Evidence::new(&image, &superblock);
    let mut inodes = Vec::new();
    black_box(sweep(&evidence, 0..MAX_GROUPS, &(), &mut |sighting, _| {
        let is_inode = matches!(sighting.what, FoundBlock::Inode { .. });
        if is_inode && inodes.len() < MAX_INODES {
            inodes.push(InodeNumber(sighting.owner));
        }
    }));
    for group in (0..superblock.geometry.ag_count.min(MAX_GROUPS)).map(AgNumber) {
        black_box(evidence.group_records::<InodeChunks>(group, |_, _| {}));
        black_box(evidence.group_records::<FreeInodeChunks>(group, |_, _| {}));
        black_box(evidence.group_records::<FreeSpaceByBlock>(group, |_, _| {}));
        black_box(evidence.group_records::<FreeSpaceBySize>(group, |_, _| {}));
        black_box(evidence.group_records::<ReverseMap>(group, |_, _| {}));
        black_box(evidence.group_records::<Refcounts>(group, |_, _| {}));
    }
    for number in inodes {
        inode(&evidence, number);
    }
}

fn inode(evidence: &Evidence<'_>, number: InodeNumber) {
    let inode = evidence.inode(number);
    for kind in [ForkKind::Data, ForkKind::Attr] {
        black_box(evidence.extents(&inode, kind));
        black_box(evidence.remains(&inode, kind));
    }
    black_box(evidence.entries(&inode));
    black_box(evidence.attributes(&inode));
    black_box(evidence.parents_left(&inode));
    black_box(evidence.link_target(&inode));
}

/// Replays the log of a volume for the planning of a repair, as the command `repair` does.
struct Recovery;

impl LogReplay for Recovery {
    fn replay(&self, device: SharedDevice) -> Result<LogOutcome, String> {
        let open = OpenOptions::new().write(true).fixed_time(Timestamp::default());
        let recovered = open.with_devices(device, None).recover();
        let summary = recovered.map_err(|error| error.to_string())?;
        Ok(summary.map_or(LogOutcome::Clean, |_| LogOutcome::Replayed))
    }
}

/// Plans the repair of an image, and returns the plan as text. With `allow_loss`, the planned
/// repair may discard data or metadata that cannot be repaired.
///
/// # Errors
///
/// Returns the reason as text, if the repair is refused.
pub fn plan(image: Image, allow_loss: bool) -> Result<String, String> {
    let options = PlanOptions::new(&Recovery);
    let options = PlanOptions { allow_loss, memory_bytes: OVERLAY_BYTES, ..options };
    let rehearsal = plan_repair(Arc::new(image), options, &());
    rehearsal.map(|done| done.plan().text()).map_err(|error| error.to_string())
}

/// Fuzzes the planning of a repair with a whole image. The rules that discard something are
/// permitted if the number of changes is odd, so that both cases occur.
pub fn repair(input: &[u8]) {
    let allow_loss = input.as_chunks::<12>().0.len() % 2 == 1;
    drop(black_box(plan(changed(input), allow_loss)));
}

/// Salvages files of an image: surveys it, walks the tree, and reads a part of each file. Returns
/// the number of files, or `None` if the image has no superblock.
#[must_use]
pub fn salvaged(image: &Image) -> Option<usize> {
    let superblock = superblock(image)?;
    let log: SharedDevice = Arc::new(image.clone());
    let options = SalvageOptions { deleted: true, log: Some(log), realtime: None };
    let salvage = Salvage::survey(image, &superblock, options, &()).ok()?;
    let top = salvage.top();
    let entries = top.entries();
    let mut open = vec![(top, entries)];
    let mut files = 0;
    while let Some((_, entries)) = open.last_mut() {
        let Some((_, node)) = entries.next().filter(|_| files < MAX_FILES) else {
            open.pop();
            continue;
        };
        files += 1;
        salvage_file(&node);
        if FileType::from_mode(node.facts().mode) == Some(FileType::Directory) {
            let entries = node.entries();
            open.push((node, entries));
        }
    }
    black_box(salvage.notes());
    Some(files)
}

/// Fuzzes salvage with a whole image.
pub fn salvage(input: &[u8]) {
    black_box(salvaged(&changed(input)));
}

/// Reads the path, the target, the attributes and the first bytes of a file.
fn salvage_file(node: &Node<'_>) {
    let facts = node.facts();
    black_box(node.path());
    if FileType::from_mode(facts.mode) == Some(FileType::Symlink) {
        black_box(node.target());
    }
    if facts.links < MAX_LINKS {
        black_box(node.attributes());
    }
    if let Some(range) = node.data_after(0) {
        let mut buffer = [0; 4096];
        black_box(node.read_at(&mut buffer, range.start));
    }
}
