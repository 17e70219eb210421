//! Tests of the states of zones.

use xfs_sync::Mutex;
use xfs_testkit::Prng;

use super::{CollectionStep, TakenBlocks, Zone, ZoneBlocks, ZoneTable, ZoneUse, Zones};

const ZONE: u32 = 100;

/// Returns `count` empty zones. Users can fill all but four of them.
fn zones(count: usize) -> Zones {
    let table = ZoneTable {
        zones: vec![Zone { written: ZONE, ..Zone::default() }; count],
        collector: None,
        next: 0,
        used: 0,
        pending: 0,
    };
    let zones = Zones {
        zone_blocks: ZONE,
        capacity: (count as u64 - 4) * u64::from(ZONE),
        most_open: 2,
        table: Mutex::new(table),
        collecting: Mutex::new(()),
    };
    zones.start(&vec![0; count]).unwrap();
    zones
}

fn take(zones: &Zones, wanted: u32, purpose: ZoneUse) -> ZoneBlocks {
    match zones.take(None, wanted, purpose) {
        TakenBlocks::Blocks(blocks) => blocks,
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_of_a_zone_are_taken_in_ascending_order() {
    let zones = zones(8);
    let first = take(&zones, 30, ZoneUse::New);
    let near = Some(first.zone);
    // Z1 in docs/internals/zoned.md: no block is taken twice, also where it is given up.
    zones.give_up(first);
    let mut next = first.start + first.count;
    for _ in 0..2 {
        let TakenBlocks::Blocks(blocks) = zones.take(near, 30, ZoneUse::New) else { panic!() };
        assert_eq!((blocks.zone, blocks.start), (first.zone, next));
        zones.use_pending(blocks);
        next += blocks.count;
    }
    // A zone gives no more blocks than it has.
    let TakenBlocks::Blocks(rest) = zones.take(near, 30, ZoneUse::New) else { panic!() };
    assert_eq!((rest.zone, rest.count), (first.zone, 10));
}

#[test]
fn users_fill_no_more_than_the_capacity() {
    let zones = zones(6);
    let mut taken = 0;
    while let TakenBlocks::Blocks(blocks) = zones.take(None, 70, ZoneUse::New) {
        zones.use_pending(blocks);
        taken += blocks.count;
    }
    // Z4 in docs/internals/zoned.md: the capacity is the section without four zones.
    assert_eq!((taken, zones.room()), (2 * ZONE, 0));
    assert_eq!(zones.take(None, 1, ZoneUse::New), TakenBlocks::Full);
    assert!(matches!(zones.take(None, 1, ZoneUse::Replace), TakenBlocks::Blocks(_)));
    assert!(zones.free(5, ZONE + 1).is_err());
}

/// Replaces used blocks at random, and collects zones as files do when they find no free block.
/// Checks two invariants: a collection makes room (Z5 in docs/internals/zoned.md), and only zones
/// without blocks are reset (Z3 in docs/internals/zoned.md).
fn check_collection(count: usize, seed: u64) {
    let (zones, mut random) = (zones(count), Prng::new(seed));
    let mut used: Vec<ZoneBlocks> = Vec::new();
    let free = |zones: &Zones, used: &mut Vec<ZoneBlocks>, index: usize| {
        let old = used.swap_remove(index);
        zones.free(old.zone, old.count).unwrap();
    };
    let mut resets = 0;
    for _ in 0..20_000 {
        let is_new = zones.room() > 0;
        let purpose = if is_new { ZoneUse::New } else { ZoneUse::Replace };
        match zones.take(None, random.within(1..20) as u32, purpose) {
            TakenBlocks::Blocks(blocks) => {
                zones.use_pending(blocks);
                used.push(blocks);
                while zones.room() == 0 {
                    let index = random.within(0..used.len());
                    free(&zones, &mut used, index);
                }
            }
            TakenBlocks::NeedsCollection => match zones.next_step(&[]) {
                CollectionStep::Reset(empty) => {
                    for zone in empty {
                        assert!(used.iter().all(|blocks| blocks.zone != zone), "Z3");
                        zones.reset(zone);
                        resets += 1;
                    }
                }
                CollectionStep::Move(zone) => {
                    let moved: Vec<_> = used.extract_if(.., |blocks| blocks.zone == zone).collect();
                    for old in moved {
                        let mut left = old.count;
                        while left > 0 {
                            let new = take(&zones, left, ZoneUse::Collect);
                            zones.use_pending(new);
                            used.push(new);
                            left -= new.count;
                        }
                        zones.free(old.zone, old.count).unwrap();
                    }
                }
                CollectionStep::Stuck => panic!("Z5: a collection makes room"),
            },
            TakenBlocks::Full => panic!("Z4: there is room for replacements"),
        }
    }
    assert!(resets > 100, "{resets}");
}

#[test]
fn collection_always_makes_room() {
    for (count, seed) in [(5, 1), (6, 2), (8, 3), (30, 4)] {
        check_collection(count, seed);
    }
}
