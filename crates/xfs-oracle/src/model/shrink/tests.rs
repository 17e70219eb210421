use super::shrink;

#[test]
fn what_the_failure_does_not_need_goes() {
    let history: Vec<u32> = (0..100).collect();
    let needs = |history: &[u32]| history.contains(&17) && history.contains(&83);
    assert_eq!(shrink(&history, 1000, needs), [17, 83]);
}

#[test]
fn trials_are_limited() {
    let mut trials = 0;
    let kept = shrink(&[1, 2, 3, 4], 2, |_| {
        trials += 1;
        false
    });
    assert_eq!((kept.len(), trials), (4, 2));
}
