//! Tests of changes of reference counts, compared with a table that holds the count of every block.

use xfs_testkit::Prng;

use super::*;

const BLOCKS: usize = 60;

/// Returns the records for a table that holds the reference count of each block. Blocks with the
/// count `base` have no record.
fn records_of(table: &[u32], domain: RefcountDomain, base: u32) -> Vec<Refcount> {
    let mut records: Vec<Refcount> = Vec::new();
    for (block, references) in (0..).zip(table.iter().copied()) {
        match records.last_mut() {
            Some(last) if last.end() == AgBlock(block) && last.references == references => {
                last.count += 1;
            }
            _ if references == base => {}
            _ => records.push(Refcount { domain, start: AgBlock(block), count: 1, references }),
        }
    }
    records
}

fn touching(records: &[Refcount], range: &Range<u32>) -> Vec<Refcount> {
    let touches = |record: &&Refcount| record.end().0 >= range.start && record.start.0 <= range.end;
    records.iter().filter(touches).copied().collect()
}

#[test]
fn adjusted_counts_equal_a_table_of_blocks() {
    for seed in 0..300 {
        let mut random = Prng::new(seed);
        // A block without references must be allocated again before it can be shared again.
        let mut table = vec![1_u32; BLOCKS];
        for _ in 0..100 {
            let start = random.within(0..BLOCKS - 1);
            let end = random.within(start + 1..BLOCKS.min(start + 20));
            let goes_up = random.within(0..2) == 0;
            let change = if goes_up { CountChange::Increase } else { CountChange::Decrease };
            let range = start as u32..end as u32;
            let old = touching(&records_of(&table, RefcountDomain::Shared, 1), &range);
            let found = adjust(&old, change, range.clone()).unwrap();
            let mut freed = [false; BLOCKS];
            for block in found.unreferenced.iter().cloned().flatten() {
                freed[block as usize] = true;
            }
            for (block, count) in table.iter_mut().enumerate().take(end).skip(start) {
                let is_last = !goes_up && *count == 1;
                assert_eq!(freed[block], is_last, "seed {seed}, block {block}");
                if !is_last {
                    *count = if goes_up { *count + 1 } else { *count - 1 };
                }
            }
            // Freed blocks have no record, like blocks with one reference.
            let new = records_of(&table, RefcountDomain::Shared, 1);
            let mut expected = touching(&new, &range);
            // A neighbour that became part of a longer record was among the old records.
            let span = |records: &[Refcount]| {
                let first = records.first().map_or(range.start, |record| record.start.0);
                let last = records.last().map_or(range.end, |record| record.end().0);
                first.min(range.start)..last.max(range.end)
            };
            let reach = span(&old);
            expected.retain(|record| record.start.0 >= reach.start && record.end().0 <= reach.end);
            // I1 and I2: the table alone decides.
            assert_eq!(found.records, expected, "seed {seed}: {old:?} {change:?} {range:?}");
        }
    }
}

#[test]
fn staged_blocks_have_one_record_for_each_stretch() {
    let record = |start, count| Refcount {
        domain: RefcountDomain::Staging,
        start: AgBlock(start),
        count,
        references: 1,
    };
    let adjusted = |old: &[Refcount], change, range| adjust(old, change, range).unwrap().records;
    assert_eq!(adjusted(&[], CountChange::Stage, 5..9), [record(5, 4)]);
    let joined = adjusted(&[record(1, 4), record(9, 2)], CountChange::Stage, 5..9);
    assert_eq!(joined, [record(1, 10)]);
    let cut = adjusted(&[record(1, 10)], CountChange::Unstage, 5..9);
    assert_eq!(cut, [record(1, 4), record(9, 2)]);
    let wrong = adjust(&[record(1, 4)], CountChange::Stage, 4..6).unwrap_err();
    assert_eq!(wrong, InvalidChange { start: 4, references: 1 });
    let wrong = adjust(&[record(1, 4)], CountChange::Unstage, 4..6).unwrap_err();
    assert_eq!(wrong, InvalidChange { start: 5, references: 0 });
}

#[test]
fn saturated_counts_do_not_change() {
    let domain = RefcountDomain::Shared;
    let full = Refcount { domain, start: AgBlock(3), count: 5, references: u32::MAX };
    for change in [CountChange::Increase, CountChange::Decrease] {
        let adjusted = adjust(&[full], change, 3..8).unwrap();
        assert_eq!((adjusted.records, adjusted.unreferenced), (vec![full], vec![]));
    }
}
