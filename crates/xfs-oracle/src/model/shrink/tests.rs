use super::shrink;

#[test]
fn shrink_removes_unneeded_operations() {
    let history: Vec<u32> = (0..100).collect();
    let needs = |history: &[u32]| history.contains(&17) && history.contains(&83);
    assert_eq!(shrink(&history, 1000, needs), [17, 83]);
}

#[test]
fn shrink_limits_its_trials() {
    let mut trials = 0;
    let kept = shrink(&[1, 2, 3, 4], 2, |_| {
        trials += 1;
        false
    });
    assert_eq!((kept.len(), trials), (4, 2));
}
