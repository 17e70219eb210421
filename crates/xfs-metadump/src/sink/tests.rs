use std::collections::HashSet;

use super::RangeSet;

/// Checks M2 of the crate: each unit is written once.
#[test]
fn range_set_returns_each_unit_once() {
    let mut state = 12345_u64;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let (mut set, mut seen) = (RangeSet::default(), HashSet::new());
        for _ in 0..40 {
            let start = random(100);
            let range = start..start + 1 + random(30);
            let all_seen = range.clone().all(|unit| seen.contains(&unit));
            assert_eq!(set.contains(&range), all_seen, "{range:?}");
            let parts = set.add(range.clone());
            let units: Vec<u64> = parts.iter().cloned().flatten().collect();
            let expected: Vec<u64> = range.filter(|unit| seen.insert(*unit)).collect();
            assert_eq!(units, expected);
            assert!(parts.iter().all(|part| !part.is_empty()));
        }
        let joined: Vec<_> = set.0.iter().collect();
        assert!(
            joined.windows(2).all(|pair| matches!(pair, [(_, end), (next, _)] if *end < *next))
        );
    }
}
