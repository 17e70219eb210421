use xfs_format::directory::Cookie;
use xfs_testkit::Prng;

use super::{CompactTo, HashRun};
use crate::edit::{BlockEdit, u32_at};

fn run(entries: &[(u32, u32)]) -> (Vec<u8>, HashRun) {
    let mut bytes = vec![0; 16 + 8 * entries.len()];
    let run = HashRun { base: 8, count: entries.len() };
    let mut edit = BlockEdit::new(&mut bytes);
    for (index, (hash, cookie)) in entries.iter().enumerate() {
        run.put(&mut edit, index, *hash, Cookie(*cookie));
    }
    (bytes, run)
}

fn entries(bytes: &[u8], run: HashRun) -> Vec<(u32, u32)> {
    run.entries(bytes).iter().map(|entry| (entry.hash.get(), entry.cookie.get())).collect()
}

fn check_reuse(before: &[(u32, u32)], new: (u32, u32), after: &[(u32, u32)]) {
    let (mut bytes, run) = run(before);
    let mut edit = BlockEdit::new(&mut bytes);
    assert!(run.reuse_stale(&mut edit, new.0, Cookie(new.1)));
    assert_eq!(entries(&bytes, run), after);
}

#[test]
fn insertion_reuses_the_nearest_stale_entry() {
    check_reuse(&[(1, 0), (5, 9)], (5, 2), &[(5, 2), (5, 9)]);
    check_reuse(&[(1, 0), (2, 1), (5, 0)], (4, 3), &[(1, 0), (2, 1), (4, 3)]);
    check_reuse(&[(1, 0), (2, 1), (5, 4), (6, 0)], (5, 3), &[(1, 0), (2, 1), (5, 3), (5, 4)]);
    check_reuse(&[(1, 0), (2, 1), (5, 4), (6, 5)], (9, 3), &[(2, 1), (5, 4), (6, 5), (9, 3)]);
    let (mut bytes, run) = run(&[(1, 1), (2, 2)]);
    assert!(!run.reuse_stale(&mut BlockEdit::new(&mut bytes), 1, Cookie(3)));
}

#[test]
fn insertion_with_any_stale_entries_keeps_the_order() {
    let mut random = Prng::new(7);
    for _ in 0..500 {
        let count = random.within(1..20);
        let mut before: Vec<(u32, u32)> =
            (0..count).map(|_| (random.within(0..8) as u32, random.within(0..3) as u32)).collect();
        before.sort_unstable_by_key(|entry| entry.0);
        let (mut bytes, run) = run(&before);
        let hash = random.within(0..9) as u32;
        let reused = run.reuse_stale(&mut BlockEdit::new(&mut bytes), hash, Cookie(77));
        assert_eq!(reused, before.iter().any(|entry| entry.1 == 0));
        let after = entries(&bytes, run);
        assert!(after.is_sorted_by_key(|entry| entry.0), "{before:?} and {hash}: {after:?}");
        if reused {
            let mut live: Vec<_> = before.iter().filter(|entry| entry.1 != 0).copied().collect();
            live.push((hash, 77));
            live.sort_unstable();
            let mut found: Vec<_> = after.into_iter().filter(|entry| entry.1 != 0).collect();
            found.sort_unstable();
            assert_eq!(found, live);
        }
    }
}

#[test]
fn compaction_keeps_the_live_entries() {
    let before = [(1, 0), (2, 1), (2, 0), (3, 2), (4, 0)];
    for (end, first) in [(CompactTo::Start, 0), (CompactTo::End, 3)] {
        let (mut bytes, run) = run(&before);
        assert_eq!(run.compact(&mut BlockEdit::new(&mut bytes), end), 2);
        let at = |index: usize| (u32_at(&bytes, 8 + 8 * index), u32_at(&bytes, 12 + 8 * index));
        assert_eq!([at(first), at(first + 1)], [(2, 1), (3, 2)]);
    }
}
