//! Tests that repair damaged blocks of dquots.

use xfs_format::dquot::{dquot_at, fill_block};
use xfs_testkit::golden_quota;

use super::*;

/// Returns a block with the dquots of the users 7 to 13. The hard limit of a user is 100 blocks
/// more than its ID. Calls `check` with the block and with the repaired block after `change`.
fn check_repaired(
    change: impl FnOnce(&mut [u8]),
    check: impl FnOnce(&[u8], Option<RepairedBlock>),
) {
    let geometry = golden_quota().geometry();
    let mut sound = vec![0; geometry.block_size as usize];
    fill_block(&mut sound, QuotaKind::User, 7, &geometry);
    for (dquot, id) in sound.chunks_exact_mut(DQUOT_BLOCK_BYTES).zip(7..) {
        dquot[15] = 100 + id;
    }
    seal_block(&mut sound);
    let mut damaged = sound.clone();
    change(&mut damaged);
    let context = VerifyContext { geometry: &geometry, log_head: None };
    let repaired = repaired(&damaged, QuotaKind::User, 7, &context);
    check(&sound, repaired);
}

/// Changes byte `byte` of the dquot at index 2, and recomputes all checksums if `is_sealed`.
fn with_byte(byte: usize, mask: u8, is_sealed: bool) -> impl FnOnce(&mut [u8]) {
    move |block| {
        block[2 * DQUOT_BLOCK_BYTES + byte] ^= mask;
        if is_sealed {
            seal_block(block);
        }
    }
}

#[test]
fn sound_block_is_not_written() {
    check_repaired(|_| {}, |_, repaired| assert_eq!(repaired, None));
}

#[test]
fn fields_that_follow_from_the_place_are_set() {
    // Magic number, version, type, ID and UUID.
    for byte in [0, 1, 2, 3, 4, 7, 120, 135] {
        check_repaired(with_byte(byte, 0x0c, true), |sound, repaired| {
            let repaired = repaired.expect("the dquot is damaged");
            assert_eq!(repaired.bytes, sound, "byte {byte}");
            assert_eq!((repaired.doubtful, repaired.lost), (vec![], vec![]), "byte {byte}");
        });
    }
}

#[test]
fn one_wrong_bit_is_flipped_back() {
    for byte in [0, 15, 47, 100, 108, 116, 130] {
        check_repaired(with_byte(byte, 0x10, false), |sound, repaired| {
            let repaired = repaired.expect("the dquot is damaged");
            assert_eq!(repaired.bytes, sound, "byte {byte}");
            assert_eq!((repaired.doubtful, repaired.lost), (vec![], vec![]), "byte {byte}");
        });
    }
}

#[test]
fn limits_with_a_wrong_checksum_stay_and_are_doubtful() {
    check_repaired(with_byte(15, 0x30, false), |_, repaired| {
        let repaired = repaired.expect("the dquot is damaged");
        assert_eq!((repaired.doubtful, repaired.lost), (vec![9], vec![]));
        let dquot = dquot_at(&repaired.bytes, 2).unwrap();
        assert_eq!(dquot.block_hard_limit.get(), 109 ^ 0x30);
    });
}

#[test]
fn soft_limit_above_the_hard_limit_is_lost() {
    check_repaired(with_byte(16, 0x30, false), |_, repaired| {
        let repaired = repaired.expect("the dquot is damaged");
        assert_eq!((repaired.doubtful, repaired.lost), (vec![], vec![9]));
    });
}

#[test]
fn dquots_of_another_place_are_no_limits_of_this_one() {
    let geometry = golden_quota().geometry();
    let moved = |block: &mut [u8]| {
        fill_block(block, QuotaKind::Group, 7, &geometry);
        for dquot in block.chunks_exact_mut(DQUOT_BLOCK_BYTES) {
            dquot[15] = 1;
        }
        seal_block(block);
    };
    check_repaired(moved, |_, repaired| {
        assert_eq!(repaired.expect("the block is damaged").lost, (7..14).collect::<Vec<_>>());
    });
}

#[test]
fn zeroed_block_loses_all_limits_and_gets_sound_dquots() {
    let geometry = golden_quota().geometry();
    check_repaired(
        |block| block.fill(0),
        |_, repaired| {
            let repaired = repaired.expect("the block is damaged");
            assert_eq!(repaired.lost, (7..14).collect::<Vec<_>>());
            let mut unused = vec![0; repaired.bytes.len()];
            fill_block(&mut unused, QuotaKind::User, 7, &geometry);
            assert_eq!(repaired.bytes, unused);
        },
    );
}
