use super::ClaimedBlocks;

#[track_caller]
fn check_claims(claims: &[(u64, u64)]) {
    let mut claimed = ClaimedBlocks::default();
    let mut model = std::collections::BTreeSet::new();
    for &(start, length) in claims {
        let new = (start..start + length).filter(|block| model.insert(*block)).count() as u64;
        assert_eq!(claimed.claim(start, length), length - new, "claim of {length} at {start}");
    }
    let runs: Vec<_> = claimed.0.iter().map(|(start, end)| (*start, *end)).collect();
    assert!(runs.is_sorted_by(|left, right| left.1 < right.0), "runs are joined: {runs:?}");
    assert_eq!(runs.iter().map(|(start, end)| end - start).sum::<u64>(), model.len() as u64);
}

#[test]
fn block_is_claimed_once() {
    check_claims(&[(10, 5), (10, 5)]);
    check_claims(&[(10, 5), (12, 5), (8, 20)]);
    check_claims(&[(10, 5), (15, 5), (5, 5)]);
    check_claims(&[(10, 5), (20, 5), (30, 5), (12, 20), (0, 100)]);
    check_claims(&[(0, 1), (2, 1), (4, 1), (1, 1), (3, 1), (0, 5)]);
}

#[test]
fn many_claims_agree_with_a_set() {
    let mut state = 1_u64;
    let mut next = |limit| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let claims: Vec<_> = (0..500).map(|_| (next(1000), 1 + next(30))).collect();
    check_claims(&claims);
}
