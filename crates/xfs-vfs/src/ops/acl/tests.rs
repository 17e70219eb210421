use super::NewLists;

/// Checks that the access control lists of a new file count as empty only if there is neither an
/// access list nor a default list. A new file with either list needs room for attributes from the
/// start.
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
