//! Volumes with a realtime section: contents of realtime files are delivered.

use std::sync::Arc;

use xfs_device::{BlockDevice, SharedDevice};
use xfs_evidence::find_superblock;
use xfs_format::{BlockKind, DiskAddr, InodeNumber};
use xfs_salvage::{Salvage, SalvageOptions, Status};
use xfs_testkit::{Image, RealtimeSection};

use crate::support::salvage;

const INODE_BYTES: usize = 512;
/// The number of pieces of the file `rt/fragments`, and the distance of their starts.
const PIECES: usize = 40;
const PIECE_STEP: usize = 64 << 10;
const PIECE_BYTES: usize = 4096;

fn options(section: RealtimeSection) -> SalvageOptions {
    let realtime = section.device().map(|device| Arc::new(device) as SharedDevice);
    SalvageOptions { realtime, ..SalvageOptions::default() }
}

/// Returns the contents of a file.
fn contents(device: &dyn BlockDevice, options: SalvageOptions, path: &[u8]) -> Vec<u8> {
    let superblock = find_superblock(device).unwrap().unwrap().superblock;
    let salvage = Salvage::survey(device, &superblock, options, &()).unwrap();
    let node = salvage.find(path, &()).unwrap().expect("the file is found");
    let mut bytes = vec![0; usize::try_from(node.facts().size).unwrap()];
    let count = node.read_at(&mut bytes, 0);
    assert_eq!(count, bytes.len());
    bytes
}

/// Returns the contents that the recipe gives to `rt/fragments`.
fn fragments() -> Vec<u8> {
    let mut bytes = vec![0; (PIECES - 1) * PIECE_STEP + PIECE_BYTES];
    for piece in 0..PIECES {
        bytes[piece * PIECE_STEP..][..PIECE_BYTES].fill(0x65);
    }
    bytes
}

fn inode_of(device: &dyn BlockDevice, path: &[u8]) -> InodeNumber {
    let superblock = find_superblock(device).unwrap().unwrap().superblock;
    let options = SalvageOptions::default();
    let salvage = Salvage::survey(device, &superblock, options, &()).unwrap();
    InodeNumber(salvage.find(path, &()).unwrap().expect("the file is found").facts().inode)
}

fn address(image: &Image, inode: InodeNumber) -> DiskAddr {
    let location = image.geometry().inode_location(inode).unwrap();
    DiskAddr(location.cluster.0 + u64::from(location.offset_bytes / 512))
}

#[test]
fn realtime_files_are_delivered_complete() {
    for section in RealtimeSection::ALL {
        let data = section.data();
        let delivered = salvage(&data, options(section));
        assert!(delivered.totals.is_whole(), "{section:?} {:?}", delivered.totals);
        assert!(!delivered.files.contains_key("orphans"), "{section:?}");
        let text = contents(&data, options(section), b"rt/text");
        assert!(text.len() == 40 << 10 && text.iter().all(|byte| *byte == 0x61), "{section:?}");
        assert!(contents(&data, options(section), b"rt/fragments") == fragments(), "{section:?}");
    }
}

#[test]
fn realtime_files_without_their_device_are_partial() {
    for section in [RealtimeSection::Classic, RealtimeSection::Groups] {
        let delivered = salvage(&section.data(), SalvageOptions::default());
        let report = &delivered.reports["rt/text"];
        assert_eq!(report.status, Status::Partial);
        let expected = "the contents are on a realtime device, which was not named";
        assert_eq!(report.reasons, [expected]);
        assert_eq!(delivered.reports["plain/data"].status, Status::Complete);
    }
}

#[test]
fn realtime_file_without_an_inode_is_delivered_from_the_reverse_map() {
    for section in [RealtimeSection::Groups, RealtimeSection::Zoned] {
        let mut data = section.data();
        let inode = inode_of(&data, b"rt/fragments");
        let at = address(&data, inode);
        data.edit_with(at, INODE_BYTES, |bytes| bytes.fill(0));
        let delivered = salvage(&data, options(section));
        assert_eq!(delivered.reports["rt/fragments"].status, Status::Doubtful, "{section:?}");
        assert!(contents(&data, options(section), b"rt/fragments") == fragments(), "{section:?}");
    }
}

/// Damages the map of a file on a volume without a reverse map, so that its blocks are not known.
/// Checks that the report does not call the file complete.
#[test]
fn lost_map_of_a_classic_file_is_reported_as_missing() {
    let mut data = RealtimeSection::Classic.data();
    let inode = inode_of(&data, b"rt/fragments");
    let at = address(&data, inode);
    // The root of the map lies after the core; its level becomes impossible.
    data.edit(at, INODE_BYTES, BlockKind::InodeCluster, |bytes| bytes[176] = 0xff);
    let delivered = salvage(&data, options(RealtimeSection::Classic));
    let report = &delivered.reports["rt/fragments"];
    assert_ne!(report.status, Status::Complete, "{report:?}");
}
