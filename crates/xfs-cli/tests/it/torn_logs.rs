//! Tests of commands on a volume whose log ends in a record that cannot be read.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use xfs_format::log_item::LoggedFields;
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_testkit::{LogRecords, golden};

use crate::GoldenDir;

/// Number of blocks at the start of the golden image's log that hold the newest records (cycle 4)
/// or zeros. The blocks after them are of cycle 3.
const CLEARED_BLOCKS: u32 = 512;

/// Calls `append` to write records to the log of the golden image, and then damages the record at
/// the block that `append` returns. Each record logs the core of the root inode, with the
/// permissions that `append` chooses. Returns the directory of the image, and the block of the
/// damaged record.
fn damaged_log(append: impl FnOnce(&mut dyn FnMut(u16) -> u32) -> u32) -> (GoldenDir, u32) {
    let mut image = golden();
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let root = superblock.root_inode;
    let location = superblock.geometry.inode_location(root).unwrap();
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes) / 512);
    let mut bytes = image.bytes(at, 512).unwrap();
    let mut log = LogRecords::of(&mut image);
    let damaged = append(&mut |permissions| {
        bytes[2..4].copy_from_slice(&(0o040_000 | permissions).to_be_bytes());
        log.inode(root, &bytes, LoggedFields::CORE).block()
    });
    let (start, end) = (log.address(0), log.head().block());
    let address = |block: u32| DiskAddr(start.0 + u64::from(block));
    image.edit_with(address(damaged + 1), 512, |block| block[64..128].fill(0x5a));
    // A mount stamps the blocks ahead of the head, which the image has cleared to zeros, with the
    // cycle before that of the head.
    for block in end..CLEARED_BLOCKS {
        image.edit_with(address(block), 512, |bytes| {
            bytes[..4].copy_from_slice(&3_u32.to_be_bytes());
        });
    }
    let place = GoldenDir::new();
    let file = OpenOptions::new().write(true).open(place.path().join("image")).unwrap();
    let records = image.bytes(start, CLEARED_BLOCKS as usize * 512).unwrap();
    file.write_all_at(&records, start.byte_offset().unwrap()).unwrap();
    (place, damaged)
}

/// Returns a directory with an image whose log has two records, of which the second is damaged, and
/// the block of that record.
fn torn_log() -> (GoldenDir, u32) {
    damaged_log(|append| {
        append(0o755);
        append(0o755)
    })
}

/// Checks that each command that reads a volume with a torn log reports the torn log once. The
/// mount fails after that, because its folder does not exist.
#[test]
fn torn_log_is_named_by_each_command_that_reads_the_volume() {
    let (place, block) = torn_log();
    let commands: [&[&str]; 6] = [
        &["info", "image"],
        &["ls", "image:/"],
        &["scan", "image"],
        &["check", "image"],
        &["ls", "--damaged", "image:/"],
        &["mount", "-f", "image", "none"],
    ];
    for words in commands {
        let output = place.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        let note = format!("image: the log is torn at block {block}, as after a power failure");
        assert_eq!(said.matches(&note).count(), 1, "{words:?}: {said}");
        assert_eq!(output.status.success(), words[0] != "mount", "{words:?}: {said}");
    }
}

#[test]
fn whole_log_is_not_called_torn() {
    let place = GoldenDir::new();
    for words in [&["info", "image"], &["ls", "image:/"]] {
        let output = place.run(words);
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Checks that `check`, `salvage` and `scan --damaged` replay a damaged log up to the damage, and
/// report that they replay no further. The second record cannot be read. Too many records follow it
/// for a power failure to be the reason.
#[test]
fn salvage_replays_a_damaged_log_up_to_the_damage() {
    let (place, block) = damaged_log(|append| {
        append(0o751);
        let damaged = append(0o711);
        (0..12).for_each(|_| _ = append(0o711));
        damaged
    });
    let output = place.run(&["check", "image"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("unsafe: log.unreadable: "), "{said}");
    let part = format!("not checked: changes of the log after its block {block}");
    assert!(said.contains(&part), "{said}");
    let output = place.run(&["salvage", "--ignore-owner", "image", "saved"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{said}");
    let manifest = std::fs::read_to_string(place.path().join("saved.manifest.ndjson")).unwrap();
    let last = manifest.lines().last().unwrap();
    assert!(last.contains("\"log\":\"in_part\""), "{last}");
    assert!(last.contains(&format!("the log was replayed up to its block {block} only")), "{last}");
    let output = place.run(&["scan", "--damaged", "--format", "ndjson", "image"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("the log was replayed up to its block {block} only")), "{said}");
    let rows = String::from_utf8(output.stdout).unwrap();
    assert!(rows.contains(&format!("\"mode\":{}", 0o040_751)), "{said}");
}
