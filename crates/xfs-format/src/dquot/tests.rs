//! Tests of dquots: a block as the kernel makes it is accepted, and a change of any field is
//! refused.

use std::vec;
use std::vec::Vec;

use zerocopy::{FromZeros, IntoBytes};

use super::{
    CRC_OFFSET, DQUOT_BLOCK_BYTES, DQUOT_MAGIC, DquotCheck, DquotDisk, DquotPlace, QuotaFlags,
    QuotaKind, dquot_at, dquots_per_block, fill_block, has_all_owners, may_have_been_dquots,
    rebuild_block, replace_fields,
};
use crate::addr::{DiskAddr, FileBlock, Lsn};
use crate::corruption::Check;
use crate::crc;
use crate::features::{FormatVersion, IncompatFeatures};
use crate::geometry::Geometry;
use crate::kind::BlockKind;
use crate::verify_context::VerifyContext;

const FIRST_ID: u32 = 60;

fn geometry() -> Geometry {
    let mut geometry = Geometry::without_groups(12, 9, 512);
    geometry.incompat = IncompatFeatures::BIGTIME;
    geometry.meta_uuid = uuid::Uuid::from_bytes([7; 16]);
    geometry
}

/// Returns a block of user dquots as the kernel makes it: the dquots from [`FIRST_ID`] on, without
/// limits and counts.
fn block() -> Vec<u8> {
    let mut block = vec![0; 4096];
    for (slot, id) in block.chunks_exact_mut(DQUOT_BLOCK_BYTES).zip(FIRST_ID..) {
        let mut dquot = DquotDisk::new_zeroed();
        dquot.magic = DQUOT_MAGIC.into();
        (dquot.version, dquot.kind) = (1, 0x81);
        dquot.id = id.into();
        dquot.uuid = [7; 16];
        slot.copy_from_slice(dquot.as_bytes());
        crc::seal(slot, CRC_OFFSET);
    }
    block
}

fn verify(block: &[u8]) -> Result<(), Check> {
    let (geometry, log_head) = (geometry(), Some(Lsn::new(3, 0)));
    let context = VerifyContext { geometry: &geometry, log_head };
    let verdict = BlockKind::Dquots.verify(block, DiskAddr(80), &context);
    verdict.map_err(|corruption| corruption.check().clone())
}

/// Changes the dquot at `index` of `block()`, computes its checksum again, and returns the check by
/// which the block is refused.
fn refusal(index: usize, change: impl FnOnce(&mut DquotDisk)) -> Check {
    let mut block = block();
    let slot = block.chunks_exact_mut(DQUOT_BLOCK_BYTES).nth(index).unwrap();
    let mut dquot: DquotDisk = zerocopy::FromBytes::read_from_bytes(slot).unwrap();
    change(&mut dquot);
    slot.copy_from_slice(dquot.as_bytes());
    crc::seal(slot, CRC_OFFSET);
    verify(&block).unwrap_err()
}

#[test]
fn place_of_a_dquot_follows_from_its_id() {
    let geometry = geometry();
    assert_eq!(dquots_per_block(&geometry), 30);
    let place = DquotPlace::of(1001, &geometry);
    assert_eq!(place, DquotPlace { block: FileBlock(33), index: 11 });
    assert_eq!(place.offset_bytes(), 11 * 136);
    assert_eq!(DquotPlace::of(u32::MAX, &geometry).block, FileBlock(143_165_576));
}

#[test]
fn block_of_the_kernel_is_accepted() {
    let mut block = block();
    assert_eq!(verify(&block), Ok(()));
    block[4095] = 1;
    assert_eq!(verify(&block), Ok(()), "the bytes after the last dquot have no meaning");
}

#[test]
fn damaged_dquot_is_refused_by_its_field() {
    let id = FIRST_ID + 3;
    let magic = Check::Magic { found: 0, expected: DQUOT_MAGIC.into() };
    assert_eq!(refusal(3, |dquot| dquot.magic = 0.into()), magic);
    let version = DquotCheck::Version { id, version: 2 };
    assert_eq!(refusal(3, |dquot| dquot.version = 2), version.into());
    for kind in [0, 3, 0x80, 0x85, 0x41, 8] {
        let expected = DquotCheck::Kind { id, kind };
        assert_eq!(refusal(3, |dquot| dquot.kind = kind), expected.into());
    }
    let other = DquotCheck::OtherKind { id, kind: 4, expected: 1 };
    assert_eq!(refusal(3, |dquot| dquot.kind = 4), other.into());
    let other = DquotCheck::Id { id: 1, expected: id };
    assert_eq!(refusal(3, |dquot| dquot.id = 1.into()), other.into());
    let uuid = uuid::Uuid::from_bytes([8; 16]);
    assert_eq!(refusal(3, |dquot| dquot.uuid = [8; 16]), Check::ForeignUuid { found: uuid });
    let (found, log_head) = (Lsn::new(4, 0), Lsn::new(3, 0));
    let ahead = Check::LsnAheadOfLog { found, log_head };
    assert_eq!(refusal(3, |dquot| dquot.lsn = found.0.into()), ahead);
    let mut block = block();
    block[DQUOT_BLOCK_BYTES + 40] ^= 1;
    assert!(matches!(verify(&block), Err(Check::Checksum { .. })));
    assert!(matches!(
        verify(&block[..2000]),
        Err(Check::Checksum { .. } | Check::Truncated { .. })
    ));
}

#[test]
fn exceeded_soft_limit_needs_a_timer() {
    let id = FIRST_ID + 2;
    let exceed = |dquot: &mut DquotDisk| {
        (dquot.inodes, dquot.inode_soft_limit) = (9.into(), 8.into());
    };
    let what = "inodes";
    let expected = DquotCheck::Timer { id, what, count: 9, limit: 8 };
    assert_eq!(refusal(2, exceed), expected.into());
    let mut block = block();
    let mut dquot = *dquot_at(&block, 2).unwrap();
    exceed(&mut dquot);
    dquot.inode_timer = 1.into();
    let fields = dquot.as_bytes().first_chunk().unwrap();
    replace_fields(&mut block, 2, fields, FormatVersion::V5);
    assert_eq!(verify(&block), Ok(()));
    assert_eq!(dquot_at(&block, 2).unwrap().inodes.get(), 9);
}

#[test]
fn bigtime_needs_its_feature_and_an_id() {
    let mut plain = geometry();
    plain.incompat = IncompatFeatures::empty();
    let block = block();
    let dquot = dquot_at(&block, 0).unwrap();
    let refused = Err(DquotCheck::Bigtime { id: FIRST_ID }.into());
    assert_eq!(dquot.verify_fields(&plain), refused);
    assert_eq!(dquot.verify_fields(&geometry()), Ok(QuotaKind::User));
    let mut zero = *dquot;
    zero.id = 0.into();
    assert_eq!(zero.verify_fields(&geometry()), Err(DquotCheck::Bigtime { id: 0 }.into()));
}

/// Checks that a block of dquots without checksums and UUIDs is valid on a v4 volume, and that no
/// checksum is stored when the fields of a dquot in it are replaced.
#[test]
fn dquots_of_version_4_have_no_checksum() {
    let mut geometry = Geometry::without_groups(12, 8, 512);
    geometry.version = FormatVersion::V4;
    let mut block = block();
    for dquot in block.chunks_exact_mut(DQUOT_BLOCK_BYTES) {
        dquot[3] = 1;
        dquot[104..].fill(0);
    }
    let context = VerifyContext { geometry: &geometry, log_head: None };
    assert_eq!(BlockKind::Dquots.verify(&block, DiskAddr(80), &context), Ok(()));
    let fields = *dquot_at(&block, 1).unwrap().as_bytes().first_chunk().unwrap();
    let before = block.clone();
    replace_fields(&mut block, 1, &fields, FormatVersion::V4);
    assert_eq!(block, before, "no checksum is stored");
    let flag = QuotaKind::Project.checked_flag(FormatVersion::V4);
    assert!(
        QuotaFlags::CHECKED.contains(flag) && QuotaFlags::known(FormatVersion::V4).contains(flag)
    );
    assert!(!QuotaFlags::known(FormatVersion::V5).contains(flag));
}

/// Damages one byte of a dquot with a limit, and stores the limit of another dquot. Checks that the
/// rebuilt block keeps the limit of the intact dquot, and resets the damaged dquot.
#[test]
fn rebuilt_block_keeps_the_limits_of_intact_dquots() {
    let mut damaged = block();
    for (slot, limit) in damaged.chunks_exact_mut(DQUOT_BLOCK_BYTES).zip(1_u64..) {
        slot[8..16].copy_from_slice(&limit.to_be_bytes());
        slot[112..120].copy_from_slice(&Lsn::new(9, 0).0.to_be_bytes());
        crc::seal(slot, CRC_OFFSET);
    }
    damaged[3 * DQUOT_BLOCK_BYTES + 15] ^= 1;
    assert!(has_all_owners(&damaged, QuotaKind::User, FIRST_ID));
    rebuild_block(&mut damaged, QuotaKind::User, FIRST_ID, &geometry());
    assert_eq!(verify(&damaged), Ok(()));
    for index in 0..30 {
        let limit = dquot_at(&damaged, index).unwrap().block_hard_limit.get();
        assert_eq!(limit, if index == 3 { 0 } else { u64::from(index) + 1 });
    }
    let mut zeros = vec![0; 4096];
    rebuild_block(&mut zeros, QuotaKind::User, FIRST_ID, &geometry());
    let mut filled = vec![1; 4096];
    fill_block(&mut filled, QuotaKind::User, FIRST_ID, &geometry());
    assert_eq!(zeros, filled);
}

#[test]
fn damaged_block_of_dquots_is_told_from_other_blocks() {
    let may_be = |block: &[u8], kind| may_have_been_dquots(block, kind, FIRST_ID);
    let mut block = block();
    assert!(may_be(&[0; 4096], QuotaKind::Group) && may_be(&block, QuotaKind::User));
    assert!(!may_be(&block, QuotaKind::Group), "the dquots belong to users");
    assert!(!may_have_been_dquots(&block, QuotaKind::User, FIRST_ID + 30));
    block[DQUOT_BLOCK_BYTES..].fill(b'x');
    assert!(may_be(&block, QuotaKind::User) && !has_all_owners(&block, QuotaKind::User, FIRST_ID));
    block.fill(b'x');
    assert!(!may_be(&block, QuotaKind::User));
}
