//! Tests of claims.

use xfs_format::AgBlock;
use xfs_format::rmap::RmapOwner;

use super::{claim, gaps};

#[test]
fn gaps_end_with_the_group_although_a_claim_lies_past_its_end() {
    let claims = [(2, 3), (5, 1), (0x38df_b902, 1), (u32::MAX - 1, 1)];
    let claims = claims.map(|(start, count)| claim(AgBlock(start), count, RmapOwner::Group));
    assert_eq!(gaps(&claims, 10), [(0, 2), (6, 10)]);
    assert_eq!(gaps(&claims, 6), [(0, 2)]);
    assert_eq!(gaps(&claims, 4), [(0, 2)]);
}
