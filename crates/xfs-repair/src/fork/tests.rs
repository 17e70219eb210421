//! Tests of cutting long extents into several records.

use xfs_format::extent::{Extent, MAX_EXTENT_BLOCKS};
use xfs_format::{FileBlock, FsBlock};

use super::cut;

#[test]
fn extent_longer_than_a_record_is_cut_into_records() {
    let length = 2 * MAX_EXTENT_BLOCKS + 5;
    let long = Extent {
        file_block: FileBlock(7),
        start: FsBlock(100),
        length_blocks: length,
        unwritten: true,
    };
    let parts = cut(&[long]);
    let lengths: Vec<u32> = parts.iter().map(|part| part.length_blocks).collect();
    assert_eq!(lengths, [MAX_EXTENT_BLOCKS, MAX_EXTENT_BLOCKS, 5]);
    for part in &parts {
        assert_eq!(part.start.0 - 100, part.file_block.0 - 7);
        assert!(part.unwritten);
        assert!(part.encode().is_some());
    }
    let ends = parts.iter().zip(parts.iter().skip(1));
    assert!(ends.into_iter().all(|(before, after)| before.end() == after.file_block));
}
