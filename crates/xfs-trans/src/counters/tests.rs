use std::sync::Arc;

use super::{BATCH_BLOCKS, Counters, SpaceCounts};

fn free(blocks: u64) -> Counters {
    Counters::new(SpaceCounts { free_blocks: blocks, inodes: 64, free_inodes: 61 })
}

#[test]
fn take_returns_the_last_block_and_no_more() {
    let counters = free(10);
    counters.take(7).unwrap();
    assert!(counters.take(4).is_err());
    counters.take(3).unwrap();
    assert!(counters.take(1).is_err());
    counters.give(2);
    counters.take(2).unwrap();
    assert_eq!(counters.counts().free_blocks, 0);
}

#[test]
fn take_drains_the_batches_of_other_slots() {
    let blocks = 3 * BATCH_BLOCKS;
    let counters = Arc::new(free(blocks));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let counters = Arc::clone(&counters);
            std::thread::spawn(move || {
                if counters.take(1).is_ok() {
                    counters.give(1);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    counters.take(blocks).unwrap();
    assert!(counters.take(1).is_err());
}

#[test]
fn sums_over_threads_are_exact() {
    let counters = Arc::new(free(100_000));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let counters = Arc::clone(&counters);
            std::thread::spawn(move || {
                for _ in 0..1000 {
                    counters.take(50).unwrap();
                    counters.give(49);
                    counters.count_inodes(2, -1);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let counts = counters.counts();
    assert_eq!(counts.free_blocks, 96_000);
    assert_eq!(counts.inodes, 64 + 8000);
    assert_eq!(counts.free_inodes.cast_signed(), 61 - 4000);
}

#[test]
fn change_below_zero_free_blocks_is_refused() {
    let counters = free(10);
    counters.change(-10).unwrap();
    assert!(counters.change(-1).is_err());
    counters.change(5).unwrap();
    assert_eq!(counters.counts().free_blocks, 5);
}

#[test]
fn pool_is_used_last_and_filled_first() {
    let counters = free(10);
    counters.set_pool(20);
    counters.take_from_pool(8).unwrap();
    assert_eq!(counters.counts().free_blocks, 2, "the pool is used last");
    assert!(counters.take(3).is_err());
    counters.take_from_pool(15).unwrap();
    assert!(counters.take_from_pool(6).is_err());
    assert_eq!(counters.counts().free_blocks, 2);
    counters.give(12);
    assert_eq!(counters.counts().free_blocks, 2, "the pool is filled first");
    counters.give(8);
    assert_eq!(counters.counts().free_blocks, 2 + 5);
}

#[test]
fn dissolved_pool_becomes_free_blocks() {
    let counters = free(10);
    counters.set_pool(20);
    counters.take_from_pool(15).unwrap();
    counters.dissolve_pool();
    assert_eq!(counters.counts().free_blocks, 15, "10 free blocks and the rest of the pool");
    counters.give(7);
    assert_eq!(counters.counts().free_blocks, 22, "nothing fills the pool again");
    assert!(counters.take_from_pool(23).is_err());
}

#[test]
fn blocks_taken_before_growth_are_returned_once() {
    let counters = Counters::new(SpaceCounts { inodes: 0, free_inodes: 0, free_blocks: 1000 });
    counters.set_pool(50);
    counters.take(300).unwrap();
    counters.grow(400, 10);
    counters.give(300);
    assert_eq!(counters.counts().free_blocks, 1400);
    counters.grow(-100, 0);
    assert_eq!(counters.counts().free_blocks, 1300);
    counters.take(1300).unwrap();
    counters.take_from_pool(60).unwrap();
    assert!(counters.take_from_pool(1).is_err());
}

#[test]
fn growth_that_takes_more_than_is_free_takes_it_from_the_pool() {
    let counters = free(30);
    counters.set_pool(50);
    counters.take(20).unwrap();
    counters.grow(-25, 0);
    assert_eq!(counters.counts().free_blocks, 0);
    assert!(counters.take_from_pool(36).is_err(), "15 blocks of the pool have gone");
    counters.take_from_pool(35).unwrap();
    counters.give(35 + 20);
    assert_eq!(counters.counts().free_blocks, 5);
}

#[test]
fn growth_that_takes_more_than_the_pool_has_is_paid_by_returned_blocks() {
    let counters = free(100);
    counters.set_pool(50);
    counters.take(100).unwrap();
    counters.take_from_pool(40).unwrap();
    counters.grow(-20, 0);
    assert!(counters.take_from_pool(1).is_err());
    counters.give(8);
    assert!(counters.take_from_pool(1).is_err(), "two blocks are still owed");
    counters.give(132);
    assert_eq!(counters.counts().free_blocks, 80);
    counters.take(80).unwrap();
    counters.take_from_pool(50).unwrap();
    assert!(counters.take_from_pool(1).is_err());
}

#[test]
fn growth_with_a_smaller_pool_keeps_the_sum_of_blocks() {
    let counters = free(100);
    counters.set_pool(10);
    counters.grow(400, -30);
    assert_eq!(counters.counts().free_blocks, 100 + 400 + 10 - 30);
    assert!(counters.take_from_pool(481).is_err());
    counters.take_from_pool(480).unwrap();
}
