use std::sync::Arc;

use super::{Block, BlockCache, CacheAnswer};
use crate::object::read_ahead::BLOCK_BYTES;

fn block(byte: u8) -> Block {
    Arc::from(vec![byte; 8])
}

/// Returns the block, which must be in the cache.
#[track_caller]
fn ready(cache: &BlockCache, number: u64) -> Block {
    match cache.find(number, 1) {
        CacheAnswer::Ready(block) => block,
        CacheAnswer::Absent(_) => panic!("block {number} is absent"),
    }
}

/// Claims `wanted` blocks and fills them with their numbers. Returns how many were claimed.
#[track_caller]
fn fill(cache: &BlockCache, number: u64, wanted: u64) -> u64 {
    let CacheAnswer::Absent(claim) = cache.find(number, wanted) else {
        panic!("{number} is present")
    };
    let count = claim.count;
    let blocks: Vec<Block> =
        (claim.first..claim.first + claim.count).map(|number| block(number as u8)).collect();
    claim.fill(&blocks);
    count
}

#[test]
fn least_recently_used_block_is_dropped() {
    let cache = BlockCache::new(3 * BLOCK_BYTES, 100 * BLOCK_BYTES);
    for number in [10, 20, 30] {
        assert_eq!(fill(&cache, number, 1), 1);
    }
    assert_eq!(*ready(&cache, 10), [10; 8]);
    fill(&cache, 40, 1);
    assert_eq!(*ready(&cache, 10), [10; 8]);
    assert!(matches!(cache.find(20, 1), CacheAnswer::Absent(_)), "I3 of `xfs_image::object`");
    ready(&cache, 30);
}

#[test]
fn claim_ends_at_a_present_block_and_at_the_end_of_the_object() {
    let cache = BlockCache::new(100 * BLOCK_BYTES, 10 * BLOCK_BYTES - 1);
    fill(&cache, 5, 1);
    assert_eq!(fill(&cache, 2, 8), 3);
    assert_eq!(fill(&cache, 6, 50), 4);
}

#[test]
fn waiting_thread_gets_the_block_or_fetches_it_after_a_failure() {
    let cache = BlockCache::new(100 * BLOCK_BYTES, 100 * BLOCK_BYTES);
    for is_filled in [true, false] {
        let number = u64::from(is_filled) * 50;
        std::thread::scope(|scope| {
            let CacheAnswer::Absent(claim) = cache.find(number, 1) else { panic!("present") };
            let waiter = scope.spawn(|| match cache.find(number, 1) {
                CacheAnswer::Ready(block) => Some(block),
                CacheAnswer::Absent(_) => None,
            });
            match is_filled {
                true => claim.fill(&[block(7)]),
                false => drop(claim),
            }
            assert_eq!(waiter.join().unwrap().is_some(), is_filled);
        });
    }
}
