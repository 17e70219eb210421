use super::Geometry;
use crate::addr::{AgBlock, AgNumber};

/// Returns a geometry of three groups: two of 100 blocks each, and a last one of 60 blocks.
fn geometry() -> Geometry {
    Geometry {
        ag_count: 3,
        ag_blocks: 100,
        ag_blocks_log: 7,
        data_blocks: 260,
        inode_alignment_blocks: 8,
        ..Geometry::without_groups(12, 9, 512)
    }
}

#[test]
fn groups_on_a_device_are_those_that_begin_on_it() {
    let geometry = geometry();
    let group_bytes = 100 * 4096;
    for (bytes, count) in [(0, 0), (1, 1), (group_bytes, 1), (group_bytes + 1, 2), (u64::MAX, 3)] {
        assert_eq!(geometry.count_groups_on_device(bytes), count, "{bytes} bytes");
    }
}

/// Checks I1 of `geometry` for group numbers that do not exist: such groups have length 0, and no
/// method overflows.
#[test]
fn missing_group_has_no_blocks() {
    let geometry = geometry();
    for (group, length) in [(0, 100), (1, 100), (2, 60), (3, 0), (u32::MAX - 1, 0), (u32::MAX, 0)] {
        assert_eq!(geometry.ag_length(AgNumber(group)), length);
        assert_eq!(geometry.contains_ag_block(AgNumber(group), AgBlock(59)), length != 0);
    }
}
