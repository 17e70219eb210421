//! Repairs of destroyed quota inodes and blocks of dquots. The limits of all owners must stay, or
//! the plan must name the lost ones.

use xfs_format::agf::Agf;
use xfs_format::dquot::dquots_per_block;
use xfs_format::{AgBlock, AgNumber};
use xfs_repair::Rehearsed;

use super::*;

fn zero(device: &SharedDevice, at: DiskAddr, length: u32) {
    let zeros = vec![0; length as usize];
    device.write_at(&zeros, at.byte_offset().unwrap(), Durability::Cached).unwrap();
}

/// Fills the quota inode of a type with zeros. Returns its number.
fn destroy_inode(device: &SharedDevice, kind: QuotaKind) -> InodeNumber {
    let superblock = superblock(device);
    let number = quota_inode(&superblock, kind).unwrap();
    let place = superblock.geometry.inode_location(number).unwrap();
    let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes / 512));
    zero(device, at, superblock.geometry.inode_size);
    number
}

fn quota_inode(superblock: &Superblock, kind: QuotaKind) -> Option<InodeNumber> {
    let mut inodes = QuotaKind::ALL.into_iter().zip(superblock.quota_inodes);
    inodes.find(|(of, _)| *of == kind).and_then(|(_, inode)| inode)
}

fn agf(device: &SharedDevice, group: AgNumber) -> Agf {
    let geometry = superblock(device).geometry;
    let at = geometry.header_disk_addr(group, 1);
    let mut sector = vec![0; geometry.sector_size as usize];
    device.read_at(&mut sector, at.byte_offset().unwrap()).unwrap();
    Agf::decode(&sector, at, &geometry).unwrap()
}

/// Destroys the roots of some btrees in all groups.
fn destroy_roots(device: &SharedDevice, roots: impl Fn(&Agf) -> Vec<AgBlock>) {
    let geometry = superblock(device).geometry;
    for group in geometry.groups() {
        for root in roots(&agf(device, group)) {
            zero(device, geometry.ag_block_disk_addr(group, root), geometry.block_size);
        }
    }
}

fn destroy_reverse_maps(device: &SharedDevice) {
    destroy_roots(device, |agf| vec![agf.reverse_map.unwrap().block]);
}

/// Empties the log, which has the newest states of the quota inodes.
fn clear_log(device: &SharedDevice) {
    let superblock = superblock(device);
    let (group, block) = superblock.log_first_block().unwrap();
    let at = superblock.geometry.ag_block_disk_addr(group, block);
    zero(device, at, superblock.log_blocks * superblock.geometry.block_size);
}

fn repaired(device: &SharedDevice, allow_loss: bool) -> Rehearsed {
    let options = RehearsalOptions { allow_loss, ..RehearsalOptions::default() };
    rehearse(device, &superblock(device), &options).unwrap()
}

fn rules(rehearsed: &Rehearsed) -> Vec<&'static str> {
    rehearsed.actions.iter().map(|action| action.rule).collect()
}

fn losses(rehearsed: &Rehearsed) -> Vec<String> {
    let losses = rehearsed.actions.iter().flat_map(|action| &action.loses);
    losses.map(|loss| loss.what.clone()).collect()
}

/// Damages the volume with `change` for each type of quota, and repairs it without losses. All
/// limits must be there afterwards, and the superblock must name the same inodes.
fn check_kept(change: impl Fn(&SharedDevice, QuotaKind)) {
    for kind in QuotaKind::ALL {
        let device = recovered();
        let (limits, inodes) = (limits(&device), superblock(&device).quota_inodes);
        assert!(limits.keys().any(|(of, _)| *of == kind), "{kind:?} has limits");
        clear_log(&device);
        change(&device, kind);
        let rehearsed = repaired(&device, false);
        let rules = rules(&rehearsed);
        assert!(rehearsed.report.is_clean(), "{kind:?} {rules:?} {:?}", rehearsed.report.findings);
        assert!(rules.contains(&"quota-inode"), "{kind:?} {rules:?}");
        assert!(losses(&rehearsed).is_empty(), "{:?}", losses(&rehearsed));
        assert_eq!(superblock(&device).quota_inodes, inodes, "{kind:?} {rules:?}");
        assert_eq!(super::limits(&device), limits, "{kind:?} {rules:?}");
        assert!(!flags(&device).intersects(QuotaFlags::CHECKED));
        assert!(report(&device).is_clean(), "{:?}", report(&device).findings);
        assert_eq!(codes(&device), [], "{kind:?}");
    }
}

#[test]
fn destroyed_quota_inode_gets_its_blocks_back_from_the_reverse_map() {
    check_kept(|device, kind| {
        destroy_inode(device, kind);
    });
}

#[test]
fn destroyed_quota_inode_gets_its_blocks_back_from_their_dquots() {
    check_kept(|device, kind| {
        destroy_inode(device, kind);
        destroy_reverse_maps(device);
    });
}

/// Removes the number of a quota inode from the superblock.
fn forget_inode(device: &SharedDevice, kind: QuotaKind) {
    let mut superblock = superblock(device);
    for (of, inode) in QuotaKind::ALL.into_iter().zip(&mut superblock.quota_inodes) {
        if of == kind {
            *inode = None;
        }
    }
    let mut sector = vec![0; superblock.geometry.sector_size as usize];
    device.read_at(&mut sector, 0).unwrap();
    superblock.encode(&mut sector);
    seal(&mut sector);
    device.write_at(&sector, 0, Durability::Cached).unwrap();
}

#[test]
fn destroyed_quota_inode_without_a_number_is_found_by_the_reverse_map() {
    check_kept(|device, kind| {
        destroy_inode(device, kind);
        forget_inode(device, kind);
    });
}

#[test]
fn destroyed_quota_inode_without_a_number_is_found_by_loose_dquots() {
    check_kept(|device, kind| {
        destroy_inode(device, kind);
        forget_inode(device, kind);
        destroy_reverse_maps(device);
    });
}

/// Puts an older copy of each block of dquots of a type, with other limits, into free space, and a
/// newer one with the UUID of another volume.
fn add_stale_copies(device: &SharedDevice, kind: QuotaKind) {
    let superblock = superblock(device);
    let geometry = &superblock.geometry;
    let mut free: Vec<DiskAddr> = Vec::new();
    for group in geometry.groups() {
        let agf = agf(device, group);
        let longest = agf.longest_free_blocks;
        // The end of the last group is free.
        let length = geometry.ag_length(group);
        let blocks = length - longest.min(length) / 2..length;
        free.extend(blocks.map(|block| geometry.ag_block_disk_addr(group, AgBlock(block))));
    }
    let own = blocks(device, quota_inode(&superblock, kind).unwrap());
    let mut free = free.into_iter().rev();
    for (at, _) in own {
        let mut bytes = vec![0; geometry.block_size as usize];
        device.read_at(&mut bytes, at.byte_offset().unwrap()).unwrap();
        for is_foreign in [false, true] {
            let mut copy = bytes.clone();
            for dquot in copy.chunks_exact_mut(DQUOT_BLOCK_BYTES) {
                dquot[14] ^= 1;
                match is_foreign {
                    true => dquot[120] ^= 1,
                    false => dquot[112..120].fill(0),
                }
            }
            seal_block(&mut copy);
            let to = free.next().unwrap().byte_offset().unwrap();
            let mut old = vec![0; copy.len()];
            device.read_at(&mut old, to).unwrap();
            assert!(!old.starts_with(b"DQ"), "the block is free");
            device.write_at(&copy, to, Durability::Cached).unwrap();
        }
    }
}

#[test]
fn stale_copies_in_free_space_are_not_taken() {
    check_kept(|device, kind| {
        add_stale_copies(device, kind);
        destroy_inode(device, kind);
        destroy_reverse_maps(device);
    });
}

/// Destroys the btrees of free space, too, so that stale copies and blocks in use cannot be told
/// apart by space. The newer ones must win. The loss must be allowed.
#[test]
fn newer_dquots_win_if_the_free_space_is_not_known() {
    for kind in QuotaKind::ALL {
        let device = recovered();
        let limits = limits(&device);
        clear_log(&device);
        add_stale_copies(&device, kind);
        destroy_inode(&device, kind);
        destroy_reverse_maps(&device);
        destroy_roots(&device, |agf| {
            vec![agf.free_space_by_block.block, agf.free_space_by_size.block]
        });
        let refused = repaired(&device, false);
        assert!(!rules(&refused).contains(&"quota-inode"), "{:?}", rules(&refused));
        let rehearsed = repaired(&device, true);
        assert!(rules(&rehearsed).contains(&"quota-inode"), "{:?}", rules(&rehearsed));
        assert_eq!(super::limits(&device), limits, "{kind:?} {:?}", losses(&rehearsed));
        assert!(report(&device).is_clean(), "{:?}", report(&device).findings);
    }
}

/// Fills the block with the limits of the user 1 with zeros. Without permission for losses, the
/// block must stay, and be reported. With it, the plan must name the lost limits, and all others
/// must stay.
#[test]
fn lost_limits_of_a_destroyed_block_are_named() {
    for kind in QuotaKind::ALL {
        let device = recovered();
        let before = limits(&device);
        let superblock = superblock(&device);
        let per_block = dquots_per_block(&superblock.geometry);
        let (at, place) = blocks(&device, quota_inode(&superblock, kind).unwrap())[0];
        zero(&device, at, superblock.geometry.block_size);
        assert_eq!(codes(&device), [Code::QuotaDquot]);
        let refused = repaired(&device, false);
        assert_eq!(rules(&refused), Vec::<&str>::new(), "{kind:?}");
        assert_eq!(codes(&device), [Code::QuotaDquot]);
        let rehearsed = repaired(&device, true);
        assert_eq!(rules(&rehearsed), ["quota", "quota"], "{kind:?}");
        let first = u32::try_from(place).unwrap() * per_block;
        let last = first + per_block - 1;
        let lost = format!("the limits of {}s {first} to {last}", kind.name());
        assert_eq!(losses(&rehearsed), [lost]);
        assert_eq!(codes(&device), [], "{kind:?}");
        let is_kept = |(of, id): &(QuotaKind, u32)| *of != kind || !(first..=last).contains(id);
        let kept: Limits = before.into_iter().filter(|(owner, _)| is_kept(owner)).collect();
        assert_eq!(limits(&device), kept);
    }
}

/// Destroys a block of dquots and a header. The repair of the header clears the flags for checked
/// counts, so the next mount would replace the limits of the block. The plan must list the block.
#[test]
fn destroyed_block_stays_in_the_list_of_what_is_left() {
    let device = recovered();
    let superblock = superblock(&device);
    zero(&device, first_block(&device), superblock.geometry.block_size);
    zero(&device, superblock.geometry.header_disk_addr(AgNumber(0), 1), 512);
    let rehearsed = repaired(&device, false);
    assert!(rules(&rehearsed).contains(&"quota"), "{:?}", rules(&rehearsed));
    let left: Vec<_> = rehearsed.report.findings.iter().map(|finding| finding.code).collect();
    assert!(left.contains(&Code::QuotaDquot), "{left:?}");
    assert!(!rehearsed.report.is_clean());
    assert!(!flags(&device).intersects(QuotaFlags::CHECKED));
}

/// Destroys the quota inode of users, one of its blocks and the reverse map. The limits in that
/// block are lost, and the plan must say so.
#[test]
fn lost_block_of_a_destroyed_inode_needs_permission() {
    let device = recovered();
    let before = limits(&device);
    let superblock = superblock(&device);
    clear_log(&device);
    zero(&device, first_block(&device), superblock.geometry.block_size);
    destroy_inode(&device, QuotaKind::User);
    destroy_reverse_maps(&device);
    let refused = repaired(&device, false);
    assert!(!rules(&refused).contains(&"quota-inode"), "{:?}", rules(&refused));
    let rehearsed = repaired(&device, true);
    let lost = losses(&rehearsed);
    assert!(lost.iter().any(|lost| lost.starts_with("limits of users 0 to 6, and")), "{lost:?}");
    let kept = before.into_iter().filter(|((kind, id), _)| *kind != QuotaKind::User || *id > 6);
    assert_eq!(limits(&device), kept.collect::<Limits>());
    assert!(report(&device).is_clean(), "{:?}", report(&device).findings);
}
