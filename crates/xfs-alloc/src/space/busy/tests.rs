//! Tests of busy extents, compared with a table that holds the state of every block.

use xfs_testkit::Prng;

use super::*;

const BLOCKS: u32 = 200;

fn usable(busy: &BusyExtents, extent: Range<u32>) -> Vec<Range<u32>> {
    busy.usable(extent).collect()
}

#[test]
fn freed_blocks_are_busy_until_their_checkpoint() {
    let mut busy = BusyExtents::default();
    let ticket = busy.issue_ticket();
    busy.insert(10..15, ticket);
    busy.expire(u64::MAX);
    assert_eq!(usable(&busy, 0..30), [0..10, 15..30]);
    assert_eq!(busy.last_sequence(), None);
    busy.settle(ticket, 7);
    busy.expire(6);
    assert_eq!(usable(&busy, 12..30), vec![15..30]);
    assert_eq!(usable(&busy, 11..14), []);
    assert_eq!(busy.last_sequence(), Some(7));
    busy.expire(7);
    assert!(busy.is_empty());
    assert_eq!(usable(&busy, 0..30), vec![0..30]);
}

#[test]
fn sequence_of_busy_blocks_is_the_newest_checkpoint() {
    let mut busy = BusyExtents::default();
    let ticket = busy.issue_ticket();
    busy.insert(10..15, ticket);
    busy.settle(ticket, 7);
    assert_eq!(busy.sequence_of(0..10), None);
    assert_eq!(busy.sequence_of(15..20), None);
    assert_eq!(busy.sequence_of(0..11), Some(7));
    assert_eq!(busy.sequence_of(12..13), Some(7));
    // Blocks that were given up later elsewhere do not count here.
    let ticket = busy.issue_ticket();
    busy.insert(20..22, ticket);
    busy.settle(ticket, 9);
    assert_eq!(busy.sequence_of(0..20), Some(7));
    assert_eq!(busy.sequence_of(14..21), Some(9));
    assert_eq!(busy.sequence_of(21..30), Some(9));
    busy.expire(7);
    assert_eq!(busy.sequence_of(0..20), None);
    busy.expire(9);
    assert_eq!(busy.sequence_of(0..30), None);
}

#[test]
fn busy_extents_equal_a_table_of_blocks() {
    for seed in 0..200 {
        let mut random = Prng::new(seed);
        let mut busy = BusyExtents::default();
        let mut table = vec![0_u64; BLOCKS as usize];
        let mut durable = 0;
        for sequence in 1..60 {
            let ticket = busy.issue_ticket();
            for _ in 0..random.within(0..3) {
                let start = random.within(0..BLOCKS as usize - 20) as u32;
                let count = random.within(1..20) as u32;
                busy.insert(start..start + count, ticket);
                table[start as usize..(start + count) as usize].fill(sequence);
            }
            busy.settle(ticket, sequence);
            if random.within(0..4) == 0 {
                durable = sequence - (random.within(0..3) as u64).min(sequence - durable);
                busy.expire(durable);
            }
            let mut found = vec![false; BLOCKS as usize];
            for part in busy.usable(0..BLOCKS) {
                found[part.start as usize..part.end as usize].fill(true);
            }
            for (block, usable) in found.into_iter().enumerate() {
                assert_eq!(usable, table[block] <= durable, "I1: block {block}, seed {seed}");
            }
        }
    }
}
