use super::{Abilities, Features, Generator, Model, Operation, Outcome, RenameMode};
use std::sync::Arc;

use rustix::io::Errno;

const FEATURES: Features =
    Features { block_bytes: 4096, inode_bytes: 512, abilities: Abilities::all() };

fn create(path: &str) -> Operation {
    Operation::Create { path: path.to_owned(), mode: 0o644 }
}

fn make_directory(path: &str) -> Operation {
    Operation::MakeDirectory { path: path.to_owned(), mode: 0o755 }
}

fn rename(from: &str, to: &str, mode: RenameMode) -> Operation {
    Operation::Rename { from: from.to_owned(), to: to.to_owned(), mode }
}

/// Performs the history; the last answer is what is expected.
fn check(history: &[Operation], expected: Result<Outcome, Errno>) {
    let mut model = Model::new(FEATURES);
    let answers: Vec<_> = history.iter().map(|operation| model.perform(operation)).collect();
    assert_eq!(answers.last(), Some(&expected), "{history:?}");
}

#[test]
fn a_rename_keeps_the_tree_a_tree() {
    let inside = [make_directory("a"), rename("a", "a/b", RenameMode::Replace)];
    check(&inside, Err(Errno::INVAL));
    let above =
        [make_directory("a"), make_directory("a/b"), rename("a/b", "a", RenameMode::Replace)];
    check(&above, Err(Errno::NOTEMPTY));
}

#[test]
fn a_rename_replaces_only_what_may_go() {
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
fn one_seed_gives_one_history() {
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

#[test]
fn what_is_refused_changes_nothing() {
    let (mut model, mut generator) = (Model::new(FEATURES), Generator::new(3, FEATURES));
    let mut refused = 0;
    for _ in 0..3000 {
        let operation = generator.next(&model);
        // What is shared with a copy is copied when it changes.
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
