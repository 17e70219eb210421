use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::{AgBlock, FileBlock, InodeNumber};

use super::{Loser, Proof, ProvenClaim, conflicts};

fn claim(inode: u64, start: u32, count: u32) -> ProvenClaim {
    let (owner, flags) = (RmapOwner::Inode(InodeNumber(inode)), RmapFlags::empty());
    let claim = Rmap { start: AgBlock(start), count, owner, offset: FileBlock(0), flags };
    ProvenClaim { claim, proof: Proof::Owner }
}

fn loser(inode: u64) -> Loser {
    Loser { inode: InodeNumber(inode), is_attr: false }
}

#[test]
fn higher_inode_loses_the_blocks_that_a_lower_one_claims() {
    let claims = vec![claim(7, 10, 10), claim(5, 15, 10), claim(9, 5, 30)];
    let found = conflicts(claims, |_| false).unwrap();
    assert_eq!(found, [(loser(9), (10, 25)), (loser(7), (15, 20))]);
}

#[test]
fn owner_with_better_evidence_keeps_the_blocks() {
    let proven = |inode, proof| ProvenClaim { proof, ..claim(inode, 10, 10) };
    let claims = vec![claim(5, 10, 10), proven(7, Proof::ReverseMap)];
    let found = conflicts(claims, |_| false).unwrap();
    assert_eq!(found, [(loser(5), (10, 20))]);
    let claims = vec![proven(5, Proof::ReverseMap), proven(7, Proof::Header)];
    let found = conflicts(claims, |_| false).unwrap();
    assert_eq!(found, [(loser(5), (10, 20))]);
}

#[test]
fn claims_that_may_share_lose_only_to_those_that_may_not() {
    let mut metadata = claim(9, 12, 2);
    metadata.claim.flags = RmapFlags::FORK_BTREE;
    let claims = vec![claim(7, 10, 10), claim(5, 10, 10), metadata];
    let found = conflicts(claims, |claim| !claim.flags.contains(RmapFlags::FORK_BTREE)).unwrap();
    assert_eq!(found, [(loser(5), (12, 14)), (loser(7), (12, 14))]);
}

/// Lets 50,000 owners claim one extent. Checks that the search returns one range for each owner
/// except the one that keeps the extent. A list of all pairs of claims would take tens of
/// gigabytes.
#[test]
fn many_owners_of_one_extent_give_one_range_each() {
    let claims: Vec<ProvenClaim> = (0..50_000).map(|inode| claim(inode, 100, 8)).collect();
    let found = conflicts(claims, |_| false).unwrap();
    assert_eq!(found.len(), 49_999);
    assert!(found.iter().all(|(_, range)| *range == (100, 108)));
}

#[test]
fn very_many_different_overlaps_end_the_search() {
    let claims: Vec<ProvenClaim> =
        (0..6_000_u32).map(|at| claim(u64::from(at) + 1, at, 10_000)).collect();
    assert!(conflicts(claims, |_| false).is_none());
}
