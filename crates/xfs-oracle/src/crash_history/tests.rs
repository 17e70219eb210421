use std::collections::BTreeMap;

use super::CrashHistory;
use crate::model::{
    Abilities, AllocationMode, Bytes, Durable, Features, FileTarget, Model, Operation, RenameMode,
};
use crate::view::{InodeView, OpenAttributes, Tree};

const FEATURES: Features =
    Features { block_bytes: 4096, inode_bytes: 512, abilities: Abilities::VOLUME, section: None };

fn create(path: &str) -> Operation {
    Operation::Create { path: path.to_owned(), mode: 0o644 }
}

fn write(path: &str, number: u64) -> Operation {
    Operation::Write { file: FileTarget::Path(path.to_owned()), offset: 0, length: 4096, number }
}

fn fsync(path: &str) -> Operation {
    Operation::Sync(Durable::File(FileTarget::Path(path.to_owned())))
}

fn rename(from: &str, to: &str) -> Operation {
    Operation::Rename { from: from.to_owned(), to: to.to_owned(), mode: RenameMode::Replace }
}

/// Records a history on the assumption that each operation sends one request to the device. The
/// operation that leads to state n began after n - 1 requests and returned after n requests.
fn recorded(history: &[Operation]) -> (CrashHistory, Vec<Model>) {
    let mut model = Model::new(FEATURES);
    let (mut recorded, mut states) = (CrashHistory::new(model.clone()), vec![model.clone()]);
    for (index, operation) in history.iter().enumerate() {
        let answer = model.perform(operation);
        recorded.note(operation, &answer, &model, index..index + 1);
        states.push(model.clone());
    }
    (recorded, states)
}

/// Returns the tree of a volume whose state is that of `model`.
fn tree(model: &Model) -> Tree {
    let mut nodes: BTreeMap<u64, InodeView> = BTreeMap::new();
    for (path, id) in model.paths() {
        let node = model.node(id).unwrap();
        let found = nodes.entry(id).or_insert_with(|| InodeView {
            mode: node.mode,
            links: node.links,
            opened: Some(OpenAttributes::default()),
            size: node.contents().map_or(0, Bytes::size),
            ..InodeView::default()
        });
        found.paths.push(path.into_bytes());
    }
    Tree { nodes, root: 1 }
}

/// Judges a volume with the names of state `names` and the contents of state `contents`, after a
/// power cut at `position` requests. Checks that the verdict is `expected`.
fn check(
    history: &[Operation],
    position: usize,
    (names, contents): (usize, usize),
    expected: Result<usize, &str>,
) {
    let (recorded, states) = recorded(history);
    let read = |path: &str| {
        let id = states[names].paths()[path];
        let version = states[contents].node(id).ok().and_then(|node| node.contents().cloned());
        Ok(version.unwrap_or_else(|| Bytes::new(4096)))
    };
    let found = recorded.judge(&tree(&states[names]), position, read);
    match expected {
        Ok(state) => assert_eq!(found, Ok(state)),
        Err(part) => assert!(found.as_ref().unwrap_err().contains(part), "{found:?}"),
    }
}

#[test]
fn any_begun_state_is_accepted() {
    let history = [create("a"), create("b"), create("c")];
    for state in 0..=2 {
        check(&history, 1, (state, state), Ok(state));
    }
    check(&history, 1, (3, 3), Err("no state from 0 to 2"));
}

/// Checks I2 of `xfs_oracle::crash_history`: a state that is older than a sync's promise is
/// rejected.
#[test]
fn state_older_than_a_sync_is_rejected() {
    let history = [create("a"), fsync("a"), create("b")];
    check(&history, 1, (0, 0), Ok(0));
    check(&history, 2, (0, 0), Err("found state 0, but state 1 was promised"));
    check(&history, 2, (1, 1), Ok(2));
}

#[test]
fn refused_operation_is_not_promised() {
    let file = FileTarget::Path("a".to_owned());
    let mode = AllocationMode::Insert;
    let refused = Operation::Allocate { file, mode, offset: 4096, length: 4096 };
    let history = [create("a"), create("b"), refused, fsync("a")];
    check(&history, 4, (1, 1), Ok(1));
    check(&history, 4, (0, 0), Err("found state 0, but state 1 was promised"));
}

#[test]
fn history_may_start_with_a_tree() {
    let mut model = Model::new(FEATURES);
    for operation in [create("a"), create("b")] {
        model.perform(&operation).unwrap();
    }
    let (before, mut recorded) = (model.clone(), CrashHistory::new(model.clone()));
    for operation in [fsync("a"), create("c")] {
        let answer = model.perform(&operation);
        recorded.note(&operation, &answer, &model, 0..0);
    }
    assert_eq!(recorded.judge(&tree(&before), 0, |_| Ok(Bytes::new(4096))), Ok(1));
}

#[test]
fn failed_operation_may_be_present_or_absent() {
    let mut model = Model::new(FEATURES);
    let (before, mut recorded) = (model.clone(), CrashHistory::new(model.clone()));
    let (broken, sync) = (create("a"), Operation::Sync(Durable::Volume));
    model.perform(&broken).unwrap();
    recorded.note_attempt(&broken, &model, 0);
    recorded.note_attempt(&sync, &model, 0);
    for (state, tree) in [(0, tree(&before)), (2, tree(&model))] {
        assert_eq!(recorded.judge(&tree, 0, |_| Ok(Bytes::new(4096))), Ok(state));
    }
}

/// Checks that a name may refer to the file that it referred to earlier, if both files have the
/// same mode and owner: only their contents distinguish them.
#[test]
fn name_may_refer_to_its_earlier_file() {
    let history = [create("a"), write("a", 7), create("b"), rename("b", "a")];
    check(&history, 4, (2, 2), Ok(2));
    check(&history, 4, (4, 4), Ok(4));
    let promised = [create("a"), write("a", 7), create("b"), rename("b", "a"), fsync("a")];
    check(&promised, 5, (2, 2), Err("4096 bytes, expected 0 to 0"));
}

/// Checks I3 of `xfs_oracle::crash_history`: contents and sizes that are older than the last sync
/// are rejected.
#[test]
fn lost_synced_contents_are_rejected() {
    let history = [create("a"), write("a", 7), fsync("a"), write("a", 8)];
    check(&history, 1, (2, 1), Ok(2));
    check(&history, 3, (3, 1), Err("0 bytes, expected 4096 to 4096"));
    check(&history, 3, (3, 2), Ok(4));
    check(&history, 3, (3, 4), Ok(4));
}

#[test]
fn contents_of_another_file_are_rejected() {
    let history =
        [create("a"), write("a", 7), create("b"), write("b", 8), fsync("b"), rename("a", "c")];
    let (recorded, states) = recorded(&history);
    let foreign = |_: &str| {
        let id = states[4].paths()["b"];
        Ok(states[4].node(id).unwrap().contents().unwrap().clone())
    };
    let found = recorded.judge(&tree(&states[4]), 6, foreign);
    assert!(found.unwrap_err().contains("has contents that it never had"));
}

#[test]
fn half_an_operation_is_rejected() {
    let history = [create("a"), rename("a", "b")];
    let (recorded, states) = recorded(&history);
    // Both names exist, which no state has (I1).
    let mut torn = tree(&states[1]);
    torn.nodes.get_mut(&2).unwrap().paths = vec![b"a".to_vec(), b"b".to_vec()];
    let found = recorded.judge(&torn, 2, |_| Ok(Bytes::new(4096)));
    assert!(found.unwrap_err().contains("no state from 0 to 2"));
}
