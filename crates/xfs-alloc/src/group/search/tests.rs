//! Tests of the choice of blocks for an allocation within a range of free blocks.

use super::*;

fn check_place(
    part: Range<u32>,
    wanted: (u32, u32, u32),
    target: Option<u32>,
    at: Option<Range<u32>>,
) {
    let (minimum, maximum, alignment) = wanted;
    let wanted = GroupRequest { alignment, ..GroupRequest::blocks(minimum, maximum) };
    assert_eq!(place(part.clone(), &wanted, target), at, "{part:?} {wanted:?} {target:?}");
}

#[test]
fn allocation_lies_as_near_to_the_target_as_possible() {
    check_place(10..20, (1, 4, 1), None, Some(10..14));
    check_place(10..20, (1, 4, 1), Some(0), Some(10..14));
    check_place(10..20, (1, 4, 1), Some(13), Some(13..17));
    check_place(10..20, (1, 4, 1), Some(18), Some(16..20));
    check_place(10..20, (1, 4, 1), Some(90), Some(16..20));
    check_place(10..20, (1, 40, 1), Some(13), Some(10..20));
    check_place(10..20, (11, 40, 1), Some(13), None);
    check_place(10..10, (1, 4, 1), None, None);
}

#[test]
fn allocation_with_alignment_starts_at_a_multiple() {
    check_place(10..30, (4, 8, 8), None, Some(16..24));
    check_place(10..30, (4, 8, 8), Some(29), Some(16..24));
    check_place(10..33, (4, 8, 8), Some(29), Some(24..32));
    check_place(10..19, (4, 8, 8), None, None);
    check_place(10..20, (4, 8, 8), None, Some(16..20));
    check_place(1..7, (1, 1, 8), None, None);
    check_place(u32::MAX - 3..u32::MAX, (1, 1, 8), None, None);
}
