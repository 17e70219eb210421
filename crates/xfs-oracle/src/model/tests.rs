use super::{
    Abilities, Features, Generator, ListEntry, ListKind, Model, Operation, Outcome, RenameMode,
};
use std::sync::Arc;

use rustix::io::Errno;

const FEATURES: Features =
    Features { block_bytes: 4096, inode_bytes: 512, abilities: Abilities::VOLUME, section: None };

fn create(path: &str) -> Operation {
    Operation::Create { path: path.to_owned(), mode: 0o644 }
}

fn make_directory(path: &str) -> Operation {
    Operation::MakeDirectory { path: path.to_owned(), mode: 0o755 }
}

fn rename(from: &str, to: &str, mode: RenameMode) -> Operation {
    Operation::Rename { from: from.to_owned(), to: to.to_owned(), mode }
}

/// Performs the history on an empty model and checks the answer to the last operation.
fn check(history: &[Operation], expected: Result<Outcome, Errno>) {
    let mut model = Model::new(FEATURES);
    let answers: Vec<_> = history.iter().map(|operation| model.perform(operation)).collect();
    assert_eq!(answers.last(), Some(&expected), "{history:?}");
}

#[test]
fn rename_into_itself_is_refused() {
    let inside = [make_directory("a"), rename("a", "a/b", RenameMode::Replace)];
    check(&inside, Err(Errno::INVAL));
    let above =
        [make_directory("a"), make_directory("a/b"), rename("a/b", "a", RenameMode::Replace)];
    check(&above, Err(Errno::NOTEMPTY));
}

#[test]
fn rename_replaces_only_a_removable_target() {
    let full = [
        make_directory("a"),
        make_directory("b"),
        create("b/c"),
        rename("a", "b", RenameMode::Replace),
    ];
    check(&full, Err(Errno::EXIST));
    let kind = [make_directory("a"), create("b"), rename("b", "a", RenameMode::Replace)];
    check(&kind, Err(Errno::ISDIR));
}

#[test]
fn seed_determines_the_history() {
    let history = |seed| {
        let (mut model, mut generator) = (Model::new(FEATURES), Generator::new(seed, FEATURES));
        let mut history = Vec::new();
        for _ in 0..500 {
            let operation = generator.next(&model);
            let answer = model.perform(&operation);
            history.push((operation, answer));
        }
        history
    };
    assert_eq!(history(7), history(7));
    assert_ne!(history(7), history(8));
}

/// Checks I1 of `xfs_oracle::model`: a refused operation changes nothing. The test leaves out
/// fallocate.
#[test]
fn refused_operation_changes_nothing() {
    let (mut model, mut generator) = (Model::new(FEATURES), Generator::new(3, FEATURES));
    let mut refused = 0;
    for _ in 0..3000 {
        let operation = generator.next(&model);
        // Data shared with the clone is copied when it changes.
        let before = model.clone();
        let is_allocation = matches!(operation, Operation::Allocate { .. });
        if model.perform(&operation).is_err() && !is_allocation {
            refused += 1;
            let pointers = |model: &Model| -> Vec<_> {
                model.nodes.iter().map(|(id, node)| (*id, Arc::as_ptr(node))).collect()
            };
            assert_eq!(pointers(&model), pointers(&before), "{operation:?}");
            assert_eq!(model.slots, before.slots, "{operation:?}");
        }
    }
    assert!(refused > 100, "only {refused} were refused");
}

fn entry(tag: u16, permissions: u16) -> ListEntry {
    ListEntry { tag, permissions, id: 7 }
}

fn set_list(path: &str, kind: ListKind, entries: &[ListEntry]) -> Operation {
    Operation::SetList { path: path.to_owned(), kind, version: 2, entries: entries.to_vec() }
}

/// An access control list as pairs of tag and permissions: owner, a user, the group, a mask,
/// others.
const LIST: [(u16, u16); 5] = [(1, 7), (2, 6), (4, 5), (0x10, 4), (0x20, 1)];

#[test]
fn lists_and_permission_bits_agree() {
    let list = LIST.map(|(tag, permissions)| entry(tag, permissions));
    let mut model = Model::new(FEATURES);
    let operations = [
        make_directory("a"),
        set_list("a", ListKind::Default, &list),
        create("a/b"),
        make_directory("a/c"),
        create("d"),
        set_list("d", ListKind::Access, &list),
        Operation::ChangeMode { path: "d".to_owned(), mode: 0o4620 },
    ];
    for operation in operations {
        assert_eq!(model.perform(&operation), Ok(Outcome::Done), "{operation:?}");
    }
    let check = |path: &str, mode: u32, lists: usize| {
        let node = model.node(model.lookup(path).unwrap()).unwrap();
        assert_eq!((node.mode & 0o7777, node.attributes.len()), (mode, 2 * lists), "{path}");
    };
    check("a", 0o755, 1);
    check("a/b", 0o640, 1);
    check("a/c", 0o741, 2);
    check("d", 0o4620, 1);
}

#[test]
fn invalid_lists_are_refused_as_by_the_kernel() {
    let [owner, user, group, mask, other] = LIST.map(|(tag, bits)| entry(tag, bits));
    let access = |entries: &[ListEntry]| set_list("a", ListKind::Access, entries);
    check(&[create("a"), access(&[owner, group, other])], Ok(Outcome::Done));
    check(&[create("a"), access(&[owner, user, group, other])], Err(Errno::INVAL));
    check(&[create("a"), access(&[owner, mask, group, other])], Err(Errno::INVAL));
    let list = [owner, user, group, mask, other];
    check(&[create("a"), set_list("a", ListKind::Default, &list)], Err(Errno::ACCESS));
    let long: Vec<_> =
        [owner].into_iter().chain([user; 5458]).chain([group, mask, other]).collect();
    check(&[create("a"), access(&long)], Err(Errno::TOOBIG));
    check(&[create("a"), access(&long[1..])], Err(Errno::INVAL));
}
