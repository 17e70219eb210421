use xfs_format::log_item::DQUOT_BYTES;

use super::*;

fn delta(blocks: i128, inodes: i64) -> UsageChange {
    UsageChange { blocks, rt_blocks: 0, inodes }
}

fn counted(before: u64, delta: &UsageChange) -> (u64, bool) {
    let mut disk = DquotDisk::from_fields(&[0; DQUOT_BYTES]);
    disk.blocks = before.into();
    let fits = count(&mut disk, delta);
    (disk.blocks.get(), fits)
}

#[test]
fn decrease_gains_nothing() {
    assert_eq!(delta(-3, -1).gained(), QuotaAmount::default());
    assert_eq!(delta(3, 1).gained(), QuotaAmount { inodes: 1, ..QuotaAmount::of_blocks(3) });
}

/// Checks that a change of a dquot's count past its range is reported, and that the count stays at
/// the end of the range. The block count of a damaged inode may be any number, and two such inodes
/// may belong to one owner.
#[test]
fn counts_past_the_range_of_a_dquot_are_reported() {
    let two_inodes = 2 * i128::from(u64::MAX);
    assert_eq!(
        delta(two_inodes, 2).gained(),
        QuotaAmount { inodes: 2, ..QuotaAmount::of_blocks(u64::MAX) }
    );
    assert_eq!(counted(5, &delta(two_inodes, 0)), (u64::MAX, false));
    assert_eq!(counted(5, &delta(-two_inodes, 0)), (0, false));
    assert_eq!(counted(5, &delta(-5, 0)), (0, true));
    assert_eq!(counted(0, &delta(u64::MAX.into(), 0)), (u64::MAX, true));
}
