//! Tests of the counts of free space and inodes that `statfs` shows.

use xfs_trans::testing::make_with;

use crate::{OpenOptions, Space, Volume};

fn volume(format: &str) -> Volume {
    OpenOptions::new().with_devices(make_with(format), None).open().unwrap()
}

fn space(format: &str) -> (Space, u64) {
    let volume = volume(format);
    let geometry = volume.geometry();
    (volume.space().unwrap(), 1 << geometry.inodes_per_block_log)
}

/// Checks the count of possible files on a volume without a limit of inodes: every available block
/// can become inodes.
#[test]
fn files_are_the_inodes_that_the_free_space_could_hold() {
    for format in ["-i maxpct=0", "-i maxpct=0,size=1024", "-b size=1k -i maxpct=0,size=512"] {
        let (space, inodes_per_block) = space(format);
        let expected = space.inodes + space.available_blocks * inodes_per_block;
        assert_eq!(space.files, expected, "{format}: {space:?}");
        assert_eq!(space.free_files(), expected - space.inodes + space.free_inodes, "{format}");
    }
}

#[test]
fn files_stay_within_the_limit_of_mkfs() {
    // A quarter of 300 MiB, in inodes of 512 bytes, and in whole chunks of 64.
    let (quarter, _) = space("-i maxpct=25");
    assert_eq!(quarter.files, (300 << 20) / 4 / 512);
    let (least, _) = space("-i maxpct=1");
    assert_eq!(least.files, (300 << 20) / 100 / 512 / 64 * 64);
}
