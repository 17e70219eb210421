//! Tests of the rounds that explain balances which do not hold, and of gaps (structures that could
//! not be read) in many groups.

use std::time::{Duration, Instant};

use xfs_format::directory::{EntryType, EntryTypes};
use xfs_format::{AgBlock, AgNumber, InodeNumber};

use super::{MOST_ROUNDS, Rounds, differing};
use crate::explain::LINK_BYTES;
use crate::facts::{Claim, Facts, Gap, Owner};
use crate::hash::Keyed;
use crate::region::Region;
use crate::sums::{BUCKETS, Features, RealtimeFeatures, Sums};

fn sums(groups: usize) -> Sums {
    let features = Features {
        reverse_map: false,
        parents: false,
        entry_types: EntryTypes::Stored,
        realtime: RealtimeFeatures::default(),
    };
    Sums::new(Keyed::with_key(1, 2), groups, features)
}

/// Counts a link to one inode in each bucket of inodes, although none of these inodes is in use.
/// Returns the rounds for the balances that do not hold.
fn rounds_of_links(limit_bytes: u64) -> Rounds {
    let mut sums = sums(0);
    for bucket in 0..BUCKETS as u64 {
        sums.superblock_link(InodeNumber(bucket << 14), EntryType::Regular);
    }
    differing(&sums, limit_bytes)
}

#[test]
fn members_of_a_round_fit_the_limit() {
    let rounds = rounds_of_links(100 * LINK_BYTES);
    let counts: Vec<_> = rounds.list.iter().map(|round| round.links.len()).collect();
    assert_eq!(counts, [[100; 10].as_slice(), &[24]].concat());
    assert_eq!(rounds.left, 0);
    assert_eq!(rounds_of_links(u64::MAX).list.len(), 1);
}

/// Checks C4 of the crate: the differences of one round have a limit.
#[test]
fn bucket_over_the_limit_has_a_round_of_its_own_up_to_the_most_rounds() {
    for limit_bytes in [0, 1, LINK_BYTES] {
        let rounds = rounds_of_links(limit_bytes);
        assert_eq!(rounds.list.len(), MOST_ROUNDS);
        assert!(rounds.list.iter().all(|round| round.links.len() == 1));
        assert_eq!(rounds.left, (BUCKETS - MOST_ROUNDS) as u64);
    }
}

#[test]
fn groups_have_rounds_by_the_number_of_their_claims() {
    let mut sums = sums(8);
    for group in 0..8 {
        for start in 0..100 {
            sums.claim(&Claim::of(AgNumber(group), AgBlock(3 * start), 1, Owner::Free));
        }
    }
    let one = sums.groups.first().map_or(0, crate::sums::GroupSums::list_bytes);
    assert!(one >= 100 * size_of::<Claim>() as u64);
    assert_eq!(differing(&sums, 2 * one).list.len(), 4);
}

#[test]
fn gaps_of_very_many_groups_are_noted_quickly() {
    let start = Instant::now();
    let (mut sums, mut other) = (sums(0), sums(0));
    for group in (0..200_000).map(AgNumber) {
        for gap in
            [Gap::GroupClaims(Region::Data(group)), Gap::FreeSpace(group), Gap::Inodes(group)]
        {
            sums.gap(gap);
            other.gap(gap);
        }
    }
    sums.merge(&other);
    assert_eq!(sums.gaps, other.gaps);
    // A search of the gaps before each would take hours.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
