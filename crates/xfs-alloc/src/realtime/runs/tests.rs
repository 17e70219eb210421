//! Tests of bitmap and summary against a list of flags.

use std::ops::Range;

use xfs_buffer::{Error, Result};
use xfs_format::Check;
use xfs_format::realtime::RealtimeSpaceCheck;
use xfs_testkit::Prng;

use super::{FreeRuns, ReadWords, SpaceSizes, SpaceWords};

/// A section of 500 extents, with a bitmap of blocks for 64 extents each.
const SIZES: SpaceSizes = SpaceSizes { extents: 500, bitmap_blocks: 8, block_extents: 64 };

#[derive(Clone, Debug, PartialEq, Eq)]
struct Words {
    bitmap: Vec<u32>,
    counters: Vec<u32>,
}

impl ReadWords for Words {
    fn bitmap_word(&mut self, index: u64) -> Result<u32> {
        Ok(self.bitmap[index as usize])
    }

    fn counter(&mut self, index: u64) -> Result<u32> {
        Ok(self.counters[index as usize])
    }
}

impl SpaceWords for Words {
    fn set_bitmap_word(&mut self, index: u64, word: u32) -> Result<()> {
        self.bitmap[index as usize] = word;
        Ok(())
    }

    fn set_counter(&mut self, index: u64, counter: u32) -> Result<()> {
        self.counters[index as usize] = counter;
        Ok(())
    }
}

/// Returns the words and counters for these flags, computed without the code under test.
fn words_of(free: &[bool]) -> Words {
    let mut words = Words { bitmap: vec![0; 16], counters: vec![0; 9 * 8] };
    for (extent, _) in free.iter().enumerate().filter(|(_, is_free)| **is_free) {
        words.bitmap[extent / 32] |= 1 << (extent % 32);
    }
    let mut start = 0;
    for run in free.chunk_by(|left, right| left == right) {
        if run[0] {
            words.counters[run.len().ilog2() as usize * 8 + start / 64] += 1;
        }
        start += run.len();
    }
    words
}

fn mark(free: &mut [bool], range: &Range<u64>, is_free: bool) {
    free[range.start as usize..range.end as usize].fill(is_free);
}

/// Takes and releases ranges at random. Checks after each change that bitmap and summary equal
/// those that are counted from a list of flags (I1), and that a found run is free.
#[test]
fn summary_equals_a_recount_after_each_change() {
    let mut random = Prng::new(7);
    let (mut free, mut taken) = (vec![true; 500], Vec::new());
    let mut words = words_of(&free);
    for step in 0..3000 {
        let mut runs = FreeRuns::new(&mut words, SIZES);
        let is_full = runs.count().unwrap() == 0;
        if (random.within(0..5) < 3 && !is_full) || taken.is_empty() {
            let (near, wanted) = (random.within(0..510) as u64, random.within(1..70) as u64);
            let run = runs.find(near, wanted).unwrap().unwrap();
            assert!(run.end - run.start <= wanted && run.start < run.end, "step {step}: {run:?}");
            runs.take(&run).unwrap();
            mark(&mut free, &run, false);
            taken.push(run);
        } else {
            let run: Range<u64> = taken.swap_remove(random.within(0..taken.len()));
            let middle = run.start + random.within(0..(run.end - run.start) as usize) as u64;
            for part in [run.start..middle, middle..run.end] {
                if !part.is_empty() {
                    runs.release(&part).unwrap();
                    mark(&mut free, &part, true);
                }
            }
        }
        assert_eq!(words, words_of(&free), "step {step}");
        let counted = FreeRuns::new(&mut words, SIZES).count().unwrap();
        assert_eq!(counted, free.iter().filter(|is_free| **is_free).count() as u64);
    }
}

#[test]
fn search_continues_a_file_and_else_takes_a_long_enough_run() {
    let mut free = vec![true; 500];
    // Free: 0..10, 20..24, 100..500.
    mark(&mut free, &(10..20), false);
    mark(&mut free, &(24..100), false);
    let mut words = words_of(&free);
    let mut runs = FreeRuns::new(&mut words, SIZES);
    for (near, wanted, found) in [
        (20, 9, 20..24),
        (24, 4, 20..24),
        (24, 5, 0..5),
        (24, 11, 100..111),
        (499, 3, 499..500),
        (700, 3, 0..3),
        (50, 450, 100..500),
    ] {
        assert_eq!(runs.find(near, wanted).unwrap(), Some(found), "{wanted} near {near}");
    }
    let mut words = words_of(&[false; 500]);
    assert_eq!(FreeRuns::new(&mut words, SIZES).find(3, 1).unwrap(), None);
}

fn check_of(result: Result<()>) -> RealtimeSpaceCheck {
    let Err(Error::Corrupt(corruption)) = result else { panic!("{result:?}") };
    let Check::RealtimeSpace(check) = corruption.check() else { panic!("{corruption}") };
    *check
}

#[test]
fn change_of_an_extent_in_the_same_state_is_corruption() {
    let mut free = vec![true; 500];
    mark(&mut free, &(10..20), false);
    let mut words = words_of(&free);
    let mut runs = FreeRuns::new(&mut words, SIZES);
    let check = check_of(runs.take(&(5..12)));
    assert_eq!(check, RealtimeSpaceCheck::InUse { extent: 10 });
    let check = check_of(runs.release(&(15..21)));
    assert_eq!(check, RealtimeSpaceCheck::Free { extent: 20 });
    let check = check_of(runs.take(&(490..501)));
    assert_eq!(check, RealtimeSpaceCheck::Range { start: 490, count: 11 });
    assert_eq!(words, words_of(&free), "a refused change leaves everything as it was");
}

#[test]
fn counter_that_lacks_a_run_is_corruption() {
    let mut words = words_of(&[true; 500]);
    words.counters[8 * 8] = 0;
    let check = check_of(FreeRuns::new(&mut words, SIZES).take(&(0..1)));
    assert_eq!(check, RealtimeSpaceCheck::Counter { level: 8, block: 0 });
    words.counters[3 * 8 + 2] = 1;
    let found = FreeRuns::new(&mut words, SIZES).find_of_level(3, 0, 1).map(drop);
    assert_eq!(check_of(found), RealtimeSpaceCheck::Counter { level: 3, block: 2 });
}

/// A summary that a program wrote in the other byte order has as many set bits as a valid one. Its
/// values must be refused.
#[test]
fn counter_in_the_other_byte_order_is_corruption() {
    let mut free = vec![true; 500];
    mark(&mut free, &(10..20), false);
    let mut words = words_of(&free);
    words.counters.iter_mut().for_each(|counter| *counter = counter.swap_bytes());
    let before = words.clone();
    let check = check_of(FreeRuns::new(&mut words, SIZES).take(&(0..1)));
    assert_eq!(check, RealtimeSpaceCheck::Counter { level: 3, block: 0 });
    let check = check_of(FreeRuns::new(&mut words, SIZES).release(&(19..20)));
    assert_eq!(check, RealtimeSpaceCheck::Counter { level: 8, block: 0 });
    assert_eq!(words, before, "a refused change leaves everything as it was");
}
