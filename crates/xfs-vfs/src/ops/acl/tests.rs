use super::NewLists;

/// Checks that `NewLists` counts as empty only if it has neither an access list nor a default list.
/// With either list, a new inode needs room for attributes from the start.
#[test]
fn lists_are_empty_only_without_both() {
    let lists = |access: bool, default: bool| NewLists {
        access: access.then(|| vec![1]),
        default: default.then(|| vec![2]),
    };
    assert!(lists(false, false).is_empty());
    assert!(!lists(true, false).is_empty());
    assert!(!lists(false, true).is_empty());
    assert!(!lists(true, true).is_empty());
}
