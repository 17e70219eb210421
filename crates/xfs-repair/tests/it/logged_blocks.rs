//! Tests of damaged metadata blocks that the log has.

use xfs_format::btree::BtreeKind;
use xfs_format::dabtree;
use xfs_format::extent::Extent;
use xfs_format::inode::ForkKind;
use xfs_format::{AgNumber, BlockKind, DiskAddr, FileBlock, FsBlock};
use xfs_testkit::{LogRecords, golden};
use zerocopy::IntoBytes;

use crate::trial::{Shape, Trial};
use crate::volume::{Repaired, TestVolume};

const RULE: &str = "logged-blocks";

/// The length in bytes of the blocks of the golden image.
const BLOCK: usize = 1024;
/// The number of chunks of 128 bytes of such a block.
const CHUNKS: usize = 8;

/// Returns a trial of the golden image in whose log `write` has put records. Before the damage the
/// volume equals the golden image.
fn with_log(write: impl FnOnce(&Trial, &mut LogRecords<'_>)) -> Trial {
    let sound = Trial::new();
    let mut image = golden();
    let mut log = LogRecords::of(&mut image);
    write(&sound, &mut log);
    log.unmount();
    Trial { volume: TestVolume::of(image), before: sound.before }
}

/// Returns the address of the first leaf of the attributes of `attr-node`. No other structure has
/// these attributes.
fn leaf(trial: &Trial) -> DiskAddr {
    let file = trial.inode("/attr-node");
    let extents = trial.extents(file, ForkKind::Attr);
    let blocks = extents.iter().flat_map(|extent| extent.file_block.0..extent.end().0);
    let mut places = blocks.map(|block| trial.place(file, ForkKind::Attr, FileBlock(block)));
    let is_leaf = |at: &DiskAddr| {
        let magic = dabtree::magic(&trial.volume.bytes(*at, BLOCK));
        magic == Some(xfs_format::attr::leaf::LEAF_MAGIC)
    };
    places.find(is_leaf).expect("the fork has leaves")
}

fn log_leaf(trial: &Trial, log: &mut LogRecords<'_>) {
    let at = leaf(trial);
    log.block(at, BlockKind::Attr, &trial.volume.bytes(at, BLOCK), 0..CHUNKS);
}

/// Repairs the volume, and asserts that it is clean and that no name, inode or attribute changed.
/// xfs_repair is not asked: it takes the hand-made log for a dirty one.
fn assert_whole(trial: &Trial) -> Repaired {
    assert!(!crate::volume::report(&*trial.volume.device).is_clean(), "nothing is damaged");
    let repaired = trial.volume.repair(false);
    repaired.assert_clean();
    assert_eq!(Shape::of(&*repaired.device), trial.before);
    repaired
}

/// Zeros the leaf, and repairs the volume. Checks that the log was not used.
fn check_not_used(trial: &Trial) {
    trial.volume.zero(leaf(trial), BLOCK);
    let repaired = trial.volume.repair(false);
    assert!(!repaired.rules().contains(&RULE), "{:?}", repaired.rules());
}

#[test]
fn block_that_only_the_log_has_is_restored() {
    let trial = with_log(log_leaf);
    trial.volume.zero(leaf(&trial), BLOCK);
    let repaired = assert_whole(&trial);
    assert_eq!(repaired.rules().first(), Some(&RULE));
}

/// Logs some chunks of a block, and destroys the same chunks on disk. Checks that the repair
/// restores them: the checksum proves the block, although the log does not have its other chunks.
#[test]
fn chunk_of_a_block_is_restored_if_the_checksum_fits() {
    let trial = with_log(|trial, log| {
        let at = leaf(trial);
        log.block(at, BlockKind::Attr, &trial.volume.bytes(at, BLOCK), 6..8);
    });
    let at = leaf(&trial);
    let mut bytes = trial.volume.bytes(at, BLOCK);
    bytes[6 * 128 + 40..].fill(0x5a);
    trial.volume.put(at, &bytes);
    let repaired = assert_whole(&trial);
    let action = repaired.rehearsed.actions.iter().find(|action| action.rule == RULE).unwrap();
    assert!(action.keeps.contains("checksum"), "{action:?}");
    bytes[6 * 128 - 1] ^= 1;
    trial.volume.put(at, &bytes);
    let repaired = trial.volume.repair(false);
    assert!(!repaired.rules().contains(&RULE), "damage that the log does not have");
}

#[test]
fn directory_and_link_that_the_log_has_are_restored() {
    // The address and the length in bytes of a block.
    let places = |trial: &Trial| {
        let (directory, link) = (trial.inode("/block"), trial.inode("/links-remote"));
        let place = |inode| trial.place(inode, ForkKind::Data, FileBlock(0));
        let blocks = trial.extents(link, ForkKind::Data)[0].length_blocks as usize;
        let length = trial.volume.geometry.directory_block_size() as usize;
        [(place(directory), length), (place(link), blocks * BLOCK)]
    };
    let trial = with_log(|trial, log| {
        let kinds = [BlockKind::DirectoryData, BlockKind::Symlink];
        for ((at, length), kind) in places(trial).into_iter().zip(kinds) {
            log.block(at, kind, &trial.volume.bytes(at, length), 0..length / 128);
        }
    });
    for (at, length) in places(&trial) {
        trial.volume.zero(at, length);
    }
    let repaired = assert_whole(&trial);
    assert_eq!(repaired.rules()[..2], [RULE, RULE]);
}

/// Destroys the root of a reverse map, of which the log has a whole copy. Checks that the repair
/// restores the root from the log and changes nothing else.
#[test]
fn btree_block_that_the_log_has_is_restored() {
    let root = |trial: &Trial| {
        let root = trial.volume.agf(AgNumber(0)).reverse_map.expect("a reverse map");
        trial.volume.geometry.ag_block_disk_addr(AgNumber(0), root.block)
    };
    let kind = BlockKind::Btree(BtreeKind::ReverseMap);
    let trial = with_log(|trial, log| {
        let at = root(trial);
        log.block(at, kind, &trial.volume.bytes(at, BLOCK), 0..CHUNKS);
    });
    trial.volume.zero(root(&trial), BLOCK);
    let repaired = assert_whole(&trial);
    assert_eq!(repaired.rules(), [RULE]);
}

#[test]
fn block_that_was_cancelled_later_is_not_used() {
    check_not_used(&with_log(|trial, log| {
        log_leaf(trial, log);
        log.cancel(leaf(trial), BLOCK as u32);
    }));
}

#[test]
fn block_of_which_the_log_lacks_a_chunk_is_not_used() {
    check_not_used(&with_log(|trial, log| {
        let at = leaf(trial);
        log.block(at, BlockKind::Attr, &trial.volume.bytes(at, BLOCK), 0..CHUNKS - 1);
    }));
}

/// Damages a log record after the one with the block. Checks that the block is not restored: the
/// damaged record may have had a newer state of it.
#[test]
fn block_before_a_damaged_record_is_not_used() {
    let mut damaged = DiskAddr(0);
    let trial = with_log(|trial, log| {
        log_leaf(trial, log);
        let record = log.cancel(DiskAddr(leaf(trial).0 + 2), BLOCK as u32);
        damaged = log.address(record.block() + 1);
    });
    trial.volume.put(damaged, &[0x5a; 512]);
    check_not_used(&trial);
}

/// Logs a block, gives the block on disk a higher LSN, and damages its contents. Checks that the
/// older state in the log is not used.
#[test]
fn block_with_a_newer_lsn_on_disk_is_not_used() {
    let mut newest = None;
    let trial = with_log(|trial, log| {
        log_leaf(trial, log);
        newest = Some(log.cancel(DiskAddr(leaf(trial).0 + 2), BLOCK as u32));
    });
    let at = leaf(&trial);
    trial.volume.edit(at, BlockKind::Attr, |bytes| bytes[900..].fill(0));
    let mut bytes = trial.volume.bytes(at, BLOCK);
    BlockKind::Attr.seal(&mut bytes, newest.expect("the log was written"));
    bytes[900..].fill(0x5a);
    trial.volume.put(at, &bytes);
    let repaired = trial.volume.repair(false);
    assert!(!repaired.rules().contains(&RULE), "{:?}", repaired.rules());
}

/// Logs a leaf of attributes at the address of a block of file data, as after `xfs_repair` has
/// freed the leaf and a file has reused the block. Checks that a repair of other damage leaves the
/// data alone.
#[test]
fn data_of_a_file_is_not_replaced_by_a_logged_block() {
    let data =
        |trial: &Trial| trial.place(trial.inode("/files/original"), ForkKind::Data, FileBlock(0));
    let trial = with_log(|trial, log| {
        let at = data(trial);
        let mut bytes = trial.volume.bytes(leaf(trial), BLOCK);
        bytes[16..24].copy_from_slice(&at.0.to_be_bytes());
        log.block(at, BlockKind::Attr, &bytes, 0..CHUNKS);
        log_leaf(trial, log);
    });
    trial.volume.zero(leaf(&trial), BLOCK);
    let before = trial.volume.bytes(data(&trial), BLOCK);
    let repaired = assert_whole(&trial);
    let mut after = vec![0; BLOCK];
    repaired.device.read_at(&mut after, data(&trial).0 * 512).unwrap();
    assert_eq!(before, after);
}

/// Damages the extents of the attributes of `attr-node`, so that a leaf seems to lie in the data of
/// a file. The log has a whole leaf for that place. The data must stay as it is.
#[test]
fn data_at_a_damaged_pointer_is_not_replaced_by_a_logged_block() {
    let data =
        |trial: &Trial| trial.place(trial.inode("/files/original"), ForkKind::Data, FileBlock(0));
    let trial = with_log(|trial, log| {
        let at = data(trial);
        let mut bytes = trial.volume.bytes(leaf(trial), BLOCK);
        bytes[16..24].copy_from_slice(&at.0.to_be_bytes());
        log.block(at, BlockKind::Attr, &bytes, 0..CHUNKS);
    });
    let (leaf, file) = (leaf(&trial), trial.inode("/attr-node"));
    let original = trial.inode("/files/original");
    let target = trial.extents(original, ForkKind::Data)[0].start;
    let place = |extent: &Extent| trial.volume.geometry.block_disk_addr(extent.start).unwrap();
    let length = |extent: &Extent| u64::from(extent.length_blocks) * BLOCK as u64 / 512;
    let extents = trial.extents(file, ForkKind::Attr);
    let holds_leaf =
        |extent: &&Extent| (place(extent).0..place(extent).0 + length(extent)).contains(&leaf.0);
    let before = *extents.iter().find(holds_leaf).expect("an extent has the leaf");
    let skipped = (leaf.0 - place(&before).0) * 512 / BLOCK as u64;
    let after = Extent { start: FsBlock(target.0 - skipped), ..before };
    let record = |extent: &Extent| extent.encode().expect("the values fit a record");
    let (before, after) = (record(&before), record(&after));
    trial.edit_inline(file, before.as_bytes(), after.as_bytes());
    let at = data(&trial);
    let contents = trial.volume.bytes(at, BLOCK);
    let repaired = trial.volume.repair(true);
    let codes = repaired.rules();
    let mut left = vec![0; BLOCK];
    repaired.device.read_at(&mut left, at.0 * 512).unwrap();
    assert_eq!(contents, left, "{codes:?}");
}
